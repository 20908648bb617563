/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.h - one request with a whole body out and a whole answer in, within a time limit.
 */
#ifndef CORE_HTTP_FETCH_H
#define CORE_HTTP_FETCH_H

#include <stdint.h>

#include "base/err.h"
#include "http/client.h"
#include "http/exchange.h"
#include "net/loop.h"

/* Whose connections a request goes over: http_client_requester, kube_client_requester
 * (kube/client/client.h). */
struct http_requester {
    /* As http_client_request. */
    struct http_exchange *(*request)(void *client, const struct http_head *head,
                                     const struct http_exchange_handlers *handlers, void *data,
                                     struct err *e);
    void *client;
};

struct http_requester http_client_requester(struct http_client *c);

/* Headers of the answer that can be asked for. */
#define HTTP_FETCH_WANTED_MAX 4

struct http_fetch_options {
    struct http_requester via;
    struct slice method;
    struct slice target;
    const struct http_header *headers; /* what the requester wants of its caller: an http_client
                                          wants Host; no framing headers */
    size_t header_count;
    struct slice body;         /* empty ptr: none. Copied, as all of the request is */
    size_t answer_max;         /* bytes of the answer's body */
    uint64_t timeout_ms;       /* from now to the answer's last byte; 0: no limit */
    const char *const *wanted; /* names of headers of the answer, ends with NULL; kept, not copied;
                                  NULL: none; more than HTTP_FETCH_WANTED_MAX are left out */
};

/* Valid during the callback. */
struct http_answer {
    unsigned status;
    struct slice body;
    const char *headers[HTTP_FETCH_WANTED_MAX]; /* values in the order of `wanted`; NULL: absent */
};

struct http_fetch;

/* Runs once, unless cancelled, and never inside http_fetch_start; the fetch is gone with its
 * return. `a` is an answer of any status, or NULL with the reason in `e`: -ETIMEDOUT, -EMSGSIZE
 * (more than answer_max), -ENOMEM, or as http_client has it. */
typedef void (*http_fetch_cb)(void *data, const struct http_answer *a, const struct err *e);

/* NULL with `e` set, and then no callback. With a kube_client it is for the caller to look at
 * kube_client_ready before. */
MUST_CHECK struct http_fetch *http_fetch_start(struct net_loop *l,
                                               const struct http_fetch_options *o, http_fetch_cb cb,
                                               void *data, struct err *e);

/* The callback is not called any more; the fetch is gone. Not to be called in or after the
 * callback. NULL is ignored. */
void http_fetch_cancel(struct http_fetch *f);

#endif
