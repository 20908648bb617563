/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - requests to one API server as somebody: an HTTP client with its credentials.
 */
#ifndef CORE_KUBE_CLIENT_CLIENT_H
#define CORE_KUBE_CLIENT_CLIENT_H

#include "base/err.h"
#include "base/log.h"
#include "http/client.h"
#include "http/exchange.h"
#include "http/fetch.h"
#include "kube/access/access.h"
#include "kube/access/credential_text.h"
#include "kube/client/health.h"
#include "kube/request_info.h"
#include "net/clock.h"
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
    /* Where it reports what is wrong between it and the API server; outlives it. NULL: a table of
     * its own. */
    struct health *health;
    /* Which role should allow a request of the program's own, as a remedy: "bind the ClusterRole x
     * to its service account". NULL: nobody knows. */
    const char *(*granted_by)(const struct request_info *ri);
    const struct net_clock *clock; /* of its questions and tables; NULL: the system's */
    unsigned expiry_look_ms;       /* 0: EXPIRY_LOOK_MS (expiry.h) */
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

/* As http_client_request. A head that is `borrowed` is somebody else's request, carried on, or one
 * that the program can do without. The head is the caller's without Host, Authorization and
 * hop-by-hop headers; the server's path prefix, Host, Authorization and Impersonate-* (if the
 * kubeconfig has them; the head's own are dropped then) are put in. */
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

struct health *kube_client_health(const struct kube_client *c);
/* For how long the API server has refused the credentials: ms; 0: it does not. It is asked by a
 * request of the client's own when any answer has status 401 (kube/client/credential_check.h). */
uint64_t kube_client_refused_ms(const struct kube_client *c);
/* Which credential requests have, for messages. */
void kube_client_describe(const struct kube_client *c, struct credential_text *out);

/* A request of the program's own was answered 403, with that message, or was not. Reports the
 * permission that is missing; false: it is not that, for admission plugins answer 403, too. */
bool kube_client_denied(struct kube_client *c, struct slice method, struct slice target,
                        const char *message);
void kube_client_granted(struct kube_client *c, struct slice method, struct slice target);

/* At which level to log that a request failed, with that status or, 0, without an answer: LOG_WARN,
 * or less where the cause has a line of its own (kube/client/health.h). */
enum log_level kube_client_failure_level(const struct kube_client *c, unsigned status);

/* Running exchanges get on_close; `cb` is the last access. */
void kube_client_close(struct kube_client *c, kube_client_close_cb cb, void *data);

#endif
