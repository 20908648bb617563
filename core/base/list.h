/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - intrusive doubly linked lists with a sentinel head.
 */
#ifndef CORE_BASE_LIST_H
#define CORE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/ensure.h"

struct list {
    struct list *prev;
    struct list *next;
};

/* The structure that holds `node` as its `member`. */
#define LIST_ITEM(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* A head becomes empty; a node becomes unlinked. */
static inline void list_init(struct list *l)
{
    l->prev = l;
    l->next = l;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline bool list_linked(const struct list *node)
{
    return node->next != node;
}

/* The node must be unlinked: initialized, removed, or all zero. */
static inline void list_append(struct list *head, struct list *node)
{
    ensure(node->next == NULL || node->next == node);
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_prepend(struct list *head, struct list *node)
{
    list_append(head->next, node);
}

/* Unlinking an unlinked node does nothing. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* Each node of a list from the first to the last. The body must not unlink the node; see below. */
#define LIST_FOR_EACH(node, head)                                                                  \
    for (struct list *node = (head)->next; node != (head); node = node->next)

/* The same where the body may unlink the node, or free what holds it, but no other. */
#define LIST_FOR_EACH_SAFE(node, after, head)                                                      \
    for (struct list *node = (head)->next, *after = node->next; node != (head);                    \
         node = after, after = node->next)

#endif
