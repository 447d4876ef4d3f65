/* task_split.c: the manual's way to give every worker a command of its own,
 * all in one string with commas between. A comma is also what lists of
 * numbers and files have, hence the care. */
#define _GNU_SOURCE
#include "config/task.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define BLANKS " \t\r\n"

/* From `at` to `end`. */
struct span {
    const char *at;
    const char *end;
};

static bool is_blank(char c)
{
    return c != '\0' && strchr(BLANKS, c) != NULL;
}

static struct span trimmed(struct span span)
{
    while (span.at < span.end && is_blank(*span.at)) {
        span.at++;
    }
    while (span.at < span.end && is_blank(span.end[-1])) {
        span.end--;
    }
    return span;
}

/* Passes one character, a quoted text or a bracket with all that is in it;
 * NULL: one of them is not closed. */
static const char *pass(const char *at)
{
    unsigned depth = 0;

    do {
        char c = *at;

        if (c == '\\' && at[1] != '\0') {
            at++;
        } else if (c == '"' || c == '\'' || c == '`') {
            for (at++; *at != c; at++) {
                if (*at == '\\' && c != '\'' && at[1] != '\0') {
                    at++;
                }
                if (*at == '\0') {
                    return NULL;
                }
            }
        } else if (strchr("([{", c) != NULL) {
            depth++;
        } else if (strchr(")]}", c) != NULL && depth > 0) {
            depth--;
        }
        at++;
    } while (depth > 0 && *at != '\0');
    return depth == 0 ? at : NULL;
}

/* Where the part that begins at `at` ends: a comma, or the end; NULL: neither
 * is found because of a quote or bracket. */
static const char *part_end(const char *at)
{
    while (at != NULL && *at != '\0' && *at != ',') {
        at = pass(at);
    }
    return at;
}

/* ---- programs ----------------------------------------------------------- */

static struct span next_word(struct span part)
{
    struct span word = { .at = trimmed(part).at };

    word.end = word.at;
    while (word.end != NULL && word.end < part.end && !is_blank(*word.end)) {
        word.end = pass(word.end);
    }
    if (word.end == NULL || word.end > part.end) {
        word.end = part.end;
    }
    return word;
}

/* NAME=value, which a shell takes for a variable of the command behind it. */
static bool is_variable(struct span word)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t size = strspn(word.at, name);

    return size > 0 && size < (size_t)(word.end - word.at) &&
           word.at[size] == '=' && (word.at[0] < '0' || word.at[0] > '9');
}

static struct span program_of(struct span part)
{
    struct span word = next_word(part);

    while (is_variable(word)) {
        word = next_word((struct span){ .at = word.end, .end = part.end });
    }
    return word;
}

static bool is_executable(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode) &&
           access(path, X_OK) == 0;
}

static bool in_path(const char *word)
{
    const char *at = getenv("PATH");

    while (at != NULL) {
        size_t size = strcspn(at, ":");
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%.*s/%s", (int)size, at, word) <
                (int)sizeof(path) &&
            is_executable(path)) {
            return true;
        }
        at = at[size] == ':' ? at + size + 1 : NULL;
    }
    return false;
}

static bool looks_like_path(const char *word)
{
    return word[0] == '/' || strncmp(word, "./", 2) == 0 ||
           strncmp(word, "../", 3) == 0 || strncmp(word, "~/", 2) == 0;
}

/* `apart`: there is a blank behind the comma. `first`: the first part. */
static bool names_program(struct span part, struct span first, bool apart)
{
    struct span word = program_of(part);
    struct span model = program_of(first);
    size_t size = (size_t)(word.end - word.at);
    bool alone = trimmed(part).end == word.end;
    bool first_alone = trimmed(first).end == model.end;
    char text[PATH_MAX];
    struct stat about;

    if (size == 0 || size >= sizeof(text)) {
        return false;
    }
    if (size == (size_t)(model.end - model.at) &&
        memcmp(word.at, model.at, size) == 0) {
        return true;
    }
    memcpy(text, word.at, size);
    text[size] = '\0';
    if (strchr(text, '/') == NULL) {
        return (apart || !alone || first_alone) && in_path(text);
    }
    return is_executable(text) ||
           (apart && looks_like_path(text) && stat(text, &about) != 0);
}

/* ---- the split ---------------------------------------------------------- */

/* Are there `workers` parts, each a program? */
static bool is_split(const char *line, uint32_t workers)
{
    struct span first = { .at = line, .end = part_end(line) };
    const char *at = line;

    for (uint32_t i = 0; i < workers; i++) {
        struct span part = { .at = at, .end = part_end(at) };

        if (part.end == NULL ||
            (*part.end == '\0') != (i + 1 == workers) ||
            !names_program(part, first, is_blank(*part.at))) {
            return false;
        }
        at = part.end + 1;
    }
    return true;
}

static char *copy_span(struct span span)
{
    size_t size = (size_t)(span.end - span.at);
    char *text = mem_zalloc(size + 1);

    if (text != NULL) {
        memcpy(text, span.at, size);
    }
    return text;
}

psd_status task_split(const char *line, uint32_t workers,
                      struct launch_words *commands_p)
{
    bool split = workers > 1 && is_split(line, workers);
    uint32_t count = split ? workers : 1;
    struct launch_words commands = { .count = 0 };
    const char *at = line;

    commands.words =
        mem_zalloc_array((size_t)count + 1, sizeof(*commands.words));
    if (commands.words == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct span part = { .at = at, .end = at + strlen(at) };

        if (split) {
            part.end = part_end(at);
            at = part.end + 1;
            part = trimmed(part);
        }
        commands.words[i] = copy_span(part);
        if (commands.words[i] == NULL) {
            launch_words_fini(&commands);
            return PSD_ENOMEM;
        }
        commands.count++;
    }
    *commands_p = commands;
    return PSD_OK;
}
