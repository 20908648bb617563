/* SPDX-License-Identifier: Apache-2.0 */
#include "source_configmap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kube/client/reflector.h"
#include "kube/name.h"

enum { PLACE_MAX = NAME_LABEL_MAX + NAME_SUBDOMAIN_MAX + 64 };

struct source_configmap {
    struct net_loop *loop;
    struct kube_client *client;
    const struct source_handlers *h;
    void *data;
    struct reflector *reflector;
    char path[PLACE_MAX];
    char name[NAME_SUBDOMAIN_MAX + 1];
    char place[PLACE_MAX];
    bool listed;        /* the list under way showed it */
    struct err missing; /* code 0: it is there, key and all */
};

static void report_missing(struct source_configmap *s, const char *what)
{
    err_set(&s->missing, -ENOENT, "%s: %s", s->place, what);
    s->h->trouble(s->data, SOURCE_MISSING, &s->missing);
}

static void offer_text(struct source_configmap *s, const char *text)
{
    struct err e = ERR_INIT;
    s->missing.code = 0;
    s->h->trouble(s->data, SOURCE_FINE, NULL);
    /* One that is refused is reported by whoever refused it. */
    (void)s->h->offer(s->data, s->place, slice_str(text), true, &e);
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
        report_missing(s, "the ConfigMap was deleted");
        return;
    }
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(object, "data");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(keys, SOURCE_KEY);
    if (cJSON_IsString(text)) {
        offer_text(s, text->valuestring);
    } else {
        report_missing(s, "the ConfigMap has no such key");
    }
}

static void on_synced(void *data)
{
    struct source_configmap *s = data;
    if (!s->listed) {
        report_missing(s, "the ConfigMap does not exist");
    }
}

static void on_state(void *data, const char *error)
{
    struct source_configmap *s = data;
    if (error != NULL) {
        struct err e = ERR_INIT;
        err_set(&e, -EAGAIN, "%s: %s", s->place, error);
        s->h->trouble(s->data, SOURCE_UNREACHABLE, &e);
    } else if (s->missing.code != 0) {
        s->h->trouble(s->data, SOURCE_MISSING, &s->missing);
    } else {
        s->h->trouble(s->data, SOURCE_FINE, NULL);
    }
}

static const struct reflector_handlers handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

static struct reflector *start_reflector(struct source_configmap *s, struct err *e)
{
    struct reflector_options o = {.client = s->client, .path = s->path, .name = s->name};
    return reflector_new(s->loop, &o, &handlers, s, e);
}

struct source_configmap *source_configmap_new(struct net_loop *l, struct kube_client *client,
                                              const char *name, const struct source_handlers *h,
                                              void *data, struct err *e)
{
    struct source_configmap *s = calloc(1, sizeof *s);
    if (s == NULL) {
        err_memory(e);
        return NULL;
    }
    const char *slash = strchr(name, '/');
    s->loop = l;
    s->client = client;
    s->h = h;
    s->data = data;
    (void)snprintf(s->path, sizeof s->path, "/api/v1/namespaces/%.*s/configmaps",
                   (int)(slash - name), name);
    (void)snprintf(s->name, sizeof s->name, "%s", slash + 1);
    (void)snprintf(s->place, sizeof s->place, "configmap %s key " SOURCE_KEY, name);
    s->reflector = start_reflector(s, e);
    if (s->reflector == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

void source_configmap_look(struct source_configmap *s)
{
    struct err e = ERR_INIT;
    struct reflector *fresh = start_reflector(s, &e);
    if (fresh == NULL) {
        log_warn("cannot restart the watch; keeping the current one", log_str("error", e.msg));
        return;
    }
    reflector_free(s->reflector);
    s->reflector = fresh;
}

void source_configmap_free(struct source_configmap *s)
{
    if (s != NULL) {
        reflector_free(s->reflector);
        free(s);
    }
}
