/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_version.h - where the API server was when localproxy started.
 *
 * Without a file of what was delivered, nobody knows what clients had before. But what is younger
 * than the process they have from it. So at the start it asks for the version of namespaces: all
 * resources that the API server keeps in one store count in one sequence, so a version above that
 * one is younger, of whatever resource.
 *
 * Whether a resource is in the same store (events may be in another one, and aggregated API servers
 * have their own) is found out when it first matters: it is if its version is not below that of
 * namespaces asked for before, nor above that of namespaces asked for after. That two stores come
 * as close by chance is not ruled out, and not to be expected: they count every change since the
 * cluster was made.
 */
#ifndef LOCALPROXY_UPSTREAM_START_VERSION_H
#define LOCALPROXY_UPSTREAM_START_VERSION_H

#include <stdbool.h>

#include "base/list.h"
#include "exchange/paused_request.h"
#include "kube/client/client.h"
#include "kube/request_info.h"
#include "net/deadline.h"
#include "net/loop.h"
#include "upstream/delivered_versions.h"
#include "upstream/derived_retry.h"
#include "upstream/request_attributes.h"

struct start_versions;

/* A list of one object, of which the version is wanted. It is asked for again while the API server
 * is away for a moment, or answers that it cannot now. */
struct version_ask {
    struct start_versions *all;
    struct slice collection;
    bool asking;              /* nothing is told yet */
    struct http_exchange *up; /* NULL while asking: a pause */
    struct list_meta *list;
    unsigned status;   /* of the answer; 0: there was none */
    uint64_t pause_ms; /* before it is asked for again; 0: it is not */
    struct derived_retry retry;
    struct net_deadline due;
    /* 0: the version was not told. */
    void (*on_version)(struct version_ask *k, uint64_t version);
};

/* Embedded; single-threaded. */
struct start_versions {
    struct net_loop *loop;
    struct kube_client *client;
    struct delivered_versions *points;
    uint64_t version; /* at the start; 0: not known */
    struct version_ask start;
    struct net_deadline again;
    struct list resources; /* being looked at, or known to be of no use */
    unsigned count;
};

/* Pointers are borrowed. */
void start_versions_init(struct start_versions *s, struct net_loop *l, struct kube_client *client,
                         struct delivered_versions *points);
/* No request may wait any more. */
void start_versions_deinit(struct start_versions *s);

/* Asks where the API server is, if that is of use and not known. As soon as there are credentials;
 * an API server that does not answer is asked again by itself. */
void start_versions_begin(struct start_versions *s);

/* Whether a watch that would be refused may turn out to be from a version that is younger than the
 * process. */
bool start_versions_wanted(const struct start_versions *s, const struct request_attributes *a);

/* Takes the exchange of such a watch: `end` follows when all is known that can be, and it is not
 * wanted any more. False: nothing can be asked, and nothing has happened. */
MUST_CHECK bool start_versions_await(struct start_versions *s, const struct request_info *ri,
                                     const struct request_attributes *a, struct http_exchange *x,
                                     const struct http_head *head,
                                     const struct paused_request_end *end);

#endif
