/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "object/server_release.h"
#include "webhook/ca_bundle.h"
#include "webhook/certificates.h"
#include "webhook/client_trust.h"
#include "webhook/server.h"

/* The release of Kubernetes from which on match conditions are evaluated, unless it is told not to.
 */
enum { NAMES_MAX = 32, NAME_SIZE = 320, MATCH_CONDITIONS_RELEASE = 28 };

/* The names of a service, as an API server and others may call it, and those that were given. */
struct names {
    char service[3][NAME_SIZE];
    const char *list[NAMES_MAX];
    size_t count;
};

struct webhook_serving {
    struct names names;
    struct webhook_context *context;
    bool (*may_write)(void *data);
    void (*on_pods)(void *data, bool known, const cJSON *selector);
    void *data;
    struct client_trust *clients; /* NULL: no certificates of clients are asked for */
    struct webhook_server *server;
    struct certificates *certificates; /* NULL from webhook_serving_drain on, as is the next */
    struct ca_bundle *bundle;
};

/* ---- what the parts tell each other ---- */

static void on_serving(void *data, struct tls_config *tls)
{
    struct webhook_serving *s = data;
    webhook_server_set_tls(s->server, tls);
}

static void on_bundle(void *data, struct slice bundle)
{
    struct webhook_serving *s = data;
    ca_bundle_set(s->bundle, bundle);
}

static void on_clients(void *data)
{
    struct webhook_serving *s = data;
    if (s->certificates != NULL) {
        certificates_clients_changed(s->certificates);
    }
}

static bool is_published(void *data, struct slice authority)
{
    const struct webhook_serving *s = data;
    return ca_bundle_published(s->bundle, authority);
}

static const struct certificates_handlers certificates_handlers = {
    .on_serving = on_serving,
    .on_bundle = on_bundle,
    .is_published = is_published,
};

static bool may_write(void *data)
{
    const struct webhook_serving *s = data;
    return s->may_write == NULL || s->may_write(s->data);
}

static void on_change(void *data)
{
    struct webhook_serving *s = data;
    certificates_check(s->certificates);
    if (s->on_pods != NULL) {
        const cJSON *selector = NULL;
        bool known = ca_bundle_pods(s->bundle, &selector);
        s->on_pods(s->data, known, selector);
    }
}

/* ---- life ---- */

static int collect_names(struct names *n, const struct webhook_serving_options *o,
                         const char *service, struct err *e)
{
    static const char *const endings[] = {".svc", "", ".svc.cluster.local"};
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        (void)snprintf(n->service[i], NAME_SIZE, "%s.%s%s", service, o->namespace, endings[i]);
        n->list[n->count++] = n->service[i];
    }
    if (n->count + o->name_count > NAMES_MAX) {
        return err_set(e, -EINVAL, "too many names for the webhooks' certificate");
    }
    for (size_t i = 0; i < o->name_count; i++) {
        n->list[n->count++] = o->names[i];
    }
    return 0;
}

static int open_clients(struct webhook_serving *s, struct net_loop *l,
                        const struct webhook_serving_options *o, struct err *e)
{
    if (o->client_ca == NULL) {
        return 0;
    }
    const struct client_trust_options to = {.path = o->client_ca,
                                            .name = o->client_name,
                                            .check_ms = o->client_check_ms,
                                            .on_change = on_clients,
                                            .data = s};
    s->clients = client_trust_new(l, &to, e);
    return s->clients == NULL ? e->code : 0;
}

static int open_server(struct webhook_serving *s, struct net_loop *l,
                       const struct webhook_serving_options *o, struct err *e)
{
    const struct webhook_server_options so = {
        .address = o->address, .routes = webhook_routes, .data = s->context, .clients = s->clients};
    s->server = webhook_server_new(l, &so, e);
    return s->server == NULL ? e->code : 0;
}

static void open_bundle(struct webhook_serving *s, struct net_loop *l,
                        const struct webhook_serving_options *o, const char *service)
{
    const struct ca_bundle_options bo = {
        .client = o->client,
        .label_selector = o->label_selector,
        .namespace = o->namespace,
        .service = service,
        .hosts = o->names,
        .host_count = o->name_count,
        .keys = o->context->keys,
        .may_write = may_write,
        .on_change = on_change,
        .data = s,
        .clock = o->clock,
    };
    s->bundle = ca_bundle_new(l, &bo);
}

static int open_certificates(struct webhook_serving *s, struct net_loop *l,
                             const struct webhook_serving_options *o, struct err *e)
{
    const struct certificates_options co = {
        .client = o->client,
        .namespace = o->namespace,
        .secret = o->secret,
        .names = s->names.list,
        .name_count = s->names.count,
        .authority_seconds = o->authority_seconds,
        .serving_seconds = o->serving_seconds,
        .settle_ms = o->settle_ms,
        .clients = s->clients,
        .clock = o->clock,
    };
    s->certificates = certificates_new(l, &co, &certificates_handlers, s, e);
    return s->certificates == NULL ? e->code : 0;
}

struct webhook_serving *webhook_serving_new(struct net_loop *l,
                                            const struct webhook_serving_options *o, struct err *e)
{
    const char *service = o->service != NULL ? o->service : WEBHOOK_SERVICE;
    struct webhook_serving *s = xcalloc(1, sizeof *s);
    s->context = o->context;
    s->may_write = o->may_write;
    s->on_pods = o->on_pods;
    s->data = o->data;
    if (open_clients(s, l, o, e) != 0) {
        webhook_serving_free(s);
        return NULL;
    }
    open_bundle(s, l, o, service);
    if (collect_names(&s->names, o, service, e) != 0 || open_server(s, l, o, e) != 0 ||
        open_certificates(s, l, o, e) != 0) {
        err_prefix(e, "--webhook");
        webhook_serving_free(s);
        return NULL;
    }
    return s;
}

