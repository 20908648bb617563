/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/origins.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "net/deadline.h"

enum {
    CA_MAX = 4 * 1024 * 1024,
    TARGET_MAX = 128 * 1024, /* what a parser lets through, and the host */
    HEADERS_OUT_MAX = 176,   /* relay.c gives no more than HEADERS_MAX */
    IDLE_MS = 30000,         /* many servers close unused connections after a minute */
    USER_TIMEOUT_MS = 30000, /* a dead server is found within this */
    KEPT_MS = 300000,        /* a pool without connections; TLS sessions go with it */
    LOOK_MS = 5000,          /* how often it is looked for what can go */
    IDLE_EACH_MAX = 64,
};

/* Room for "https://" and the host with its port, or "proxy ". */
#define KEY_SIZE (DESTINATION_HOST_PORT_SIZE + sizeof "https://")

struct origin {
    struct table_node node;
    struct list link; /* in all->by_use, the one used last at the end */
    struct http_client *client;
    struct tls_config *tls; /* NULL: plain */
    uint64_t used_at;
    char key[KEY_SIZE];
};

struct origins {
    struct net_loop *loop;
    struct origins_options o;
    struct tls_trust *trust;
    struct err no_trust; /* why it is NULL */
    struct table by_key;
    struct list by_use;
    struct net_deadline look;
};

/* ---- what goes ---- */

static void origin_free(struct origins *all, struct origin *o)
{
    list_remove(&o->link);
    table_remove(&all->by_key, &o->node);
    http_client_free(o->client);
    tls_config_unref(o->tls);
    free(o);
}

static void close_unused(struct origin *o)
{
    http_client_set_tls(o->client, o->tls, NULL);
}

/* For a new one. Where requests are under way everywhere, there are more for a while: each of them
 * has a client's connection, of which there are so many. */
static void make_room(struct origins *all)
{
    LIST_FOR_EACH_SAFE(node, after, &all->by_use)
    {
        struct origin *o = LIST_ITEM(node, struct origin, link);
        if (all->by_key.count < ORIGINS_MAX) {
            return;
        }
        if (http_client_stats(o->client)->busy == 0) {
            origin_free(all, o);
        }
    }
}

static void on_look(struct net_deadline *d)
{
    struct origins *all = LIST_ITEM(d, struct origins, look);
    unsigned idle = origins_stats(all).idle;
    LIST_FOR_EACH_SAFE(node, after, &all->by_use)
    {
        struct origin *o = LIST_ITEM(node, struct origin, link);
        const struct http_client_stats *s = http_client_stats(o->client);
        bool unused = net_loop_now(all->loop) - o->used_at >= KEPT_MS;
        if (unused && s->busy == 0 && s->open == 0) {
            origin_free(all, o);
        } else if (idle > ORIGINS_IDLE_MAX) {
            idle -= s->idle;
            close_unused(o);
        }
    }
    if (!list_empty(&all->by_use)) {
        net_deadline_set(all->loop, d, LOOK_MS);
    }
}

/* ---- what is there ---- */

static int make_tls(const struct origins *all, const struct destination *t, struct origin *o,
                    struct err *e)
{
    const struct tls_client_options to = {.trust = all->trust, .server_name = t->host};
    if (!t->https) {
        return 0;
    }
    if (all->trust == NULL) {
        return err_set(e, -EINVAL, "%s", all->no_trust.msg);
    }
    o->tls = tls_config_new_client(&to, e);
    return o->tls == NULL ? e->code : 0;
}

/* Of who is connected to. With a proxy on the way, that has its own. */
static struct net_dial_gate *gate_of(const struct origins *all, const struct http_proxy *proxy,
                                     bool absolute)
{
    if (proxy == NULL) {
        return reach_gate(all->o.reach);
    }
    return absolute ? proxy->gate : NULL;
}

