/*
 * word.h: words that people type: which known word was meant, and how to show
 * one that may hold anything. Any thread.
 */
#ifndef PSD_BASE_WORD_H
#define PSD_BASE_WORD_H

#include <stdbool.h>
#include <stddef.h>

#define WORD_FAR      3 /* edits from which on nothing was meant */
#define WORD_SHOW_MAX 80

/* Is `name` near to `word`, and by fewer edits than `*best_p`, which starts as
 * WORD_FAR? Then `*best_p` is lowered. Case, "_" and "-" make no difference
 * to the distance; a short name must be met more closely. */
bool word_nearer(const char *word, size_t word_size, const char *name,
                 size_t name_size, size_t *best_p);

/* A copy of `text` fit for an error sentence: "?" for what is not printable
 * ASCII, cut with "..." where it is long. Returns `out`. */
const char *word_show(const char *text, size_t size, char *out,
                      size_t out_size);

#endif
