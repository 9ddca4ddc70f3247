#!/bin/bash
# The project's own small checks, in some seconds. Prints what is wrong with its place, then one line per check.
#
#   dev/check.sh [NAME...]      all, or those named: see the list at the end
#
# A check is a function that prints its findings, one a line; a line that begins with "warning:" does not fail it.
set -u
cd "$(dirname "$0")/.."

sources() {
	git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do
		[ -e "$f" ] && echo "$f"
	done
}

# Includes go downwards only. The order of the engine's floors is the order in which src/meson.build builds them;
# serve/ stands on the engine, the programs on both: of serve/ they see only the control protocol.
check_floors() {
	sources 'src/*.[ch]' | xargs grep -nE '^#include "' | awk -F: -v order="$(
		sed -n "s/.*foreach floor : \[\(.*\)\].*/\1/p" src/meson.build | tr -d "',"
	)" '
		BEGIN {
			n = split(order, floors, " ")
			for (i = 1; i <= n; i++) rank[floors[i]] = i
			rank["tarn"] = n + 1    # include/tarn: the public header of libtarn
			rank["lib"] = n + 2     # and what implements it
			rank["serve"] = n + 3
			rank["cli"] = rank["tarnd"] = n + 4
		}
		{
			split($1, path, "/"); from = path[2]
			match($0, /"[^"]*"/); file = substr($0, RSTART + 1, RLENGTH - 2)
			split(file, inc, "/"); to = inc[1]
			if (index(file, "/") == 0) { print $1 ":" $2 ": include \"" file "\" names no floor"; next }
			if (!(from in rank)) { print $1 ": floor " from " has no place in the order"; next }
			if (!(to in rank)) { print $1 ":" $2 ": " file " is of no known floor"; next }
			if (rank[to] > rank[from])
				print $1 ":" $2 ": " from "/ includes upwards: " file
			if (from == "cli" && to == "serve" && inc[2] != "control")
				print $1 ":" $2 ": cli/ sees serve/control/ only, not " file
			# serve/daemon/ puts the protocols together; the others stand alone.
			if (from == "serve" && path[3] != "daemon" && to == "serve" && inc[2] != path[3] && inc[2] != "control" && index(inc[2], ".") == 0 && path[4] != "")
				print $1 ":" $2 ": serve/" path[3] "/ includes its neighbour: " file
		}'
}

# Every header compiles alone.
check_headers() {
	local flags
	flags="-std=gnu17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Isrc -Iinclude $(pkg-config --cflags fuse3 jansson liburing \
		libcrypto libisal liblz4 libzstd zlib libutf8proc 2>/dev/null)"
	sources 'src/*.h' 'include/*.h' | xargs -P 2 -n 1 sh -c '
		'"${CC:-cc}"' '"$flags"' -fsyntax-only -x c "$0" 2>&1 | grep -m 1 error:'
}

# Nothing is left for later, and nothing pretends.
check_words() {
	sources 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'dev/*' 'tools/*' | grep -v '^dev/check.sh$' |
		xargs grep -nwiE 'TODO|FIXME|XXX|HACK|stub|stubs|stubbed' | sed 's/$/   <- left-over word/'
}

# Calls that overrun or hide their failure.
check_calls() {
	sources 'src/*.[ch]' | xargs grep -nE \
		'(^|[^A-Za-z0-9_.>])(strcpy|strcat|sprintf|vsprintf|gets|alloca|strtok|tmpnam|mktemp|system|atoi|atol|atoll)\(' |
		sed 's/$/   <- forbidden call/'
}

check_format() {
	local tool
	tool=$(command -v clang-format-14 || command -v clang-format) || {
		echo "warning: clang-format is not installed"
		return
	}
	"$tool" --version | grep -q 'version 14\.' || {
		echo "warning: clang-format is not version 14"
		return
	}
	sources '*.c' '*.h' | xargs "$tool" --dry-run 2>&1 | grep 'warning:' | sed 's/ warning:/ format:/' | sort -u -t: -k1,1 |
		sed 's/$/   <- run make format/'
}

# A function has one screen; 120 lines is the end of patience.
check_length() {
	sources 'src/*.c' | xargs awk '
		FNR == 1 { start = 0 }
		/^[a-z].*\(/ && !/;$/ { name = $0; at = FNR }
		/^\{/ { start = FNR }
		/^\}/ && start { if (FNR - start > 120) printf "warning: %s:%d: %d lines: %s\n", FILENAME, at, FNR - start, name; start = 0 }'
}

check_space() {
	sources '*.c' '*.h' '*.sh' '*.build' 'Makefile' '*.py' | xargs grep -nE '[ 	]+$' | sed 's/$/   <- space at the end/'
	sources '*.c' '*.h' '*.sh' '*.build' 'Makefile' '*.py' | while read -r f; do
		[ ! -s "$f" ] || [ -z "$(tail -c 1 "$f")" ] || echo "$f: no newline at the end"
	done
}

check_scripts() {
	sources '*.sh' '.ci/run' | while read -r f; do
		bash -n "$f" 2>&1
		[ -x "$f" ] || echo "$f: not executable"
	done
}

# No source lies in the tree unbuilt: the nearest meson.build above it names it.
check_built() {
	sources 'src/*.c' 'tests/*.c' 'tools/*.c' 'bench/*.c' | while read -r f; do
		dir=$(dirname "$f")
		name=$(basename "$f")
		while [ ! -e "$dir/meson.build" ]; do
			name=$(basename "$dir")/$name
			dir=$(dirname "$dir")
		done
		target=${name#fuzz_} # tests/fuzz lists targets, not files
		grep -qF -e "'$name'" -e "'${target%.c}'" "$dir/meson.build" || echo "$f: not built: $dir/meson.build does not name '$name'"
	done
}

# Man pages are well-formed, installed, and tell of every command there is.
check_man() {
	sources 'man/*.8' | while read -r f; do
		command -v mandoc >/dev/null && mandoc -Tlint -W error "$f" 2>&1
		grep -qF "'$(basename "$f")'" man/meson.build || echo "$f: man/meson.build does not install it"
	done
	command -v mandoc >/dev/null || echo "warning: mandoc is not installed"
	while read -r table page; do
		sed -nE '/_commands\[\] = \{/,/^\};/s/^[ 	]*(\{|REFUSED\()"([a-z-]+)".*/\2/p' "src/cli/$table" | while read -r word; do
			grep -qE "(^|[ ,.])$word([ ,.]|$)" "man/$page" || echo "man/$page: does not tell of '$word' (src/cli/$table)"
		done
	done <<-END
		main.c tarn.8
		zpool.c tarn-zpool.8
		zfs.c tarn-zfs.8
	END
}

# Links of the documents lead somewhere.
check_links() {
	sources '*.md' | while read -r f; do
		grep -oE '\]\([^)#: ]+' "$f" | sed 's/^](//' | while read -r to; do
			[ -e "$(dirname "$f")/$to" ] || echo "$f: link to $to, which is not there"
		done
	done
}

passed=0
failed=0
for name in ${*:-floors headers words calls format length space scripts built man links}; do
	findings=$(check_$name)
	[ -z "$findings" ] || echo "$findings"
	if grep -qv '^warning:' <<<"${findings:-warning:}"; then
		echo "check $name: failed"
		failed=$((failed + 1))
	else
		echo "check $name: ok"
		passed=$((passed + 1))
	fi
done
echo "$passed checks passed, $failed failed"
[ $failed = 0 ]
