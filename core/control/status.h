/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - which rules a program has, in one form for all answers that say so.
 *
 * These are GET /v1/rules of the control socket (state.h), and GET /status of localproxy and of
 * rulesync, which manager reads. README.md beside this file documents both.
 *
 * What is read comes from whoever has the address: everything is checked, and longer than its place
 * is nothing. Readers skip what they do not know.
 */
#ifndef CORE_CONTROL_STATUS_H
#define CORE_CONTROL_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/slice.h"
#include "control/state.h"

#define CONTROL_STATUS_LOCALPROXY "localproxy"
#define CONTROL_STATUS_RULESYNC "rulesync"

/* What the User-Agent of a manager that asks begins with. */
#define CONTROL_MANAGER_AGENT "cmesh/"

/* ---- rules, wherever they are told ---- */

/* Adds shard, generation and checksum to `object`. False: out of memory. */
bool control_rules_add(cJSON *object, const struct control_state *s);

/* Reads these three and `since`, whether it is a text of RFC 3339 or a number of seconds, and sets
 * `enforcing`. `path` names the object in messages. 0, or -EPROTO with `e` saying what is missing
 * or wrong; then *out is undefined. */
MUST_CHECK int control_rules_read(const cJSON *object, const char *path, struct control_state *out,
                                  struct err *e);

/* ---- GET /status ---- */

/* localproxy's: what stands at "rules". */
struct control_proxy_status {
    struct control_state rules; /* enforcing: they are in force; there is no reason otherwise */
    bool settled;               /* of earlier rules no write is under way any more */
    enum rules_version reads;   /* the newest version of documents; read only: ours is written */
};

/* Adds to the object at "rules". What there is no memory for is left out, here and below. */
void control_proxy_status_add(cJSON *rules, const struct control_proxy_status *s);
/* 0, or with `e` set -EPROTO; then *out is undefined. */
MUST_CHECK int control_proxy_status_read(const cJSON *root, struct control_proxy_status *out,
                                         struct err *e);

/* localproxy's: who comes to it, and who goes around it. */
struct control_proxy_use {
    uint64_t uptime_s; /* read only: the admin server says it */
    bool clients_known;
    uint64_t requests; /* of clients since the start */
    int64_t first;     /* the first and the last of them, seconds since 1970; 0: none. Not read. */
    int64_t last;
    bool bypass_known;
    uint64_t bypass_connections; /* that last, of others in the pod to the API server */
    const char *bypass_error;    /* why they are not known; NULL: no reason. Not read. */
};

/* Adds to the root. */
void control_proxy_use_add(cJSON *root, const struct control_proxy_use *use);
/* What is missing, or makes no sense, is not known. */
void control_proxy_use_read(const cJSON *root, struct control_proxy_use *out);

/* What localproxy has done for clients: */
struct control_load_counts {
    uint64_t requests;
    uint64_t events;  /* of watches */
    uint64_t objects; /* in lists */
};

/* Those of namespaces with sharding hash i (rules/sharding.h) stand at i, and there those that have
 * no namespace, or ask for all of them. */
#define CONTROL_LOAD_BUCKETS 32
#define CONTROL_LOAD_OTHERS CONTROL_LOAD_BUCKETS

/* localproxy's: what stands at "load", if it counts that. */
struct control_load {
    bool known;       /* read only; false: it does not count, or makes no sense */
    uint64_t since_s; /* for how long it has counted: seconds */
    struct control_load_counts of[CONTROL_LOAD_BUCKETS + 1];
    uint64_t unread; /* lists and watches of which nothing could be counted */
};

/* Adds it to the root and returns it, with the buckets that have any counts. */
cJSON *control_load_add(cJSON *root, const struct control_load *l);
/* What is missing is 0; one count that makes no sense, and nothing is known. */
void control_load_read(const cJSON *root, struct control_load *out);

