/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - intrusive doubly linked lists with a sentinel head.
 */
#ifndef CORE_BASE_LIST_H
#define CORE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

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

static inline void list_append(struct list *head, struct list *node)
{
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

#endif
