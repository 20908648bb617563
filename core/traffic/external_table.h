/* SPDX-License-Identifier: Apache-2.0 */
/*
 * external_table.h - what rules for other places than the API server are compiled to.
 *
 * Add all, build, then look up. Hosts that rules name are sorted: those of a request are found by
 * halves, and only what is said of them is looked at.
 */
#ifndef CORE_TRAFFIC_EXTERNAL_TABLE_H
#define CORE_TRAFFIC_EXTERNAL_TABLE_H

#include "traffic/policy.h"

/* A content of an intercept with hosts. */
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

struct external_http {
    const struct traffic_http *match;
    const char *host; /* match->host.exact as requests have it */
    unsigned port;
    struct slice path;  /* match->path.exact likewise */
    const char *method; /* NULL: any */
};

struct external_table {
    struct schema_memory *memory;
    struct pattern_scratch *scratch; /* NULL: there are no expressions */
    uint64_t exhausted;              /* since the table was built; of look-ups, which count here */
    struct external_name *names;     /* by host */
    size_t name_count;
    struct external_url *urls;               /* by host */
    uint16_t url_rule[TRAFFIC_EXTERNAL_MAX]; /* of each row; never falls */
    size_t url_count;
    struct external_http *http;
    uint16_t http_rule[TRAFFIC_EXTERNAL_MAX]; /* of each; never falls */
    size_t http_count;
};

/* Room for what was counted, in that memory, which must outlive it. These return 0 or -ENOMEM. */
MUST_CHECK int external_table_init(struct external_table *x, struct schema_memory *m,
                                   const struct traffic_counts *counts);
/* Entries of the rule at that index: contents, struct traffic_rest_rule, struct traffic_http. */
MUST_CHECK int external_table_names(struct external_table *x, size_t intercept,
                                    const struct schema_texts *contents);
MUST_CHECK int external_table_urls(struct external_table *x, size_t limiting,
                                   const struct schema_list *rules);
MUST_CHECK int external_table_http(struct external_table *x, size_t fault,
                                   const struct schema_list *matches);
MUST_CHECK int external_table_build(struct external_table *x, bool patterns);
void external_table_deinit(struct external_table *x);

#endif
