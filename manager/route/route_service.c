/* SPDX-License-Identifier: Apache-2.0 */
#include "route/route_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "kube/name.h"
#include "route/service_ports.h"
#include "json/field.h"

/* ---- the Service ---- */

static void changed(const struct route_service *s)
{
    s->on_change(s->data);
}

static void set_object(struct route_service *s, cJSON *object)
{
    cJSON_Delete(s->object);
    selector_free(s->selector);
    s->object = object;
    s->selector = object == NULL ? NULL : service_ports_selector(object);
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct route_service *s = data;
    if (*item == NULL) {
        struct informer_item *made = informer_item_new(sizeof *made, key);
        *item = made;
    }
    set_object(s, cJSON_Duplicate(object, true));
    s->gone_at = 0;
    return true;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    struct route_service *s = data;
    (void)before;
    if (after == NULL) {
        s->gone_at = net_clock_now(s->clock);
    }
    changed(s);
}

static void on_synced(void *data, bool first)
{
    struct route_service *s = data;
    if (first && s->object == NULL) {
        s->gone_at = net_clock_now(s->clock);
    }
    if (first) {
        changed(s);
    }
}

static void on_state(void *data, const char *error)
{
    (void)error;
    changed(data);
}

static const struct informer_kind services = {
    .path = "/api/v1/services",
    .keep = keep,
    .on_change = on_change,
    .on_synced = on_synced,
    .on_state = on_state,
};

const char *route_service_error(const struct route_service *s)
{
    return reflector_error(informer_reflector(s->informer));
}

enum route_service_state route_service_look(struct route_service *s, uint64_t *again_ms)
{
    *again_ms = UINT64_MAX;
    if (!informer_synced(s->informer)) {
        bool denied = reflector_forbidden(informer_reflector(s->informer));
        return denied ? ROUTE_SERVICE_DENIED : ROUTE_SERVICE_UNKNOWN;
    }
    if (s->gone_at == 0) {
        return ROUTE_SERVICE_THERE;
    }
    uint64_t passed = net_clock_now(s->clock) - s->gone_at;
    if (passed < ROUTE_SERVICE_GRACE_MS) {
        *again_ms = ROUTE_SERVICE_GRACE_MS - passed;
        return s->object != NULL ? ROUTE_SERVICE_THERE : ROUTE_SERVICE_UNKNOWN;
    }
    set_object(s, NULL);
    return ROUTE_SERVICE_GONE;
}

/* ---- its pods ---- */

/* Where a port of the Service leads to. */
struct slice_port {
    char name[NAME_LABEL_MAX + 1];
    int number; /* 0: not known */
    int subset; /* all pods of it have the same ports */
};

/* An EndpointSlice, which is one subset, or Endpoints: ports with ready addresses. */
struct slice_item {
    struct informer_item item;
    struct slice_port *ports;
    size_t count;
};

static void add_ports(struct slice_item *slice, const cJSON *ports, int subset)
{
    const cJSON *port;
    size_t room = slice->count + (size_t)cJSON_GetArraySize(ports) + 1;
    slice->ports = xrealloc(slice->ports, room * sizeof *slice->ports);
    cJSON_ArrayForEach(port, ports)
    {
        const cJSON *number = field_get(port, "port");
        struct slice_port *p = &slice->ports[slice->count++];
        (void)snprintf(p->name, sizeof p->name, "%s", field_text(port, "name"));
        p->number = cJSON_IsNumber(number) ? number->valueint : 0;
        p->subset = subset;
    }
}

/* What does not say whether it is ready counts as ready, as for kube-proxy. */
static bool has_ready_endpoint(const cJSON *slice)
{
    const cJSON *endpoint;
    cJSON_ArrayForEach(endpoint, field_get(slice, "endpoints"))
    {
        if (!cJSON_IsFalse(field_get(field_get(endpoint, "conditions"), "ready"))) {
            return true;
        }
    }
    return false;
}

/* Names of hosts lead nobody anywhere, neither API servers nor kube-proxy. */
static void read_slice(struct slice_item *out, const cJSON *slice)
{
    bool named = strcmp(field_text(slice, "addressType"), "FQDN") == 0;
    if (!named && has_ready_endpoint(slice)) {
        add_ports(out, field_get(slice, "ports"), 0);
    }
}

static void read_endpoints(struct slice_item *out, const cJSON *endpoints)
{
    const cJSON *subset;
    int number = 0;
    cJSON_ArrayForEach(subset, field_get(endpoints, "subsets"))
    {
        if (cJSON_GetArraySize(field_get(subset, "addresses")) > 0) {
            add_ports(out, field_get(subset, "ports"), number++);
        }
    }
}

static void drop_slice(void *data, struct informer_item *item)
{
    struct slice_item *slice = LIST_ITEM(item, struct slice_item, item);
    (void)data;
    free(slice->ports);
    free(slice);
}

static bool keep_slice(void *data, const char *key, const cJSON *object,
                       struct informer_item **item)
{
    struct slice_item *slice = informer_item_new(sizeof *slice, key);
    (void)data;
    if (field_get(object, "subsets") != NULL) {
        read_endpoints(slice, object);
    } else {
        read_slice(slice, object);
    }
    *item = &slice->item;
    return true;
}

static void on_slice(void *data, struct informer_item *before, struct informer_item *after)
{
    (void)before;
    (void)after;
    changed(data);
}

static void on_slices_synced(void *data, bool first)
{
    if (first) {
        changed(data);
    }
}

