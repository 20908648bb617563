/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivered_verdict.h - whether a watch may go on from a version: the decision alone, from what is
 * remembered of the view, the resource and the selector in force (delivered_versions.h has the
 * words, and says why it is right).
 */
#ifndef LOCALPROXY_UPSTREAM_DELIVERED_VERDICT_H
#define LOCALPROXY_UPSTREAM_DELIVERED_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

/* What a fresh point of the view says of the version. */
enum delivered_fresh {
    DELIVERED_NOT_FRESH, /* there is none */
    DELIVERED_LISTED,    /* it is the point's only one */
    DELIVERED_WITHIN,    /* it is one of many */
};

struct delivered_facts {
    uint64_t others;    /* the highest version that was given out under another selector */
    uint64_t floor;     /* the highest that a client may have which is not remembered; 0: none */
    uint64_t forgotten; /* the highest of points that were pushed out */
    bool stale;         /* a stale point of the view holds the version */
    bool cut; /* a watch of the view under another selector, which gave it, has ended with a 410
                 of late */
    enum delivered_fresh fresh;
};

enum delivered_verdict {
    DELIVERED_SERVE, /* nobody has it from another selector */
    DELIVERED_STALE, /* somebody has it from another selector, or that cannot be ruled out any more
                      */
    DELIVERED_DOUBT, /* it is not known whether anybody has */
};

/* Of `version`, which is not 0. */
enum delivered_verdict delivered_judge(const struct delivered_facts *f, uint64_t version);

#endif
