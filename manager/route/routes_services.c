/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Services of a world: those that webhooks lead to, those beside them that get our ports, and
 * those that still have some.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "kube/name.h"
#include "route/routes_making.h"

enum { NOTED_MAX = 64 * 1024 };

/* ---- Services ---- */

static void on_service(void *data)
{
    routes_dirty(data);
}

/* NULL: it cannot be the name of one. */
static struct route_service *provide_service(struct making *m, const char *ns, const char *name)
{
    struct routes *r = m->r;
    if (name_check_label(slice_str(ns)) != NULL || name_check_label(slice_str(name)) != NULL) {
        return NULL;
    }
    char *key = xasprintf("%s/%s", ns, name);
    struct table_node *n = table_find(&r->services, key);
    free(key);
    if (n == NULL) {
        const struct route_service_options o = {
            .client = r->o.client,
            .ops = r->o.ops,
            .clock = r->clock,
            .on_change = on_service,
            .data = r,
        };
        struct route_service *s = route_service_new(r->loop, ns, name, &o);
        xok(table_insert(&r->services, &s->node, s->key));
        n = &s->node;
    }
    struct route_service *s = LIST_ITEM(n, struct route_service, node);
    s->used = true;
    return s;
}

static struct route_target *find_target(const struct route_world *w, const struct route_service *s)
{
    for (size_t i = 0; i < w->target_count; i++) {
        if (w->targets[i].service == s) {
            return &w->targets[i];
        }
    }
    return NULL;
}

static struct route_target *provide_target(struct making *m, struct route_service *s)
{
    struct route_world *w = m->w;
    struct route_target *t = s == NULL ? NULL : find_target(w, s);
    if (t == NULL && s != NULL) {
        uint64_t ms = UINT64_MAX;
        t = &w->targets[w->target_count++];
        t->service = s;
        t->state = route_service_look(s, &ms);
        making_again(m, ms);
    }
    return t;
}

/* Services that webhooks lead to, and those beside them that get our ports. */
static void find_services(struct making *m, struct route_webhook *h)
{
    const cJSON *metadata = field_get(h->config->original->object, "metadata");
    const char *other = field_text(field_get(metadata, "annotations"), m->r->service_key);
    if (!entries_service_of(h->webhook, &h->service)) {
        return;
    }
    const struct entries_service *s = &h->service;
    h->own = provide_target(m, provide_service(m, s->namespace, s->name));
    h->target =
        other[0] == '\0' ? h->own : provide_target(m, provide_service(m, s->namespace, other));
    h->target = h->own == NULL ? NULL : h->target;
    if (h->target != NULL) {
        h->target->asked = h->target->asked || (h->config->asked && h->track->routable);
    }
}

static size_t count_webhooks(const struct route_world *w)
{
    size_t count = 0;
    for (size_t i = 0; i < w->config_count; i++) {
        count += w->configs[i].count;
    }
    return count;
}

/* A Service that nothing leads to any more stays for as long as it has ports of ours. */
static void keep_services(struct making *m)
{
    struct routes *r = m->r;
    for (struct table_node *n = NULL; (n = table_next(&r->services, n)) != NULL;) {
        struct route_service *s = LIST_ITEM(n, struct route_service, node);
        const cJSON *port;
        bool has = !informer_synced(s->informer) && route_service_error(s) == NULL;
        cJSON_ArrayForEach(port, field_get(field_get(s->object, "spec"), "ports"))
        {
            has = has || route_port_is(field_text(port, "name"));
        }
        if (!s->used && has) {
            s->used = true;
            (void)provide_target(m, s);
        }
    }
}

/* What the last leader has noted. */
static const char *noted_services(const struct routes *r)
{
    const cJSON *metadata = field_get(r->objects[ORIGINALS_VALIDATING].object, "metadata");
    return field_text(field_get(metadata, "annotations"), r->services_key);
}

static size_t count_noted(const char *text)
{
    size_t count = text[0] != '\0';
    for (; *text != '\0'; text++) {
        count += *text == ',';
    }
    return count;
}

static void provide_noted(struct making *m, struct slice name)
{
    const char *slash = memchr(name.ptr, '/', name.len);
    if (slash != NULL) {
        char *ns = xstrndup(name.ptr, (size_t)(slash - name.ptr));
        char *rest = xstrndup(slash + 1, name.len - (size_t)(slash + 1 - name.ptr));
        (void)provide_target(m, provide_service(m, ns, rest));
        free(ns);
        free(rest);
    }
}

/* Ports that were left there are to go, though nothing else names the Service any more. */
static void find_noted_services(struct making *m)
{
    for (const char *at = noted_services(m->r); *at != '\0';) {
        size_t len = strcspn(at, ",");
        provide_noted(m, slice_of(at, len));
        at += len + (at[len] == ',');
    }
}

void making_targets(struct making *m)
{
    struct route_world *w = m->w;
    size_t room =
        2 * count_webhooks(w) + m->r->services.count + count_noted(noted_services(m->r)) + 1;
    w->targets = xcalloc(room, sizeof *w->targets);
    EACH_WEBHOOK(w, h)
    {
        find_services(m, h);
    }
    find_noted_services(m);
    keep_services(m);
}

/* ---- what the next leader is to know ---- */

static bool has_ports(const struct route_target *t)
{
    const cJSON *port;
    bool has = t->port_count > 0;
    cJSON_ArrayForEach(port, field_get(field_get(t->service->object, "spec"), "ports"))
    {
        has = has || route_port_is(field_text(port, "name"));
    }
    return has;
}

static bool is_noted(const char *noted, const char *service)
{
    size_t len = strlen(service);
    const char *at = strstr(noted, service);
    while (at != NULL && ((at != noted && at[-1] != ',') || (at[len] != ',' && at[len] != '\0'))) {
        at = strstr(at + 1, service);
    }
    return at != NULL;
}

static int compare_services(const void *left, const void *right)
{
    const struct route_target *const *a = left;
    const struct route_target *const *b = right;
    return strcmp((*a)->service->key, (*b)->service->key);
}

/* What is not known of a Service may be that it has ports. */
void making_note_services(struct making *m)
{
    struct route_world *w = m->w;
    const char *noted = noted_services(m->r);
    struct buf text = BUF_INIT(NOTED_MAX);
    const struct route_target **sorted = xcalloc(w->target_count + 1, sizeof *sorted);
    for (size_t i = 0; i < w->target_count; i++) {
        sorted[i] = &w->targets[i];
    }
    qsort(sorted, w->target_count, sizeof *sorted, compare_services);
    for (size_t i = 0; i < w->target_count; i++) {
        const char *key = sorted[i]->service->key;
        bool known =
            sorted[i]->state == ROUTE_SERVICE_THERE || sorted[i]->state == ROUTE_SERVICE_GONE;
        bool listed = known ? has_ports(sorted[i]) : is_noted(noted, key);
        if (listed && text.len + strlen(key) + 1 < NOTED_MAX) {
            xok(buf_printf(&text, "%s%s", text.len > 0 ? "," : "", key));
        }
    }
    free(sorted);
    w->services = xstrndup(text.len == 0 ? "" : (const char *)buf_data(&text), text.len);
    buf_reset(&text);
    w->differs[ORIGINALS_VALIDATING] =
        w->differs[ORIGINALS_VALIDATING] ||
        (m->r->objects[ORIGINALS_VALIDATING].object != NULL && strcmp(w->services, noted) != 0);
}
