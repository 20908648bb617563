/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - what rulesync says of itself on /readyz, /metrics and /status.
 */
#ifndef RULESYNC_ADMIN_H
#define RULESYNC_ADMIN_H

#include "admin/admin_server.h"
#include "flags.h"
#include "pipeline.h"

/* The data of rulesync_admin_ops. */
struct rulesync_admin {
    const struct rulesync_flags *flags;
    struct pipeline *pipeline; /* of rules */
    struct pipeline *traffic;
    const struct kube_client *client; /* NULL: the source is a folder */
    const struct health *health;
    const char *traffic_to; /* the copy of traffic policies; NULL: none */
};

extern const struct admin_server_ops rulesync_admin_ops;

#endif
