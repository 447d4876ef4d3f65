/* option.c: see option.h. */
#define _GNU_SOURCE
#include "base/option.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/banned.h"

#define OPTION_NAME_MAX 64

static void *field(void *settings, const struct option_row *row)
{
    return (char *)settings + row->offset;
}

psd_status option_size(const char *text, uint64_t *size_p)
{
    char *end;
    uint64_t value;
    unsigned shift = 0;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || errno != 0) {
        return PSD_EINVAL;
    }
    switch (toupper((unsigned char)*end)) {
    case 'G':
        shift += 10; /* fall through */
    case 'M':
        shift += 10; /* fall through */
    case 'K':
        shift += 10;
        end++;
        break;
    default:
        break;
    }
    if (shift > 0 && end[0] == 'i' && end[1] == 'B') {
        end += 2;
    } else if (end[0] == 'B') {
        end++;
    }
    if (*end != '\0' || (shift > 0 && value > (UINT64_MAX >> shift))) {
        return PSD_EINVAL;
    }
    *size_p = value << shift;
    return PSD_OK;
}

static bool in_range(const struct option_row *row, double value)
{
    return (row->low == 0 && row->high == 0) ||
           (value >= row->low && value <= row->high);
}

static bool is_choice(const char *choices, const char *text)
{
    size_t size = strlen(text);

    while (size > 0 && choices != NULL) {
        const char *end = strchrnul(choices, '|');

        if ((size_t)(end - choices) == size &&
            memcmp(choices, text, size) == 0) {
            return true;
        }
        choices = *end == '|' ? end + 1 : NULL;
    }
    return false;
}

static psd_status set_uint(const struct option_row *row, void *settings,
                           const char *text)
{
    uint64_t value;

    if (row->kind == OPTION_UINT) {
        char *end;

        errno = 0;
        value = strtoull(text, &end, 10);
        if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0) {
            return PSD_EINVAL;
        }
    } else if (option_size(text, &value) != PSD_OK) {
        return PSD_EINVAL;
    }
    if (!in_range(row, (double)value)) {
        return PSD_EINVAL;
    }
    memcpy(field(settings, row), &value, sizeof(value));
    return PSD_OK;
}

static psd_status set_double(const struct option_row *row, void *settings,
                             const char *text)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(value) ||
        !in_range(row, value)) {
        return PSD_EINVAL;
    }
    memcpy(field(settings, row), &value, sizeof(value));
    return PSD_OK;
}

static psd_status set_field(const struct option_row *row, void *settings,
                            const char *text)
{
    bool on;

    switch (row->kind) {
    case OPTION_FLAG:
        on = strcmp(text, "0") != 0;
        memcpy(field(settings, row), &on, sizeof(on));
        return PSD_OK;
    case OPTION_UINT:
    case OPTION_SIZE:
        return set_uint(row, settings, text);
    case OPTION_DOUBLE:
        return set_double(row, settings, text);
    case OPTION_CHOICE:
        if (!is_choice(row->choices, text)) {
            return PSD_EINVAL;
        }
        break;
    case OPTION_TEXT:
        break;
    }
    memcpy(field(settings, row), &text, sizeof(text));
    return PSD_OK;
}

psd_status option_defaults(const struct option_row *rows, void *settings)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        psd_status status;

        if (row->initial == NULL) {
            continue;
        }
        status = set_field(row, settings, row->initial);
        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}

static void explain(const struct option_row *row, const char *shown,
                    const char *text, char *error, size_t error_size)
{
    if (row->kind == OPTION_CHOICE) {
        snprintf(error, error_size, "%s is '%s', it must be one of %s", shown,
                 text, row->choices);
    } else if (row->low != 0 || row->high != 0) {
        snprintf(error, error_size, "%s is '%s', it must be in %.15g..%.15g",
                 shown, text, row->low, row->high);
    } else {
        snprintf(error, error_size, "%s is '%s', it must be %s", shown, text,
                 row->kind == OPTION_SIZE
                     ? "a size such as 65536, 64K or 2M"
                     : "a number");
    }
}

void option_variable(const char *name, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "PSD_");

    for (; *name != '\0' && used + 1 < size; name++) {
        out[used++] =
            *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    }
    out[used] = '\0';
}

psd_status option_environment(const struct option_row *rows, void *settings,
                              char *error, size_t error_size)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char name[OPTION_NAME_MAX];
        const char *text;

        if (!row->job) {
            continue;
        }
        option_variable(row->name, name, sizeof(name));
        text = getenv(name);
        if (text != NULL && set_field(row, settings, text) != PSD_OK) {
            explain(row, name, text, error, error_size);
            return PSD_EINVAL;
        }
    }
    return PSD_OK;
}

