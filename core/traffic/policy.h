/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - the spec of a CircuitBreaker or a FaultInjection, read from the rows that describe it.
 *
 * The webhook, `manager compile` and localproxy read it here, so that all three agree on what is
 * valid. The rows (policy_rows.c) are the fields of the CustomResourceDefinitions, and the structs
 * are what requests are matched with.
 *
 * Glossary: a *limiting* is a rule of a breaker, a *fault* one of a fault injection; each names the
 * requests that it is for. An *intercept* allows or forbids requests to other places than the API
 * server.
 */
#ifndef CORE_TRAFFIC_POLICY_H
#define CORE_TRAFFIC_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/selector.h"
#include "schema/schema.h"
#include "traffic/pattern.h"
#include "traffic/schedule.h"

#define TRAFFIC_POLICIES_MAX 64    /* breakers and fault injections together */
#define TRAFFIC_ROWS_MAX 1024      /* resource rules of all breakers, and of all faults */
#define TRAFFIC_INTERCEPTS_MAX 256 /* rules that allow and forbid, of all breakers */
#define TRAFFIC_EXTERNAL_MAX 1024  /* urls of all breakers, and http matches of all faults */
#define TRAFFIC_PATTERNS_MAX 256   /* regular expressions in all */
#define TRAFFIC_URL_MAX 2048       /* bytes of a URL, a content or an expression */
#define TRAFFIC_NAMES_MAX                                                                          \
    16384                           /* groups, resources, verbs, namespaces, contents, methods and \
                                       headers that they name */
#define TRAFFIC_LIST_MAX 1000       /* entries in one list */
#define TRAFFIC_REQUIREMENTS_MAX 64 /* of a selector */
#define TRAFFIC_ZONE_RULE_MAX 255   /* bytes of its rule */
#define TRAFFIC_ZONE_NAME_MAX 100   /* bytes of the name of a time zone */
#define TRAFFIC_DELAY_MAX_MS                                                                       \
    (10 * 60 * 1000) /* of one fault, and of all that one request meets                            \
                      */
#define TRAFFIC_TIME_MAX_MS (INT64_C(7) * 24 * 3600 * 1000) /* of intervals and windows */
#define TRAFFIC_HEALTH_MIN_MS 10                            /* of the window of TRAFFIC_HEALTH */
#define TRAFFIC_HALF_OPEN_MAX 1000                          /* probes */
#define TRAFFIC_PPM SCHEMA_PPM                              /* parts of a percentage: always */

enum traffic_kind {
    TRAFFIC_BREAKER,
    TRAFFIC_FAULT_INJECTION,
    TRAFFIC_KINDS,
};

enum traffic_trigger {
    TRAFFIC_NORMAL,       /* opens when a request is over the limit of its bucket */
    TRAFFIC_LIMITER_ONLY, /* refuses what is over the limit, and never opens */
    TRAFFIC_FORCE_OPENED, /* refuses all */
    TRAFFIC_FORCE_CLOSED, /* refuses nothing */
    TRAFFIC_HEALTH,       /* opens when the API server fails or is slow */
    TRAFFIC_TRIGGERS,
};

enum traffic_recover {
    TRAFFIC_MANUAL,          /* stays open until its reset token changes */
    TRAFFIC_SLEEPING_WINDOW, /* closes, or with TRAFFIC_HEALTH lets probes through, after a time */
    TRAFFIC_RECOVERS,
};

struct traffic_policy; /* traffic.h */

/* Every combination of what is in these lists. An empty one, which only faults may have, is any. */
struct traffic_resource_rule {
    struct schema_texts groups;
    struct schema_texts resources;
    struct schema_texts verbs;
    struct schema_texts namespaces;
};

