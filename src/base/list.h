/*
 * list.h: an intrusive, circular, doubly linked list. A node that is in no
 * list points at itself, so removing twice is harmless.
 */
#ifndef PSD_BASE_LIST_H
#define PSD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define list_entry(node, type, member) \
    ((type *)(void *)((char *)(node) - offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline void list_append(struct list *list, struct list *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

static inline struct list *list_first(struct list *list)
{
    return list_empty(list) ? NULL : list->next;
}

#endif