/* localproxy's: what rulesync has told it of itself. */
void control_proxy_source_add(cJSON *root, const char *trouble);
/* NULL: it has told nothing, or is too old for that. Belongs to the tree; may hold any characters.
 */
const char *control_proxy_source_read(const cJSON *root);

/* localproxy's: what stands at "lease": for how long it enforces its rules without a word from the
 * API server (--rules-lease). */
struct control_rules_lease {
    uint64_t seconds; /* 0: it keeps to none; else from CONTROL_RULES_LEASE_MIN_S to ..._MAX_S */
    bool expired;     /* it shows nothing, until it can renew its Lease */
    uint64_t remaining_s; /* below not read */
};

#define CONTROL_RULES_LEASE_MIN_S 10
#define CONTROL_RULES_LEASE_MAX_S 3600

/* Adds it to the root, if there is one; `remaining` too, which changes all the time. */
void control_rules_lease_add(cJSON *root, const struct control_rules_lease *lease, bool remaining);
/* What is missing, or makes no sense, is none. */
void control_rules_lease_read(const cJSON *root, struct control_rules_lease *out);

/* localproxy's: what stands at "traffic": the traffic document (core/traffic) and what its rules do
 * to requests, as far as their policies select the pod. */
struct control_traffic_status {
    bool known; /* read only; false: it is too old for traffic policies, or makes no sense */
    struct control_state document; /* enforcing: it is in force; there is no reason otherwise */
    const char *error; /* why a document was refused, or the pod's labels are not known; NULL:
                          nothing is wrong. Belongs to the tree when read. */
    unsigned left_out; /* rules for which there was no room */
};

enum control_breaker_state {
    CONTROL_BREAKER_CLOSED,
    CONTROL_BREAKER_OPENED,
    CONTROL_BREAKER_HALF_OPENED,
};

/* "Closed", "Opened" or "HalfOpened". */
const char *control_breaker_state_text(enum control_breaker_state state);

/* A rule of a breaker. */
struct control_breaker {
    const char *policy;
    const char *uid; /* of the policy; "": not known */
    const char *rule;
    enum control_breaker_state state;
    int64_t since;    /* of the last transition, seconds since 1970; 0: there was none */
    int64_t until;    /* when it ends to be open; 0: not open, or not by itself */
    const char *why;  /* it is not closed; "": not said */
    uint64_t refused; /* requests, since localproxy's start */
};

/* A rule of a fault injection. */
struct control_fault {
    const char *policy;
    const char *uid;
    const char *rule;
    uint64_t delayed; /* requests, since localproxy's start */
    uint64_t aborted;
};

/* A rule that allows and forbids requests to other places than the API server. */
struct control_intercept {
    const char *policy;
    const char *uid;
    const char *rule;
    uint64_t refused; /* requests, since localproxy's start */
};

/* At most so many rules of breakers, faults and intercepts together are reported. */
#define CONTROL_TRAFFIC_RULES_MAX 256
/* Bytes of a text in them; what is longer is not read. */
#define CONTROL_TRAFFIC_TEXT_MAX 253

/* Adds it to the root and returns it, for what follows. */
cJSON *control_traffic_status_add(cJSON *root, const struct control_traffic_status *s);
/* Each at the end of its list. False: out of memory. */
bool control_traffic_breaker_add(cJSON *traffic, const struct control_breaker *row);
bool control_traffic_fault_add(cJSON *traffic, const struct control_fault *row);
bool control_traffic_intercept_add(cJSON *traffic, const struct control_intercept *row);

void control_traffic_status_read(const cJSON *root, struct control_traffic_status *out);
/* All that make sense, one after the other: *row NULL begins, and is where it continues. False:
 * there are no more. The texts are views into the tree. */
bool control_traffic_next_breaker(const cJSON *root, const cJSON **row,
                                  struct control_breaker *out);
bool control_traffic_next_fault(const cJSON *root, const cJSON **row, struct control_fault *out);
bool control_traffic_next_intercept(const cJSON *root, const cJSON **row,
                                    struct control_intercept *out);

