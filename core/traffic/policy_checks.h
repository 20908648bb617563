/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_checks.h - what the rows of policies need beside types and bounds; for policy_rows.c
 * alone.
 */
#ifndef CORE_TRAFFIC_POLICY_CHECKS_H
#define CORE_TRAFFIC_POLICY_CHECKS_H

#include "traffic/policy.h"

/* Of a text: what is wrong with it, or NULL. */
const char *policy_check_rule_name(struct slice text);
const char *policy_check_group(struct slice text);
const char *policy_check_resource(struct slice text);
const char *policy_check_verb(struct slice text);
const char *policy_check_namespace(struct slice text);
const char *policy_check_url(struct slice text);
const char *policy_check_host(struct slice text);
const char *policy_check_path(struct slice text);
const char *policy_check_header_name(struct slice text);
const char *policy_check_header_value(struct slice text);
const char *policy_check_time(struct slice text);

/* Of an object; its reader is that of traffic_reader(). */
typedef void policy_check_cb(struct schema_reader *r, const struct schema_path *at, void *out);
policy_check_cb policy_check_health;
policy_check_cb policy_check_limiting;
policy_check_cb policy_check_intercept;
policy_check_cb policy_check_delay;
policy_check_cb policy_check_abort;
policy_check_cb policy_check_host_match;
policy_check_cb policy_check_path_match;
policy_check_cb policy_check_http;
policy_check_cb policy_check_match;
policy_check_cb policy_check_effective;
policy_check_cb policy_check_fault;
policy_check_cb policy_check_spec;

extern const char *const policy_verbs[];

#endif
