/* SPDX-License-Identifier: Apache-2.0 */
#include "shard_cache_fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- a listener that writes down what it is told ---- */

static void note(struct place *p, const char *fmt, const char *a, const char *b)
{
    assert_int_equal(buf_printf(&p->log, "%s(%s%s%s) ", fmt, a, b[0] == '\0' ? "" : " ", b), 0);
}

static void on_shard(void *data, const char *key, enum shard_cache_part part)
{
    static const char *const parts[] = {[SHARD_CACHE_CONFIG] = "config",
                                        [SHARD_CACHE_PODS] = "pods",
                                        [SHARD_CACHE_CONFIGMAP] = "map"};
    note(data, parts[part], key, "");
}

static void on_pod(void *data, const struct pod *pod, bool gone)
{
    struct place *p = data;
    char count[16];
    (void)snprintf(count, sizeof count, "%zu", gone ? (size_t)0 : shard_cache_shard_count(pod));
    note(p, gone ? "gone" : "pod", pod->key, count);
}

static void on_ready(void *data)
{
    note(data, "ready", "", "");
}

static void on_excess(void *data, const char *ns)
{
    note(data, "excess", ns, "");
}

static const struct shard_cache_handlers handlers = {
    .on_shard = on_shard, .on_pod = on_pod, .on_excess = on_excess, .on_ready = on_ready};

/* ---- life ---- */

bool place_open(struct place *p)
{
    struct net_loop *l = NULL;
    buf_init(&p->log, 1024 * 1024);
    if (loop_setup((void **)&l) != 0 || !store_open(&p->store, l)) {
        return false;
    }
    return true;
}

bool place_close(struct place *p)
{
    struct net_loop *l = p->store.api.loop;
    shard_cache_free(p->cache);
    shard_cache_free(NULL);
    store_close(&p->store);
    buf_reset(&p->log);
    return loop_free(l) == 0;
}

int place_setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    *state = p;
    return p != NULL && place_open(p) ? 0 : -1;
}

int place_teardown(void **state)
{
    struct place *p = *state;
    bool well = place_close(p);
    free(p);
    return well ? 0 : -1;
}

void place_begin(struct place *p, const char *namespace)
{
    struct shard_cache_options o = {
        .client = p->store.api.client,
        .prefix = "ctrlmesh.kusionstack.io",
        .namespace = namespace,
        .memory = p->memory,
        .ops = p->hurried ? &p->store.ops : NULL,
    };
    p->cache = shard_cache_new(p->store.api.loop, &o);
    p->listener = (struct shard_cache_listener){.handlers = &handlers, .data = p};
    shard_cache_listen(p->cache, &p->listener);
    assert_false(shard_cache_synced(p->cache));
}

/* ---- waiting ---- */

static void turn(struct place *p, unsigned ms)
{
    if (p->hurried) {
        store_turn(&p->store, ms);
    } else {
        run_for(p->store.api.loop, ms);
    }
}

void place_run(struct place *p, unsigned ms)
{
    for (unsigned i = 0; i < ms; i++) {
        turn(p, 1);
    }
}

void place_await_synced(struct place *p)
{
    for (int i = 0; i < PLACE_PATIENCE_TURNS && !shard_cache_synced(p->cache); i++) {
        turn(p, 1);
    }
    assert_true(shard_cache_synced(p->cache));
}

void place_await_same(struct place *p)
{
    for (int i = 0; i < PLACE_PATIENCE_TURNS && place_difference(p)[0] != '\0'; i++) {
        turn(p, 1);
    }
    assert_string_equal(place_difference(p), "");
}

void place_expect(struct place *p, const char *text)
{
    for (int i = 0; i < PLACE_PATIENCE_TURNS && strstr(buf_cstr(&p->log), text) == NULL; i++) {
        turn(p, 1);
    }
    if (strstr(buf_cstr(&p->log), text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, buf_cstr(&p->log));
    }
    turn(p, 5);
    buf_clear(&p->log);
}

