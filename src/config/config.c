/* config.c: see config.h. Members of the file are sorted to the keys of
 * config_key.c and to the rows of options, read in the order of those tables,
 * and taken over when all of them are good. */
#define _GNU_SOURCE
#include "config/config.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/word.h"
#include "config/config_state.h"
#include "member/settings.h"

#define SHOW_MAX 4096 /* of one line of --print-config */

/* What the file says about one option, until all of it is known to be good. */
struct pending {
    bool there;
    const char *text; /* kept by the cluster */
    struct option_list list;
    uint32_t line;
};

/* ---- sentences ---------------------------------------------------------- */

psd_status config_complain(struct config_reader *reader,
                           struct locate_path path, const char *format, ...)
{
    const struct document *document = reader->document;
    char sentence[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return document_complain(
        document, locate_find(document->text, document->size, &path),
        reader->error, reader->error_size, "%s", sentence);
}

psd_status config_wrong_type(struct config_reader *reader,
                             struct locate_path path, const char *name,
                             const json_t *value, const char *wanted)
{
    static const char *const types[] = {
        [JSON_OBJECT] = "an object",      [JSON_ARRAY] = "a list",
        [JSON_STRING] = "a text",         [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",         [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",           [JSON_NULL] = "null",
    };

    return config_complain(reader, path, "%s is %s, it must be %s%s", name,
                           types[json_typeof(value)], wanted,
                           json_is_null(value) ? "; or leave the key out"
                                               : "");
}

psd_status config_no_memory(struct config_reader *reader)
{
    snprintf(reader->error, reader->error_size, "out of memory");
    return PSD_ENOMEM;
}

const char *config_show(const char *text, char *shown, size_t size)
{
    return word_show(text, strlen(text), shown, size);
}

/* ---- syntax ------------------------------------------------------------- */

/* The JSON library calls a lack of memory what comes to its mind. */
static bool json_out_of_memory;

static void *json_zalloc(size_t size)
{
    void *memory = mem_zalloc(size);

    json_out_of_memory = json_out_of_memory || memory == NULL;
    return memory;
}

static json_t *load(struct config_reader *reader, json_error_t *error)
{
    json_out_of_memory = false;
    json_set_alloc_funcs(json_zalloc, mem_free);
    return json_loadb(reader->document->text, reader->document->size,
                      JSON_REJECT_DUPLICATES, error);
}

/* Where the token lies that the JSON library stumbled over: it says what it
 * was near to, and how far it had read. */
static size_t find_error(const struct document *document,
                         const json_error_t *error)
{
    size_t end = (size_t)(error->position < 0 ? 0 : error->position);
    const char *near = strstr(error->text, " near '");
    const char *last = strrchr(error->text, '\'');
    size_t size;

    if (end > document->size) {
        end = document->size;
    }
    if (near == NULL || last <= near + 7) {
        return end;
    }
    near += 7;
    size = (size_t)(last - near);
    return size <= end && memcmp(document->text + end - size, near, size) == 0
               ? end - size
               : end;
}

/* What people write into JSON that is none. */
static const char *hint(const struct document *document, size_t at)
{
    const char *text = document->text;
    size_t before = at;

    while (before > 0 && strchr(" \t\r\n", text[before - 1]) != NULL &&
           text[before - 1] != '\0') {
        before--;
    }
    if (at < document->size && (text[at] == '}' || text[at] == ']') &&
        before > 0 && text[before - 1] == ',') {
        return "; remove the comma before it";
    }
    if (at < document->size && (text[at] == '/' || text[at] == '#')) {
        return "; JSON knows no comments";
    }
    if (at < document->size && text[at] == '\'') {
        return "; texts are in double quotes";
    }
    return "";
}

static psd_status bad_syntax(struct config_reader *reader,
                             const json_error_t *error)
{
    const struct document *document = reader->document;
    size_t at = find_error(document, error);
    char shown[JSON_ERROR_TEXT_LENGTH];

    if (json_out_of_memory) {
        return config_no_memory(reader);
    }
    return document_complain(document, at, reader->error, reader->error_size,
                             "no valid JSON: %s%s",
                             config_show(error->text, shown, sizeof(shown)),
                             hint(document, at));
}

/* ---- options ------------------------------------------------------------ */

/* The value as the command line would have it; false: a list, an object. */
static bool value_text(const struct option_row *row, const json_t *value,
                       char *text, size_t size)
{
    bool on = json_is_true(value);

    if (row->kind == OPTION_FLAG) {
        if (!config_is_flag(value, &on)) {
            return false;
        }
        snprintf(text, size, "%d", on ? 1 : 0);
    } else if (json_is_integer(value)) {
        snprintf(text, size, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(text, size, "%.17g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        snprintf(text, size, "%s", on ? "true" : "false");
    } else {
        return false;
    }
    return true;
}

static psd_status read_list(struct config_reader *reader,
                            struct locate_path path, const char *name,
                            json_t *value, struct pending *pending)
{
    json_t *item;
    size_t i;

    pending->list.values = mem_zalloc_array(json_array_size(value),
                                            sizeof(*pending->list.values));
    if (pending->list.values == NULL) {
        return config_no_memory(reader);
    }
    json_array_foreach(value, i, item) {
        if (!json_is_string(item)) {
            return config_wrong_type(reader, locate_step(path, i, false), name,
                                     item, "a list of texts");
        }
        pending->list.values[i] =
            cluster_keep(&reader->cluster, json_string_value(item));
        if (pending->list.values[i] == NULL) {
            return config_no_memory(reader);
        }
        pending->list.count++;
    }
    return PSD_OK;
}

static psd_status check_text(struct config_reader *reader,
                             struct locate_path path,
                             const struct option_row *row, const char *key,
                             const char *text)
{
    char shown[WORD_SHOW_MAX];
    char error[512];
    uint16_t first;
    uint16_t last;

    config_show(key, shown, sizeof(shown));
    if (!option_accepts(row, text)) {
        option_explain(row, shown, text, error, sizeof(error));
        return config_complain(reader, path, "%s", error);
    }
    if (strcmp(row->name, "ports") == 0 &&
        !settings_ports(text, &first, &last)) {
        return config_complain(reader, path,
                               "ports is '%s', it must be a port such as "
                               "7000, a range such as 7000-7100, or 0 for any",
                               config_show(text, shown, sizeof(shown)));
    }
    return PSD_OK;
}

static psd_status read_option(struct config_reader *reader,
                              struct locate_path path,
                              const struct option_row *row, const char *key,
                              json_t *value, struct pending *pending)
{
    const char *text = json_string_value(value);
    char number[64];
    psd_status status;

    if (row->kind == OPTION_LIST && json_is_array(value)) {
        return read_list(reader, path, row->name, value, pending);
    }
    if (row->kind == OPTION_FLAG || text == NULL) {
        if (!value_text(row, value, number, sizeof(number))) {
            return config_wrong_type(
                reader, path, row->name, value,
                row->kind == OPTION_FLAG   ? "true or false"
                : row->kind == OPTION_LIST ? "a list of texts"
                                           : "a text or a number");
        }
        text = number;
    }
    status = check_text(reader, path, row, key, text);
    if (status != PSD_OK) {
        return status;
    }
    pending->text = cluster_keep(&reader->cluster, text);
    if (pending->text == NULL) {
        return config_no_memory(reader);
    }
    if (row->kind == OPTION_LIST) {
        pending->list.values =
            mem_zalloc_array(1, sizeof(*pending->list.values));
        if (pending->list.values == NULL) {
            return config_no_memory(reader);
        }
        pending->list.values[pending->list.count++] = pending->text;
    }
    return PSD_OK;
}

/* ---- members ------------------------------------------------------------ */

static psd_status unknown_key(struct config_reader *reader,
                              struct locate_path path,
                              const struct option_row *rows, const char *key)
{
    const char *nearest = NULL;
    size_t best = WORD_FAR;
    char shown[WORD_SHOW_MAX];

    for (const struct config_key *known = config_keys; known->name != NULL;
         known++) {
        if (word_nearer(key, strlen(key), known->name, strlen(known->name),
                        &best)) {
            nearest = known->name;
        }
    }
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        if (option_is_key(row, row->name) &&
            word_nearer(key, strlen(key), row->name, strlen(row->name),
                        &best)) {
            nearest = row->name;
        }
    }
    config_show(key, shown, sizeof(shown));
    if (nearest == NULL) {
        return config_complain(reader, path,
                               "unknown key \"%s\"; psd-cluster(5) lists all",
                               shown);
    }
    return config_complain(reader, path,
                           "unknown key \"%s\"; did you mean \"%s\"?", shown,
                           nearest);
}

static uint32_t line_of(const struct document *document,
                        struct locate_path path)
{
    uint32_t line;
    uint32_t column;

    document_place(document,
                   locate_find(document->text, document->size, &path), &line,
                   &column);
    return line;
}

struct found {
    size_t at;
    json_t *value;
};

/* Find the key of every member; options are read at once. */
static psd_status sort_members(struct config_reader *reader, json_t *root,
                               const struct option_row *rows,
                               struct pending *pending, struct found *found)
{
    struct locate_path top = { .depth = 0 };
    const char *key;
    json_t *value;
    size_t at = 0;

    json_object_foreach(root, key, value) {
        struct locate_path path = locate_step(top, at, true);
        const struct option_row *row = rows;
        psd_status status = PSD_OK;
        size_t i = 0;

        while (config_keys[i].name != NULL &&
               strcmp(config_keys[i].name, key) != 0) {
            i++;
        }
        while (row->name != NULL && !option_is_key(row, key)) {
            row++;
        }
        if (config_keys[i].name != NULL) {
            found[i] = (struct found){ .at = at, .value = value };
            reader->cluster.lines[i] = line_of(reader->document, path);
        } else if (row->name != NULL) {
            struct pending *one = pending + (row - rows);

            if (one->there) { /* block_size and block-size */
                return config_complain(reader, path,
                                       "%s is there twice; remove one of them",
                                       row->name);
            }
            one->there = true;
            one->line = line_of(reader->document, path);
            status = read_option(reader, locate_step(top, at, false), row, key,
                                 value, one);
        } else {
            status = unknown_key(reader, path, rows, key);
        }
        if (status != PSD_OK) {
            return status;
        }
        at++;
    }
    return PSD_OK;
}

static psd_status read_root(struct config_reader *reader, json_t *root,
                            const struct option_row *rows,
                            struct pending *pending)
{
    struct found found[CLUSTER_KEYS_MAX] = { { .at = 0 } };
    struct locate_path top = { .depth = 0 };
    psd_status status;

    if (!json_is_object(root)) {
        return config_wrong_type(reader, top, "the file", root,
                                 "an object { ... }");
    }
    status = sort_members(reader, root, rows, pending, found);
    for (size_t i = 0; config_keys[i].name != NULL && status == PSD_OK; i++) {
        PSD_ASSERT(i < CLUSTER_KEYS_MAX);
        if (found[i].value != NULL) {
            status = config_keys[i].read(
                reader, locate_step(top, found[i].at, false), found[i].value);
        } else if (config_keys[i].required) {
            status = config_complain(reader, top,
                                     "%s is missing; it is a list of hosts "
                                     "such as [\"10.0.0.1\", \"10.0.0.2\"]",
                                     config_keys[i].name);
        }
    }
    return status;
}

/* ---- the whole ---------------------------------------------------------- */

/* Nothing can fail any more. */
static void apply(const struct option_row *rows, struct pending *pending,
                  void *settings, struct option_source *sources,
                  const char *file)
{
    for (const struct option_row *row = rows; row->name != NULL; row++) {
        size_t i = (size_t)(row - rows);
        struct option_list *list = &pending[i].list;

        if (!pending[i].there || (sources != NULL &&
                                  sources[i].origin == OPTION_FROM_WORDS)) {
            continue;
        }
        if (row->kind == OPTION_LIST) {
            struct option_list old;

            memcpy(&old, (char *)settings + row->offset, sizeof(old));
            memcpy((char *)settings + row->offset, list, sizeof(*list));
            *list = old; /* freed with the others */
        } else {
            psd_status status = option_set(row, settings, pending[i].text);

            PSD_ASSERT(status == PSD_OK);
        }
        if (sources != NULL) {
            sources[i] = (struct option_source){ .origin = OPTION_FROM_FILE,
                                                 .file = file,
                                                 .line = pending[i].line };
        }
    }
}

static size_t count_rows(const struct option_row *rows)
{
    size_t count = 0;

    while (rows[count].name != NULL) {
        count++;
    }
    return count;
}

/* A text in UTF-8 may begin with a mark that says so. */
static struct document without_mark(const struct document *document)
{
    struct document rest = *document;

    if (rest.size >= 3 && memcmp(rest.text, "\xef\xbb\xbf", 3) == 0) {
        rest.text += 3;
        rest.size -= 3;
    }
    return rest;
}

psd_status config_parse(const struct document *document,
                        const struct option_row *rows, void *settings,
                        struct option_source *sources, struct cluster *cluster,
                        char *error, size_t error_size)
{
    struct document text = without_mark(document);
    struct config_reader reader = { .document = &text,
                                    .error = error,
                                    .error_size = error_size };
    const char *nul = memchr(text.text, '\0', text.size);
    size_t count = count_rows(rows);
    struct pending *pending = mem_zalloc_array(count + 1, sizeof(*pending));
    json_error_t wrong;
    json_t *root = NULL;
    psd_status status;

    status = cluster_init_local(&reader.cluster, 0, 0);
    reader.cluster.origin = mem_strdup(document->path);
    if (pending == NULL || reader.cluster.origin == NULL) {
        status = config_no_memory(&reader);
    }
    if (status == PSD_OK && nul != NULL) {
        status = document_complain(&text, (size_t)(nul - text.text), error,
                                   error_size,
                                   "a NUL character; is this a text file?");
    }
    if (status == PSD_OK) {
        root = load(&reader, &wrong);
        status = root == NULL ? bad_syntax(&reader, &wrong)
                              : read_root(&reader, root, rows, pending);
    }
    if (status == PSD_OK) {
        apply(rows, pending, settings, sources, reader.cluster.origin);
        *cluster = reader.cluster;
    } else {
        cluster_fini(&reader.cluster);
    }
    for (size_t i = 0; i < count && pending != NULL; i++) {
        mem_free(pending[i].list.values);
    }
    mem_free(pending);
    json_decref(root);
    return status;
}

psd_status config_read(const char *path, const struct option_row *rows,
                       void *settings, struct option_source *sources,
                       struct cluster *cluster, char *error, size_t error_size)
{
    struct document document;
    psd_status status = document_read(&document, path, error, error_size);

    if (status != PSD_OK) {
        return status;
    }
    status = config_parse(&document, rows, settings, sources, cluster, error,
                          error_size);
    document_fini(&document);
    return status;
}

void config_print(const struct cluster *cluster, FILE *file)
{
    for (size_t i = 0; config_keys[i].name != NULL; i++) {
        char value[SHOW_MAX];
        char source[SHOW_MAX];

        if (config_keys[i].show == NULL) {
            continue;
        }
        config_keys[i].show(cluster, value, sizeof(value));
        if (cluster->lines[i] > 0) {
            snprintf(source, sizeof(source), "%s:%" PRIu32, cluster->origin,
                     cluster->lines[i]);
        } else if (config_keys[i].required && cluster->origin != NULL) {
            snprintf(source, sizeof(source), "%s", cluster->origin);
        } else {
            snprintf(source, sizeof(source), "default");
        }
        option_print_line(config_keys[i].name, value, source, file);
    }
}
