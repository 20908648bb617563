/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic.h - what is done to the requests of one shard's pods: the traffic document and its
 * compiled form.
 *
 * Glossary: a *policy* is one CircuitBreaker or FaultInjection, with the pods that it is for. A
 * *limiting* is a rule of a breaker, a *fault* one of a fault injection; each names the requests
 * that it is for. A *generation* grows with each change, for people to see; documents have no
 * order, and the one that is published is in force. The *checksum* is SHA-256 of the canonical
 * spec. README.md beside this file documents the format.
 *
 * It is an immutable, reference-counted snapshot (single-threaded): everything is compiled when it
 * is parsed, so that a look-up allocates nothing and cannot fail. match.h looks up.
 */
#ifndef CORE_TRAFFIC_TRAFFIC_H
#define CORE_TRAFFIC_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "document/document.h"
#include "kube/selector.h"
#include "traffic/policy.h"

#define TRAFFIC_API_VERSION "cmesh/v1"
#define TRAFFIC_KIND "ShardTraffic"

#define TRAFFIC_TEXT_MAX (1024 * 1024) /* bytes of a document: what a ConfigMap holds */
#define TRAFFIC_VALUES_MAX 100000      /* JSON values of a document */
#define TRAFFIC_TOKEN_MAX 63           /* characters of a reset token */
#define TRAFFIC_UID_MAX 63             /* bytes of the uid of a policy */
#define TRAFFIC_CHECKSUM_LEN DOCUMENT_CHECKSUM_LEN

struct traffic_policy {
    enum traffic_kind kind;
    const char *name;            /* of the object, in the shard's namespace */
    const char *uid;             /* "": not known, as in documents that were compiled offline */
    const char *spec_hash;       /* of the object's spec, for its status; "": not said */
    const struct selector *pods; /* which pods of the shard it is for */
};

struct traffic;

/* Parses and validates a whole document. The caller holds one reference. NULL on error; the message
 * has the line and the JSON path: -EINVAL, -E2BIG (over the bounds above) or -ENOMEM. */
MUST_CHECK struct traffic *traffic_parse(const char *text, size_t len, struct err *e);
struct traffic *traffic_ref(struct traffic *t);
/* The last one frees; NULL is fine. */
void traffic_unref(struct traffic *t);

uint64_t traffic_generation(const struct traffic *t);
/* "sha256:<hex>", of the canonical spec, whether the document named it or not. */
const char *traffic_checksum(const struct traffic *t);
const char *traffic_shard_namespace(const struct traffic *t);
const char *traffic_shard_name(const struct traffic *t);

/* In the order of evaluation: policies by name, and as the document lists the rules of each. */
size_t traffic_policy_count(const struct traffic *t);
const struct traffic_policy *traffic_policy_at(const struct traffic *t, size_t i);
size_t traffic_limiting_count(const struct traffic *t);
const struct traffic_limiting *traffic_limiting_at(const struct traffic *t, size_t i);
size_t traffic_intercept_count(const struct traffic *t);
const struct traffic_intercept *traffic_intercept_at(const struct traffic *t, size_t i);
size_t traffic_fault_count(const struct traffic *t);
const struct traffic_fault *traffic_fault_at(const struct traffic *t, size_t i);

/* Whether the state of one may go on as that of the other: same policy (name and uid) and name, and
 * all that decides when it opens and closes. The requests that they are
 * for, and the reset token, may differ. */
bool traffic_limiting_same(const struct traffic_limiting *a, const struct traffic_limiting *b);

/* Appends the document in canonical form, with its checksum. 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int traffic_to_json(const struct traffic *t, struct buf *out);

#endif
