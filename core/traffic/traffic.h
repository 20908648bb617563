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
#include "document/reader.h"
#include "kube/selector.h"
#include "traffic/schedule.h"

#define TRAFFIC_API_VERSION "cmesh/v1"
#define TRAFFIC_KIND "ShardTraffic"

#define TRAFFIC_TEXT_MAX (1024 * 1024) /* bytes of a document: what a ConfigMap holds */
#define TRAFFIC_VALUES_MAX 100000      /* JSON values of a document */
#define TRAFFIC_POLICIES_MAX 64        /* breakers and fault injections together */
#define TRAFFIC_ROWS_MAX 1024          /* resource rules of all breakers, and of all faults */
#define TRAFFIC_INTERCEPTS_MAX 256     /* rules that allow and forbid, of all breakers */
#define TRAFFIC_EXTERNAL_MAX 1024      /* urls of all breakers, and http matches of all faults */
#define TRAFFIC_PATTERNS_MAX 256       /* regular expressions in all */
#define TRAFFIC_URL_MAX 2048           /* bytes of a URL, a content or an expression */
#define TRAFFIC_NAMES_MAX 16384        /* groups, resources, verbs and namespaces that they name */
#define TRAFFIC_LIST_MAX 1000          /* entries in one list */
#define TRAFFIC_TOKEN_MAX 63           /* characters of a reset token */
#define TRAFFIC_DELAY_MAX_MS                                                                       \
    (10 * 60 * 1000) /* of one fault, and of all that one request meets                            \
                      */
#define TRAFFIC_TIME_MAX_MS (INT64_C(7) * 24 * 3600 * 1000) /* of intervals and windows */
#define TRAFFIC_HEALTH_MIN_MS 10                            /* of the window of TRAFFIC_HEALTH */
#define TRAFFIC_HALF_OPEN_MAX 1000                          /* probes */
#define TRAFFIC_PPM 1000000                                 /* parts of a percentage: always */

#define TRAFFIC_CHECKSUM_LEN DOCUMENT_CHECKSUM_LEN

enum traffic_trigger {
    TRAFFIC_NORMAL,       /* opens when a request is over the limit of its bucket */
    TRAFFIC_LIMITER_ONLY, /* refuses what is over the limit, and never opens */
    TRAFFIC_FORCE_OPENED, /* refuses all */
    TRAFFIC_FORCE_CLOSED, /* refuses nothing */
    TRAFFIC_HEALTH,       /* opens when the API server fails or drags */
    TRAFFIC_TRIGGERS,
};

enum traffic_recover {
    TRAFFIC_MANUAL,          /* stays open until its reset token changes */
    TRAFFIC_SLEEPING_WINDOW, /* closes, or with TRAFFIC_HEALTH lets probes through, after a time */
    TRAFFIC_RECOVERS,
};

enum traffic_kind {
    TRAFFIC_BREAKER,
    TRAFFIC_FAULT_INJECTION,
};

struct traffic_policy {
    enum traffic_kind kind;
    const char *name;            /* of the object, in the shard's namespace */
    const char *uid;             /* "": not known, as in documents that were compiled offline */
    const char *spec_hash;       /* of the object's spec, for its status; "": not said */
    const struct selector *pods; /* which pods of the shard it is for */
};

/* How many tokens a bucket holds, and how fast it fills: `limit` in each interval. It begins full.
 * A limit of 0 never refills it; a burst of 0 refuses everything. */
struct traffic_bucket {
    uint32_t burst;
    uint32_t limit;
    uint64_t interval_ms; /* at least 1 */
};

/* When TRAFFIC_HEALTH opens: of the requests that were answered within the window, if there are at
 * least so many, that part failed, or that part was slow. */
struct traffic_health {
    uint64_t window_ms;
    uint32_t minimum_requests; /* at least 1 */
    uint32_t error_percent;    /* 1 to 100; 0: errors do not open it */
    uint64_t slow_ms;          /* until the head of the answer; 0: slowness does not open it */
    uint32_t slow_percent;     /* 1 to 100 with slow_ms */
    uint32_t half_open;        /* probes that all must be well before it closes, at least 1 */
};

struct traffic_limiting {
    const struct traffic_policy *policy;
    const char *name; /* unique in the policy */
    enum traffic_trigger trigger;
    bool has_bucket;
    struct traffic_bucket bucket;
    uint32_t max_in_flight; /* 0: any number */
    enum traffic_recover recover;
    uint64_t window_ms;           /* of TRAFFIC_SLEEPING_WINDOW, at least 1 */
    struct traffic_health health; /* with TRAFFIC_HEALTH */
    const char *reset;            /* a new token closes the breaker once; "": there is none */
};

/* Allows or forbids requests to other places than the API server; external.h matches. */
struct traffic_intercept {
    const struct traffic_policy *policy;
    const char *name;    /* unique among the policy's */
    bool whitelist;      /* else it forbids */
    const char *methods; /* for messages: "GET, POST" */
};

struct traffic_fault {
    const struct traffic_policy *policy;
    const char *name;      /* unique in the policy */
    uint64_t delay_ms;     /* 0: none */
    uint32_t delay_ppm;    /* how many of TRAFFIC_PPM requests are delayed */
    unsigned abort_status; /* 400 to 599; 0: none */
    uint32_t abort_ppm;
    const struct schedule *when; /* NULL: always */
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
