/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - a CircuitBreaker or a FaultInjection: one object of the API, read and validated.
 *
 * Glossary: *findings* are what is wrong with an object (errors: it is not valid, and its rules are
 * not used) and what is odd (warnings), in the words of Kubernetes' own validation, each beginning
 * with the path of the field. *External* rules are for requests to other places than the API server
 * (traffic/external.h): they hold where localproxy has a listener for these. Some are *blind*: of
 * what they say a tunnel shows nothing.
 *
 * Whatever the schema of the CustomResourceDefinition and the webhook refuse is refused here again,
 * for both may be old or switched off. A policy is immutable and reference-counted
 * (single-threaded; one that no other thread knows may be read in any). Of one that is not valid
 * everything but its rules is known, so that it can be told of, switched off and released.
 */
#ifndef MANAGER_POLICY_POLICY_H
#define MANAGER_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/selector.h"
#include "object/warnings.h"
#include "traffic/traffic.h"

#define POLICY_GROUP "ctrlmesh.kusionstack.io"
#define POLICY_VERSION "v1alpha1"
#define POLICY_API_VERSION POLICY_GROUP "/" POLICY_VERSION

/* What other controllers of these objects leave on them: nobody else would take it off, and the
 * object could never be deleted. */
#define POLICY_FINALIZER "finalizer." POLICY_GROUP "/protected"
/* Labels, of any value: its rules are taken out. */
#define POLICY_DISABLE_BREAKER "circuitbreaker." POLICY_GROUP "/disable"
#define POLICY_DISABLE_FAULT "faultinjection." POLICY_GROUP "/disable"
/* Annotation of a CircuitBreaker: "<rule>=<token>,...", `*` for all rules. A token that is another
 * one than before closes the rule's breaker once. */
#define POLICY_RECOVER "circuitbreaker." POLICY_GROUP "/recover"

/* Annotation and label of a pod, and their value: its localproxy listens for such requests. */
#define POLICY_EGRESS POLICY_GROUP "/egress"
#define POLICY_EGRESS_PROXY "proxy"

#define POLICY_NAME_MAX 63      /* characters of a rule's name */
#define POLICY_SPEC_HASH_LEN 32 /* hex digits */

/* "CircuitBreaker", "circuitbreakers", ...; static. */
const char *policy_kind_name(enum traffic_kind kind);
const char *policy_kind_plural(enum traffic_kind kind);
/* The rows of its spec. */
const struct schema_object *policy_spec_rows(enum traffic_kind kind);
/* Whether the document calls itself one, of whatever version. */
bool policy_is_one(const cJSON *document, enum traffic_kind *kind);

/* At most WARNINGS_MAX of each are kept; `dropped` counts the rest. */
struct policy_findings {
    struct warnings errors;
    struct warnings warnings;
};

#define POLICY_FINDINGS_INIT                                                                       \
    {                                                                                              \
        .errors = WARNINGS_INIT, .warnings = WARNINGS_INIT                                         \
    }

/* Empties them. */
void policy_findings_deinit(struct policy_findings *f);
/* Whether there is an error. */
bool policy_findings_failed(const struct policy_findings *f);
/* All errors in one message, "a; b; and 3 more": -EINVAL; 0 if there are none. */
int policy_findings_join(const struct policy_findings *f, struct err *e);

struct policy_options {
    const char *zones; /* folder of the zone database; NULL: /usr/share/zoneinfo */
    int64_t now;       /* seconds since 1970; which changes of a zone are yet to come */
};

struct policy;

/* Reads an object of the API, or of a file, where it may have no uid and no namespace. The caller
 * holds one reference. `out` is empty, or NULL; with an error in it afterwards the policy
 * is not valid. Reads files of the zone database. */
MUST_CHECK struct policy *policy_read(enum traffic_kind kind, const cJSON *object,
                                      const struct policy_options *o, struct policy_findings *out);
struct policy *policy_ref(struct policy *p);
/* The last one frees; NULL is fine. */
void policy_unref(struct policy *p);

bool policy_valid(const struct policy *p);

/* Of the object; "" and 0 where it does not say. */
enum traffic_kind policy_kind(const struct policy *p);
const char *policy_name(const struct policy *p);
const char *policy_namespace(const struct policy *p);
const char *policy_uid(const struct policy *p);
const char *policy_created(const struct policy *p); /* metadata.creationTimestamp */
int64_t policy_generation(const struct policy *p);
/* Hex digits, the beginning of SHA-256 over the canonical JSON of spec. */
const char *policy_spec_hash(const struct policy *p);
/* For which pods of its namespace; one that matches nothing if the object has none. NULL: it cannot
 * be read, and the policy is not valid. */
const struct selector *policy_selector(const struct policy *p);
/* By its label, or by spec.disabled of a FaultInjection. */
bool policy_disabled(const struct policy *p);
/* Whether metadata.finalizers has POLICY_FINALIZER. */
bool policy_has_finalizer(const struct policy *p);
/* Whether metadata.deletionTimestamp is set. */
bool policy_deleting(const struct policy *p);
/* How many rules do something; how many of them have an external part; and how many of those are
 * blind. 0 if it is not valid. */
size_t policy_rules(const struct policy *p);
size_t policy_external_rules(const struct policy *p);
size_t policy_blind_rules(const struct policy *p);

/* What traffic_compile.h needs: one entry of `breakers` or `faults` of the document, as canonical
 * JSON, and what it counts for. NULL: not valid, or no rule does anything. */
struct policy_entry {
    const char *text;
    size_t len;
    struct traffic_counts counts;
    size_t values;      /* JSON values, not fewer than a tree would have */
    const cJSON *zones; /* the rules of time zones that it names, by name */
};
const struct policy_entry *policy_entry(const struct policy *p);

#endif
