/* option.c: see option.h. */
#define _GNU_SOURCE
#include "base/option.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "base/word.h"

#define OPTION_NAME_MAX  64
#define OPTION_VALUE_MAX 1024 /* of one line of --print-config */

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

/* Of a number: may it be auto? */
static bool has_auto(const struct option_row *row)
{
    return row->initial != NULL && strcmp(row->initial, "auto") == 0;
}

static psd_status set_uint(const struct option_row *row, void *settings,
                           const char *text)
{
    uint64_t value = 0;

    if (has_auto(row) && strcmp(text, "auto") == 0) {
        memcpy(field(settings, row), &value, sizeof(value));
        return PSD_OK;
    }
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

static psd_status set_list(const struct option_row *row, void *settings,
                           const char *text)
{
    struct option_list list;
    void *values;

    memcpy(&list, field(settings, row), sizeof(list));
    values = list.values;
    if (mem_grow(&values, list.count, list.count + 1,
                 sizeof(*list.values)) != PSD_OK) {
        return PSD_ENOMEM;
    }
    list.values = values;
    list.values[list.count++] = text;
    memcpy(field(settings, row), &list, sizeof(list));
    return PSD_OK;
}

psd_status option_set(const struct option_row *row, void *settings,
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
    case OPTION_LIST:
        return set_list(row, settings, text);
    case OPTION_TEXT:
        break;
    }
    memcpy(field(settings, row), &text, sizeof(text));
    return PSD_OK;
}

bool option_accepts(const struct option_row *row, const char *text)
{
    struct option_row alone = *row;
    uint64_t scratch; /* as large as any field but a list */

    alone.offset = 0;
    return row->kind == OPTION_LIST ||
           option_set(&alone, &scratch, text) == PSD_OK;
}

void option_fini(const struct option_row *rows, void *settings)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        struct option_list list;

        if (row->kind != OPTION_LIST) {
            continue;
        }
        memcpy(&list, field(settings, row), sizeof(list));
        mem_free(list.values);
        list = (struct option_list){ .count = 0 };
        memcpy(field(settings, row), &list, sizeof(list));
    }
}

psd_status option_defaults(const struct option_row *rows, void *settings)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        psd_status status;

        if (row->initial == NULL) {
            continue;
        }
        status = option_set(row, settings, row->initial);
        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}

/* "; did you mean rotate?", or nothing. */
static void guess_choice(const char *choices, const char *text, char *guess,
                         size_t size)
{
    size_t best = WORD_FAR;

    guess[0] = '\0';
    while (choices != NULL) {
        const char *end = strchrnul(choices, '|');
        size_t length = (size_t)(end - choices);

        if (word_nearer(text, strlen(text), choices, length, &best)) {
            snprintf(guess, size, "; did you mean %.*s?", (int)length,
                     choices);
        }
        choices = *end == '|' ? end + 1 : NULL;
    }
}