/* ---- objects ---- */

void place_put_config(struct place *p, const char *ns, const char *name, const char *label)
{
    store_put_text(&p->store, "shardingconfigs", ns,
                   "{\"metadata\":{\"name\":\"%s\",\"managedFields\":[{\"manager\":\"x\"}],"
                   "\"annotations\":{\"kubectl.kubernetes.io/last-applied-configuration\":\"x\"}},"
                   "\"spec\":{\"selector\":{\"matchLabels\":{\"shard\":\"%s\"}}}}",
                   name, label);
}

void place_put_pod(struct place *p, const char *ns, const char *name, const char *label)
{
    store_put_text(&p->store, "pods", ns,
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"shard\":\"%s\"}}}", name, label);
}

void place_put_map(struct place *p, const char *ns, const char *shard, const char *label)
{
    store_put_text(&p->store, "configmaps", ns,
                   "{\"metadata\":{\"name\":\"cmesh-rules-%s\",\"labels\":{"
                   "\"ctrlmesh.kusionstack.io/rules\":\"%s\"}},\"data\":{\"x\":\"%d\"}}",
                   shard, label, rand());
}

/* ---- looking ---- */

/* How many pods there are; writes one that is not known as it is. */
static size_t count_stored(struct place *p, char *out, size_t size)
{
    size_t stored = 0;
    for (const cJSON *o = NULL; (o = store_next(&p->store, "pods", o)) != NULL;) {
        char ns[64];
        char key[128];
        char version[32];
        (void)snprintf(ns, sizeof ns, "%s", store_text(o, "metadata/namespace"));
        stored++;
        (void)snprintf(key, sizeof key, "%s/%s", ns, store_text(o, "metadata/name"));
        (void)snprintf(version, sizeof version, "%s", store_text(o, "metadata/resourceVersion"));
        const struct pod *pod = shard_cache_find_pod(p->cache, key);
        if (pod == NULL || strcmp(pod->version, version) != 0) {
            (void)snprintf(out, size, "%s is known of version %s, and is of %s", key,
                           pod == NULL ? "none" : pod->version, version);
        }
    }
    return stored;
}

const char *place_config_difference(struct place *p)
{
    static char text[512];
    const struct shard_cache_config *c = NULL;
    text[0] = '\0';
    while (text[0] == '\0' && (c = shard_cache_next_config(p->cache, c)) != NULL) {
        const struct pod *pod = NULL;
        size_t selected = 0;
        while (!c->root && c->pods != NULL &&
               (pod = shard_cache_next_pod_in(p->cache, c->ns, pod)) != NULL) {
            selected += pod_selected(pod, c->pods);
        }
        if ((c->pods == NULL && !c->root) || c->pod_count != selected) {
            (void)snprintf(text, sizeof text, "%s has %zu pods of %zu", c->key, c->pod_count,
                           selected);
        }
    }
    return text;
}

const char *place_difference(struct place *p)
{
    static char text[512];
    size_t known = 0;
    (void)snprintf(text, sizeof text, "%s", place_config_difference(p));
    size_t stored = count_stored(p, text, sizeof text);
    for (const struct pod *pod = NULL; (pod = shard_cache_next_pod(p->cache, pod)) != NULL;) {
        known++;
    }
    if (text[0] == '\0' && known != stored) {
        (void)snprintf(text, sizeof text, "%zu pods are known of %zu", known, stored);
    }
    return text;
}

unsigned place_metric(struct place *p, const char *name)
{
    struct buf text = BUF_INIT(SIZE_MAX / 2);
    char start[128];
    shard_cache_metrics(p->cache, &text);
    (void)snprintf(start, sizeof start, "\n%s ", name);
    const char *at = strstr(buf_cstr(&text), start);
    assert_non_null(at);
    unsigned value = (unsigned)strtoul(at + strlen(start), NULL, 10);
    buf_reset(&text);
    return value;
}
