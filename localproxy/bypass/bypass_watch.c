/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: bypass_watch_ask > begin > (thread) on_look > on_looked.
 *
 * Where connections are found that were not there before, a second look some seconds later tells
 * whether they last, so that nobody has to ask twice in a row.
 */
#include "bypass/bypass_watch.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "bypass/foreign_connections.h"
#include "net/address.h"
#include "net/blocking.h"
#include "net/timer.h"

enum {
    BETWEEN_MS = 5000, /* two looks */
    HOLD_MS = 60000,   /* an operator that connects anew has not changed its ways */
};

/* Belongs to the thread while it is under way. */
struct look {
    struct bypass_watch *watch;
    struct socket_look sockets;
    int rc;
    struct err error;
};

struct bypass_watch {
    struct net_loop *loop;
    const struct net_clock *clock;
    struct net_timer *timer; /* the second look */
    struct net_blocking *call;
    struct foreign_connections foreign;
    bool asked;  /* the look that is under way answers a question */
    bool looked; /* once at least */
    uint64_t looked_at;
    bool known;
    unsigned lasting;
    uint64_t lasting_at;
    struct err error; /* code 0: none */
};

/* ---- one look ---- */

static void on_look(void *data)
{
    struct look *look = data;
    look->rc = socket_look_take(&look->sockets, &look->error);
}

static void look_free(void *data)
{
    struct look *look = data;
    socket_look_deinit(&look->sockets);
    free(look);
}

static void tell(const struct bypass_watch *w)
{
    if (w->foreign.lasting > 0 && w->lasting == 0) {
        log_warn("connections of this pod go to the API server and not through localproxy: what "
                 "they are used for is not limited to the shard",
                 log_num("connections", (int64_t)w->foreign.lasting));
    }
}

/* A second look may already be behind us. */
static void take_in(struct bypass_watch *w, const struct socket_look *sockets)
{
    bool again = w->looked;
    bool fresh = foreign_connections_update(&w->foreign, sockets);
    uint64_t now = net_clock_now(w->clock);
    tell(w);
    if (w->foreign.lasting > 0) {
        w->lasting = (unsigned)w->foreign.lasting;
        w->lasting_at = now;
    } else if (now - w->lasting_at >= HOLD_MS) {
        w->lasting = 0;
    }
    w->looked = true;
    w->known = w->known || again || !fresh;
    if (fresh && w->asked) {
        net_clock_set_timer(w->clock, w->timer, BETWEEN_MS);
    }
}

static void on_looked(void *data)
{
    struct look *look = data;
    struct bypass_watch *w = look->watch;
    w->call = NULL;
    w->error = look->error;
    w->error.code = look->rc;
    if (look->rc == 0) {
        take_in(w, &look->sockets);
    } else {
        w->known = false;
    }
    look_free(look);
}

static void begin(struct bypass_watch *w, bool asked)
{
    static const struct net_blocking_ops ops = {on_look, on_looked, look_free};
    struct look *look = calloc(1, sizeof *look);
    w->asked = asked;
    w->looked_at = net_clock_now(w->clock);
    if (look == NULL) {
        return; /* the next question begins another one */
    }
    look->watch = w;
    w->call = net_blocking_start(w->loop, &ops, look);
    if (w->call == NULL) {
        look_free(look);
    }
}

static bool is_due(const struct bypass_watch *w)
{
    return w->call == NULL &&
           (w->looked_at == 0 || net_clock_now(w->clock) - w->looked_at >= BETWEEN_MS);
}

static void on_timer(void *data)
{
    struct bypass_watch *w = data;
    if (is_due(w)) {
        begin(w, false);
    }
}

struct bypass_answer bypass_watch_ask(struct bypass_watch *w)
{
    if (is_due(w)) {
        begin(w, true);
    }
    return (struct bypass_answer){
        .known = w->known,
        .connections = w->lasting,
        .error = w->error.code != 0 ? w->error.msg : NULL,
    };
}

/* ---- life ---- */

/* A name becomes known by our own connections. */
static void name_server(struct foreign_connections *f, const struct url *server)
{
    struct sockaddr_storage address;
    if (net_address_literal(server->host, server->port, &address) == 0) {
        struct socket_end end = socket_end_of(&address);
        foreign_connections_name(f, &end);
    }
}

static void note_own_ports(struct foreign_connections *f, const struct bypass_watch_options *o)
{
    for (size_t i = 0; i < ARRAY_LEN(o->own); i++) {
        struct sockaddr_storage address;
        struct err e = ERR_INIT;
        if (o->own[i] != NULL && o->own[i][0] != '\0' &&
            net_address_parse(o->own[i], &address, &e) == 0) {
            f->own_ports[i] = socket_end_of(&address).port;
        }
    }
}

struct bypass_watch *bypass_watch_new(struct net_loop *l, const struct bypass_watch_options *o,
                                      struct err *e)
{
    struct bypass_watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        err_memory(e);
        return NULL;
    }
    w->loop = l;
    w->clock = o->clock != NULL ? o->clock : &net_clock_system;
    w->timer = net_timer_new(l, on_timer, w);
    if (w->timer == NULL) {
        err_memory(e);
        free(w);
        return NULL;
    }
    name_server(&w->foreign, o->server);
    note_own_ports(&w->foreign, o);
    w->foreign.port = o->through_proxy ? 0 : o->server->port;
    return w;
}

void bypass_watch_free(struct bypass_watch *w)
{
    if (w != NULL) {
        net_blocking_drop(w->call);
        net_timer_free(w->timer);
        free(w);
    }
}
