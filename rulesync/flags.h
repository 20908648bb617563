/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - rulesync's flags.
 */
#ifndef RULESYNC_FLAGS_H
#define RULESYNC_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"
#include "program/kube_flags.h"

/* Strings point into argv or the environment; NULL: not given. */
struct rulesync_flags {
    struct flags_common common;
    const char *from;           /* exactly one of these two */
    const char *from_configmap; /* NAMESPACE/NAME */
    const char *to;             /* at least one of these two */
    const char *control;
    const char *shard; /* NAMESPACE/NAME */
    bool once;
    bool at_start;      /* with once */
    uint64_t timeout_s; /* of a single pass; 0: none */
    const char *admin;
    const char *ready_file;
    struct kube_flags kube;
};

/* Ends the process on --help, --version and wrong usage. */
void rulesync_flags_parse(struct rulesync_flags *c, int argc, char **argv);

#endif