/* localproxy's: what stands at "egress": the way for requests to other places. */
struct control_egress_status {
    bool known;          /* read only; false: it is too old to have one, or makes no sense */
    const char *address; /* "": there is none, and rules for such requests have no effect. Belongs
                            to the tree when read. */
    uint64_t requests;   /* since localproxy's start, tunnels included; below not read */
    uint64_t refused;    /* of them by localproxy itself */
    uint64_t failed;     /* of them the origin could not be reached, or broke off */
    uint64_t tunnels;    /* now */
};

/* Adds it to the root. */
void control_egress_status_add(cJSON *root, const struct control_egress_status *s);
void control_egress_status_read(const cJSON *root, struct control_egress_status *out);

/* rulesync's: the parts that tell what it cannot do, in the order in which they hinder. */
enum control_rulesync_part {
    CONTROL_SOURCE,   /* where documents come from */
    CONTROL_SEEN,     /* the document that is there */
    CONTROL_ENFORCED, /* what localproxy says */
};

cJSON *control_rulesync_part_add(cJSON *root, enum control_rulesync_part part);
/* An error that is there now, since then (seconds since 1970; 0: unknown). */
void control_rulesync_error_add(cJSON *part, const char *text, int64_t since);
/* Of the source. */
void control_rulesync_warning_add(cJSON *part, const char *text);
/* Why it does not take or hand over what is published: the first error, else the warning, else "".
 * Belongs to the tree; may hold any characters. */
const char *control_rulesync_trouble(const cJSON *root);

/* The document with which `program` answered; to be deleted. NULL with `e` set: -EPROTO, also when
 * another program did, or -ENOMEM. */
MUST_CHECK cJSON *control_status_parse(struct slice body, const char *program, struct err *e);

/* ---- the Lease by which localproxy tells the same ----
 *
 * One for each pod, in its namespace: "cmesh-" and the pod's name. The annotation holds what GET
 * /status would say, as far as manager reads that, and whose it is. */

#define CONTROL_LEASE_NAME "cmesh-"
#define CONTROL_LEASE_ANNOTATION "cmesh.kusionstack.io/status"
/* Labels of each, and the selector that finds them. */
#define CONTROL_LEASE_PART "app.kubernetes.io/part-of"
#define CONTROL_LEASE_COMPONENT "app.kubernetes.io/component"
#define CONTROL_LEASE_SELECTOR CONTROL_LEASE_COMPONENT "=localproxy," CONTROL_LEASE_PART "=cmesh"

/* Annotation on one: the generation of rules below which its pod may enforce none any more. A
 * manager that gives away what the pod had puts it there, once the pod has certainly stopped by its
 * lease. localproxy takes it off when it enforces that generation or a later one. */
#define CONTROL_LEASE_REQUIRED "cmesh.kusionstack.io/required-generation"
/* What localproxy itself puts there when its Lease was deleted while it could not renew it: a
 * manager is to say which. */
#define CONTROL_LEASE_REQUIRED_UNKNOWN "unknown"

/* The generation; 0: there is no such annotation; UINT64_MAX: none that makes sense, so that no
 * rules are good enough. `text`: of the annotation. */
uint64_t control_lease_required(const char *text);

/* Bytes of what the annotation with the document holds. */
#define CONTROL_LEASE_DOCUMENT_MAX 4096

/* Who is not asked by a manager renews its Lease this often, plus or minus a tenth: ms. */
#define CONTROL_LEASE_RENEW_MS 60000

struct control_pod {
    const char *name; /* "": not said */
    const char *uid;
};

/* Adds to the root. */
void control_pod_add(cJSON *root, const struct control_pod *pod);
/* Views into the tree. */
struct control_pod control_pod_read(const cJSON *root);

/* Adds a time as RFC 3339 has it; 0 is left out. */
void control_time_add(cJSON *object, const char *key, int64_t seconds);

#endif
