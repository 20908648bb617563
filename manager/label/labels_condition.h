/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels_condition.h - the question that an API server can answer itself before it asks
 * labels_admit: whether there is anything to do. As an expression in CEL, for matchConditions of a
 * webhook.
 *
 * There is nothing to do about an update when the object has all three labels, the same ones as
 * before, the control label says that they are ours, and the namespace's name is right: the hash
 * was checked when it was set. Nor when it is ignored, as before, and has the same labels, or none,
 * as before. Everything else is asked about.
 *
 * An expression that fails would be taken for "do not ask" (failurePolicy: Ignore), so this one
 * looks before each access, and at types too: another webhook may have put anything where labels
 * should be. What it uses is in CEL since Kubernetes 1.27.
 *
 * Source:
 * https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions.
 */
#ifndef MANAGER_LABEL_LABELS_CONDITION_H
#define MANAGER_LABEL_LABELS_CONDITION_H

#include "base/buf.h"
#include "base/err.h"
#include "label/labels.h"

#define LABELS_CONDITION_MAX (2048 + 12 * NAMES_KEY_SIZE) /* bytes */

enum labels_condition_of {
    LABELS_CONDITION_NAMESPACES,
    LABELS_CONDITION_RESOURCES, /* objects in namespaces */
};

/* Appends the expression: true where labels_admit is to be asked. */
void labels_condition_write(const struct labels_keys *k, enum labels_condition_of of,
                            struct buf *out);

#endif
