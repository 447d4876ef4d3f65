/* rerun.c: see rerun.h. */
#include "report/rerun.h"

#include <stdbool.h>

#include "base/mem.h"

static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-@%,:=";

static size_t quoted_size(const char *word)
{
    size_t size = 3; /* two quotes, a blank */

    for (; *word != '\0'; word++) {
        size += *word == '\'' ? 4 : 1;
    }
    return size;
}

static char *add(char *to, const char *word)
{
    bool bare = word[0] != '\0' && word[strspn(word, plain)] == '\0';

    if (!bare) {
        *to++ = '\'';
    }
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else {
            *to++ = *word;
        }
    }
    if (!bare) {
        *to++ = '\'';
    }
    return to;
}

char *rerun_line(int count, char *const *words)
{
    size_t size = 1;
    char *line;
    char *to;

    for (int i = 0; i < count; i++) {
        size += quoted_size(words[i]);
    }
    line = mem_zalloc(size);
    to = line;
    for (int i = 0; i < count && line != NULL; i++) {
        if (i > 0) {
            *to++ = ' ';
        }
        to = add(to, words[i]);
    }
    return line;
}
