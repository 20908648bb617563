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
 * what is above it can only have been learnt since. The *floor* is the highest version that a
 * client may have from before what is remembered here: 0 where all is remembered.
 *
 * Why nobody goes on from what other rules showed. Clients cannot be told apart: all that is known
 * of a request is its view and version. So it is accepted only if no client whatsoever may have got
 * this version of this view under another selector:
 *
 * 1. Who has a version of a view got it from a list or watch of that view, so there is a point that
 *    holds it, or the account of an open watch, from before the byte that makes the list or the
 *    event whole. A point is good for one watch, whose account takes its place; where several hold
 *    the version, those that are left are widened to hold what the one that was taken did. One that
 *    was told 410 by the end of its watch has nothing any more once it has read that. It may lose
 *    its connection before, and comes back then: for doubt_ms it may have what the watch gave.
 * 2. A stale point stays for ever. That one request was refused does not tell whose it was, and who
 *    has the point may come at any time: no number of refusals uses it up. When points are pushed
 *    out for want of room, all versions of the resource up to them count as stale, also when the
 *    resource itself was forgotten.
 * 3. Above both ceiling and floor nothing was ever given out under another selector. A request is
 *    accepted, wherever its client has the version from: a single object, say.
 * 4. Otherwise it is accepted if its version is above the floor, a fresh point of its view holds
 *    it, and no stale one does, nor what a watch gave that was told 410 under another selector. At
 *    the floor that point must hold nothing else, as a list's.
 * 5. What is left is in doubt, and refused for doubt_ms from when it is first asked for.
 *
 * A client that watches from the version of a single object has no point, and may take that of
 * another client with the same view. The other one is in doubt then, and lists again.
 *
 * So where a fresh and a stale point hold the same version, all are refused, those that have just
 * listed too, until the version of a list is another one. That it will be is seen to in two ways.
 * The lists that follow a refusal, or are sure of one, ask for the newest version
 * (delivered_list_newest): that of the last change of anything, and kube-apiserver itself writes at
 * least every 10 seconds; out of its memory a list of what does not change has the same version for
 * ever. And a client that has listed in vain is refused with a pause (delivered_pause), so that no
 * loop is a hot one, also where an aggregated API server's version does not move at all.
 *
 * What was given out and could not be read may be any version: it is stale up to the end of time
 * for all other selectors, until a list of the newest version under one of them (delivered_newest).
 * Versions are compared as numbers; those of Kubernetes are revisions of etcd. Those that are no
 * numbers (DELIVERED_OPAQUE), as some aggregated API servers have them, cannot be compared. After a
 * change of the selector they are refused for doubt_ms from the first time that one is asked for;
 * that is no proof, but all that can be done.
 *
 * After a start without a file a client from before may have any version up to the present. Two
 * things bound it, whichever is lower: where the API server was when the process began
 * (delivered_started), and the newest version that a list has told since (delivered_newest). A list
 * from the API server's memory may be where it was before, and then proves nothing. So lists are
 * asked for the newest version at first, when all clients list. Later a list may come from memory:
 * its version mostly is above the floor by then. Where the resource has not changed it is not, and
 * a watch from it is in doubt: its client is told to list once more. One case cannot be told apart:
 * who listed just at the floor, before the start or since, if nothing at all has changed in
 * between.
 *
 * All of it can be kept in a file, which outlives the process however that ends: what it says is at
 * any moment what clients may have seen. So after a restart nothing is doubted, and a client whose
 * view is the same goes on as if nothing had been.
 */
#ifndef LOCALPROXY_UPSTREAM_DELIVERED_VERSIONS_H
#define LOCALPROXY_UPSTREAM_DELIVERED_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Bounds: points and resources that are remembered; the oldest are forgotten first. */
#ifndef DELIVERED_POINTS_MAX
#define DELIVERED_POINTS_MAX 4096
#define DELIVERED_RESOURCES_MAX 1024
#endif
/* Open watches of which a file keeps account. While there are more, what all clients have seen
 * would not be known after a restart. */
#define DELIVERED_ACCOUNTS_MAX 1024

struct delivered_versions;
struct pending_record;

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

