/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules for requests to other places than the API server have in common, and the warnings
 * about all of them.
 */
#include "policy/policy_external.h"

#include <stdio.h>
#include <string.h>

#include "traffic/origin_text.h"

enum { BLIND_NAMES_MAX = 4 }; /* rules that one message names */

/* ---- texts ---- */

/* An upper-case method, or `*`. */
const char *external_check_method(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    bool good = strcmp(text, "*") == 0 ||
                (text[len] == '\0' && origin_method_check(slice_str(text)) == NULL);
    return good ? NULL : "must be an HTTP method in upper case, as \"GET\", or \"*\"";
}

const char *external_check_any(const char *text)
{
    if (text[0] == '\0') {
        return "must not be empty";
    }
    return strlen(text) > TRAFFIC_URL_MAX ? "must be no more than 2048 characters" : NULL;
}

const char *external_check_host(const char *text)
{
    struct origin_host host;
    const char *why = external_check_any(text);
    if (why != NULL || origin_host_read(slice_str(text), &host) == NULL) {
        return why;
    }
    return "must be a host, as \"example.com\" or \"example.com:8443\"; others are for regular "
           "expressions";
}

void external_refuse(struct policy_reader *r, const char *path, const char *text, const char *why)
{
    policy_error(r, "%s: Invalid value: \"%.100s\": %s", path, text, why);
}

/* Whether it holds in tunnels, as far as the method goes. */
bool external_is_any_method(const char *method)
{
    return strcmp(method, "*") == 0 || strcmp(method, "CONNECT") == 0;
}

/* ---- regular expressions ---- */

bool external_pattern(struct policy_reader *r, const char *path, const char *text,
                      struct policy_pattern *out)
{
    const char *why = external_check_any(text);
    if (why != NULL) {
        external_refuse(r, path, text, why);
        return false;
    }
    if (r->pattern_count++ >= TRAFFIC_PATTERNS_MAX) {
        if (r->pattern_count == TRAFFIC_PATTERNS_MAX + 1) {
            policy_error(r, "%s: Too many: a policy can have at most %d regular expressions in all",
                         path, TRAFFIC_PATTERNS_MAX);
        }
        return false;
    }
    struct policy_pattern own;
    struct policy_pattern *x = out != NULL ? out : &own;
    policy_pattern_read(text, out != NULL ? &r->pattern_steps : NULL, x);
    if (x->why[0] != '\0') {
        external_refuse(r, path, text, x->why);
    }
    return x->why[0] == '\0';
}

/* ---- what tunnels hide ---- */

/* Remembers a rule that does not hold there, once. */
void external_add_blind(struct policy_reader *r, const char *name)
{
    size_t used = strlen(r->blind);
    if (r->blind_count++ < BLIND_NAMES_MAX) {
        (void)snprintf(r->blind + used, sizeof r->blind - used, "%s\"%.63s\"",
                       used == 0 ? "" : ", ", name);
    }
}

/* ---- all of them ---- */

void policy_count_external(struct policy_reader *r, const char *name,
                           const struct policy_externals *found)
{
    r->external_count += found->count > 0 ? 1 : 0;
    if (found->blind) {
        external_add_blind(r, name);
    }
}

static void warn_of_blind(struct policy_reader *r)
{
    char more[32] = "";
    if (r->blind_count > BLIND_NAMES_MAX) {
        (void)snprintf(more, sizeof more, " and %zu more", r->blind_count - BLIND_NAMES_MAX);
    }
    policy_warn(r,
                "spec: rule%s %s%s: nobody sees paths, methods and headers in a tunnel, as "
                "HTTPS_PROXY clients open it by CONNECT: what is said of them holds only for "
                "requests that localproxy sees",
                r->blind_count == 1 ? "" : "s", r->blind, more);
}

void policy_warn_external(struct policy_reader *r)
{
    if (r->external_count > 0) {
        policy_warn(r,
                    "spec: %zu rule%s for requests to other places than the API server: this holds "
                    "in pods with annotation " POLICY_EGRESS "=" POLICY_EGRESS_PROXY
                    ", only for requests that are sent to localproxy's proxy; it is no firewall",
                    r->external_count, r->external_count == 1 ? " is" : "s are");
    }
    if (r->blind_count > 0) {
        warn_of_blind(r);
    }
}