struct traffic_rest_rule {
    const char *url;
    const char *method; /* or "*" */
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

/* What its trigger does not use is zero. */
struct traffic_limiting {
    const struct traffic_policy *policy; /* set by the document, as is `reset` */
    const char *name;                    /* unique in the policy */
    enum traffic_trigger trigger;        /* TRAFFIC_TRIGGERS: it is wrong */
    bool has_bucket;
    struct traffic_bucket bucket;
    uint32_t max_in_flight; /* 0: any number */
    enum traffic_recover recover;
    uint64_t window_ms;           /* of TRAFFIC_SLEEPING_WINDOW, at least 1 */
    struct traffic_health health; /* with TRAFFIC_HEALTH */
    const char *reset;            /* a new token closes the breaker once; "": there is none */
    struct schema_list resources; /* struct traffic_resource_rule */
    struct schema_list urls;      /* struct traffic_rest_rule */
    const cJSON *properties;      /* not used; NULL: there are none */
};

enum { TRAFFIC_WHITELIST, TRAFFIC_BLACKLIST, TRAFFIC_INTERCEPT_TYPES };
enum { TRAFFIC_HOSTS, TRAFFIC_EXPRESSIONS, TRAFFIC_CONTENT_TYPES };

/* Allows or forbids requests to other places than the API server; external.h matches. */
struct traffic_intercept {
    const struct traffic_policy *policy; /* set by the document */
    const char *name;                    /* unique among the policy's */
    unsigned type;                       /* TRAFFIC_INTERCEPT_TYPES: it is wrong */
    unsigned content;                    /* TRAFFIC_CONTENT_TYPES: likewise */
    struct schema_texts contents;
    struct schema_texts methods;
    bool any_method;                       /* with "*" */
    const struct pattern *const *patterns; /* of TRAFFIC_EXPRESSIONS: one for each content */
};

/* A text that a request must have. None is set: any. */
struct traffic_text_match {
    const char *exact;
    const char *regex;             /* not used beside exact */
    const struct pattern *pattern; /* of the regex that is used */
};

struct traffic_header {
    const char *name;
    const char *value; /* "": any */
};

struct traffic_http {
    struct traffic_text_match host;
    struct traffic_text_match path;
    const char *method;         /* "" or "*": any */
    struct schema_list headers; /* struct traffic_header */
};

struct traffic_time {
    const char *start; /* "": any time of the day */
    const char *end;
    const char *zone; /* of the IANA database; "": UTC */
    struct schedule schedule;
};

/* What never happens is zero. */
struct traffic_fault {
    const struct traffic_policy *policy; /* set by the document */
    const char *name;                    /* unique in the policy */
    uint64_t delay_ms;                   /* 0: none */
    uint32_t delay_ppm;                  /* how many of TRAFFIC_PPM requests are delayed */
    uint32_t abort_status;               /* 400 to 599; 0: none */
    uint32_t abort_ppm;
    const struct schedule *when;     /* of `time`; NULL: always */
    struct schema_list resources;    /* struct traffic_resource_rule */
    struct schema_list http;         /* struct traffic_http */
    const struct traffic_time *time; /* NULL: always */
};

/* Of either kind; what the other one has is empty. */
struct traffic_spec {
    const cJSON *selector;       /* NULL: absent or wrong */
    const struct selector *pods; /* NULL: the selector is wrong. Without one: matches nothing */
    bool disabled;
    struct schema_list limitings;  /* struct traffic_limiting */
    struct schema_list intercepts; /* struct traffic_intercept */
    struct schema_list faults;     /* struct traffic_fault */
};

extern const struct schema_object circuit_breaker_spec;
extern const struct schema_object fault_injection_spec;

/* What is bounded in a document as a whole, and so in one policy. */
enum traffic_bound {
    TRAFFIC_BOUND_POLICIES,
    TRAFFIC_BOUND_LIMITINGS,
    TRAFFIC_BOUND_FAULTS,
    TRAFFIC_BOUND_LIMITING_ROWS,
    TRAFFIC_BOUND_FAULT_ROWS,
    TRAFFIC_BOUND_URLS,
    TRAFFIC_BOUND_HTTP,
    TRAFFIC_BOUND_INTERCEPTS,
    TRAFFIC_BOUND_PATTERNS,
    TRAFFIC_BOUND_NAMES,
    TRAFFIC_BOUNDS,
};

struct traffic_counts {
    size_t of[TRAFFIC_BOUNDS];
};

/* Adds `more`, if the sums are within the bounds; else nothing. */
MUST_CHECK bool traffic_counts_add(struct traffic_counts *sum, const struct traffic_counts *more);

/* What specs are read with, one after the other. It counts what they have in all, and owns what
 * their structs point to. All zero to begin with. */
struct traffic_reading {
    struct schema_memory memory;
    struct traffic_counts counts;
    struct pattern *patterns[TRAFFIC_PATTERNS_MAX];
    size_t pattern_count;
    struct selector *selectors[TRAFFIC_POLICIES_MAX];
    size_t selector_count;
    /* Set by the caller: as that of schema_reader; */
    void (*on_finding)(void *data, bool error, const char *text);
    /* and the clocks of the timeZone at that path, which reports what is wrong with it. NULL: they
     * are UTC's. */
    void (*zone)(struct schema_reader *r, const struct schema_path *at, const char *name,
                 struct time_zone *out);
    void *data;
};

/* To read them with, by the rows above and none others; the caller may set `text` and `root`. */
struct schema_reader traffic_reader(struct traffic_reading *x);
void traffic_reading_deinit(struct traffic_reading *x);

/* Whether it ever does anything. */
bool traffic_fault_acts(const struct traffic_fault *f);

#endif
