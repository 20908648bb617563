/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_version.h - how far a resource was before this process had to do with it.
 *
 * Without a file of what was delivered, versions are doubted up to the one at which a resource was
 * when localproxy started. So localproxy asks for it itself, once, before it passes on what may
 * tell a client a later one: an object written, or a watch that begins with what there is. Those
 * requests wait for the answer; everything else tells the version by itself, or is doubted anyway.
 */
#ifndef LOCALPROXY_WATCH_START_VERSION_H
#define LOCALPROXY_WATCH_START_VERSION_H

#include <stdbool.h>

#include "base/list.h"
#include "guard/delivered_versions.h"
#include "guard/request_attributes.h"
#include "kube/client/client.h"
#include "kube/request_info.h"
#include "net/loop.h"
#include "paused_request.h"

/* Embedded; single-threaded. */
struct start_versions {
    struct net_loop *loop;
    struct kube_client *upstream;
    struct delivered_versions *points;
    struct list all; /* resources that were asked for and are not known */
    unsigned count;
};

/* Pointers are borrowed. */
void start_versions_init(struct start_versions *s, struct net_loop *l, struct kube_client *upstream,
                         struct delivered_versions *points);
/* The requests that wait must have ended. */
void start_versions_deinit(struct start_versions *s);

/* Whether a request that the rules concern should wait for the version of its resource. */
bool start_versions_wanted(const struct start_versions *s, const struct request_attributes *a);

/* Takes the exchange of such a request: `cb` follows when the version is known, or cannot be: the
 * API server refused, or took too long. It is not wanted any more then, for this request. False: it
 * cannot be asked for, and nothing has happened. */
MUST_CHECK bool start_versions_await(struct start_versions *s, const struct request_info *ri,
                                     const struct request_attributes *a, struct http_exchange *x,
                                     const struct http_head *head, paused_request_cb cb,
                                     void *data);

#endif
