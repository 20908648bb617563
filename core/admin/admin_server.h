/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_server.h - the pages that every program answers: /healthz, /readyz, /metrics and /status.
 *
 * They are meant to be reachable by the kubelet and by Prometheus, so nothing that a program puts
 * on them may tell a credential or an object. Bounded: 64 connections, of which the one that is
 * idle longest makes room for the next; 5 s for the first byte, 10 s for a request's head; 1 MiB
 * for all heads that are not small; a page of 2 MiB, and 8 MiB for all pages that are not read.
 */
#ifndef CORE_ADMIN_ADMIN_SERVER_H
#define CORE_ADMIN_ADMIN_SERVER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "admin/checks.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "net/loop.h"

struct admin_server;

/* Called for a page, at any time between new and free. */
struct admin_server_ops {
    /* Whether the program does its work, check by check. */
    void (*check)(void *data, struct admin_checks *checks);
    /* Appends the program's metrics (base/prometheus.h); its version and those of the process
     * follow. 0, -ENOBUFS or -ENOMEM. */
    int (*metrics)(void *data, struct buf *out);
    /* Adds to the status object, which begins with program, version, ready, message and
     * uptimeSeconds. */
    void (*status)(void *data, cJSON *root);
    /* Somebody whose User-Agent is that, "" for none, is about to get the status. NULL: never mind.
     */
    void (*asked)(void *data, struct slice user_agent);
};

struct admin_server_options {
    const char *address; /* ADDR:PORT, the value of --admin */
    const char *program; /* its name; outlives the server */
    const struct admin_server_ops *ops;
    void *data;
};

/* Listens. NULL with `e` set. */
MUST_CHECK struct admin_server *
admin_server_new(struct net_loop *l, const struct admin_server_options *o, struct err *e);
/* Where it listens, with the port that was picked. */
const char *admin_server_address(const struct admin_server *a);
/* Closes all connections at once. NULL is ignored. */
void admin_server_free(struct admin_server *a);

#endif
