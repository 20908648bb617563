/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version_probe.h - how far a view still is what it was.
 *
 * A client has all up to version R, and the API server does not keep R any more. What its watch
 * would tell first after R, at version E, proves that nothing in its view changed from R to E - 1;
 * a bookmark at E proves it up to E. There the view can be listed, if E is not as old as R.
 *
 * Two watches from R are begun, and the first thing that each tells is looked at. The *wide* one
 * has only the client's own selector: what it shows first was not to be seen by the client, mostly,
 * but comes at once if there was anything. The *narrow* one has the client's selector and ours: it
 * shows nothing until there is a bookmark, which kube-apiserver sends 2 s before the end that was
 * asked for, if anything came since the watch began; so it reaches to the present.
 */
#ifndef LOCALPROXY_WATCH_VERSION_PROBE_H
#define LOCALPROXY_WATCH_VERSION_PROBE_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "net/loop.h"

struct version_probe;

struct version_probe_options {
    struct kube_client *client;
    struct slice target;        /* the watch as the client asked for it */
    struct slice selector;      /* ours, encoded; empty: none */
    uint64_t version;           /* R */
    struct byte_budget *budget; /* for requests and events (watch_memory.h); NULL: no bound */
};

/* The view is at `version`, which is above all that were told before, as it was at R. Or (`e`)
 * nothing more can be told: -ESTALE, after which only version_probe_free is left. Never called
 * before version_probe_new and version_probe_continue return; may free the probe. */
typedef void (*version_probe_cb)(void *data, uint64_t version, const struct err *e);

/* `cb` follows once. NULL with `e` set. */
MUST_CHECK struct version_probe *version_probe_new(struct net_loop *l,
                                                   const struct version_probe_options *o,
                                                   version_probe_cb cb, void *data, struct err *e);

/* What was told is not enough: `cb` follows once more. */
void version_probe_continue(struct version_probe *v);

/* NULL is ignored. */
void version_probe_free(struct version_probe *v);

#endif
