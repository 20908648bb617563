/* SPDX-License-Identifier: Apache-2.0 */
/*
 * findings.h - what `manager check-operator` found, as text for people or as JSON.
 */
#ifndef MANAGER_READINESS_FINDINGS_H
#define MANAGER_READINESS_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"

enum finding_level {
    FINDING_BREAKS,  /* it would not work in shards */
    FINDING_LOOK,    /* somebody who knows the operator should look at it */
    FINDING_UNKNOWN, /* it could not be looked at */
    FINDING_FINE,
    FINDING_LEVELS,
};

struct finding {
    enum finding_level level;
    const char *topic; /* a constant: "leader election" */
    char *text;
    char *remedy; /* what to do; NULL: nothing */
};

/* All zero: none. */
struct findings {
    struct finding *items;
    size_t count;
    size_t by_level[FINDING_LEVELS];
};

/* `remedy` may be NULL, and is copied. */
void findings_add(struct findings *f, enum finding_level level, const char *topic,
                  const char *remedy, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void findings_deinit(struct findings *f);

/* Append all, the worst first. `about`: the operator, "Deployment demo/op: 3 pods". Errors stay in
 * `out`. */
void findings_write_text(const struct findings *f, const char *about, struct buf *out);
void findings_write_json(const struct findings *f, const char *about, struct buf *out);

#endif
