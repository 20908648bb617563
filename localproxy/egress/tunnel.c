/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: tunnel_begin > on_open, which answers > from_client and from_host >
 * client_ended and host_ended, in either order > client_closed.
 *
 * Ways to fail: not opened (refuse, which hands the exchange back); the client goes away
 * (client_closed); the host breaks off, or nothing moves (break_off).
 */
#include "egress/tunnel.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/state_machine.h"
#include "egress/client_hello.h"
#include "http/proxy_connect.h"
#include "net/deadline.h"
#include "net/stream.h"

enum {
    HALF_CLOSED_MS = 60000,
    HELLO_MS = 10000, /* until the next part of a ClientHello */
    REVIEWED_MAX = 256,
};

static const char forbidden_since[] = "a rule that is in force since then forbids it";

/*
 *     DIALLING --> OPEN --> CLIENT_ENDED --+
 *                   |                      |
 *                   +-----> HOST_ENDED ----+--> ENDED
 */
enum tunnel_state {
    TUNNEL_DIALLING,
    TUNNEL_OPEN,
    TUNNEL_CLIENT_ENDED,
    TUNNEL_HOST_ENDED,
    TUNNEL_ENDED, /* the exchange's on_close is to follow */
};

static const struct state_machine machine = {
    .object = "tunnel",
    .states = {[TUNNEL_DIALLING] = {"Dialling", STATE(TUNNEL_OPEN)},
               [TUNNEL_OPEN] = {"Open", STATE(TUNNEL_CLIENT_ENDED) | STATE(TUNNEL_HOST_ENDED)},
               [TUNNEL_CLIENT_ENDED] = {"ClientEnded", STATE(TUNNEL_ENDED)},
               [TUNNEL_HOST_ENDED] = {"HostEnded", STATE(TUNNEL_ENDED)},
               [TUNNEL_ENDED] = {"Ended", 0}},
};

struct tunnel {
    struct tunnels *all;
    struct list link;
    struct http_exchange *x;
    struct net_stream *stream; /* to the host; NULL: it was let go */
    struct proxy_connect
        *connector; /* NULL: there is no proxy, or the tunnel through it is there */
    struct passage passage;
    struct net_deadline limit; /* nothing moves; not while dialling */
    enum tunnel_state state;
    bool patient;      /* the limit was prolonged, for bytes wait to be read */
    bool proxied;      /* through another proxy */
    bool looked;       /* at what the client sends first */
    struct buf *hello; /* a part of a ClientHello, which has gone to the host; NULL: none */
    struct byte_share hello_share;
    char *name; /* that the TLS client has asked for; NULL: none but the host */
    uint64_t sent;
    uint64_t received;
    struct destination to;
};

static void set_state(struct tunnel *t, enum tunnel_state next)
{
    t->state = state_change(&machine, t->state, next, slice_str(t->to.host));
}

/* ---- the end ---- */

static void drop_hello(struct tunnel *t)
{
    if (t->hello != NULL) {
        buf_reset(t->hello);
        free(t->hello);
        t->hello = NULL;
        byte_share_give_back(&t->hello_share);
    }
}

/* It is none of all of them any more, and owes no breaker anything. */
static void leave(struct tunnel *t)
{
    drop_hello(t);
    free(t->name);
    list_remove(&t->link);
    t->all->count--;
    net_deadline_clear(&t->limit);
    passage_end(&t->passage);
}

/* However far it has come. */
static void drop_host(struct tunnel *t)
{
    proxy_connect_free(t->connector);
    t->connector = NULL;
    if (t->stream != NULL && t->state == TUNNEL_DIALLING) {
        net_stream_close(t->stream);
    } else if (t->stream != NULL) {
        net_stream_reset(t->stream);
    }
    t->stream = NULL;
}

/* The last access. */
static void end(struct tunnel *t)
{
    struct tunnels *all = t->all;
    bool opened = t->state != TUNNEL_DIALLING;
    leave(t);
    if (opened) {
        all->on_over(all->data, &t->to, t->sent, t->received);
    }
    free(t);
}

/* An open one: both sides can tell it from an orderly end. The last access. */
static void break_off(struct tunnel *t)
{
    drop_host(t);
    http_exchange_abort(t->x);
    end(t);
}

/* One that is not open: the exchange is handed back. The last access. */
static void refuse(struct tunnel *t, unsigned code, const char *why)
{
    struct tunnels *all = t->all;
    drop_host(t);
    leave(t);
    t->x->handlers = NULL;
    t->x->data = NULL;
    all->on_failed(all->data, t->x, code, &t->to, why);
    free(t);
}

