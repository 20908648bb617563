/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - requests to one API server as somebody: an HTTP client with its credentials.
 */
#ifndef CORE_KUBE_CLIENT_CLIENT_H
#define CORE_KUBE_CLIENT_CLIENT_H

#include "base/err.h"
#include "http/client.h"
#include "http/exchange.h"
#include "http/fetch.h"
#include "kube/access/access.h"
#include "net/loop.h"

struct kube_client;

struct kube_client_options {
    const struct kube_access *access; /* must outlive the client */
    unsigned max_idle;                /* unused connections kept */
    unsigned user_timeout_ms; /* what the server has not acknowledged for so long is given up, by
                                 the kernel too; 0: 30,000 */
    bool http1_only;          /* HTTP/2 is not offered; otherwise the server chooses, over TLS */
    /* As http_client_options. */
    bool (*may_send)(void *data);
    void *may_data;
    /* Credentials became usable or ceased to be; may be NULL. Never called from
     * kube_client_new. */
    void (*on_change)(void *data);
    void *data;
};

typedef void (*kube_client_close_cb)(void *data);

/* Reads certificates and begins to fetch credentials; connects with the first request. NULL with
 * `e` set, which names file and field. */
MUST_CHECK struct kube_client *kube_client_new(struct net_loop *l,
                                               const struct kube_client_options *o, struct err *e);

/* Whether there are credentials to send; if not, why. The text is valid until the loop runs on. */
bool kube_client_ready(const struct kube_client *c);
const char *kube_client_error(const struct kube_client *c);

/* "https://host:port/prefix", for messages. */
const char *kube_client_server(const struct kube_client *c);
const struct http_client_stats *kube_client_stats(const struct kube_client *c);
/* As those of http_client. */
const char *kube_client_unreachable(const struct kube_client *c);
uint64_t kube_client_failing_ms(const struct kube_client *c);

/* As http_client_request. The head is the caller's without Host, Authorization and hop-by-hop
 * headers; the server's path prefix, Host, Authorization and Impersonate-* (if the kubeconfig has
 * them; the head's own are dropped then) are put in. */
MUST_CHECK struct http_exchange *kube_client_request(struct kube_client *c,
                                                     const struct http_head *head,
                                                     const struct http_exchange_handlers *handlers,
                                                     void *data, struct err *e);

/* For http_fetch_start. */
struct http_requester kube_client_requester(struct kube_client *c);

/* As http_client_set_backlog. */
void kube_client_set_backlog(struct kube_client *c, struct net_backlog *backlog);

/* As http_client_break_off. */
void kube_client_break_off(struct kube_client *c);

/* To be told when a response had status 401. */
void kube_client_rejected(struct kube_client *c);

/* Running exchanges get on_close; `cb` is the last access. */
void kube_client_close(struct kube_client *c, kube_client_close_cb cb, void *data);

#endif
