/* manual.c: option rows as text for people: --help and the manual pages. See
 * option.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"
#include "base/option.h"

#define HELP_LEFT_MAX 128
#define HELP_COLUMN   28
#define HELP_WIDTH    80

static const char *value_label(const struct option_row *row)
{
    if (row->value_name != NULL) {
        return row->value_name;
    }
    switch (row->kind) {
    case OPTION_FLAG:
        return "";
    case OPTION_UINT:
        return "N";
    case OPTION_SIZE:
        return "BYTES";
    case OPTION_DOUBLE:
        return "X";
    case OPTION_CHOICE:
        return row->choices;
    case OPTION_TEXT:
    case OPTION_LIST:
        break;
    }
    return "TEXT";
}

/* The sentence, wrapped, from column HELP_COLUMN on. */
static void write_wrapped(const char *text, FILE *file)
{
    size_t column = HELP_COLUMN;

    while (*text != '\0') {
        size_t size = strcspn(text, " ");

        if (column > HELP_COLUMN && column + 1 + size > HELP_WIDTH) {
            fprintf(file, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', file);
            column++;
        }
        fprintf(file, "%.*s", (int)size, text);
        column += size;
        text += size + strspn(text + size, " ");
    }
    fputc('\n', file);
}

/* The same row for a manual page, in scdoc's language. */
static void write_manual(const struct option_row *row, const char *text,
                         FILE *file)
{
    if (row->letter != 0) {
        fprintf(file, "*-%c*, ", row->letter);
    }
    fprintf(file, "*--%s*", row->name);
    if (value_label(row)[0] != '\0') {
        fprintf(file, " _%s_", value_label(row));
    }
    fprintf(file, "\n\t");
    for (; *text != '\0'; text++) {
        if (strchr("_*\\#", *text) != NULL) {
            fputc('\\', file);
        }
        fputc(*text, file);
    }
    fprintf(file, "\n\n");
}

void option_help(const struct option_row *rows, FILE *file)
{
    const char *format = getenv("PSD_HELP");

    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char left[HELP_LEFT_MAX];
        char letter[8] = "    ";
        char text[1024];
        size_t used = (size_t)snprintf(text, sizeof(text), "%s", row->help);

        if (row->initial != NULL && row->kind != OPTION_FLAG &&
            used < sizeof(text)) {
            snprintf(text + used, sizeof(text) - used, " (default %s)",
                     row->initial);
        }
        if (format != NULL && strcmp(format, "scdoc") == 0) {
            write_manual(row, text, file);
            continue;
        }
        if (row->letter != 0) {
            snprintf(letter, sizeof(letter), "-%c, ", row->letter);
        }
        snprintf(left, sizeof(left), "%s--%s %s", letter, row->name,
                 value_label(row));
        fprintf(file, "  %-*s", HELP_COLUMN - 3, left);
        if (strlen(left) > HELP_COLUMN - 3) {
            fprintf(file, "\n%*s", HELP_COLUMN - 1, "");
        }
        fputc(' ', file);
        write_wrapped(text, file);
    }
}