/* The host could not be reached. The last access. */
static void fail(struct tunnel *t, const struct err *e)
{
    struct err why = *e;
    bool forbidden = why.code == NET_DIAL_FORBIDDEN;
    unsigned code = why.code == UV_ETIMEDOUT ? 504 : 502;
    reach_explain(&why);
    if (!forbidden) {
        breaker_ticket_answered(&t->passage.ticket, true);
    }
    refuse(t, forbidden ? 403 : code, why.msg);
}

/* ---- nothing moves ---- */

static uint64_t limit_ms(const struct tunnel *t)
{
    uint64_t ms = t->all->idle_ms;
    if (t->state != TUNNEL_OPEN && ms > HALF_CLOSED_MS) {
        ms = HALF_CLOSED_MS;
    }
    return t->hello != NULL && ms > HELLO_MS ? HELLO_MS : ms;
}

static void note_move(struct tunnel *t)
{
    t->patient = false;
    net_deadline_set(t->all->loop, &t->limit, limit_ms(t));
}

/* Whether the side that has not ended has yet to read something. */
static bool is_read_slowly(const struct tunnel *t)
{
    return http_exchange_blocked(t->x) || !net_stream_flushed(t->stream);
}

static void on_limit(struct net_deadline *d)
{
    struct tunnel *t = LIST_ITEM(d, struct tunnel, limit);
    uint64_t idle_ms = t->all->idle_ms;
    if (limit_ms(t) < idle_ms && !t->patient && is_read_slowly(t)) {
        t->patient = true;
        net_deadline_set(t->all->loop, &t->limit, idle_ms - limit_ms(t));
        return;
    }
    t->all->idle_closed++;
    break_off(t);
}

/* One side sends no more. */
static void side_ended(struct tunnel *t, enum tunnel_state ended)
{
    if (t->state == TUNNEL_OPEN) {
        set_state(t, ended);
        note_move(t);
        return;
    }
    set_state(t, TUNNEL_ENDED);
    net_deadline_clear(&t->limit);
    net_stream_finish(t->stream);
    t->stream = NULL;
}

/* ---- the name that a TLS client asks for ---- */

static void describe(const struct tunnel *t, struct traffic_external *q)
{
    static const struct http_head none = {.status = 0}; /* nothing of it is used */
    destination_describe(&t->to, &none, q);
}

/* As a rule would have it if the client had asked for it in the first place. */
static bool is_name_allowed(const struct tunnel *t, const char *name,
                            bool (*allows)(void *data, const struct traffic_external *q),
                            void *data)
{
    struct traffic_external q;
    describe(t, &q);
    q.host = slice_str(name);
    return allows(data, &q);
}

/* What the client has asked for. False: it may not, or there is no memory. */
static bool take_name(struct tunnel *t, const char *name)
{
    if (strcmp(name, t->to.host) == 0) {
        return true;
    }
    t->name = strdup(name);
    return t->name != NULL && is_name_allowed(t, name, t->all->allows_name, t->all->data);
}

/* False: no memory, or no more may be kept. */
static bool keep_hello(struct tunnel *t, struct slice data)
{
    if (t->hello == NULL) {
        t->hello = malloc(sizeof *t->hello);
        if (t->hello == NULL) {
            return false;
        }
        buf_init(t->hello, CLIENT_HELLO_BYTES_MAX + NET_READ_SIZE);
        byte_share_init(&t->hello_share, t->all->budget);
    }
    return byte_share_set(&t->hello_share, buf_size_with(t->hello, data.len)) &&
           buf_append(t->hello, data.ptr, data.len) == 0;
}

/* Nothing is held back for it: without its end a ClientHello is of no use to the host. */
static bool may_pass(struct tunnel *t, struct slice data)
{
    struct client_hello hello;
    if (t->looked || t->all->allows_name == NULL) {
        return true;
    }
    if (t->hello != NULL && !keep_hello(t, data)) {
        return false;
    }
    switch (client_hello_read(t->hello != NULL ? buf_slice(t->hello) : data, &hello)) {
    case CLIENT_HELLO_MORE:
        return t->hello != NULL || keep_hello(t, data);
    case CLIENT_HELLO_NONE:
        break;
    case CLIENT_HELLO_READ:
        if (hello.name[0] != '\0' && !take_name(t, hello.name)) {
            return false;
        }
        break;
    case CLIENT_HELLO_BAD:
        if (!take_name(t, "")) {
            return false;
        }
        break;
    }
    t->looked = true;
    drop_hello(t);
    return true;
}

