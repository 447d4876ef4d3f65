/* locate.c: see locate.h. The text is valid, so only strings and brackets need
 * to be understood; it is never read beyond its end all the same. */
#include "config/locate.h"

#include "base/log.h"

struct scanner {
    const char *at;
    const char *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct scanner *scanner)
{
    while (scanner->at < scanner->end && is_blank(*scanner->at)) {
        scanner->at++;
    }
}

/* At a quote; goes behind the one that closes. */
static void skip_string(struct scanner *scanner)
{
    for (scanner->at++; scanner->at < scanner->end && *scanner->at != '"';
         scanner->at++) {
        if (*scanner->at == '\\' && scanner->at + 1 < scanner->end) {
            scanner->at++;
        }
    }
    if (scanner->at < scanner->end) {
        scanner->at++;
    }
}

/* Goes behind the value, to the comma or bracket that ends it. */
static void skip_value(struct scanner *scanner)
{
    unsigned depth = 0;

    while (scanner->at < scanner->end) {
        char c = *scanner->at;

        if (c == '"') {
            skip_string(scanner);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
            return;
        }
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth--;
        }
        scanner->at++;
    }
}

/* At the key of a member, or at an item: goes to the value. */
static void pass_key(struct scanner *scanner, bool object)
{
    if (!object) {
        return;
    }
    skip_string(scanner);
    skip_blanks(scanner);
    if (scanner->at < scanner->end && *scanner->at == ':') {
        scanner->at++;
    }
    skip_blanks(scanner);
}

/* From a bracket to the `index`-th thing within; false: there is none. */
static bool enter(struct scanner *scanner, size_t index, bool *object_p)
{
    bool object = scanner->at < scanner->end && *scanner->at == '{';

    if (scanner->at >= scanner->end ||
        (*scanner->at != '{' && *scanner->at != '[')) {
        return false;
    }
    scanner->at++;
    skip_blanks(scanner);
    for (size_t i = 0; i < index; i++) {
        pass_key(scanner, object);
        skip_value(scanner);
        if (scanner->at >= scanner->end || *scanner->at != ',') {
            return false;
        }
        scanner->at++;
        skip_blanks(scanner);
    }
    *object_p = object;
    return scanner->at < scanner->end && *scanner->at != '}' &&
           *scanner->at != ']';
}

struct locate_path locate_step(struct locate_path path, size_t index, bool key)
{
    PSD_ASSERT(path.depth < LOCATE_DEPTH_MAX);
    path.at[path.depth++] = index;
    path.key = key;
    return path;
}

size_t locate_find(const char *text, size_t size,
                   const struct locate_path *path)
{
    struct scanner scanner = { .at = text, .end = text + size };
    const char *found;

    skip_blanks(&scanner);
    found = scanner.at;
    for (unsigned i = 0; i < path->depth; i++) {
        bool object;

        if (!enter(&scanner, path->at[i], &object)) {
            break;
        }
        if (i + 1 < path->depth || !path->key) {
            pass_key(&scanner, object);
        }
        found = scanner.at;
    }
    return (size_t)(found - text);
}
