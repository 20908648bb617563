/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivered_versions.h - from which points of the past a client may go on under the selector in
 * force.
 *
 * A client that listed under one selector and then watches "from version N" under another would
 * never hear of what it gained, nor that it lost anything. So localproxy remembers which points it
 * gave out under which selector, and answers 410 Expired to a request that goes on from a point of
 * another one: the client lists again.
 *
 * Glossary: a *view* is what one client looks at: path, its own label and field selector, as a
 * hash. A *point* is a resource version (of a whole list), a range of them (those of a watch that
 * ended: the client may have seen all of it or less), or a `continue` token, as a hash. A point is
 * *fresh* if it was given out under the selector now in force, *stale* under another. The *ceiling*
 * of a resource is the highest version given out under any other selector than the one in force:
 * what is above it can only have been learnt since.
 *
 * Two clients may share a view and even a version, so points are counted: each is good for one
 * watch. Where a fresh and a stale point fit alike, nobody can tell whose request it is: it is
 * refused, and both points stay for their own clients, however many others come before. At worst
 * clients list again until the version is another one, which in a cluster where nothing happens is
 * within the 10 seconds in which kube-apiserver renews its own lease.
 *
 * All of it can be kept in a file, which outlives the process however that ends: what it says is at
 * any moment what clients may have seen. So after a restart nothing is doubted, and a client whose
 * view is the same goes on as if nothing had been.
 *
 * Versions are compared as numbers. Kubernetes calls them opaque for clients; those of
 * kube-apiserver are revisions of etcd. What is no number is never compared: DELIVERED_ANY.
 */
#ifndef LOCALPROXY_GUARD_DELIVERED_VERSIONS_H
#define LOCALPROXY_GUARD_DELIVERED_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Bounds: points and resources that are remembered; the oldest are forgotten first. */
#define DELIVERED_POINTS_MAX 4096
#define DELIVERED_RESOURCES_MAX 1024
/* Open watches of which a file keeps account. While there are more, what all clients have seen
 * would not be known after a restart. */
#define DELIVERED_ACCOUNTS_MAX 1024

struct delivered_versions;

/* What a request looks at. All are hashes; `selector` is rules_entry.id, 0 without a limit. */
struct delivered_key {
    uint64_t resource; /* group and resource */
    uint64_t view;
    uint64_t selector;
};

/* Versions from..to, both inclusive. */
struct delivered_range {
    uint64_t from;
    uint64_t to;
};

/* The selector of what was shown in part under one selector and in part under another: never the
 * one in force. */
#define DELIVERED_MIXED UINT64_C(1)

/* A version that is no number of 64 bits: below every ceiling, and only in DELIVERED_ANY. */
#define DELIVERED_OPAQUE UINT64_C(1)

/* When the version is not known: fits every one. */
#define DELIVERED_ANY ((struct delivered_range){.from = 0, .to = UINT64_MAX})

/* Nothing to go on from: from > to. */
#define DELIVERED_NOTHING ((struct delivered_range){.from = UINT64_MAX, .to = 0})

/* What an open watch has delivered so far, kept by whoever passes its events: before they go out,
 * never after. Plain integers, for it may come from a file. */
struct delivered_account {
    struct delivered_key key;         /* of what is delivered now */
    struct delivered_range delivered; /* under key.selector */
    struct delivered_range mixed;     /* in part under another one */
    uint8_t synced;                   /* all initial events came; else nothing to go on from */
    uint8_t unknown;                  /* an event's version could not be read */
    uint8_t changing;                 /* events towards another selector may have been written */
    uint8_t open;
    struct delivered_account *next; /* when it is not open */
};

/* `doubt_ms`: how long a version that is not known is refused; 0: once. NULL without memory. */
MUST_CHECK struct delivered_versions *delivered_new(uint64_t doubt_ms);
/* The same, kept in the file `path`, which is made with mode 0600 where there is none: then nobody
 * has seen anything yet. What a process left there that ended is taken over; what another version
 * wrote, or was written before the machine started, is not: as delivered_new. NULL with the reason:
 * no such folder, no room (docs/localproxy.md has the size), another process has it. */
MUST_CHECK struct delivered_versions *delivered_open(const char *path, uint64_t doubt_ms,
                                                     struct err *e);
/* Leaves the file. NULL is ignored. */
void delivered_free(struct delivered_versions *r);

/* `version` is the newest of the resource that there is: clients have none above it from before a
 * start of localproxy. A list from the API server's memory (resourceVersion=0) says less: it may
 * lag behind, and a version is that of the last change of the resource, while lists of what there
 * is have that of the last change of anything. */
void delivered_newest(struct delivered_versions *r, uint64_t resource, uint64_t version);

/* A watch that has ended without a 410 gave the client `range` under key->selector, or a whole list
 * (its last page) did: one version, or DELIVERED_ANY. */
void delivered_give(struct delivered_versions *r, const struct delivered_key *key,
                    struct delivered_range range);

/* A watch is asked for, right after delivered_watch took its point: an account of `from` (0:
 * nothing), from where its client goes on if this process ends now. NULL without memory. */
MUST_CHECK struct delivered_account *delivered_account_open(struct delivered_versions *r,
                                                            const struct delivered_key *key,
                                                            uint64_t from);
/* It has ended, or never began. `told`: with a 410, so that the client lists again; else it may go
 * on from what it was shown: delivered_give. */
void delivered_account_close(struct delivered_versions *r, struct delivered_account *a, bool told);

/* An open watch delivered `version` under key->selector: raises what the ceiling is made of. Cheap:
 * called for each event. */
void delivered_saw(struct delivered_versions *r, const struct delivered_key *key, uint64_t version);

/* The time, for what follows; ms of a clock that never goes back. */
void delivered_clock(struct delivered_versions *r, uint64_t now_ms);

/* Whether a watch may go on from `version` (not 0); takes the point if so.
 *
 * Yes above the ceiling, and from a fresh point that no stale one equals. No from a stale point,
 * which stays: that its client was told so is not certain. What is not known at all (after a start
 * without a file every version is, until delivered_newest) is refused for doubt_ms from
 * the first time it is asked for: a client that still comes with it then learnt it some other way,
 * from a single object perhaps. */
bool delivered_watch(struct delivered_versions *r, const struct delivered_key *key,
                     uint64_t version);

/* A page of a list ended with the `continue` token of that hash, and whether the next page may be
 * asked with it. A page may be asked more than once. */
void delivered_give_page(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t token);
bool delivered_page(struct delivered_versions *r, const struct delivered_key *key, uint64_t token);

#endif