/* ---- the client ---- */

static void from_client(struct http_exchange *x, struct slice data)
{
    struct tunnel *t = x->data;
    if (!may_pass(t, data) || net_stream_write(t->stream, &data, 1) != 0) {
        break_off(t);
        return;
    }
    t->sent += data.len;
    t->all->sent += data.len;
    t->all->bytes += data.len;
    note_move(t);
    if (net_stream_blocked(t->stream)) {
        http_exchange_pause(x);
    }
}

static void client_ended(struct http_exchange *x)
{
    struct tunnel *t = x->data;
    net_stream_shutdown(t->stream);
    side_ended(t, TUNNEL_CLIENT_ENDED);
}

static void client_drained(struct http_exchange *x)
{
    struct tunnel *t = x->data;
    if (t->stream != NULL && t->state != TUNNEL_DIALLING) {
        note_move(t);
        net_stream_read_start(t->stream);
    }
}

static void client_closed(struct http_exchange *x, const struct err *e)
{
    struct tunnel *t = x->data;
    (void)e;
    if (t->state == TUNNEL_DIALLING) {
        breaker_ticket_given_up(&t->passage.ticket);
    }
    drop_host(t);
    end(t);
}

static const struct http_exchange_handlers client_handlers = {
    .on_body = from_client,
    .on_end = client_ended,
    .on_drain = client_drained,
    .on_close = client_closed,
};

/* ---- the host ---- */

/* Headers that would say how the body is framed have no place there (RFC 9110 section 9.3.6). */
static int tell_open(struct tunnel *t)
{
    const struct http_head head = {
        .status = 200,
        .reason = SLICE("Connection established"),
        .minor = 1,
        .framing = HTTP_BODY_NONE,
        .unhurried = true,
    };
    return http_exchange_send_head(t->x, &head);
}

/* Whether the address that it leads to may still be reached; what another proxy leads to is not
 * seen. */
static bool is_address_allowed(const struct tunnel *t)
{
    const struct net_dial_gate *gate = reach_gate(t->all->reach);
    struct sockaddr_storage address;
    return t->stream == NULL || t->proxied ||
           (net_stream_peer_address(t->stream, &address) == 0 &&
            gate->allows(gate->data, (const struct sockaddr *)&address));
}

static void on_open(void *data)
{
    struct tunnel *t = data;
    t->connector = NULL;
    if (!is_address_allowed(t)) {
        refuse(t, 403, forbidden_since);
        return;
    }
    breaker_ticket_answered(&t->passage.ticket, false);
    passage_end(&t->passage);
    set_state(t, TUNNEL_OPEN);
    t->all->opened++;
    if (tell_open(t) != 0) {
        break_off(t);
        return;
    }
    note_move(t);
    net_stream_read_start(t->stream);
    if (t->all->on_opened != NULL) {
        t->all->on_opened(t->all->data, &t->to);
    }
}

static void from_host(void *data, struct slice bytes)
{
    struct tunnel *t = data;
    if (http_exchange_send_body(t->x, bytes) != 0) {
        break_off(t);
        return;
    }
    t->received += bytes.len;
    t->all->bytes += bytes.len;
    note_move(t);
    if (http_exchange_blocked(t->x)) {
        net_stream_read_stop(t->stream);
    }
}

static void host_ended(void *data)
{
    struct tunnel *t = data;
    if (http_exchange_send_end(t->x) != 0) {
        break_off(t);
        return;
    }
    side_ended(t, TUNNEL_HOST_ENDED);
}

static void host_drained(void *data)
{
    struct tunnel *t = data;
    note_move(t);
    http_exchange_resume(t->x);
}

static void host_failed(void *data, const struct err *e)
{
    struct tunnel *t = data;
    t->connector = NULL;
    if (t->state == TUNNEL_DIALLING) {
        fail(t, e);
    } else {
        break_off(t);
    }
}

static const struct net_stream_handlers host_handlers = {
    .on_open = on_open,
    .on_read = from_host,
    .on_eof = host_ended,
    .on_drain = host_drained,
    .on_error = host_failed,
};

/* ---- the beginning ---- */