/* `proxy`: on the way there; `absolute`: it is what is connected to. */
static struct http_client *client_of(const struct origins *all, const struct destination *t,
                                     const struct http_proxy *proxy, bool absolute,
                                     struct tls_config *tls, struct err *e)
{
    const struct http_client_options o = {
        .host = absolute ? proxy->host : t->host,
        .port = absolute ? proxy->port : t->port,
        .proxy = absolute ? NULL : proxy,
        .gate = gate_of(all, proxy, absolute),
        .tls = tls,
        .connect_timeout_ms = all->o.connect_timeout_ms,
        .idle_timeout_ms = IDLE_MS,
        .write_timeout_ms = all->o.write_timeout_ms,
        .user_timeout_ms = USER_TIMEOUT_MS,
        .max_idle = IDLE_EACH_MAX,
    };
    struct http_client *c = http_client_new(all->loop, &o, e);
    if (c != NULL) {
        http_client_set_backlog(c, all->o.backlog);
    }
    return c;
}

static struct origin *origin_new(struct origins *all, const struct destination *t, const char *key,
                                 const struct http_proxy *proxy, bool absolute, struct err *e)
{
    struct origin *o = calloc(1, sizeof *o);
    if (o == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    memcpy(o->key, key, strlen(key) + 1);
    list_init(&o->link);
    int rc = make_tls(all, t, o, e);
    if (rc == 0) {
        o->client = client_of(all, t, proxy, absolute, o->tls, e);
        rc = o->client == NULL ? e->code : 0;
    }
    if (rc == 0) {
        make_room(all);
        rc = table_insert(&all->by_key, &o->node, o->key) != 0 ? err_memory(e) : 0;
    }
    if (rc != 0) {
        http_client_free(o->client);
        tls_config_unref(o->tls);
        free(o);
        return NULL;
    }
    return o;
}

static struct origin *origin_get(struct origins *all, const struct destination *t,
                                 const struct http_proxy *proxy, bool absolute, struct err *e)
{
    char key[KEY_SIZE] = "proxy";
    char host[DESTINATION_HOST_PORT_SIZE];
    if (!absolute) {
        destination_host_port(t, false, host);
        (void)snprintf(key, sizeof key, "%s://%s", t->https ? "https" : "http", host);
    }
    struct table_node *n = table_find(&all->by_key, key);
    struct origin *o =
        n != NULL ? LIST_ITEM(n, struct origin, node) : origin_new(all, t, key, proxy, absolute, e);
    if (o == NULL) {
        return NULL;
    }
    if (list_empty(&all->by_use)) {
        net_deadline_set(all->loop, &all->look, LOOK_MS);
    }
    list_remove(&o->link);
    list_append(&all->by_use, &o->link);
    o->used_at = net_loop_now(all->loop);
    return o;
}

/* ---- requests ---- */

/* RFC 9112, section 3.2: in absolute form to a proxy, else in origin form, or "*" where OPTIONS is
 * asked of the server as a whole. */
static int write_target(const struct destination *t, const struct http_head *head, bool absolute,
                        struct buf *out)
{
    char host[DESTINATION_HOST_PORT_SIZE];
    bool whole =
        t->origin.len == 0 && t->query.len == 0 && slice_eq(head->method, SLICE("OPTIONS"));
    if (absolute) {
        destination_host_port(t, true, host);
        buf_printf(out, "http://%s", host);
    }
    if (whole) {
        buf_append_str(out, absolute ? "" : "*");
    } else if (t->origin.len == 0) {
        buf_append_str(out, t->query.len > 0 ? "/?" : "/");
        buf_append(out, t->query.ptr, t->query.len);
    }
    return buf_append(out, t->origin.ptr, t->origin.len);
}

struct http_exchange *origins_request(struct origins *all, const struct destination *t,
                                      const struct http_head *head,
                                      const struct http_exchange_handlers *handlers, void *data,
                                      struct err *e)
{
    struct http_header headers[HEADERS_OUT_MAX];
    struct buf target = BUF_INIT(TARGET_MAX);
    struct http_exchange *x = NULL;
    const struct http_proxy *proxy = via_of(all->o.via, t);
    bool absolute = proxy != NULL && !t->https;
    struct origin *o = origin_get(all, t, proxy, absolute, e);
    struct http_head h = *head;
    if (o == NULL) {
        return NULL;
    }
    if (absolute && proxy->authorization != NULL && head->header_count < HEADERS_OUT_MAX) {
        memcpy(headers, head->headers, head->header_count * sizeof *headers);
        headers[h.header_count++] =
            (struct http_header){SLICE("Proxy-Authorization"), slice_str(proxy->authorization)};
        h.headers = headers;
    }
    if (write_target(t, head, absolute, &target) != 0) {
        (void)err_memory(e);
    } else {
        h.target = buf_slice(&target);
        x = http_client_request(o->client, &h, handlers, data, e);
    }
    buf_reset(&target);
    return x;
}

const char *origins_asked_proxy(const struct origins *all, const struct destination *t)
{
    return via_of(all->o.via, t) != NULL && !t->https ? via_name(all->o.via) : NULL;
}

bool origins_still_reaches(const struct origins *all, const struct destination *t,
                           const struct http_exchange *x)
{
    const struct net_dial_gate *gate = reach_gate(all->o.reach);
    struct sockaddr_storage address;
    return via_of(all->o.via, t) != NULL ||
           (http_client_peer_address(x, &address) == 0 &&
            gate->allows(gate->data, (const struct sockaddr *)&address));
}

void origins_forget(struct origins *all)
{
    LIST_FOR_EACH(node, &all->by_use)
    {
        close_unused(LIST_ITEM(node, struct origin, link));
    }
}

struct origins_stats origins_stats(const struct origins *all)
{
    struct origins_stats sum = {.pools = (unsigned)all->by_key.count};
    LIST_FOR_EACH(node, &all->by_use)
    {
        const struct http_client_stats *s =
            http_client_stats(LIST_ITEM(node, struct origin, link)->client);
        sum.open += s->open;
        sum.idle += s->idle;
    }
    return sum;
}

/* ---- life ---- */

static struct tls_trust *read_trust(const char *ca_file, struct err *e)
{
    struct buf text = BUF_INIT(CA_MAX);
    struct tls_trust *trust = NULL;
    if (file_read(ca_file, &text, e) == 0) {
        if (text.len > 0) {
            trust = tls_trust_new(buf_slice(&text), ca_file, e);
        } else {
            (void)err_set(e, -EINVAL, "%s is empty", ca_file);
        }
    }
    buf_reset(&text);
    return trust;
}

/* Images may have no authorities: for who only uses tunnels, none are needed. */
static int open_trust(struct origins *all, struct err *e)
{
    if (all->o.ca_file != NULL) {
        all->trust = read_trust(all->o.ca_file, e);
        if (all->trust == NULL) {
            err_prefix(e, "--egress-ca");
            return e->code;
        }
        return 0;
    }
    all->no_trust = (struct err)ERR_INIT;
    all->trust = tls_trust_new((struct slice){0}, NULL, &all->no_trust);
    if (all->trust == NULL) {
        log_warn("--egress cannot speak TLS itself: tunnels and plain requests are served",
                 log_str("error", all->no_trust.msg));
    }
    return all->no_trust.code == -ENOMEM ? err_memory(e) : 0;
}

struct origins *origins_new(struct net_loop *l, const struct origins_options *o, struct err *e)
{
    struct origins *all = calloc(1, sizeof *all);
    if (all == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    all->loop = l;
    all->o = *o;
    list_init(&all->by_use);
    net_deadline_init(&all->look, on_look);
    if (open_trust(all, e) != 0) {
        origins_free(all);
        return NULL;
    }
    return all;
}

void origins_free(struct origins *all)
{
    if (all == NULL) {
        return;
    }
    net_deadline_clear(&all->look);
    while (!list_empty(&all->by_use)) {
        origin_free(all, LIST_ITEM(all->by_use.next, struct origin, link));
    }
    table_deinit(&all->by_key);
    tls_trust_unref(all->trust);
    free(all);
}
