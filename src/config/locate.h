/*
 * locate.h: where a value lies in a JSON text. The JSON library says so for
 * errors of syntax only; what is wrong with a value is found later, when it
 * knows nothing of lines any more. Pure.
 */
#ifndef PSD_CONFIG_LOCATE_H
#define PSD_CONFIG_LOCATE_H

#include <stdbool.h>
#include <stddef.h>

#define LOCATE_DEPTH_MAX 4

/* From the whole document into it: the n-th member or item, and so on. */
struct locate_path {
    unsigned depth;
    size_t at[LOCATE_DEPTH_MAX];
    bool key; /* the name of the last member, not its value */
};

/* The path one step further in. */
struct locate_path locate_step(struct locate_path path, size_t index,
                               bool key);

/* The offset of what `path` leads to in `text`, which has been parsed without
 * an error; where the path leads nowhere, that of what it got to. */
size_t locate_find(const char *text, size_t size,
                   const struct locate_path *path);

#endif
