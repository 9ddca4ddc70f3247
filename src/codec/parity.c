#include "codec/parity.h"

#include <isa-l/erasure_code.h>

/* ISA-L expands every coefficient to 32 bytes of tables. */
#define TABLE_BYTES 32

/* Data columns and parity columns that a sum is made of. */
#define SOURCES_MAX (PARITY_COLS_MAX + PARITY_MAX)

/* (2^row)^n: row 0, 1, 2 are P, Q, R (5.4). */
static uint8_t coefficient(unsigned row, unsigned n)
{
	uint8_t c = 1;

	for (unsigned i = row * n % 255; i > 0; i--)
		c = gf_mul(c, 2);
	return c;
}

/* Columns end at different sizes: the end of the stretch from `start` in which the same ones are there. */
static size_t stretch_end(size_t start, size_t size, const size_t *col_size, unsigned ncols)
{
	size_t end = size;

	for (unsigned i = 0; i < ncols; i++)
		if (col_size[i] > start)
			end = MIN(end, col_size[i]);
	return end;
}

/* A linear map from source columns to result columns. A short column is zero past its end. */
struct map {
	unsigned nsources, nresults;
	const uint8_t *source[SOURCES_MAX];
	size_t source_size[SOURCES_MAX];
	uint8_t *result[PARITY_MAX];
	size_t result_size[PARITY_MAX];
	uint8_t factor[PARITY_MAX][SOURCES_MAX];
};

static void map_stretch(const struct map *m, size_t start, size_t end)
{
	uint8_t tables[PARITY_MAX * SOURCES_MAX * TABLE_BYTES], factors[PARITY_MAX * SOURCES_MAX];
	uint8_t *from[SOURCES_MAX], *to[PARITY_MAX];
	unsigned nfrom = 0, nto = 0, n = 0;

	for (unsigned s = 0; s < m->nsources; s++)
		if (m->source_size[s] > start)
			from[nfrom++] = (uint8_t *)m->source[s] + start;
	for (unsigned r = 0; r < m->nresults; r++) {
		if (m->result_size[r] <= start)
			continue;
		to[nto++] = m->result[r] + start;
		for (unsigned s = 0; s < m->nsources; s++)
			if (m->source_size[s] > start)
				factors[n++] = m->factor[r][s];
	}
	if (nto == 0)
		return;
	if (nfrom == 0) {
		for (unsigned r = 0; r < nto; r++)
			memset(to[r], 0, end - start);
		return;
	}
	ec_init_tables(nfrom, nto, factors, tables);
	ec_encode_data(end - start, nfrom, nto, tables, from, to);
}

static void map_apply(const struct map *m, size_t size)
{
	for (size_t start = 0, end; start < size; start = end) {
		end = stretch_end(start, size, m->source_size, m->nsources);
		end = stretch_end(start, end, m->result_size, m->nresults);
		map_stretch(m, start, end);
	}
}

void parity_generate(unsigned nparity, unsigned ndata, const uint8_t *const *data, const size_t *col_size, size_t size,
		     uint8_t *const *parity)
{
	struct map m = {.nsources = ndata, .nresults = nparity};

	BUG_ON(nparity > PARITY_MAX || ndata == 0 || ndata > PARITY_COLS_MAX);
	for (unsigned i = 0; i < ndata; i++) {
		m.source[i] = data[i];
		m.source_size[i] = col_size[i];
		for (unsigned r = 0; r < nparity; r++)
			m.factor[r][i] = coefficient(r, ndata - 1 - i);
	}
	for (unsigned r = 0; r < nparity; r++) {
		m.result[r] = parity[r];
		m.result_size[r] = size;
	}
	map_apply(&m, size);
}

/* The first n usable parity rows; false when there are fewer. */
static bool rows_choose(unsigned nparity, const uint8_t *const *parity, unsigned n, unsigned row[PARITY_MAX])
{
	unsigned got = 0;

	for (unsigned r = 0; r < nparity && got < n; r++)
		if (parity[r])
			row[got++] = r;
	return got == n;
}

/*
 * Parity row r minus its known columns is the sum over missing x of g(r, x) * Dx. With the inverse V of that matrix,
 * Dx = sum over r of V[x][r] * (parity r + sum over known j of g(r, j) * Dj): one linear map of parities and known
 * columns.
 */
static int solve(unsigned ndata, const unsigned *row, const unsigned *missing, unsigned n, uint8_t *inverse)
{
	uint8_t matrix[PARITY_MAX * PARITY_MAX];

	for (unsigned r = 0; r < n; r++)
		for (unsigned x = 0; x < n; x++)
			matrix[r * n + x] = coefficient(row[r], ndata - 1 - missing[x]);
	return gf_invert_matrix(matrix, inverse, n) ? -EINVAL : 0;
}

static bool missing_is_valid(unsigned ndata, const unsigned *missing, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (missing[i] >= ndata || (i > 0 && missing[i] <= missing[i - 1]))
			return false;
	return n <= PARITY_MAX;
}

static void map_add_known(struct map *m, const uint8_t *column, size_t size, const uint8_t *inverse,
			  const unsigned *row, unsigned n, unsigned power)
{
	for (unsigned x = 0; x < n; x++) {
		uint8_t f = 0;

		for (unsigned r = 0; r < n; r++)
			f ^= gf_mul(inverse[x * n + r], coefficient(row[r], power));
		m->factor[x][m->nsources] = f;
	}
	m->source[m->nsources] = column;
	m->source_size[m->nsources++] = size;
}

int parity_reconstruct(unsigned nparity, unsigned ndata, uint8_t *const *data, const size_t *col_size, size_t size,
		       const uint8_t *const *parity, const unsigned *missing, unsigned nmissing)
{
	uint8_t inverse[PARITY_MAX * PARITY_MAX];
	struct map m = {.nresults = nmissing};
	unsigned row[PARITY_MAX], next = 0;

	if (nparity > PARITY_MAX || ndata > PARITY_COLS_MAX || !missing_is_valid(ndata, missing, nmissing) ||
	    !rows_choose(nparity, parity, nmissing, row))
		return -EINVAL;
	if (nmissing == 0)
		return 0;
	if (solve(ndata, row, missing, nmissing, inverse))
		return -EINVAL;
	for (unsigned j = 0; j < ndata; j++) {
		if (next < nmissing && missing[next] == j) {
			m.result[next] = data[j];
			m.result_size[next++] = col_size[j];
			continue;
		}
		map_add_known(&m, data[j], col_size[j], inverse, row, nmissing, ndata - 1 - j);
	}
	for (unsigned r = 0; r < nmissing; r++) {
		for (unsigned x = 0; x < nmissing; x++)
			m.factor[x][m.nsources] = inverse[x * nmissing + r];
		m.source[m.nsources] = parity[row[r]];
		m.source_size[m.nsources++] = size;
	}
	map_apply(&m, size);
	return 0;
}
