/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - how far a view still is what it was.
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
#ifndef LOCALPROXY_WATCH_REACH_H
#define LOCALPROXY_WATCH_REACH_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "net/loop.h"

struct reach;

struct reach_options {
    struct kube_client *upstream;
    struct slice target;   /* the watch as the client asked for it */
    struct slice selector; /* ours, encoded; empty: none */
    uint64_t version;      /* R */
};

/* The view is at `version`, which is above all that were told before, as it was at R. Or (`e`)
 * nothing more can be told: -ESTALE, after which only reach_free is left. Never called before
 * reach_new and reach_go_on return; may free the reach. */
typedef void (*reach_cb)(void *data, uint64_t version, const struct err *e);

/* `cb` follows once. NULL with `e` set. */
MUST_CHECK struct reach *reach_new(struct net_loop *l, const struct reach_options *o, reach_cb cb,
                                   void *data, struct err *e);

/* What was told is not enough: `cb` follows once more. */
void reach_go_on(struct reach *r);

/* NULL is ignored. */
void reach_free(struct reach *r);

#endif