static int dial(struct tunnel *t, const struct http_proxy *proxy, struct err *e)
{
    struct tunnels *all = t->all;
    const struct net_dial_options o = {
        .host = t->to.host,
        .port = t->to.port,
        .gate = proxy == NULL ? reach_gate(all->reach) : NULL,
        .connect_timeout_ms = all->connect_timeout_ms,
    };
    int rc = proxy == NULL ? net_dial(all->loop, &o, &host_handlers, t, &t->stream, e)
                           : proxy_connect(all->loop, proxy, &o, &host_handlers, t, &t->connector,
                                           &t->stream, e);
    if (rc == 0) {
        net_stream_set_backlog(t->stream, all->backlog);
    }
    return rc;
}

bool tunnel_begin(struct tunnels *all, struct http_exchange *x, const struct destination *target,
                  const struct http_proxy *proxy, struct passage *passage)
{
    struct err e = ERR_INIT;
    struct tunnel *t = all->count < all->max ? calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        return false;
    }
    t->all = all;
    t->x = x;
    t->to = *target;
    t->proxied = proxy != NULL;
    net_deadline_init(&t->limit, on_limit);
    int rc = dial(t, proxy, &e);
    if (rc == UV_ENOMEM) {
        free(t);
        return false;
    }
    passage_move(&t->passage, passage);
    list_append(&all->all, &t->link);
    all->count++;
    if (rc != 0) {
        fail(t, &e);
        return true;
    }
    x->handlers = &client_handlers;
    x->data = t;
    return true;
}

/* ---- all of them ---- */

void tunnels_init(struct tunnels *all, struct net_loop *l)
{
    *all = (struct tunnels){.loop = l};
    list_init(&all->all);
}

void tunnels_deinit(struct tunnels *all)
{
    while (!list_empty(&all->all)) {
        struct tunnel *t = LIST_ITEM(all->all.next, struct tunnel, link);
        drop_host(t);
        http_exchange_abort(t->x);
        leave(t);
        free(t);
    }
}

/* Hosts that were found to be allowed in a review, mostly few for many tunnels: rules may have
 * expressions that take long. Of those that share a place the last one is there. */
struct reviewed {
    bool (*allows)(void *data, const struct traffic_external *q);
    void *data;
    struct place {
        const char *host; /* of a tunnel that stays; NULL: none */
        unsigned port;
    } places[REVIEWED_MAX];
};

static struct place *place_of(struct reviewed *r, const char *host, unsigned port)
{
    return &r->places[(hash_slice(HASH_SEED, slice_str(host)) + port) % REVIEWED_MAX];
}

static bool is_host_allowed(struct reviewed *r, const struct tunnel *t, const char *host)
{
    const struct place *p = place_of(r, host, t->to.port);
    bool known = p->host != NULL && p->port == t->to.port && strcmp(p->host, host) == 0;
    return known || is_name_allowed(t, host, r->allows, r->data);
}

static void note_allowed(struct reviewed *r, const struct tunnel *t, const char *host)
{
    *place_of(r, host, t->to.port) = (struct place){host, t->to.port};
}

/* By the host, by the name, and by the address. */
static bool still_allowed(struct reviewed *r, const struct tunnel *t)
{
    bool dialling = t->state == TUNNEL_DIALLING;
    if (!is_host_allowed(r, t, t->to.host) ||
        (t->name != NULL && !is_host_allowed(r, t, t->name)) ||
        (!dialling && !is_address_allowed(t))) {
        return false;
    }
    note_allowed(r, t, t->to.host);
    if (t->name != NULL) {
        note_allowed(r, t, t->name);
    }
    return true;
}

void tunnels_review(struct tunnels *all,
                    bool (*allows)(void *data, const struct traffic_external *q), void *data)
{
    struct reviewed reviewed = {.allows = allows, .data = data};
    LIST_FOR_EACH_SAFE(node, after, &all->all)
    {
        struct tunnel *t = LIST_ITEM(node, struct tunnel, link);
        if (still_allowed(&reviewed, t)) {
            continue;
        }
        if (t->state == TUNNEL_DIALLING) {
            refuse(t, 403, forbidden_since);
        } else {
            break_off(t);
        }
    }
}

void tunnels_drain(struct tunnels *all)
{
    LIST_FOR_EACH_SAFE(node, after, &all->all)
    {
        struct tunnel *t = LIST_ITEM(node, struct tunnel, link);
        if (t->state == TUNNEL_DIALLING) {
            refuse(t, 503, "localproxy is shutting down");
        }
    }
}
