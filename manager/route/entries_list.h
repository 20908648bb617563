/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entries_list.h - all entries of one kind of configuration: which fit, and in which order.
 */
#ifndef MANAGER_ROUTE_ENTRIES_LIST_H
#define MANAGER_ROUTE_ENTRIES_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define ENTRIES_MAX 150                             /* API servers keep clients for 200 targets, */
#define ENTRIES_BYTES_MAX ((size_t)900 * 1024)      /* and etcd has 1.5 MiB for an object */
#define ENTRIES_ALL_BYTES_MAX ((size_t)1200 * 1024) /* with those of another installation */

/* What one original is to have. */
struct entries_claim {
    const char *configuration; /* name */
    const char *created;       /* its creationTimestamp */
    bool has_entries;          /* in the routes object already */
    const cJSON *entries;      /* array */
    const cJSON *least;        /* array: what it needs if these do not fit, for nobody else is
                                  asked; NULL: nothing */
    bool fits;                 /* set by entries_list_fit: `entries` do; */
    size_t least_count;        /* or else so many of `least`, the first ones */
};

/* Sets what fits. Those that have entries come first, then the oldest; ties by name. Nobody takes
 * the room of what others have in the routes object already (`now`, array; NULL: nothing), so who
 * grows too much does not fit. A claim does not fit either when the name of one of its entries is
 * taken. */
void entries_list_fit(struct entries_claim *claims, size_t count, const cJSON *now);

/* The `webhooks` of the routes object with all that fits, by the names of configurations. The
 * caller frees. */
cJSON *entries_list_join(const struct entries_claim *claims, size_t count);

/* The routes object may also have entries of another installation of the mesh, whose namespaces
 * have other labels: they demand that another label than our `control` exists. */

/* Whether `now` (array; NULL: nothing) has exactly our entries, besides those. */
bool entries_list_is(const cJSON *now, const cJSON *own, const char *control);
/* Of ours among them, for this process (base/keyed_hash.h). */
uint64_t entries_list_hash(const cJSON *now, const char *control);
/* Appends copies of those, unless the object would be too large: a war is better than that none of
 * ours can be written. */
void entries_list_add_foreign(cJSON *own, const cJSON *now, const char *control);

#endif
