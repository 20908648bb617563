/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels.h - the control labels of namespaces and of the objects in them.
 *
 * Glossary: the three labels are the namespace's name, the hash of that name (rules/sharding.h), or
 * the name again where the namespace is shared (compile/sharing.h), and
 * the control label, "true", which says that they are ours. What carries one of them with another
 * value and without `control: "true"` was labelled by another *owner*: such values are *foreign*.
 * The policy says what becomes of them. An object that is labelled `ignore-webhook: "true"` below
 * the prefix is *ignored*: it gets no control labels, and those that it has stay; but wrong ones
 * cannot be set, or it would be in the shard of another namespace.
 */
#ifndef MANAGER_LABEL_LABELS_H
#define MANAGER_LABEL_LABELS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "compile/compile.h"
#include "object/admission_review.h"
#include "object/names.h"
#include "object/warnings.h"

#define LABELS_PREFIX "ctrlmesh.kusionstack.io"
#define LABELS_CONTROLLED "true"       /* the value of the control label */
#define LABELS_IGNORE "ignore-webhook" /* name below the prefix of a label, "true" */

enum labels_label { LABELS_NAMESPACE, LABELS_SHARD_HASH, LABELS_CONTROL, LABELS_COUNT };

/* What becomes of foreign values, which hide an object from its shard or show it to another. What
 * has them already is left alone but for LABELS_TAKE. */
enum labels_policy {
    LABELS_REFUSE, /* the webhook refuses to set them */
    LABELS_TAKE,   /* they are put right as if they were ours */
    LABELS_LEAVE,  /* they are accepted */
};

struct labels_keys {
    enum labels_policy policy;
    char key[LABELS_COUNT][NAMES_KEY_SIZE];
    char ignore[NAMES_KEY_SIZE];
    const struct sharing_set *shared; /* namespaces; set by the caller; NULL: none */
};

enum labels_state {
    LABELS_RIGHT,   /* nothing is to be done */
    LABELS_MISSING, /* some are not there, or wrong though they are ours */
    LABELS_FOREIGN, /* another owner's, and to be left alone */
    LABELS_IGNORED, /* to be left alone, as it says */
};

/* What is to be done with one object. Points into the object and the namespace's name. */
struct labels_plan {
    enum labels_state state;
    const char *value[LABELS_COUNT]; /* what each should be */
    bool set[LABELS_COUNT];          /* is not so yet */
    enum labels_label foreign;       /* LABELS_FOREIGN: the label that tells, */
    const char *found;               /* and its value */
    char hash[4];
};

/* Makes the keys: names below the prefix (NULL: LABELS_PREFIX), or whole keys if they hold a slash.
 * The policy is LABELS_REFUSE, and no namespace is shared, which may be changed. 0, or -EINVAL with
 * the name of the flag in the message. */
MUST_CHECK int labels_keys_init(struct labels_keys *k, const struct compile_labels *names,
                                struct err *e);

/* Looks at an object, or at its metadata alone as PartialObjectMetadata has it, that belongs to
 * namespace `ns`; a Namespace belongs to itself. NULL: an object without labels. */
void labels_plan_init(struct labels_plan *p, const struct labels_keys *k, const cJSON *object,
                      const char *ns);

/* What makes a plan of LABELS_MISSING come true: as a JSON Patch for `object`, and as a JSON merge
 * patch (RFC 7386). The caller frees. */
MUST_CHECK cJSON *labels_json_patch(const struct labels_plan *p, const struct labels_keys *k,
                                    const cJSON *object);
MUST_CHECK cJSON *labels_merge_patch(const struct labels_plan *p, const struct labels_keys *k);

/* Whether the object has the control label, with the value that says that its labels are ours. */
bool labels_are_ours(const struct labels_keys *k, const cJSON *object);
/* The JSON merge patch that takes all of ours away. The caller frees. */
MUST_CHECK cJSON *labels_removal_patch(const struct labels_keys *k);

/* The webhook's answer for a namespace or an object in one: 0, and *patch, which the caller frees,
 * or NULL when nothing changes. What is left alone is noted. -EINVAL: refused, with what to do
 * about it in the message; -EAGAIN: not all is known yet that it takes. */
MUST_CHECK int labels_admit(const struct labels_keys *k, const struct admission_request *r,
                            cJSON **patch, struct warnings *warnings, struct err *e);

#endif
