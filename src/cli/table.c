#include "cli/cli.h"

struct cli_table {
	char **headers;
	bool *right, scripted;
	size_t columns, rows;
	char **cells; /* rows * columns */
	size_t *width;
};

struct cli_table *cli_table_create(const char *const *headers, const bool *right, size_t columns, bool scripted)
{
	struct cli_table *t = xcalloc(1, sizeof(*t));

	t->columns = columns;
	t->scripted = scripted;
	t->headers = xcalloc(columns, sizeof(char *));
	t->right = xcalloc(columns, sizeof(bool));
	t->width = xcalloc(columns, sizeof(size_t));
	for (size_t i = 0; i < columns; i++) {
		t->headers[i] = xstrdup(headers[i]);
		t->right[i] = right && right[i];
		t->width[i] = strlen(headers[i]);
	}
	return t;
}

void cli_table_widen(struct cli_table *t, size_t column, size_t width)
{
	t->width[column] = MAX(t->width[column], width);
}

void cli_table_add(struct cli_table *t, const char *const *cells)
{
	t->cells = xrealloc(t->cells, (t->rows + 1) * t->columns * sizeof(char *));
	for (size_t i = 0; i < t->columns; i++) {
		t->cells[t->rows * t->columns + i] = xstrdup(cells[i]);
		t->width[i] = MAX(t->width[i], strlen(cells[i]));
	}
	t->rows++;
}

static void row_print(const struct cli_table *t, char *const *cells, FILE *out)
{
	size_t columns = t->columns;

	while (!t->scripted && columns > 1 && !cells[columns - 1][0]) /* rows that have no such cell */
		columns--;
	for (size_t i = 0; i < columns; i++) {
		bool last = i + 1 == columns;

		if (t->scripted)
			fprintf(out, "%s%s", cells[i], last ? "" : "\t");
		else if (t->right[i])
			fprintf(out, "%*s%s", (int)t->width[i], cells[i], last ? "" : "  ");
		else if (last)
			fprintf(out, "%s", cells[i]);
		else
			fprintf(out, "%-*s  ", (int)t->width[i], cells[i]);
	}
	fputc('\n', out);
}

void cli_table_print(struct cli_table *t, FILE *out)
{
	if (!t->scripted)
		row_print(t, t->headers, out);
	for (size_t r = 0; r < t->rows; r++)
		row_print(t, t->cells + r * t->columns, out);
}

void cli_table_destroy(struct cli_table *t)
{
	for (size_t i = 0; i < t->rows * t->columns; i++)
		free(t->cells[i]);
	for (size_t i = 0; i < t->columns; i++)
		free(t->headers[i]);
	free(t->cells);
	free(t->headers);
	free(t->right);
	free(t->width);
	free(t);
}
