/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - what localproxy counts, and its Prometheus text.
 */
#ifndef LOCALPROXY_METRICS_METRICS_H
#define LOCALPROXY_METRICS_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/prometheus.h"
#include "http/server.h"
#include "kube/request_info.h"
#include "rules/rules.h"

enum { METRICS_CODES = 64 };

/* Why an open watch could not migrate to new rules. */
enum fallback {
    FALLBACK_VERSION,    /* what the client has is not known: no version was delivered yet */
    FALLBACK_FORM,       /* a table, an unknown encoding, somebody else's name */
    FALLBACK_SELECTOR,   /* the difference cannot be listed */
    FALLBACK_EXPIRED,    /* the API server has forgotten the version */
    FALLBACK_SIZE,       /* an event or a page is too large */
    FALLBACK_UPSTREAM,   /* the API server could not be asked */
    FALLBACK_SUPERSEDED, /* the rules changed again while it was being written */
    FALLBACK_REOPEN,     /* the watch that is to follow could not be had */
    FALLBACKS
};

/* What came of finding out whether a watch has everything up to a version that was written. */
enum write_probed {
    WRITE_PROBED_WRITTEN,   /* a bookmark was written */
    WRITE_PROBED_OVERTAKEN, /* the API server's own events have come so far meanwhile */
    WRITE_PROBED_FAILED,    /* the API server did not show it, or the watch has another selector */
    WRITE_PROBED
};

struct metrics {
    struct metrics_code {
        enum request_verb verb;
        unsigned code;
        uint64_t count;
    } codes[METRICS_CODES]; /* the last one gathers what does not fit */
    unsigned code_count;
    uint64_t limited; /* requests that got a selector */
    uint64_t refused; /* answered by localproxy itself */
    uint64_t response_bytes;
    uint64_t open_watches;
    uint64_t reloads;
    uint64_t reloads_refused;
    uint64_t reload_us;      /* what the last one took of the loop's time */
    uint64_t migrated;       /* watches */
    uint64_t spliced_events; /* written to migrate watches */
    uint64_t fallbacks[FALLBACKS];
    uint64_t write_probes[WRITE_PROBED];
    struct prometheus_histogram migration; /* from the change to the last event written */
    uint64_t watches_cut;
    uint64_t watches_silenced;  /* before they were cut */
    uint64_t requests_repeated; /* unanswered when the rules changed */
    uint64_t lists_broken_off;
    uint64_t resumes_refused; /* 410 to what goes on from another view */
    uint64_t writes_fenced;
    uint64_t writes_audited;
    uint64_t reads_fenced;
    uint64_t reads_audited;
    uint64_t tunnels;
    uint64_t lease_written;               /* the Lease with the status */
    uint64_t lease_failed;                /* attempts */
    struct prometheus_histogram duration; /* to the end of the response; watches not counted */
};

/* A response's head was sent to the operator. */
void metrics_count_code(struct metrics *m, enum request_verb verb, unsigned code);
void metrics_count_duration(struct prometheus_histogram *h, uint64_t us);
const char *metrics_fallback_name(enum fallback why);

/* What clients make localproxy keep, and what it cost them. */
struct metrics_memory {
    size_t request_bytes; /* large heads and bodies, as they come and as they are sent */
    uint64_t requests_refused;
    size_t unread_bytes; /* of answers, and of requests that the API server does not take */
    uint64_t given_up;   /* connections, for that */
    size_t watch_bytes;  /* upstream/watch_memory.h */
};

/* What the text is made of beside the counters. */
struct metrics_sources {
    const struct http_server_stats *server;
    const struct rules *rules; /* NULL: none in force */
    struct metrics_memory memory;
    uint64_t lease_remaining_ms; /* of the lease on the rules; 0 also without one */
    uint64_t lease_expirations;
    bool ready;
};

/* Appends the Prometheus text format (base/prometheus.h). 0, -ENOBUFS or -ENOMEM. */
MUST_CHECK int metrics_write(const struct metrics *m, const struct metrics_sources *s,
                             struct buf *out);

#endif
