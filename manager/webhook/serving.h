/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serving.h - the manager's webhooks as a whole: server, certificates and configurations together
 * with the functions that decide.
 *
 *     s = webhook_serving_new(loop, &options, &e);
 *     webhook_serving_set_resources(s, resources, count, all);     whenever discovery changed
 *     webhook_serving_set_version(s, major, minor);           whenever that changed
 *     webhook_serving_lead(s);                                the Lease was won
 *     webhook_serving_ready, _metrics, _status                for the admin pages
 *     webhook_serving_drain, webhook_serving_free             at the end
 */
#ifndef MANAGER_WEBHOOK_SERVING_H
#define MANAGER_WEBHOOK_SERVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client/client.h"
#include "label/sharding_resources.h"
#include "net/clock.h"
#include "net/loop.h"
#include "webhook/handlers.h"

#define WEBHOOK_SERVICE "cmesh-webhook"

struct webhook_serving;

/* All that is pointed to must outlive the webhooks, texts included. */
struct webhook_serving_options {
    const char *address; /* ADDR:PORT: --webhook */
    struct kube_client *client;
    const char *namespace; /* of Secret and service: the manager's own */
    const char *service;   /* NULL: WEBHOOK_SERVICE */
    const char *secret;    /* NULL: CERTIFICATES_SECRET (webhook/certificates.h) */
    const char *client_ca; /* a file: webhook/client_trust.h; NULL: no certificates are asked for */
    const char *client_name;    /* NULL: any */
    uint64_t client_check_ms;   /* how often that file is looked at; 0: the usual */
    const char *label_selector; /* of the webhook configurations; NULL: CA_BUNDLE_SELECTOR */
    const char *const *names;   /* more host names and IP addresses by which the API server
                                   comes: of URLs in webhook configurations */
    size_t name_count;
    uint64_t authority_seconds; /* lifetimes, as in webhook/certificates.h; 0: the usual */
    uint64_t serving_seconds;
    uint64_t settle_ms;
    struct webhook_context *context; /* until the loop is freed */
    bool (*may_write)(void *data);   /* configurations; NULL: always */
    /* Which namespaces the webhook for pods looks at: its namespaceSelector, NULL if it has none;
     * and whether that is known. From the loop, whenever it may have changed; may be NULL. */
    void (*on_pods)(void *data, bool known, const cJSON *selector);
    void *data;
    const struct net_clock *clock; /* NULL: the system's */
};

/* Listens at once; answers once there is a certificate. NULL with `e` set. */
MUST_CHECK struct webhook_serving *
webhook_serving_new(struct net_loop *l, const struct webhook_serving_options *o, struct err *e);
/* Where it listens, with the port that was picked. */
const char *webhook_serving_address(const struct webhook_serving *s);

/* The resources that are to be labelled (label/sharding_resources.h); copied. `all`: there are no
 * others; if false, others that are sent to the webhook already go on being sent. */
void webhook_serving_set_resources(struct webhook_serving *s,
                                   const struct sharding_resource *resources, size_t count,
                                   bool all);
/* The API server's, as /version has it: whether it can be told what need not be sent. */
void webhook_serving_set_version(struct webhook_serving *s, const char *major, const char *minor);
/* may_write has become true. */
void webhook_serving_lead(struct webhook_serving *s);

/* Whether there is a certificate to show. If not, the reason; valid until the loop runs on. */
bool webhook_serving_ready(const struct webhook_serving *s, const char **why);
/* Appends metrics; errors stay in `out`. */
void webhook_serving_metrics(const struct webhook_serving *s, struct buf *out);
/* Adds the object `webhook`. */
void webhook_serving_status(const struct webhook_serving *s, cJSON *root);

/* Answers what has begun, takes no more, and writes nothing any more; `cb` once that is done. */
void webhook_serving_drain(struct webhook_serving *s, void (*cb)(void *data), void *data);
/* At once. NULL is ignored. */
void webhook_serving_free(struct webhook_serving *s);

#endif
