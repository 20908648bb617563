/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - what localproxy says on its control socket: the rules that it enforces, or why not; and
 * the same of each further kind of document.
 *
 * README.md beside this file documents the protocol.
 */
#ifndef CORE_CONTROL_STATE_H
#define CORE_CONTROL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "kube/name.h"
#include "rules/rules.h"
#include "traffic/traffic.h"

#define CONTROL_VERSION 1
/* In the query of GET: what keeps the caller from handing over documents. */
#define CONTROL_TROUBLE "trouble"

/* What is handed over. Each has its own target, and none waits for another. */
enum control_document {
    CONTROL_RULES,
    CONTROL_TRAFFIC, /* that there are none may be handed over, too */
    CONTROL_DOCUMENTS,
};

/* "/v1/rules" */
const char *control_target(enum control_document d);
/* "rules": what messages call them. */
const char *control_document_text(enum control_document d);
/* Bytes of a document. */
size_t control_document_max(enum control_document d);

/* Bytes of an answer's body. */
#define CONTROL_BODY_MAX (16 * 1024)

struct control_state {
    bool enforcing; /* false: only `reason` says something */
    char shard_namespace[NAME_LABEL_MAX + 1];
    char shard_name[NAME_SUBDOMAIN_MAX + 1];
    uint64_t generation;
    char checksum[RULES_CHECKSUM_LEN + 1];
    int64_t since;            /* when they were put in force: seconds since 1970 */
    bool unsettled;           /* writes to what they took away are under way, or may be executed */
    char reason[ERR_MSG_MAX]; /* why none are enforced */
};

/* `r` enforced since `since`; NULL: none is, for `reason` (cut to fit; NULL or "": no rules were
 * given yet). */
void control_state_set(struct control_state *s, const struct rules *r, int64_t since,
                       const char *reason);
/* The same of traffic policies (NULL or "" as reason: there are none). */
void control_state_set_traffic(struct control_state *s, const struct traffic *t, int64_t since,
                               const char *reason);

/* Appends the JSON body. `changed` (of the answer to a PUT) is left out when NULL. 0, -ENOBUFS,
 * -ENOMEM, or -EINVAL when `since` is not in the years 1970 to 9999. */
MUST_CHECK int control_state_encode(const struct control_state *s, const bool *changed,
                                    struct buf *out);

/* Reads what control_state_encode wrote. `changed` is false when the body does not say; it may be
 * NULL. Fields that are not known are skipped: they may be added within a version. -EPROTO with
 * `e` saying which field is missing or wrong, or -ENOMEM; then *out is undefined. */
MUST_CHECK int control_state_decode(struct slice body, struct control_state *out, bool *changed,
                                    struct err *e);

/* Appends {"error":"..."}; bytes that are not UTF-8 become U+FFFD. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int control_error_encode(const char *why, struct buf *out);

/* The text of such a body, cut to fit; "" when `body` is none. */
void control_error_decode(struct slice body, char out[ERR_MSG_MAX]);

#endif
