/*
 * differ.h: two workers registered different models; say how, name by name,
 * so that a person finds the line of the script. One thread.
 */
#ifndef PSD_MASTER_DIFFER_H
#define PSD_MASTER_DIFFER_H

#include "wire/message.h"

#define DIFFER_LINES_MAX 20

/* A text of lines, growing; memory of the caller. */
struct differ {
    char *text;
    size_t size; /* of the memory */
    size_t used;
    uint32_t lines; /* written */
    uint32_t more;  /* found and not written */
};

/* One worker's batch. */
struct differ_side {
    uint32_t rank;
    const struct message_table *table;
};

void differ_init(struct differ *differ, char *text, size_t size);
/* Add every difference of `right` from `left`. PSD_ENOMEM. */
psd_status differ_compare(struct differ *differ, const struct differ_side *left,
                          const struct differ_side *right);
/* Write "... and N more" when there are; returns how many were found. */
uint32_t differ_finish(struct differ *differ);

#endif
