/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list_pages.h - pages of lists of localproxy's own, turned into watch events.
 *
 * A change of the rules makes many watches ask for the same pages at the same moment: each is asked
 * for once, and shared for as long as somebody holds it. Few are asked for at a time, the others
 * wait, so that those who ask for other things find connections, and so that memory has a bound:
 * what of pages is held, and what has come of others, counts (watch_memory.h). Where there is no
 * room for the rest of a page, it is given up and takes turns with others once more.
 */
#ifndef LOCALPROXY_UPSTREAM_LIST_PAGES_H
#define LOCALPROXY_UPSTREAM_LIST_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/err.h"
#include "base/list.h"
#include "codec/encoding.h"
#include "codec/watch_frame.h"
#include "kube/client/client.h"

/* Objects that a page is asked for with. */
#define LIST_PAGES_OBJECTS 500
/* Bytes of events that one page may make. */
#define LIST_PAGES_EVENTS_MAX ((size_t)16 * 1024 * 1024)
/* How long it may wait for its turn. It may then take DERIVED_RETRY_TIME_MS, during which what
 * fails for now is asked for again. */
#define LIST_PAGES_TIMEOUT_MS 15000
/* Pages that are asked for at a time. */
#define LIST_PAGES_ASKED_MAX 8

struct list_pages;

struct page {
    struct buf events; /* all objects of the page, each as a whole event */
    uint64_t version;  /* of the list; 0: not known */
    uint64_t count;    /* of objects */
    uint64_t lowest;   /* version of an object; 0: none, or one could not be read */
    char *token;       /* of the next page; NULL: it is the last */
    char *kind;        /* of the objects; NULL: not known */
    char *api_version;
};

struct page_request {
    struct slice target; /* of the list */
    enum encoding encoding;
    bool partial;                /* PartialObjectMetadata instead of whole objects */
    enum watch_frame_type event; /* what the objects become */
    bool fresh;                  /* of no certain version: one that came before will not do */
    bool first;                  /* who wants it holds nothing yet, and can wait for memory */
};

/* Somebody who wants a page. Embedded; belongs to `pages` from list_pages_want to list_pages_drop.
 */
struct page_want {
    struct list link;
    struct page_entry *entry; /* NULL: nothing is wanted */
    bool told;
    /* Once, never inside list_pages_want: the page, valid until list_pages_drop, or why there is
     * none: -ESTALE (410: the version is not kept any more), -EMSGSIZE (also: too much is held), or
     * another. May call all functions. */
    void (*on_page)(struct page_want *w, const struct page *page, const struct err *e);
};

/* `client` and `memory` must outlive it. NULL without memory. */
MUST_CHECK struct list_pages *list_pages_new(struct net_loop *l, struct kube_client *client,
                                             struct byte_budget *memory);
/* Nobody wants anything any more. NULL is ignored. */
void list_pages_free(struct list_pages *p);

/* Whether somebody waits for a page for which there is no room. */
bool list_pages_scarce(const struct list_pages *p);

/* 0: on_page follows unless dropped before. */
MUST_CHECK int list_pages_want(struct list_pages *p, const struct page_request *r,
                               struct page_want *w, struct err *e);
/* Lets go. Does nothing for who wants nothing. */
void list_pages_drop(struct page_want *w);

#endif
