/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_reader.h - reads the spec of a policy and writes its entry in a traffic document; shared
 * by the files of policy.h, for no one else.
 *
 * Everything that is wrong becomes a finding, and reading goes on with what comes next, so that one
 * look shows all. What is read of a field that is wrong is as if it were absent. Of an entry with
 * errors nothing is used.
 */
#ifndef MANAGER_POLICY_POLICY_READER_H
#define MANAGER_POLICY_POLICY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "policy/policy.h"
#include "json/edit.h"

#define POLICY_PATH_LEN 192
#define POLICY_BLIND_LEN 320

struct policy_reader {
    const struct policy_options *options;
    struct policy_findings *out;
    struct edit edit;             /* of documents that are made of nothing: none of it fails */
    cJSON *rules;                 /* `limitings` or `rules` of the entry */
    size_t row_count;             /* resource rules in it, */
    size_t name_count;            /* and what is in their lists */
    size_t intercept_count;       /* rules that allow and forbid, */
    size_t external_rows;         /* urls, or http matches, */
    size_t pattern_count;         /* and regular expressions; */
    uint32_t pattern_steps;       /* what is left for finding out what these match */
    size_t enforced_count;        /* rules that do something, */
    size_t external_count;        /* those that have an external part, */
    size_t blind_count;           /* and those of them that do not hold in tunnels, */
    char blind[POLICY_BLIND_LEN]; /* of which these are some */
};

void policy_error(struct policy_reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void policy_warn(struct policy_reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Notes an error of a function that sets `e`. Whether there is none. */
bool policy_check(struct policy_reader *r, int rc, const struct err *e);

/* ---- fields ---- */

/* The path of an entry of a list, "<path>.<key>[<i>]". */
struct policy_path {
    char text[POLICY_PATH_LEN];
};
struct policy_path policy_item_path(const char *path, const char *key, size_t i);
struct policy_path policy_field_path(const char *path, const char *key);

/* Whether it is an object with no other fields than these. */
bool policy_object(struct policy_reader *r, const cJSON *item, const char *path,
                   const char *const *known);
/* The field of `parent`, which is such an object; NULL: it is absent or wrong. */
const cJSON *policy_object_field(struct policy_reader *r, const cJSON *parent, const char *path,
                                 const char *key, const char *const *known);
/* The first entry of an array; NULL: absent, empty or wrong. */
const cJSON *policy_list(struct policy_reader *r, const cJSON *parent, const char *path,
                         const char *key, size_t max);

/* "" and, for it is required, an error. */
const char *policy_required(struct policy_reader *r, const cJSON *parent, const char *path,
                            const char *key);
/* "" when it is absent or wrong. */
const char *policy_text(struct policy_reader *r, const cJSON *parent, const char *path,
                        const char *key);
bool policy_bool(struct policy_reader *r, const cJSON *parent, const char *path, const char *key);

/* The place of its value in the list, which ends with NULL; -1: it is required and absent, or it is
 * none of them. `meant` has the same places: other ways to write them that are refused, but with
 * advice; NULL: there are none. */
int policy_enum(struct policy_reader *r, const cJSON *parent, const char *path, const char *key,
                const char *const *names, const char *const *meant);

/* A whole number within the bounds, which a double holds; false: absent or wrong. */
bool policy_number(struct policy_reader *r, const cJSON *parent, const char *path, const char *key,
                   uint64_t min, uint64_t max, uint64_t *out);
/* A duration in whole milliseconds; a part of one counts as one. */
bool policy_duration(struct policy_reader *r, const cJSON *parent, const char *path,
                     const char *key, uint64_t min_ms, uint64_t max_ms, uint64_t *out_ms);
/* An integer, or a text with a number, from 0 to 100, as parts of TRAFFIC_PPM. Absent: 0. What is
 * 0 never happens, of which is warned. False if it is wrong. */
bool policy_percent(struct policy_reader *r, const cJSON *parent, const char *path, const char *key,
                    uint32_t *out_ppm);
/* Says that a field is required that is not there. */
void policy_missing(struct policy_reader *r, const cJSON *parent, const char *path,
                    const char *key);

/* Whether there is room for another name in the lists of rules; one error is enough. */
bool policy_count_name(struct policy_reader *r, const char *path);

/* The name of a rule, which must be unique among those that were read before: `seen`, an array of
 * strings. "" if it is wrong. */
const char *policy_rule_name(struct policy_reader *r, const char *name, const char *path,
                             cJSON *seen);

/* ---- parts ---- */

/* The names that make a rule special. */
struct policy_resources {
    size_t count;  /* resource rules that were read */
    bool leases;   /* one names leases, which is what exempts nothing */
    bool relisted; /* one is for list or watch in all namespaces */
};

/* Resource rules: of limitings all lists are required, of faults those that are absent are any.
 * Writes them into `out`, which is the rule of the entry. */
void policy_resources(struct policy_reader *r, const cJSON *parent, const char *path,
                      const char *key, bool required, cJSON *out, struct policy_resources *found);

/* The external part of a rule. */
struct policy_externals {
    size_t count; /* urls or http matches */
    bool blind;   /* one does not hold in tunnels */
};

/* Write into `out`, which is the rule of the entry. */
void policy_rest_rules(struct policy_reader *r, const cJSON *limiting, const char *path, cJSON *out,
                       struct policy_externals *found);
void policy_http_matches(struct policy_reader *r, const cJSON *match, const char *path, cJSON *out,
                         struct policy_externals *found);
/* Counts the rule of this name, if it has an external part. */
void policy_count_external(struct policy_reader *r, const char *name,
                           const struct policy_externals *found);
void policy_intercept_rules(struct policy_reader *r, const cJSON *spec, cJSON *entry);
/* The warnings about all of them. */
void policy_warn_external(struct policy_reader *r);

/* When a fault is in effect; writes `when`. */
void policy_schedule(struct policy_reader *r, const cJSON *fault, const char *path, cJSON *out);

void policy_read_breaker(struct policy_reader *r, const cJSON *spec, cJSON *entry);
void policy_read_fault_injection(struct policy_reader *r, const cJSON *spec);

/* The tokens of the annotation, into `reset` of the entry; the rules have been read. */
void policy_read_recover(struct policy_reader *r, const cJSON *object, cJSON *entry);

#endif
