/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_internal.h - what the readers of a traffic document have in common.
 */
#ifndef CORE_TRAFFIC_PARSE_INTERNAL_H
#define CORE_TRAFFIC_PARSE_INTERNAL_H

#include "document/reader.h"
#include "traffic/traffic_internal.h"

/* What reads a policy, a rule or a part of one. */
struct place {
    const struct document_reader *s;
    struct traffic *t;
    const cJSON *item;
    const char *path; /* of the item */
};

void place_path(const struct place *p, const char *key, char out[DOCUMENT_PATH_LEN]);

/* An object in it; NULL: it is not there. */
const cJSON *place_part(const struct place *p, const char *key, const char *const *known,
                        char path[DOCUMENT_PATH_LEN]);
/* A text that may be left out: "" then. */
const char *place_text(const struct place *p, const char *key, size_t max);
/* One of the words; 0 with an error. */
size_t place_word(const struct place *p, const char *key, const char *const *words, size_t count);
/* The items of an array with at least one; NULL with an error. */
const cJSON *place_array(const struct place *p, const char *key, char path[DOCUMENT_PATH_LEN]);
/* One more name that rules have. */
void place_count_name(const struct place *p);
/* Of a rule. */
const char *place_rule_name(const struct place *p);

/* ---- parse_external.c ---- */

/* How many there may be in all of them. False with an error: too many, or no memory. */
bool parse_external_begin(const struct document_reader *s, struct traffic *t, const cJSON *spec);

/* The rule at that index: its type, contents and methods. */
void parse_intercept(const struct place *p, struct traffic_intercept *rule, size_t index);
/* The urls of a limiting, and the http matches of a fault. */
void parse_urls(const struct place *p, size_t limiting);
void parse_http(const struct place *p, size_t fault);

#endif
