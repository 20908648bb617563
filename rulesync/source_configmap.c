/* SPDX-License-Identifier: Apache-2.0 */
#include "source_configmap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/client/reflector.h"
#include "kube/name.h"

enum { PLACE_MAX = NAME_LABEL_MAX + NAME_SUBDOMAIN_MAX + 64 };

/* One kind of document. */
struct entry {
    struct source_taker taker; /* no handlers: nobody wants it */
    char place[PLACE_MAX];
    struct err missing; /* code 0: it is there, key and all, or need not be */
};

struct source_configmap {
    struct entry rules;
    struct entry traffic;
    struct reflector *reflector;
    bool listed; /* the list under way showed it */
};

static void report_missing(struct entry *n, const char *what)
{
    if (n->taker.handlers != NULL) {
        err_set(&n->missing, -ENOENT, "%s: %s", n->place, what);
        n->taker.handlers->trouble(n->taker.data, SOURCE_MISSING, &n->missing, LOG_ERROR);
    }
}

static void report_both_missing(struct source_configmap *s, const char *what)
{
    report_missing(&s->rules, what);
    report_missing(&s->traffic, what);
}

static void offer_text(struct entry *n, const char *text)
{
    struct err e = ERR_INIT;
    const struct source_taker *t = &n->taker;
    n->missing.code = 0;
    t->handlers->trouble(t->data, SOURCE_FINE, NULL, LOG_INFO);
    /* One that is refused is reported by whoever refused it. */
    (void)t->handlers->offer(t->data, n->place, slice_str(text), true, &e);
}

static void read_traffic(struct source_configmap *s, const cJSON *text, bool has_rules)
{
    struct entry *n = &s->traffic;
    if (n->taker.handlers == NULL) {
        return;
    }
    if (cJSON_IsString(text)) {
        offer_text(n, text->valuestring);
    } else if (has_rules) {
        n->missing.code = 0;
        n->taker.handlers->none(n->taker.data);
    } else {
        report_missing(n, "the ConfigMap has neither this key nor " SOURCE_KEY);
    }
}

static void on_list(void *data)
{
    struct source_configmap *s = data;
    s->listed = false;
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct source_configmap *s = data;
    s->listed = true;
    if (change == REFLECTOR_DELETED) {
        report_both_missing(s, "the ConfigMap was deleted");
        return;
    }
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(object, "data");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(keys, SOURCE_KEY);
    if (cJSON_IsString(text)) {
        offer_text(&s->rules, text->valuestring);
    } else {
        report_missing(&s->rules, "the ConfigMap has no such key");
    }
    read_traffic(s, cJSON_GetObjectItemCaseSensitive(keys, SOURCE_TRAFFIC_KEY),
                 cJSON_IsString(text));
}

static void on_synced(void *data)
{
    struct source_configmap *s = data;
    if (!s->listed) {
        report_both_missing(s, "the ConfigMap does not exist");
    }
}

static void tell_state(const struct entry *n, const char *error, enum log_level level)
{
    const struct source_taker *t = &n->taker;
    if (t->handlers == NULL) {
        return;
    }
    if (error != NULL) {
        struct err e = ERR_INIT;
        err_set(&e, -EAGAIN, "%s: %s", n->place, error);
        t->handlers->trouble(t->data, SOURCE_UNREACHABLE, &e,
                             level == LOG_WARN ? LOG_ERROR : level);
    } else if (n->missing.code != 0) {
        t->handlers->trouble(t->data, SOURCE_MISSING, &n->missing, LOG_ERROR);
    } else {
        t->handlers->trouble(t->data, SOURCE_FINE, NULL, LOG_INFO);
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct source_configmap *s = data;
    tell_state(&s->rules, error, level);
    tell_state(&s->traffic, error, level);
}

static const struct reflector_handlers handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

struct source_configmap *source_configmap_new(struct net_loop *l, struct kube_client *client,
                                              const char *name, const struct source_handlers *h,
                                              void *data, struct err *e)
{
    struct source_configmap *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    char path[PLACE_MAX];
    const char *slash = strchr(name, '/');
    s->rules.taker = (struct source_taker){.handlers = h, .data = data};
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%.*s/configmaps", (int)(slash - name),
                   name);
    (void)snprintf(s->rules.place, PLACE_MAX, "configmap %s key " SOURCE_KEY, name);
    (void)snprintf(s->traffic.place, PLACE_MAX, "configmap %s key " SOURCE_TRAFFIC_KEY, name);
    const struct reflector_options o = {.client = client, .path = path, .name = slash + 1};
    s->reflector = reflector_new(l, &o, &handlers, s, e);
    if (s->reflector == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

void source_configmap_take_traffic(struct source_configmap *s, const struct source_taker *taker)
{
    s->traffic.taker = *taker;
}

void source_configmap_look(struct source_configmap *s)
{
    reflector_list_again(s->reflector);
}

void source_configmap_free(struct source_configmap *s)
{
    if (s != NULL) {
        reflector_free(s->reflector);
        free(s);
    }
}
