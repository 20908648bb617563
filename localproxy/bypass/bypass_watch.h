/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bypass_watch.h - looks now and then whether others in the pod talk to the API server themselves.
 *
 * Nothing is done unless somebody asks: a question begins a look, in a thread of its own, if the
 * last one is some seconds old, and is answered with what is known so far.
 */
#ifndef LOCALPROXY_BYPASS_BYPASS_WATCH_H
#define LOCALPROXY_BYPASS_BYPASS_WATCH_H

#include "base/url.h"
#include "bypass/foreign_connections.h"
#include "net/clock.h"
#include "net/loop.h"

struct bypass_watch;

enum { BYPASS_OWN_MAX = FOREIGN_OWN_PORTS_MAX };

struct bypass_watch_options {
    const struct url *server;        /* the API server */
    bool through_proxy;              /* it is reached through an HTTP proxy */
    const char *own[BYPASS_OWN_MAX]; /* ADDR:PORT on which this process listens; NULL or "": none */
    const struct net_clock *clock;   /* NULL: the system's; must outlive the watch */
};

struct bypass_answer {
    bool known;           /* looks enough were made */
    unsigned connections; /* that last, of others; a minute long after the last one was seen */
    const char *error;    /* of the last look; NULL: none. Until the loop runs on */
};

/* NULL with `e` set: -ENOMEM. */
MUST_CHECK struct bypass_watch *
bypass_watch_new(struct net_loop *l, const struct bypass_watch_options *o, struct err *e);
struct bypass_answer bypass_watch_ask(struct bypass_watch *w);
/* NULL is ignored. */
void bypass_watch_free(struct bypass_watch *w);

#endif