void option_explain(const struct option_row *row, const char *shown,
                    const char *text, char *error, size_t error_size)
{
    char word[WORD_SHOW_MAX];
    char guess[OPTION_NAME_MAX * 2];

    word_show(text, strlen(text), word, sizeof(word));
    if (row->kind == OPTION_CHOICE) {
        guess_choice(row->choices, text, guess, sizeof(guess));
        snprintf(error, error_size, "%s is '%s', it must be one of %s%s",
                 shown, word, row->choices, guess);
    } else if (row->low != 0 || row->high != 0) {
        snprintf(error, error_size,
                 "%s is '%s', it must be %sin %.15g..%.15g", shown, word,
                 has_auto(row) ? "auto or " : "", row->low, row->high);
    } else {
        snprintf(error, error_size, "%s is '%s', it must be %s", shown, word,
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

static bool has_variable(const struct option_row *row)
{
    return (row->job || row->variable) && row->kind != OPTION_LIST;
}

psd_status option_environment(const struct option_row *rows, void *settings,
                              char *error, size_t error_size)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        char name[OPTION_NAME_MAX];
        const char *text;

        if (!has_variable(row)) {
            continue;
        }
        option_variable(row->name, name, sizeof(name));
        text = getenv(name);
        if (text != NULL && option_set(row, settings, text) != PSD_OK) {
            option_explain(row, name, text, error, error_size);
            return PSD_EINVAL;
        }
    }
    return PSD_OK;
}

static void unknown(const struct option_row *rows, const char *word,
                    char *error, size_t error_size)
{
    const char *nearest = NULL;
    size_t best = WORD_FAR;

    for (const struct option_row *row = rows;
         row->name != NULL && strncmp(word, "--", 2) == 0; row++) {
        if (word_nearer(word + 2, strcspn(word + 2, "="), row->name,
                        strlen(row->name), &best)) {
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

bool option_is_key(const struct option_row *row, const char *name)
{
    return (row->job || row->config) &&
           same_name(row->name, name, strlen(name));
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

/* The option at argv[*i_p] with its value; `*i_p` goes to the next word. */
static psd_status take(const struct option_row *rows, int argc, char **argv,
                       int *i_p, const struct option_row **row_p,
                       const char **value_p, char *error, size_t error_size)
{
    const char *word = argv[(*i_p)++];
    const struct option_row *row = find(rows, word, value_p);

    if (row == NULL) {
        unknown(rows, word, error, error_size);
        return PSD_EINVAL;
    }
    if (row->kind == OPTION_FLAG) {
        if (*value_p != NULL) {
            snprintf(error, error_size, "--%s takes no value", row->name);
            return PSD_EINVAL;
        }
        *value_p = "1";
    } else if (*value_p == NULL) {
        if (*i_p >= argc) {
            snprintf(error, error_size, "%s needs a value", word);
            return PSD_EINVAL;
        }
        *value_p = argv[(*i_p)++];
    }
    *row_p = row;
    return PSD_OK;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0' && strcmp(word, "--") != 0;
}

psd_status option_parse(const struct option_row *rows, void *settings,
                        int argc, char **argv, int *next_p, char *error,
                        size_t error_size)
{
    int i = 1;

    while (i < argc && is_option(argv[i])) {
        const char *word = argv[i];
        const struct option_row *row;
        const char *value;
        psd_status status =
            take(rows, argc, argv, &i, &row, &value, error, error_size);

        if (status != PSD_OK) {
            return status;
        }
        status = option_set(row, settings, value);
        if (status == PSD_ENOMEM) {
            snprintf(error, error_size, "out of memory");
            return status;
        }
        if (status != PSD_OK) {
            option_explain(row, word, value, error, error_size);
            return status;
        }
    }
    *next_p = i < argc && strcmp(argv[i], "--") == 0 ? i + 1 : i;
    return PSD_OK;
}

void option_trace(const struct option_row *rows, int argc, char **argv,
                  struct option_source *sources)
{
    char error[OPTION_NAME_MAX];
    const struct option_row *row;
    const char *value;
    int i = 1;

    for (row = rows; row->name != NULL; row++) {
        char name[OPTION_NAME_MAX];

        option_variable(row->name, name, sizeof(name));
        sources[row - rows] = (struct option_source){
            .origin = has_variable(row) && getenv(name) != NULL
                          ? OPTION_FROM_ENVIRONMENT
                          : OPTION_FROM_DEFAULT,
        };
    }
    while (i < argc && is_option(argv[i]) &&
           take(rows, argc, argv, &i, &row, &value, error, sizeof(error)) ==
               PSD_OK) {
        sources[row - rows].origin = OPTION_FROM_WORDS;
    }
}

/* The values one behind the other; what does not fit is left out. */
static void format_list(const struct option_list *list, char *text,
                        size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < list->count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0 ? "" : " ", list->values[i]);
    }
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
        struct option_list list;
    } value = { .number = 0 };

    switch (row->kind) {
    case OPTION_FLAG:
        memcpy(&value.on, from, sizeof(value.on));
        snprintf(text, size, "%d", value.on ? 1 : 0);
        return;
    case OPTION_UINT:
    case OPTION_SIZE:
        memcpy(&value.number, from, sizeof(value.number));
        if (value.number == 0 && has_auto(row)) {
            snprintf(text, size, "auto");
        } else {
            snprintf(text, size, "%" PRIu64, value.number);
        }
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
    case OPTION_LIST:
        memcpy(&value.list, from, sizeof(value.list));
        format_list(&value.list, text, size);
        return;
    }
}

/* ---- --print-config ----------------------------------------------------- */

void option_print_line(const char *name, const char *value,
                       const char *source, FILE *file)
{
    fprintf(file, "  %-16s %-32s %s\n", name, value[0] == '\0' ? "-" : value,
            source);
}

void option_print(const struct option_row *rows, const void *settings,
                  const struct option_source *sources, FILE *file)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        const struct option_source *source = sources + (row - rows);
        char name[OPTION_NAME_MAX];
        char value[OPTION_VALUE_MAX];
        char from[OPTION_VALUE_MAX];

        if (row->kind == OPTION_FLAG && !row->job && !row->variable &&
            !row->config) {
            continue;
        }
        option_format(row, settings, value, sizeof(value));
        option_variable(row->name, name, sizeof(name));
        switch (source->origin) {
        case OPTION_FROM_DEFAULT:
            snprintf(from, sizeof(from), "default");
            break;
        case OPTION_FROM_ENVIRONMENT:
            snprintf(from, sizeof(from), "environment %s", name);
            break;
        case OPTION_FROM_FILE:
            snprintf(from, sizeof(from), "%s:%" PRIu32, source->file,
                     source->line);
            break;
        case OPTION_FROM_WORDS:
            snprintf(from, sizeof(from), "command line");
            break;
        }
        option_print_line(row->name, value, from, file);
    }
}
