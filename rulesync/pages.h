/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - what rulesync says of itself on /readyz, /metrics and /status.
 */
#ifndef RULESYNC_PAGES_H
#define RULESYNC_PAGES_H

#include "admin/admin_server.h"
#include "config.h"
#include "sync.h"

/* The data of pages_ops. */
struct pages {
    const struct config *config;
    struct sync *sync;
};

extern const struct admin_server_ops pages_ops;

#endif