static void on_slices_state(void *data, const char *error)
{
    struct route_service *s = data;
    s->api_absent = error != NULL && reflector_not_found(informer_reflector(s->slices));
    changed(s);
}

#define KIND(at)                                                                                   \
    {                                                                                              \
        .path = at, .optional = true, .keep = keep_slice, .drop = drop_slice,                      \
        .on_change = on_slice, .on_synced = on_slices_synced, .on_state = on_slices_state          \
    }

/* The newest first. */
static const struct informer_kind slices[] = {
    KIND("/apis/discovery.k8s.io/v1/endpointslices"),
    KIND("/apis/discovery.k8s.io/v1beta1/endpointslices"),
    KIND("/api/v1/endpoints"),
};

static void follow_slices(struct route_service *s)
{
    static const char effect[] = "it is not known which pods can be asked for reviews";
    bool last = s->api == ARRAY_LEN(slices) - 1;
    char *selector = xasprintf("kubernetes.io/service-name=%s", s->name);
    const struct informer_options o = {
        .client = s->client,
        .namespace = s->ns,
        .name = last ? s->name : NULL,
        .label_selector = last ? NULL : selector,
        .effect = effect,
        .ops = s->ops,
    };
    s->slices = informer_new(s->loop, &slices[s->api], &o, s);
    free(selector);
}

void route_service_watch_pods(struct route_service *s, bool on)
{
    bool next = s->api_absent && s->api + 1 < ARRAY_LEN(slices);
    if (s->slices != NULL && (!on || next)) {
        informer_free(s->slices);
        s->slices = NULL;
        s->api += next ? 1 : 0;
        s->api_absent = false;
    }
    if (s->slices == NULL && on) {
        follow_slices(s);
    }
}

static const struct slice_item *next_slice(const struct route_service *s,
                                           const struct slice_item *before)
{
    struct informer_item *i =
        s->slices == NULL ? NULL : informer_next(s->slices, before == NULL ? NULL : &before->item);
    return i == NULL ? NULL : LIST_ITEM(i, struct slice_item, item);
}

/* The next one of that name; NULL: there is none. */
static const struct slice_port *next_port(const struct slice_item *slice,
                                          const struct slice_port *before, const char *name)
{
    size_t i = before == NULL ? 0 : (size_t)(before - slice->ports) + 1;
    while (i < slice->count && strcmp(slice->ports[i].name, name) != 0) {
        i++;
    }
    return i < slice->count ? &slice->ports[i] : NULL;
}

bool route_service_has_pods(const struct route_service *s, const char *port)
{
    const struct slice_item *i = NULL;
    while ((i = next_slice(s, i)) != NULL && next_port(i, NULL, port) == NULL) {
    }
    return i != NULL;
}

static bool is_named(const struct slice_port *p, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], p->name) != 0) {
        i++;
    }
    return i < count;
}

/* The number of one of these names, of the same pods: that of `own` if one has it; 0: not known. */
static int number_beside(const struct slice_item *slice, const struct slice_port *own,
                         const char *const *names, size_t count)
{
    int found = 0;
    for (size_t i = 0; i < slice->count && found != own->number; i++) {
        const struct slice_port *p = &slice->ports[i];
        if (p->subset == own->subset && p->number != 0 && is_named(p, names, count)) {
            found = p->number;
        }
    }
    return found;
}

static bool find_difference(const struct slice_item *slice, const char *port,
                            const char *const *others, size_t count, int *number, int *other_number)
{
    for (const struct slice_port *p = NULL; (p = next_port(slice, p, port)) != NULL;) {
        *number = p->number;
        *other_number = number_beside(slice, p, others, count);
        if (*number != 0 && *other_number != 0 && *number != *other_number) {
            return true;
        }
    }
    return false;
}

bool route_service_differs(const struct route_service *s, const char *port,
                           const char *const *others, size_t count, int *number, int *other_number)
{
    const struct slice_item *i = NULL;
    while ((i = next_slice(s, i)) != NULL &&
           !find_difference(i, port, others, count, number, other_number)) {
    }
    return i != NULL;
}

const char *route_service_pods_error(const struct route_service *s)
{
    return s->slices == NULL || s->api_absent ? NULL
                                              : reflector_error(informer_reflector(s->slices));
}

/* ---- life ---- */

struct route_service *route_service_new(struct net_loop *l, const char *ns, const char *name,
                                        const struct route_service_options *o)
{
    size_t ns_len = strlen(ns);
    struct route_service *s = xcalloc(1, sizeof *s + ns_len + strlen(name) + 2);
    memcpy(s->key, ns, ns_len);
    s->key[ns_len] = '/';
    memcpy(s->key + ns_len + 1, name, strlen(name) + 1);
    s->ns = xstrdup(ns);
    s->name = s->key + ns_len + 1;
    s->loop = l;
    s->client = o->client;
    s->ops = o->ops;
    s->clock = o->clock;
    s->on_change = o->on_change;
    s->data = o->data;
    const struct informer_options io = {
        .client = o->client,
        .namespace = s->ns,
        .name = s->name,
        .effect = "reviews for webhooks that lead to it are not routed",
        .ops = o->ops,
    };
    s->informer = informer_new(l, &services, &io, s);
    return s;
}

void route_service_free(struct route_service *s)
{
    if (s == NULL) {
        return;
    }
    informer_free(s->informer);
    informer_free(s->slices);
    set_object(s, NULL);
    free(s->ns);
    free(s);
}
