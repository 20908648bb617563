/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rulesync_proxy.h - a localproxy for tests of rulesync: the real server's side of the control
 * socket, which does as it is told with what it gets.
 */
#ifndef TEST_INTEGRATION_RULESYNC_PROXY_H
#define TEST_INTEGRATION_RULESYNC_PROXY_H

#include "net/loop.h"
#include "rules/rules.h"
#include "traffic/traffic.h"

enum proxy_mood {
    OBEY,   /* refuses what localproxy would refuse: an older generation */
    REFUSE, /* every document as bad */
    DELAY,  /* says that it cannot now */
    HOLD,   /* says nothing until it is told to */
    LIE,    /* takes the document and enforces another one */
};

/* Its traffic policies. */
struct proxy_traffic {
    bool known;           /* false: it is too old for them; set before it is started */
    enum proxy_mood mood; /* not HOLD */
    struct traffic *enforced;
    unsigned puts;
    unsigned gets;
    unsigned removals;
    char trouble[ERR_MSG_MAX]; /* that it was told last */
};

struct proxy_double {
    struct net_loop *loop;
    const char *path; /* of its socket */
    struct control *control;
    enum proxy_mood mood;
    struct rules *enforced;
    struct control_call *held;
    struct rules *held_rules;
    unsigned puts;
    unsigned gets;
    unsigned heard;
    char trouble[ERR_MSG_MAX]; /* that it was told last */
    struct proxy_traffic traffic;
};

/* Rules with one limit; the caller unrefs. `spare` tells rules of one generation apart. */
struct rules *proxy_rules_make(unsigned generation, const char *shard, const char *spare);

/* Traffic policies with one fault of this name. */
struct traffic *proxy_traffic_make(unsigned generation, const char *shard, const char *name);

/* `loop` and `path` are set. */
void proxy_double_start(struct proxy_double *p);
void proxy_double_stop(struct proxy_double *p);
/* It forgets all, traffic policies too, or (takes the reference) comes back with rules that it had
 * stored. */
void proxy_double_restart(struct proxy_double *p, struct rules *stored);
/* Takes the reference. */
void proxy_double_enforce(struct proxy_double *p, struct rules *r);
/* The generation; 0: none. */
unsigned proxy_double_enforced(const struct proxy_double *p);
/* The same of traffic policies. */
void proxy_double_enforce_traffic(struct proxy_double *p, struct traffic *t);
unsigned proxy_double_traffic(const struct proxy_double *p);
/* Puts in force what is held, and says so. */
void proxy_double_release(struct proxy_double *p);

#endif
