/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_page.h - a page of a list in JSON, of which one object at a time becomes a tree.
 *
 * A tree takes several times the memory of its text; a page has hundreds of them.
 */
#ifndef CORE_KUBE_CLIENT_LIST_PAGE_H
#define CORE_KUBE_CLIENT_LIST_PAGE_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/slice.h"

struct list_page {
    const char *version; /* metadata.resourceVersion; not empty */
    const char *token;   /* metadata.continue; NULL: this is the last page */
    struct slice items;  /* what is still to be read: between the brackets */
    size_t count;        /* objects read */
    cJSON *root;         /* of all but the items */
};

/* Takes the page apart; `text` must outlive it. 0, then list_page_deinit is due; -ENOMEM; -EINVAL
 * with `e` set: not JSON, no list, or without version. The text of the items is read by
 * list_page_next. */
MUST_CHECK int list_page_init(struct list_page *p, struct slice text, struct err *e);
/* 1 and the next object, which has a name and belongs to the caller; 0 at the end; -ENOMEM;
 * -EINVAL with `e` set. */
MUST_CHECK int list_page_next(struct list_page *p, cJSON **object, struct err *e);
void list_page_deinit(struct list_page *p);

#endif