const char *webhook_serving_address(const struct webhook_serving *s)
{
    return webhook_server_address(s->server);
}

void webhook_serving_set_resources(struct webhook_serving *s,
                                   const struct sharding_resource *resources, size_t count,
                                   bool all)
{
    if (s->bundle != NULL) {
        ca_bundle_set_resources(s->bundle, resources, count, all);
    }
}

void webhook_serving_set_version(struct webhook_serving *s, const char *major, const char *minor)
{
    if (s->bundle != NULL) {
        ca_bundle_set_conditions(s->bundle,
                                 server_release_at_least(major, minor, MATCH_CONDITIONS_RELEASE));
    }
}

void webhook_serving_lead(struct webhook_serving *s)
{
    if (s->bundle != NULL) {
        ca_bundle_check(s->bundle);
    }
}

static void stop_writing(struct webhook_serving *s)
{
    ca_bundle_free(s->bundle);
    certificates_free(s->certificates);
    s->bundle = NULL;
    s->certificates = NULL;
}

void webhook_serving_drain(struct webhook_serving *s, void (*cb)(void *data), void *data)
{
    stop_writing(s);
    webhook_server_drain(s->server, cb, data);
}

void webhook_serving_free(struct webhook_serving *s)
{
    if (s != NULL) {
        stop_writing(s);
        webhook_server_free(s->server);
        client_trust_free(s->clients);
        free(s);
    }
}

/* ---- what is told about it ---- */

bool webhook_serving_ready(const struct webhook_serving *s, const char **why)
{
    if (s->certificates == NULL) {
        *why = "the webhooks are shutting down";
        return false;
    }
    bool ready = certificates_ready(s->certificates);
    *why = ready ? "ok" : certificates_error(s->certificates);
    return ready;
}

static void write_certificates(const struct certificates_stats *c, struct buf *out)
{
    const struct prometheus_metric metrics[] = {
        {"cmesh_webhook_secret_writes_total", "counter",
         "Writes of the Secret with the webhook certificates.", c->writes},
        {"cmesh_webhook_secret_conflicts_total", "counter",
         "Writes of the Secret with the webhook certificates that conflicted with another replica.",
         c->conflicts},
        {"cmesh_webhook_secret_failures_total", "counter",
         "Writes of the Secret with the webhook certificates that failed for other reasons.",
         c->failures},
        {"cmesh_webhook_certificate_repairs_total", "counter",
         "Times that the Secret with the webhook certificates was found broken and repaired.",
         c->replaced},
        {"cmesh_webhook_authority_rotating", "gauge",
         "1 while the certificate authority of the webhooks is being replaced, 0 otherwise.",
         c->rotating ? 1 : 0},
    };
    prometheus_seconds(
        out, "cmesh_webhook_certificate_expiry_timestamp_seconds", "gauge",
        "Unix time at which the serving certificate of the webhooks expires; 0 if there is none.",
        (double)c->serving_expires);
    prometheus_seconds(
        out, "cmesh_webhook_authority_expiry_timestamp_seconds", "gauge",
        "Unix time at which the certificate authority of the webhooks expires; 0 if there is none.",
        (double)c->authority_expires);
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

static void write_bundle(const struct ca_bundle_stats *b, struct buf *out)
{
    const struct prometheus_metric metrics[] = {
        {"cmesh_webhook_configurations", "gauge",
         "Webhook configurations labelled as belonging to the manager.", b->configurations},
        {"cmesh_webhook_configurations_wrong", "gauge",
         "Webhook configurations that differ from what the manager requires.", b->wrong},
        {"cmesh_webhook_configuration_writes_total", "counter",
         "Writes that repaired a webhook configuration.", b->writes},
        {"cmesh_webhook_configuration_conflicts_total", "counter",
         "Writes of webhook configurations that conflicted with another writer.", b->conflicts},
        {"cmesh_webhook_configuration_failures_total", "counter",
         "Writes of webhook configurations that failed for other reasons.", b->failures},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

void webhook_serving_metrics(const struct webhook_serving *s, struct buf *out)
{
    webhook_server_metrics(s->server, out);
    if (s->context->assigner != NULL) {
        assigner_metrics(s->context->assigner, out);
    }
    if (s->certificates != NULL) {
        write_certificates(certificates_stats(s->certificates), out);
        write_bundle(ca_bundle_stats(s->bundle), out);
    }
}

void webhook_serving_status(const struct webhook_serving *s, cJSON *root)
{
    const char *why = NULL;
    cJSON *object = cJSON_AddObjectToObject(root, "webhook");
    bool ready = webhook_serving_ready(s, &why);
    cJSON_AddStringToObject(object, "address", webhook_serving_address(s));
    cJSON_AddBoolToObject(object, "ready", ready);
    cJSON_AddStringToObject(object, "message", why);
    if (s->certificates == NULL) {
        return;
    }
    const struct certificates_stats *c = certificates_stats(s->certificates);
    const struct ca_bundle_stats *b = ca_bundle_stats(s->bundle);
    const char *error = certificates_error(s->certificates);
    error = error != NULL ? error : ca_bundle_error(s->bundle);
    control_time_add(object, "certificateExpires", c->serving_expires);
    control_time_add(object, "authorityExpires", c->authority_expires);
    cJSON_AddBoolToObject(object, "rotating", c->rotating);
    cJSON_AddNumberToObject(object, "configurations", b->configurations);
    cJSON_AddNumberToObject(object, "wrongConfigurations", b->wrong);
    cJSON_AddStringToObject(object, "matchConditions", ca_bundle_conditions(s->bundle));
    if (error != NULL) {
        cJSON_AddStringToObject(object, "error", error);
    }
}