/* The smallest that holds both. */
static inline struct delivered_range delivered_join(struct delivered_range a,
                                                    struct delivered_range b)
{
    return (struct delivered_range){
        .from = a.from < b.from ? a.from : b.from,
        .to = a.to > b.to ? a.to : b.to,
    };
}

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
 * has seen anything yet. What a process left there that ended is taken over; what was written in
 * another format, for an upstream of another name, or before the machine started is not: as
 * delivered_new. NULL with the reason: no such folder, no room (docs/localproxy.md has the size),
 * another process has it. */
MUST_CHECK struct delivered_versions *delivered_open(const char *path, const char *upstream,
                                                     uint64_t doubt_ms, struct err *e);
/* Leaves the file. NULL is ignored. */
void delivered_free(struct delivered_versions *r);

/* What the process before has left of its writes (upstream/pending_writes.h), kept in the same
 * file. Lives as long as `r`. */
struct pending_record *delivered_writes(struct delivered_versions *r);

/* A list under key->selector that was asked for since that is in force told `version`, the newest
 * of the resource that there is: clients have none above it from before a start of localproxy, nor
 * from answers under other selectors that could not be read. A list from the API server's memory
 * (resourceVersion=0) says less: it may lag behind, and a version is that of the last change of the
 * resource, while lists of what there is have that of the last change of anything. */
void delivered_newest(struct delivered_versions *r, const struct delivered_key *key,
                      uint64_t version);

/* The resource was at `version` since this process began: nobody has one above it from before. */
void delivered_started(struct delivered_versions *r, uint64_t resource, uint64_t version);

/* Whether a watch from `version` would be refused for no other reason than that a client may have
 * it from before this process, so that delivered_started may be of help. */
bool delivered_is_doubted(struct delivered_versions *r, const struct delivered_key *key,
                          uint64_t version);

/* What clients had before this process began is known, from a file: delivered_started is not
 * needed. */
bool delivered_past_is_known(const struct delivered_versions *r);

/* A watch that has ended without a 410 gave the client `range` under key->selector, or a list of
 * which the version could not be read is about to: DELIVERED_ANY. */
void delivered_give(struct delivered_versions *r, const struct delivered_key *key,
                    struct delivered_range range);
/* A whole list (its last page) is about to give `version`. `newest`: it was asked for the newest.
 */
void delivered_give_list(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t version, bool newest);

/* A watch is asked for, right after delivered_watch took its point: an account of `from` (0:
 * nothing), from where its client goes on if this process ends now. NULL without memory. */
MUST_CHECK struct delivered_account *delivered_account_open(struct delivered_versions *r,
                                                            const struct delivered_key *key,
                                                            uint64_t from);
/* It has ended, or never began. `told_ms`: when, by delivered_clock, if with a 410, so that the
 * client lists again, if it reads that; 0: it may go on from what it was shown: delivered_give. */
void delivered_account_close(struct delivered_versions *r, struct delivered_account *a,
                             uint64_t told_ms);

/* An open watch delivered `version` under key->selector: raises what the ceiling is made of. Cheap:
 * called for each event. */
void delivered_saw(struct delivered_versions *r, const struct delivered_key *key, uint64_t version);

/* The time, for what follows; ms of a clock that never goes back. */
void delivered_clock(struct delivered_versions *r, uint64_t now_ms);

/* Whether a watch may go on from `version` (not 0), as delivered_verdict.h has it; takes the point
 * if so. What is in doubt is refused for doubt_ms from the first time it is asked for: a client
 * that still comes with it then learnt it some other way, from a single object perhaps. */
bool delivered_watch(struct delivered_versions *r, const struct delivered_key *key,
                     uint64_t version);

/* How long the answer to a watch that was refused should wait, in ms: 0, if it has not listed
 * since; otherwise the longer the oftener it was refused. */
uint64_t delivered_pause(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t version);

/* Whether a list should be asked for at its newest version, wherever its client would have it from:
 * a watch of its view was refused not long ago, or would be from the last version that was seen of
 * the resource, or clients from before this process may have the
 * versions of older ones (not if doubt_ms is 0). The latter is so for a first list of a resource,
 * and for all until those clients have come back: for doubt_ms, two minutes at most. */
bool delivered_list_newest(struct delivered_versions *r, const struct delivered_key *key);

/* A page of a list ended with the `continue` token of that hash, and whether the next page may be
 * asked with it. A page may be asked more than once. */
void delivered_give_page(struct delivered_versions *r, const struct delivered_key *key,
                         uint64_t token);
bool delivered_page(struct delivered_versions *r, const struct delivered_key *key, uint64_t token);

#endif
