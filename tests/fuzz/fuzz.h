/*
 * tests/fuzz/fuzz.h: what every fuzz target has. A target takes bytes as a disk or a client could send them and must
 * neither crash, nor hang, nor use memory without bound. Bytes are copied to memory of exactly their size, so that
 * sanitizers see every overrun.
 *
 * Built with -Dfuzz=true (clang) each target is a libFuzzer program; in other builds a small driver (replay.c) runs it
 * over its seeds and over simple changes of them.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "base/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline uint8_t *fuzz_copy(const uint8_t *data, size_t size)
{
	uint8_t *p = xmalloc(size ? size : 1);

	if (size)
		memcpy(p, data, size);
	return p;
}

#endif
