/* hostfile.c: see hostfile.h. */
#define _GNU_SOURCE
#include "config/hostfile.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/word.h"

#define TOKEN_MAX     600 /* user@host:port */
#define PORT_LOW      22  /* below: somebody means slots */
#define BLANKS        " \t\r\f\v"
#define SLOTS_UNSAID  0

struct reader {
    const struct document *document;
    struct cluster *cluster;
    char *error;
    size_t error_size;
};

/* One line, from where it has not been read to where it ends. */
struct line {
    const char *at;
    const char *end;
};

/* What a line says. */
struct entry {
    char host[TOKEN_MAX];
    const char *host_at; /* in the text */
    uint32_t slots;
    uint32_t max_slots;
    const char *max_at;
    char user[CLUSTER_NAME_MAX];
    uint16_t port;
};

#define complain(reader, where, ...)                                     \
    document_complain((reader)->document,                                \
                      (size_t)((where) - (reader)->document->text),      \
                      (reader)->error, (reader)->error_size, __VA_ARGS__)

static psd_status no_memory(struct reader *reader)
{
    snprintf(reader->error, reader->error_size, "out of memory");
    return PSD_ENOMEM;
}

static bool is_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static void skip_blanks(struct line *line)
{
    while (line->at < line->end && is_in(*line->at, BLANKS)) {
        line->at++;
    }
}

/* Up to a blank, the end, or one of `stops`; `token` is cut when too long. */
static size_t take_token(struct line *line, const char *stops, char *token,
                         size_t size)
{
    const char *start = line->at;
    size_t length;

    while (line->at < line->end && !is_in(*line->at, BLANKS) &&
           !is_in(*line->at, stops)) {
        line->at++;
    }
    length = (size_t)(line->at - start);
    if (length >= size) {
        length = size - 1;
    }
    memcpy(token, start, length);
    token[length] = '\0';
    return (size_t)(line->at - start);
}

/* ---- key=value ---------------------------------------------------------- */

static psd_status read_count(struct reader *reader, const char *at,
                             const char *key, const char *text,
                             uint32_t *count_p)
{
    char shown[WORD_SHOW_MAX];
    unsigned long count = 0;

    if (text[0] != '\0' && strlen(text) <= 9 &&
        strspn(text, "0123456789") == strlen(text)) {
        count = strtoul(text, NULL, 10);
    }
    if (count < 1 || count > WIRE_RANKS_MAX) {
        return complain(reader, at, "%s is '%s', it must be a number in "
                        "1..%d", key,
                        word_show(text, strlen(text), shown, sizeof(shown)),
                        WIRE_RANKS_MAX);
    }
    *count_p = (uint32_t)count;
    return PSD_OK;
}

static psd_status read_slots(struct reader *reader, const char *at,
                             const char *text, struct entry *entry)
{
    return read_count(reader, at, "slots", text, &entry->slots);
}

static psd_status read_max(struct reader *reader, const char *at,
                           const char *text, struct entry *entry)
{
    entry->max_at = at;
    return read_count(reader, at, "max_slots", text, &entry->max_slots);
}

static psd_status read_user(struct reader *reader, const char *at,
                            const char *text, struct entry *entry)
{
    char error[256];

    if (cluster_check_user(text, error, sizeof(error)) != PSD_OK) {
        return complain(reader, at, "%s", error);
    }
    snprintf(entry->user, sizeof(entry->user), "%s", text);
    return PSD_OK;
}

static psd_status read_port(struct reader *reader, const char *at,
                            const char *text, struct entry *entry)
{
    unsigned long port = 0;

    if (text[0] != '\0' && strlen(text) <= 5 &&
        strspn(text, "0123456789") == strlen(text)) {
        port = strtoul(text, NULL, 10);
    }
    if (port < 1 || port > UINT16_MAX) {
        return complain(reader, at, "port must be a number in 1..65535");
    }
    entry->port = (uint16_t)port;
    return PSD_OK;
}

static const struct key {
    const char *name; /* "-" in the file is "_" */
    psd_status (*read)(struct reader *reader, const char *at,
                       const char *text, struct entry *entry);
} keys[] = {
    { "slots", read_slots },    { "max_slots", read_max },
    { "slots_max", read_max },  { "user", read_user },
    { "username", read_user },  { "port", read_port },
};

#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static psd_status unknown(struct reader *reader, const char *at,
                          const char *name)
{
    const char *nearest = NULL;
    size_t best = WORD_FAR;
    char shown[WORD_SHOW_MAX];

    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (word_nearer(name, strlen(name), keys[i].name,
                        strlen(keys[i].name), &best)) {
            nearest = keys[i].name;
        }
    }
    word_show(name, strlen(name), shown, sizeof(shown));
    if (nearest != NULL) {
        return complain(reader, at, "unknown word '%s'; did you mean %s=?",
                        shown, nearest);
    }
    return complain(reader, at, "unknown word '%s'; behind a host there may "
                    "be slots=, max_slots=, user=, port=", shown);
}

static psd_status read_pair(struct reader *reader, struct line *line,
                            struct entry *entry)
{
    const char *at = line->at;
    const char *value_at;
    char name[TOKEN_MAX];
    char value[TOKEN_MAX];
    size_t i = 0;

