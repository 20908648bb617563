/* SPDX-License-Identifier: Apache-2.0 */
/*
 * external_table.h - what rules for other places than the API server are compiled to.
 *
 * Add all, build, then look up. Hosts that rules name are sorted: those of a request are found by
 * halves, and only what is said of them is looked at.
 */
#ifndef CORE_TRAFFIC_EXTERNAL_TABLE_H
#define CORE_TRAFFIC_EXTERNAL_TABLE_H

#include <cjson/cJSON.h>

#include "traffic/origin_text.h"
#include "traffic/pattern.h"
#include "traffic/traffic.h"

/* A list of methods, as the document has it. */
struct external_methods {
    const cJSON *list;
    bool any; /* with a star */
};

/* Expressions beside one another in the table. */
struct external_patterns {
    size_t first;
    size_t count;
};

struct external_intercept {
    struct external_methods methods;
    struct external_patterns patterns;
};

/* A Normal content of an intercept. */
struct external_name {
    const char *host;
    unsigned port; /* 0: the scheme's own */
    uint16_t intercept;
};

struct external_url {
    const char *host;
    bool below_host;
    bool https;
    unsigned port;
    bool below_path;
    struct slice path;
    bool has_query;
    struct slice query;
    const char *method; /* NULL: any */
    uint16_t row;
};

/* A text that a http match compares. */
enum external_how { EXTERNAL_ANY, EXTERNAL_EXACT, EXTERNAL_REGEX };

struct external_http {
    enum external_how host;
    const char *host_text; /* EXTERNAL_EXACT */
    unsigned host_port;
    const struct pattern *host_pattern;
    enum external_how path;
    struct slice path_text;
    const struct pattern *path_pattern;
    const char *method;   /* NULL: any */
    const cJSON *headers; /* NULL: none are named */
};

struct external_text;

struct external_table {
    struct pattern *patterns[TRAFFIC_PATTERNS_MAX];
    size_t pattern_count;
    struct pattern_scratch *scratch; /* NULL: there are no expressions */
    uint64_t exhausted;              /* since the table was built; of look-ups, which count here */
    struct external_intercept intercepts[TRAFFIC_INTERCEPTS_MAX];
    struct external_name *names; /* by host */
    size_t name_count;
    size_t name_room;
    struct external_url *urls;               /* by host, below_host, https and port */
    uint16_t url_rule[TRAFFIC_EXTERNAL_MAX]; /* of each row; never falls */
    size_t url_count;
    struct external_http *http;
    uint16_t http_rule[TRAFFIC_EXTERNAL_MAX]; /* of each; never falls */
    size_t http_count;
    struct external_text *texts; /* what is not the document's */
};

/* Room for so many. 0 or -ENOMEM. */
MUST_CHECK int external_table_init(struct external_table *x, size_t urls, size_t http);
void external_table_deinit(struct external_table *x);

/* A copy that lives as long as the table, with a NUL behind it. NULL: out of memory. */
MUST_CHECK const char *external_table_text(struct external_table *x, struct slice text);

/* -E2BIG: there are too many; or as pattern_compile. */
MUST_CHECK int external_table_pattern(struct external_table *x, const char *text, bool any_case,
                                      const struct pattern **out, struct err *e);
/* 0 or -ENOMEM. */
MUST_CHECK int external_table_name(struct external_table *x, size_t intercept,
                                   const struct origin_host *host);
/* There must be room. `method` NULL: any. 0 or -ENOMEM. */
MUST_CHECK int external_table_url(struct external_table *x, size_t rule,
                                  const struct origin_url *url, const char *method);

/* 0 or -ENOMEM. */
MUST_CHECK int external_table_build(struct external_table *x);

#endif
