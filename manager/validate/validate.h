/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate.h - what is wrong with a ShardingConfig, in the words of Kubernetes' own validation.
 *
 * What compile.h refuses is refused here too; and what can only be told from what else there is:
 * pods that two shards would have. What is odd but not wrong is noted: resources that nobody
 * serves, which may come yet.
 */
#ifndef MANAGER_VALIDATE_VALIDATE_H
#define MANAGER_VALIDATE_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/compile.h"
#include "compile/shards.h"
#include "object/admission_review.h"
#include "object/warnings.h"
#include "validate/never_labelled.h"

struct validate_resource {
    const char *group; /* "" is the core group */
    const char *resource;
};

/* What there is. Any part may be left empty: what needs it is not checked then. */
struct validate_context {
    struct shards_list shards; /* the old version of this one is among them */
    /* The name of a pod of the namespace that the selector selects, and another shard than `name`
     * too, whose name goes to *other; NULL: there is none. NULL: pods are not known. */
    const char *(*shared_pod)(const void *data, const char *ns, const char *name,
                              const struct selector *s, const char **other);
    /* The rules of the config of that number, which stay its owner's; NULL: it is invalid. NULL:
     * they are compiled. */
    struct rules *(*rules_of)(const void *data, size_t number);
    const void *data;
    bool left_out; /* the webhook for pods does not look at the namespace */
    /* Configurations with the label ROUTE_LABEL lead to a Service of the namespace. False: none
     * does, or that is not known. */
    bool routed;
    const struct validate_resource *resources; /* all that the API server serves */
    size_t resource_count;
    const struct never_labelled *unlabelled; /* those of them that never get control labels */
    size_t unlabelled_count;
    const struct sharing_set *shared; /* namespaces; NULL: as the options have it */
};

/* Of the selector of pods, which is compared with those of all other shards, and with all pods. */
#define VALIDATE_POD_REQUIREMENTS_MAX 64

/* 0; -EINVAL or -E2BIG, where the message begins with the path of the field. */
MUST_CHECK int validate_config(const cJSON *config, const struct compile_options *o,
                               const struct validate_context *w, struct warnings *warnings,
                               struct err *e);

/* What can be told from the request alone: the longest part, which any thread may do. */
struct validate_draft;
struct validate_draft *validate_draft_new(const struct admission_request *r,
                                          const struct compile_options *o);
/* NULL is ignored. */
void validate_draft_free(struct validate_draft *d);

/* The webhook's answer to a request for a ShardingConfig: 0, or errors as above. A change that
 * leaves the spec as it is, and one on the way to deletion, is always allowed: what came past the
 * webhook must not get stuck. The draft is of the same request and options. */
MUST_CHECK int validate_drafted(const struct admission_request *r, const struct compile_options *o,
                                const struct validate_draft *d, const struct validate_context *w,
                                struct warnings *warnings, struct err *e);

#endif
