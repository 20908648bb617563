/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_compile.h - from the policies of a namespace to the traffic document of one of its
 * shards.
 *
 * A policy that has no place is left out and never blocks the others: those that were created first
 * are taken first. Of a policy that is not valid the document keeps what was published last of the
 * same object, by its uid. What is written here the parser of the proxies takes (core/traffic).
 */
#ifndef MANAGER_POLICY_TRAFFIC_COMPILE_H
#define MANAGER_POLICY_TRAFFIC_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/selector.h"
#include "policy/policy.h"
#include "traffic/traffic.h"

/* What has become of a policy. */
enum traffic_outcome {
    TRAFFIC_COMPILED,
    TRAFFIC_KEPT,      /* not valid: what was published before stays */
    TRAFFIC_DISABLED,  /* left out, as are all that follow: it is switched off, or being deleted */
    TRAFFIC_INVALID,   /* and there is nothing to keep */
    TRAFFIC_EMPTY,     /* it has no rule that does anything */
    TRAFFIC_TOO_MANY,  /* over the bounds of a document (traffic.h) */
    TRAFFIC_TOO_LARGE, /* over the room that was given */
};

/* "Compiled", "TooLarge" and so on: a reason for a condition; static. */
const char *traffic_outcome_text(enum traffic_outcome o);
/* Whether the document has it. */
bool traffic_outcome_in(enum traffic_outcome o);

struct traffic_source {
    const char *ns; /* of the shard */
    const char *shard;
    uint64_t generation; /* from 1 */
    /* Those that may be for a pod of the shard (traffic_concerns), in any order, of both kinds. */
    const struct policy *const *list;
    size_t count;
    const struct traffic *published; /* what pods have now; NULL: nothing, or it is not known */
    size_t room;                     /* bytes that the text may have */
};

struct traffic_compile_result {
    enum traffic_outcome *outcomes;          /* the caller's, one for each of the list */
    size_t compiled;                         /* how many policies the document has */
    char checksum[TRAFFIC_CHECKSUM_LEN + 1]; /* of the document; "": there is none */
};

/* Appends the document in canonical form, or nothing if no policy is in it: then there is to be no
 * document at all. 0; -EINVAL with a message if the parser refuses what was written, which takes a
 * shard or namespace with a name that cannot be; -ENOBUFS: `out` has no room. */
MUST_CHECK int traffic_compile(const struct traffic_source *s, struct buf *out,
                               struct traffic_compile_result *r, struct err *e);

/* Whether the policy may be for a pod that this selector of a shard's pods selects, of the same
 * namespace. One that is not valid may be. `pods` NULL: which these are is not known. */
bool traffic_concerns(const struct selector *pods, const struct policy *p);

#endif
