/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivered_versions_internal.h - what delivered_versions.c and delivered_versions_file.c share:
 * the memory, which may be a file's.
 *
 * Of what a file holds only numbers are read again, never pointers, and all of them are checked or
 * harmless.
 */
#ifndef LOCALPROXY_UPSTREAM_DELIVERED_VERSIONS_INTERNAL_H
#define LOCALPROXY_UPSTREAM_DELIVERED_VERSIONS_INTERNAL_H

#include <stdatomic.h>

#include "base/list.h"
#include "upstream/delivered_versions.h"
#include "upstream/pending_writes.h"

/* Selectors that are told apart for a resource. Whatever was pushed out, two that remain were seen
 * as far, and one of them at least counts for the ceiling: three make it exact. */
#define DELIVERED_SELECTORS_MAX 3

#define DELIVERED_POINT_BUCKETS_LOG2 12
#define DELIVERED_RESOURCE_BUCKETS_LOG2 10

enum point_kind {
    POINT_VERSION,
    POINT_VERSION_REFUSED,
    POINT_PAGE,
    POINT_PAGE_REFUSED,
    POINT_TOLD_TO_LIST, /* a watch was refused, since a version is or may be stale */
    POINT_CUT,          /* what a watch gave that ended with a 410, which may not have been read */
    POINT_KINDS
};

struct point {
    struct list node;   /* in delivered_versions.points */
    struct point *next; /* in its bucket, or in delivered_versions.spare */
    struct delivered_key key;
    uint64_t kind;     /* enum point_kind */
    uint64_t count;    /* 0: spare */
    uint64_t since_ms; /* POINT_*_REFUSED: when it was refused first; TOLD_TO_LIST, CUT: last */
    struct delivered_range range; /* of a page: the hash of its token, twice, or DELIVERED_ANY */
};

/* One that is not used is as good as: nothing was seen without a limit. */
struct seen {
    uint64_t selector;
    uint64_t highest;
};

struct resource {
    struct list node;      /* in delivered_versions.resources */
    struct resource *next; /* in its bucket */
    uint64_t id;
    uint64_t floor; /* clients may have any version up to it that is not remembered here; 0: they
                        have none, UINT64_MAX: that is not known yet */
    uint64_t forgotten; /* points up to it were pushed out: whoever has one is not known any more */
    struct seen seen[DELIVERED_SELECTORS_MAX];
    uint64_t
        has_unread;  /* something was given out that could not be read: no version is above it */
    uint64_t unread; /* under this selector; DELIVERED_MIXED: under several */
};

/* How a file was written: the memory of another machine, or in another layout, cannot be read. */
struct delivered_stamp {
    char format[32];
    char boot[40];   /* of the machine */
    uint64_t layout; /* hash over where all that is read again lies, and how large it is */
};

struct delivered_file;

struct delivered_versions {
    struct delivered_stamp stamp; /* of a file */
    atomic_uint busy;             /* something is being changed */
    struct delivered_file *file;  /* NULL: ordinary memory */
    /* Plain integers, for they may come from a file. */
    uint8_t all_known;       /* nobody has seen anything that is not remembered here */
    uint8_t lost_unread;     /* of a resource that was forgotten something could not be read */
    uint64_t lost_highest;   /* of the versions of all resources that were forgotten */
    uint64_t lost_forgotten; /* of their points that were pushed out */
    struct pending_record writes;
    uint64_t doubt_ms;
    uint64_t now_ms;
    uint64_t began_ms;  /* the first request was asked; 0: none */
    struct list points; /* of all kinds; last used first */
    struct point *spare;
    uint64_t point_count;  /* of point_pool that were ever used */
    struct list resources; /* last used first */
    uint64_t resource_count;
    struct delivered_account *spare_account;
    uint64_t account_count;
    uint64_t accounts_elsewhere; /* open ones that are not in account_pool */
    struct point *point_buckets[1 << DELIVERED_POINT_BUCKETS_LOG2];
    struct resource *resource_buckets[1 << DELIVERED_RESOURCE_BUCKETS_LOG2];
    struct resource resource_pool[DELIVERED_RESOURCES_MAX];
    struct point point_pool[DELIVERED_POINTS_MAX];
    struct delivered_account account_pool[DELIVERED_ACCOUNTS_MAX];
};

/* Of zeroed memory. */
void delivered_init(struct delivered_versions *r, uint64_t doubt_ms);

/* Takes over what a process knew when it ended. False: that is not whole. */
MUST_CHECK bool delivered_take_over(struct delivered_versions *r,
                                    const struct delivered_versions *old);

/* Frees the memory too. */
void delivered_file_close(struct delivered_versions *r);

#endif
