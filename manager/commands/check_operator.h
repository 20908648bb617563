/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_operator.h - `manager check-operator`: whether an operator of the cluster is ready to work
 * in shards.
 */
#ifndef MANAGER_COMMANDS_CHECK_OPERATOR_H
#define MANAGER_COMMANDS_CHECK_OPERATOR_H

#include <stdbool.h>

#include "base/err.h"
#include "program/kube_flags.h"

struct check_operator_command {
    struct kube_flags kube;
    const char *ns;        /* of the operator; NULL: that of the kubeconfig's context */
    bool stateful_set;     /* else a Deployment, */
    const char *name;      /* of this name */
    const char *prefix;    /* of labels and annotations */
    const char *resources; /* the file of --sharding-resources; NULL: the default ones */
    bool json;             /* the output */
};

enum { CHECK_OPERATOR_READY, CHECK_OPERATOR_BREAKS, CHECK_OPERATOR_TROUBLE };

/* Runs a loop of its own; prints what it found. The exit code: 0: nothing would break; 1: something
 * would; 2: trouble, which is logged. */
MUST_CHECK int check_operator_run(const struct check_operator_command *command);

#endif
