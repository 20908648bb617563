/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unlabel.h - `manager unlabel`: takes the control labels away again, which are ours.
 *
 * Objects first, namespaces last. What is labelled without `control: "true"` is another owner's and
 * stays. The manager and its webhooks must be gone, or they put back what is taken away: that is
 * noticed and told.
 */
#ifndef MANAGER_COMMANDS_UNLABEL_H
#define MANAGER_COMMANDS_UNLABEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "compile/compile.h"
#include "program/kube_flags.h"

/* What the flags say. */
struct unlabel_command {
    struct kube_flags kube;
    struct compile_labels labels; /* prefix NULL: LABELS_PREFIX */
    const char *resources;        /* the file of --sharding-resources; NULL: the default ones */
    bool all_resources;           /* everything that discovery shows, instead */
    bool dry_run;                 /* counts alone */
    uint64_t qps;                 /* 0: LABELLER_QPS */
    uint64_t parallel;            /* requests at a time; 0: 8 */
};

/* Runs a loop of its own, until all is done or a signal ends it; tells what it did in the log. The
 * exit code: 0 when none of our labels is left, 1. */
MUST_CHECK int unlabel_command_run(const struct unlabel_command *command);

#endif
