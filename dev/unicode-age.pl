#!/usr/bin/perl
# Writes src/dmu/unicode_age.c: the code points that Unicode 5.0 had assigned, from the character data base that comes
# with perl. Run in the top folder after nothing but a mistake in it: the answer never changes.
use strict;
use warnings;

my @ranges;
for my $c (0 .. 0x10ffff) {
	next if $c >= 0xd800 && $c <= 0xdfff;
	next unless chr($c) =~ /\p{In=5.0}/;
	if (@ranges && $ranges[-1][1] == $c - 1) {
		$ranges[-1][1] = $c;
	} else {
		push @ranges, [$c, $c];
	}
}
open(my $out, '>', 'src/dmu/unicode_age.c') or die "src/dmu/unicode_age.c: $!";
print $out <<'END';
/* Made by dev/unicode-age.pl. */
#include "dmu/zap_impl.h"

/* clang-format off */
const struct unicode_range unicode_5_0[] = {
END
my @items = map { sprintf('{0x%x, 0x%x},', @$_) } @ranges;
while (my @row = splice(@items, 0, 6)) {
	print $out "\t@row\n";
}
print $out <<'END';
};
/* clang-format on */
const size_t unicode_5_0_len = ARRAY_LEN(unicode_5_0);
END
close($out) or die "src/dmu/unicode_age.c: $!";
