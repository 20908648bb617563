/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_bundle.h - keeps the webhook configurations of the API server right: the authorities that they
 * trust, the resources that are sent for labels, and on which condition.
 *
 * Of the Mutating- and ValidatingWebhookConfigurations with our label, the webhooks that lead to
 * our service (or by URL to one of our names) get the bundle as clientConfig.caBundle; those of
 * them with the path WEBHOOK_PATH_RESOURCES get `rules` too, and those that label a match condition
 * where the API server evaluates them. Everything else is left as it is, also the webhooks of
 * another installation beside this one, and all of the configurations named ROUTE_OBJECT. What
 * somebody overwrites is put right again.
 *
 * The match condition is written alone, after the rest: whatever an API server says to it, bundle
 * and rules are right. One that is refused, or not kept, is tried again after ten minutes, or when
 * the API server has another version.
 *
 * An authority of ours in a caBundle that is younger than all in the bundle was put there by a
 * replica that knows more: it stays. So two replicas never undo what the other did.
 */
#ifndef MANAGER_WEBHOOK_CA_BUNDLE_H
#define MANAGER_WEBHOOK_CA_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "kube/client/reflector.h"
#include "label/labels.h"
#include "label/sharding_resources.h"
#include "net/clock.h"
#include "net/loop.h"

#define CA_BUNDLE_SELECTOR "app.kubernetes.io/part-of=cmesh"

struct ca_bundle;

/* All that is pointed to must outlive the bundle, texts included. */
struct ca_bundle_options {
    struct kube_client *client;
    const char *label_selector; /* of the configurations; NULL: CA_BUNDLE_SELECTOR */
    const char *namespace;      /* of the service */
    const char *service;        /* its name */
    const char *const *hosts;   /* of URLs that lead here; may be empty */
    size_t host_count;
    const struct labels_keys *keys; /* of the match condition; NULL: none is written or removed */
    /* Asked before each write: whether this replica is the one that writes. NULL: it is. */
    bool (*may_write)(void *data);
    /* What the configurations hold has changed: ca_bundle_published may tell another thing. From
     * the loop; may be NULL. */
    void (*on_change)(void *data);
    void *data;
    const struct net_clock *clock;   /* NULL: the system's */
    const struct reflector_ops *ops; /* for tests; NULL: the usual */
};

struct ca_bundle_stats {
    unsigned configurations; /* with our label */
    unsigned webhooks;       /* in them that lead here */
    unsigned wrong;          /* of the configurations that are not right now */
    uint64_t writes;
    uint64_t conflicts;
    uint64_t failures;
};

/* Begins with the loop's next turn; writes nothing before there is a bundle. */
MUST_CHECK struct ca_bundle *ca_bundle_new(struct net_loop *l, const struct ca_bundle_options *o);

/* The authorities, PEM; copied. */
void ca_bundle_set(struct ca_bundle *b, struct slice bundle);
/* The resources that are sent for labels, sorted by group and version; copied. `all`: what else is
 * sent is taken away; if false, it stays. Before the first call `rules` are left alone. */
void ca_bundle_set_resources(struct ca_bundle *b, const struct sharding_resource *resources,
                             size_t count, bool all);
/* Whether the API server evaluates match conditions. Before the first call none is added. */
void ca_bundle_set_conditions(struct ca_bundle *b, bool evaluated);
/* Looks at everything again: may_write has become true. */
void ca_bundle_check(struct ca_bundle *b);

/* Whether all configurations are known, and every webhook of ours in them trusts this authority
 * (PEM). */
bool ca_bundle_published(const struct ca_bundle *b, struct slice authority);
/* Whether it is known which namespaces the webhook for pods looks at: there is one, and its
 * namespaceSelector is *selector, NULL if it has none. Valid until the loop runs on. */
bool ca_bundle_pods(const struct ca_bundle *b, const cJSON **selector);
/* What keeps the configurations from being right; NULL: nothing. Valid until the loop runs on. */
const char *ca_bundle_error(const struct ca_bundle *b);
const struct ca_bundle_stats *ca_bundle_stats(const struct ca_bundle *b);
/* What becomes of the match condition, for people; valid until the loop runs on. */
const char *ca_bundle_conditions(const struct ca_bundle *b);

/* At once. NULL is ignored. */
void ca_bundle_free(struct ca_bundle *b);

#endif
