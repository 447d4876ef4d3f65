/* word.c: see word.h. */
#include "base/word.h"

#include <ctype.h>

#include "base/banned.h"

#define WORD_MAX 64

static int folded(char c)
{
    return c == '_' ? '-' : tolower((unsigned char)c);
}

/* Edits between two words (Levenshtein), one row of the table at a time. */
static size_t distance(const char *a, size_t a_size, const char *b,
                       size_t b_size)
{
    size_t row[WORD_MAX];

    for (size_t j = 0; j <= b_size; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t above = row[j];
            size_t best =
                diagonal + (folded(a[i - 1]) != folded(b[j - 1]) ? 1 : 0);

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

bool word_nearer(const char *word, size_t word_size, const char *name,
                 size_t name_size, size_t *best_p)
{
    size_t edits;

    if (word_size >= WORD_MAX || name_size >= WORD_MAX) {
        return false;
    }
    edits = distance(word, word_size, name, name_size);
    if (edits >= *best_p || edits > name_size / 2) {
        return false;
    }
    *best_p = edits;
    return true;
}

const char *word_show(const char *text, size_t size, char *out,
                      size_t out_size)
{
    static const char more[] = "...";
    size_t used = 0;

    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x80 && c < 0xc0) {
            continue; /* the rest of a character that is one "?" */
        }
        if (used + sizeof(more) >= out_size) {
            memcpy(out + used, more, sizeof(more));
            return out;
        }
        out[used++] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[used] = '\0';
    return out;
}