    take_token(line, "=", name, sizeof(name));
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    while (i < KEY_COUNT && strcmp(name, keys[i].name) != 0) {
        i++;
    }
    if (i == KEY_COUNT) {
        return unknown(reader, at, name);
    }
    skip_blanks(line);
    if (line->at == line->end || *line->at != '=') {
        return complain(reader, at, "%s needs a value, as in slots=4", name);
    }
    line->at++;
    skip_blanks(line);
    value_at = line->at;
    take_token(line, "=", value, sizeof(value));
    return keys[i].read(reader, value_at, value, entry);
}

/* ---- lines -------------------------------------------------------------- */

static psd_status read_host(struct reader *reader, struct entry *entry,
                            uint32_t *host_p)
{
    char user[CLUSTER_NAME_MAX];
    char name[CLUSTER_NAME_MAX];
    char error[256];
    uint16_t port = 0;
    psd_status status;

    if (cluster_parse_host(entry->host, user, sizeof(user), name,
                           sizeof(name), &port, error,
                           sizeof(error)) != PSD_OK) {
        return complain(reader, entry->host_at, "%s", error);
    }
    if (port != 0 && port < PORT_LOW) {
        return complain(reader, entry->host_at,
                        "port %u of sshd? If %u workers are meant, write "
                        "%.80s slots=%u",
                        port, port, name, port);
    }
    if ((user[0] != '\0' && entry->user[0] != '\0') ||
        (port != 0 && entry->port != 0)) {
        return complain(reader, entry->host_at,
                        "user or port is given twice, with the host and "
                        "behind it; remove one");
    }
    if (user[0] == '\0') {
        memcpy(user, entry->user, sizeof(user));
    }
    status = cluster_add_host(reader->cluster, name,
                              user[0] == '\0' ? NULL : user,
                              port != 0 ? port : entry->port, host_p);
    if (status == PSD_EINVAL) {
        return complain(reader, entry->host_at,
                        "more than %d hosts; a job has no more",
                        CLUSTER_HOSTS_MAX);
    }
    return status == PSD_OK ? PSD_OK : no_memory(reader);
}

static psd_status add_workers(struct reader *reader, struct entry *entry)
{
    uint32_t slots = entry->slots == SLOTS_UNSAID ? 1 : entry->slots;
    uint32_t host;
    psd_status status = read_host(reader, entry, &host);

    if (status != PSD_OK) {
        return status;
    }
    if (entry->max_slots > 0 && entry->max_slots < slots) {
        return complain(reader, entry->max_at,
                        "max_slots is %" PRIu32 ", less than the %" PRIu32
                        " slots",
                        entry->max_slots, slots);
    }
    if (slots > WIRE_RANKS_MAX - reader->cluster->workers) {
        return complain(reader, entry->host_at,
                        "more than %d workers; a job has no more",
                        WIRE_RANKS_MAX);
    }
    for (uint32_t i = 0; i < slots; i++) {
        if (cluster_add_worker(reader->cluster, host, NULL) != PSD_OK) {
            return no_memory(reader);
        }
    }
    return PSD_OK;
}

static psd_status read_line(struct reader *reader, struct line line)
{
    struct entry entry = { .slots = SLOTS_UNSAID };
    const char *comment = memchr(line.at, '#', (size_t)(line.end - line.at));
    const char *nul;

    if (comment != NULL) {
        line.end = comment;
    }
    nul = memchr(line.at, '\0', (size_t)(line.end - line.at));
    if (nul != NULL) {
        return complain(reader, nul, "a NUL character; is this a text file?");
    }
    skip_blanks(&line);
    if (line.at == line.end) {
        return PSD_OK;
    }
    entry.host_at = line.at;
    if (take_token(&line, "=", entry.host, sizeof(entry.host)) >=
        sizeof(entry.host)) {
        return complain(reader, entry.host_at, "the name is too long");
    }
    if (line.at < line.end && *line.at == '=') {
        return complain(reader, entry.host_at,
                        "a line begins with a host, as in node1 slots=4");
    }
    for (skip_blanks(&line); line.at < line.end; skip_blanks(&line)) {
        psd_status status = read_pair(reader, &line, &entry);

        if (status != PSD_OK) {
            return status;
        }
    }
    return add_workers(reader, &entry);
}

psd_status hostfile_parse(const struct document *document,
                          struct cluster *cluster, char *error,
                          size_t error_size)
{
    struct cluster read;
    struct reader reader = { .document = document,
                             .cluster = &read,
                             .error = error,
                             .error_size = error_size };
    const char *end = document->text + document->size;
    const char *at = document->text;
    psd_status status = cluster_init_local(&read, 0, 0);

    read.origin = mem_strdup(document->path);
    if (read.origin == NULL) {
        status = no_memory(&reader);
    }
    while (at < end && status == PSD_OK) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        struct line line = { .at = at, .end = next == NULL ? end : next };

        status = read_line(&reader, line);
        at = line.end + 1;
    }
    if (status == PSD_OK && read.workers == 0) {
        status = complain(&reader, document->text,
                          "no host in it; write one per line, as in node1 "
                          "slots=4");
    }
    if (status != PSD_OK) {
        cluster_fini(&read);
        return status;
    }
    *cluster = read;
    return PSD_OK;
}

psd_status hostfile_read(const char *path, struct cluster *cluster,
                         char *error, size_t error_size)
{
    struct document document;
    psd_status status = document_read(&document, path, error, error_size);

    if (status != PSD_OK) {
        return status;
    }
    status = hostfile_parse(&document, cluster, error, error_size);
    document_fini(&document);
    return status;
}