/* Edits between two words: enough to say "did you mean". */
static size_t distance(const char *a, size_t a_size, const char *b)
{
    size_t row[OPTION_NAME_MAX];
    size_t b_size = strlen(b);

    if (a_size >= OPTION_NAME_MAX || b_size >= OPTION_NAME_MAX) {
        return OPTION_NAME_MAX;
    }
    for (size_t j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            if (above + 1 < best) {
                best = above + 1;
            }
            if (row[j - 1] + 1 < best) {
                best = row[j - 1] + 1;
            }
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b_size];
}

static void unknown(const struct option_row *rows, const char *word,
                    char *error, size_t error_size)
{
    const char *nearest = NULL;
    size_t best = 3;

    for (const struct option_row *row = rows;
         row->name != NULL && strncmp(word, "--", 2) == 0; row++) {
        size_t edits = distance(word + 2, strcspn(word + 2, "="), row->name);

        if (edits < best) {
            best = edits;
            nearest = row->name;
        }
    }
    if (nearest != NULL) {
        snprintf(error, error_size,
                 "unknown option %s; did you mean --%s? (--help lists all)",
                 word, nearest);
    } else {
        snprintf(error, error_size, "unknown option %s (--help lists all)",
                 word);
    }
}

/* "_" and "-" are the same in a name: --cluster_config, --cluster-config. */
static bool same_name(const char *name, const char *word, size_t size)
{
    if (strlen(name) != size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (name[i] != (word[i] == '_' ? '-' : word[i])) {
            return false;
        }
    }
    return true;
}

/* The row of `word`, and its value when glued on (--x=1, -n4). */
static const struct option_row *find(const struct option_row *rows,
                                     const char *word, const char **value_p)
{
    *value_p = NULL;
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        if (word[1] == '-') {
            size_t size = strcspn(word + 2, "=");

            if (same_name(row->name, word + 2, size)) {
                *value_p = word[2 + size] == '=' ? word + 3 + size : NULL;
                return row;
            }
        } else if (row->letter != 0 && word[1] == row->letter) {
            *value_p = word[2] != '\0' ? word + 2 : NULL;
            return row;
        }
    }
    return NULL;
}

psd_status option_parse(const struct option_row *rows, void *settings,
                        int argc, char **argv, int *next_p, char *error,
                        size_t error_size)
{
    int i = 1;

    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
        const char *word = argv[i];
        const char *value;
        const struct option_row *row;

        if (strcmp(word, "--") == 0) {
            i++;
            break;
        }
        row = find(rows, word, &value);
        if (row == NULL) {
            unknown(rows, word, error, error_size);
            return PSD_EINVAL;
        }
        if (row->kind == OPTION_FLAG) {
            if (value != NULL) {
                snprintf(error, error_size, "--%s takes no value", row->name);
                return PSD_EINVAL;
            }
            value = "1";
        } else if (value == NULL) {
            if (++i >= argc) {
                snprintf(error, error_size, "%s needs a value", word);
                return PSD_EINVAL;
            }
            value = argv[i];
        }
        if (set_field(row, settings, value) != PSD_OK) {
            explain(row, word, value, error, error_size);
            return PSD_EINVAL;
        }
    }
    *next_p = i;
    return PSD_OK;
}

void option_format(const struct option_row *row, const void *settings,
                   char *text, size_t size)
{
    const char *from = (const char *)settings + row->offset;
    union {
        bool on;
        uint64_t number;
        double real;
        const char *text;
    } value = { .number = 0 };

    switch (row->kind) {
    case OPTION_FLAG:
        memcpy(&value.on, from, sizeof(value.on));
        snprintf(text, size, "%d", value.on ? 1 : 0);
        return;
    case OPTION_UINT:
    case OPTION_SIZE:
        memcpy(&value.number, from, sizeof(value.number));
        snprintf(text, size, "%" PRIu64, value.number);
        return;
    case OPTION_DOUBLE:
        memcpy(&value.real, from, sizeof(value.real));
        snprintf(text, size, "%.17g", value.real);
        return;
    case OPTION_CHOICE:
    case OPTION_TEXT:
        memcpy(&value.text, from, sizeof(value.text));
        snprintf(text, size, "%s", value.text == NULL ? "" : value.text);
        return;
    }
}

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
        break;
    }
    return "TEXT";
}

void option_help(const struct option_row *rows, FILE *file)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char left[OPTION_NAME_MAX * 2];
        char letter[8] = "    ";

        if (row->letter != 0) {
            snprintf(letter, sizeof(letter), "-%c, ", row->letter);
        }
        snprintf(left, sizeof(left), "%s--%s %s", letter, row->name,
                 value_label(row));
        fprintf(file, "  %-32s %s", left, row->help);
        if (row->initial != NULL && row->kind != OPTION_FLAG) {
            fprintf(file, " (default %s)", row->initial);
        }
        fputc('\n', file);
    }
}
