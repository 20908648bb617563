/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage_report.h - what `manager coverage` found, as text for people or as JSON.
 */
#ifndef MANAGER_COMMANDS_COVERAGE_REPORT_H
#define MANAGER_COMMANDS_COVERAGE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "compile/coverage.h"
#include "rules/rules.h"

struct coverage_report {
    cJSON *operators; /* an array: the document as it is printed */
    cJSON *current;   /* the last of them */
    const struct rules *const *shards;
    size_t count; /* of shards */
    size_t covered;
    size_t wrong; /* gaps and overlaps of all */
};

#define COVERAGE_REPORT_INIT                                                                       \
    {                                                                                              \
        .operators = NULL                                                                          \
    }

/* Begins with another operator; its shards must outlive the end. */
void coverage_report_begin(struct coverage_report *r, const struct rules *const *shards,
                           size_t count);
/* The namespace that `c` looked at last. */
void coverage_report_add(struct coverage_report *r, const char *ns, enum coverage_verdict verdict,
                         const struct coverage *c);
/* `applies`: its shards are by namespace. */
void coverage_report_end(struct coverage_report *r, bool applies);

bool coverage_report_complete(const struct coverage_report *r);

/* Appends it. Errors stay in `out`. */
void coverage_report_write(const struct coverage_report *r, bool json, struct buf *out);

void coverage_report_deinit(struct coverage_report *r);

#endif
