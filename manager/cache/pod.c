/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/pod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "compile/shards.h"
#include "inject/inject_bounds.h"
#include "kube/name.h"
#include "object/names.h"
#include "object/route_names.h"
#include "rules/rules.h"
#include "json/field.h"

enum { VERSION_ROOM = 20 /* characters, at least: it changes more often than the rest */ };

/* Places strings, one behind the other; while there is no memory yet, only counts. */
struct shelf {
    char *memory; /* NULL: counting */
    size_t used;
};

/* With room for so many characters at least. */
static char *place_within(struct shelf *s, const char *text, size_t room)
{
    size_t len = strlen(text);
    char *at = s->memory == NULL ? NULL : s->memory + s->used;
    if (at != NULL) {
        memcpy(at, text, len + 1);
    }
    s->used += (len < room ? room : len) + 1;
    return at;
}

static const char *place(struct shelf *s, const char *text)
{
    return text[0] == '\0' ? "" : place_within(s, text, 0);
}

/* "namespace/name"; "" without a name. */
static const char *place_key(struct shelf *s, const char *ns, const char *name)
{
    if (name[0] == '\0') {
        return "";
    }
    char *at = s->memory == NULL ? NULL : s->memory + s->used;
    if (at != NULL) {
        (void)sprintf(at, "%s/%s", ns, name);
    }
    s->used += strlen(ns) + strlen(name) + 2;
    return at;
}

/* NULL: it is not placed yet. */
static const char *name_in(const char *key)
{
    const char *slash = key == NULL ? NULL : strchr(key, '/');
    return slash == NULL ? "" : slash + 1;
}

/* Anybody may write it. Longer texts name nothing. */
static const char *bounded(const char *text)
{
    return strlen(text) <= NAME_SUBDOMAIN_MAX ? text : "";
}

static uint64_t generation_of(const char *text)
{
    char *end = NULL;
    unsigned long long n = text[0] < '0' || text[0] > '9' ? 0 : strtoull(text, &end, 10);
    return n > 0 && *end == '\0' && n <= RULES_GENERATION_MAX ? n : 0;
}

/* The container's port of that name, else the usual one. */
static uint16_t port_of(const cJSON *container, const char *name, uint16_t usual)
{
    const cJSON *port = NULL;
    cJSON_ArrayForEach(port, field_get(container, "ports"))
    {
        const cJSON *number = field_get(port, "containerPort");
        if (strcmp(field_text(port, "name"), name) == 0 && cJSON_IsNumber(number) &&
            number->valueint > 0 && number->valueint <= UINT16_MAX) {
            return (uint16_t)number->valueint;
        }
    }
    return usual;
}

static void find_ports(struct pod *p, const cJSON *containers)
{
    const cJSON *c = NULL;
    cJSON_ArrayForEach(c, containers)
    {
        const char *name = field_text(c, "name");
        if (strcmp(name, SIDECAR_PROXY) == 0) {
            p->proxy_port = port_of(c, SIDECAR_ADMIN_PORT_NAME, SIDECAR_ADMIN_PORT);
        } else if (strcmp(name, SIDECAR_RULESYNC) == 0) {
            p->sync_port = port_of(c, SIDECAR_RULESYNC_PORT_NAME, SIDECAR_RULESYNC_PORT);
        }
    }
}

static bool has_webhook_port(const char *shard, const cJSON *containers)
{
    char name[ROUTE_PORT_SIZE];
    const cJSON *c = NULL;
    (void)route_port_name(shard, name);
    cJSON_ArrayForEach(c, containers)
    {
        const cJSON *port = NULL;
        cJSON_ArrayForEach(port, field_get(c, "ports"))
        {
            if (strcmp(field_text(port, "name"), name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int64_t read_time(const char *text)
{
    int64_t seconds = 0;
    return rfc3339_parse(text, &seconds) ? seconds : 0;
}

static void read_ready(struct pod *p, const cJSON *meta, const cJSON *status)
{
    const cJSON *c = NULL;
    int64_t since = 0;
    cJSON_ArrayForEach(c, field_get(status, "conditions"))
    {
        if (strcmp(field_text(c, "type"), "Ready") == 0) {
            p->ready = strcmp(field_text(c, "status"), "True") == 0;
            since = read_time(field_text(c, "lastTransitionTime"));
            break;
        }
    }
    if (p->ready) {
        p->ready_since = since;
    } else {
        int64_t created = read_time(field_text(meta, "creationTimestamp"));
        p->unready_since = since > created ? since : created;
    }
}

/* Others, as "ContainerCreating" and "PodInitializing", are part of every start. */
static const char *failure(const char *reason)
{
    static const char *const known[] = {"CrashLoopBackOff",     "ImagePullBackOff",
                                        "ErrImagePull",         "CreateContainerConfigError",
                                        "CreateContainerError", "RunContainerError",
                                        "InvalidImageName",     "ErrImageNeverPull"};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i], reason) == 0) {
            return known[i];
        }
    }
    return NULL;
}

static void read_failing(struct pod *p, const cJSON *containers)
{
    const cJSON *c = NULL;
    cJSON_ArrayForEach(c, containers)
    {
        const cJSON *waiting = field_get(field_get(c, "state"), "waiting");
        const char *why = failure(field_text(waiting, "reason"));
        p->failing = p->failing == NULL ? why : p->failing;
    }
}

static bool any_running(const cJSON *containers)
{
    const cJSON *c = NULL;
    cJSON_ArrayForEach(c, containers)
    {
        if (field_get(field_get(c, "state"), "running") != NULL) {
            return true;
        }
    }
    return false;
}

/*
 * A terminal phase is not the end of the containers. Kubelets before 1.24 report Failed when they
 * begin to evict a pod, or its activeDeadlineSeconds are over; the containers end up to a grace
 * period later (kubernetes#88613, #98718, #108366). The pod garbage collector reports Failed for a
 * pod whose node is gone, just before it deletes the pod. A container whose status says that it
 * runs therefore counts as running, as on a node that is cut off: until the status changes, the pod
 * is deleted or let go of, or the lease on its rules has expired. Time alone proves nothing, and
 * bounds nothing.
 *
 * A container that waits, or has no status, does not run. A pod that was rejected, or evicted
 * before it started, has no statuses and never gets any, and a Deployment leaves it there. Kubelets
 * before 1.22 drop the statuses of every pod that they evict; such a pod looks the same, and counts
 * as over for the seconds in which it is killed.
 */
static void read_end(struct pod *p, const cJSON *meta, const cJSON *status)
{
    const char *phase = field_text(status, "phase");
    bool terminal = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
    bool runs = any_running(field_get(status, "initContainerStatuses")) ||
                any_running(field_get(status, "containerStatuses")) ||
                any_running(field_get(status, "ephemeralContainerStatuses"));
    p->over = terminal && !runs;
    p->ending = (terminal && runs) || field_get(meta, "deletionTimestamp") != NULL;
}

static void read_facts(struct pod *p, const cJSON *object, const struct pod_keys *keys)
{
    const cJSON *meta = field_get(object, "metadata");
    const cJSON *spec = field_get(object, "spec");
    const cJSON *status = field_get(object, "status");
    const char *generation = field_text(field_get(meta, "annotations"), keys->generation);
    p->generation = generation_of(generation);
    p->told = generation[0] != '\0';
    p->traffic = generation_of(field_text(field_get(meta, "annotations"), keys->traffic));
    find_ports(p, field_get(spec, "initContainers")); /* native sidecars */
    find_ports(p, field_get(spec, "containers"));
    p->webhook_port =
        p->shard[0] != '\0' && has_webhook_port(p->shard, field_get(spec, "containers"));
    read_ready(p, meta, status);
    read_failing(p, field_get(status, "initContainerStatuses"));
    read_failing(p, field_get(status, "containerStatuses"));
    p->allow_bypass =
        strcmp(field_text(field_get(meta, "annotations"), keys->allow_bypass), "true") == 0;
    read_end(p, meta, status);
    p->place = pod_place_parse(field_text(field_get(meta, "annotations"), keys->place));
    p->let_go = strcmp(field_text(field_get(meta, "annotations"), keys->let_go), "true") == 0;
}

/* `labels` NULL: while counting. */
static size_t place_texts(struct pod *p, struct pod_label *labels, struct shelf *s,
                          const cJSON *object, const struct pod_keys *keys)
{
    const cJSON *meta = field_get(object, "metadata");
    const char *ns = shards_namespace(object);
    const char *name = shards_name(object);
    size_t count = 0;
    p->key = place_key(s, ns, name);
    p->ns = place(s, ns);
    p->name = name_in(p->key);
    p->uid = place(s, field_text(meta, "uid"));
    p->version = place_within(s, field_text(meta, "resourceVersion"), VERSION_ROOM);
    p->ip = place(s, field_text(field_get(object, "status"), "podIP"));
    const char *account = field_text(field_get(object, "spec"), "serviceAccountName");
    p->account = account[0] != '\0' ? place(s, account) : "default";
    p->owner = place(s, bounded(field_text(field_controller(object), "uid")));
    const char *injected = field_text(field_get(meta, "annotations"), keys->injected);
    p->shard = place_key(s, ns, bounded(injected));
    p->injected = name_in(p->shard);
    const cJSON *all = field_map(meta, "labels");
    const cJSON *label = NULL;
    if (inject_bounds_bytes(all) > INJECT_LABEL_BYTES_MAX ||
        cJSON_GetArraySize(all) > INJECT_LABELS_MAX) {
        all = NULL;
    }
    cJSON_ArrayForEach(label, all)
    {
        const char *key = place(s, label->string);
        const char *value = place(s, cJSON_IsString(label) ? label->valuestring : "");
        if (labels != NULL) {
            labels[count] = (struct pod_label){key, value};
        }
        count++;
    }
    return count;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct pod_label *)a)->key, ((const struct pod_label *)b)->key);
}

void *pod_new(size_t head, const cJSON *object, const struct pod_keys *keys)
{
    struct pod sizes;
    struct shelf shelf = {.memory = NULL};
    size_t count = place_texts(&sizes, NULL, &shelf, object, keys);
    char *all = xcalloc(1, head + sizeof sizes + count * sizeof(struct pod_label) + shelf.used);
    struct pod *p = (struct pod *)(void *)(all + head);
    struct pod_label *labels = (struct pod_label *)(void *)(p + 1);
    shelf = (struct shelf){.memory = (char *)(labels + count)};
    p->labels = labels;
    p->label_count = place_texts(p, labels, &shelf, object, keys);
    qsort(labels, count, sizeof *labels, by_key);
    read_facts(p, object, keys);
    return all;
}

static bool same_labels(const struct pod *a, const struct pod *b)
{
    bool same = a->label_count == b->label_count;
    for (size_t i = 0; same && i < a->label_count; i++) {
        same = strcmp(a->labels[i].key, b->labels[i].key) == 0 &&
               strcmp(a->labels[i].value, b->labels[i].value) == 0;
    }
    return same;
}

bool pod_same(const struct pod *a, const struct pod *b)
{
    return strcmp(a->key, b->key) == 0 && strcmp(a->uid, b->uid) == 0 &&
           strcmp(a->ip, b->ip) == 0 && strcmp(a->account, b->account) == 0 &&
           strcmp(a->owner, b->owner) == 0 && strcmp(a->injected, b->injected) == 0 &&
           a->generation == b->generation && a->traffic == b->traffic &&
           a->proxy_port == b->proxy_port && a->sync_port == b->sync_port && a->ready == b->ready &&
           a->webhook_port == b->webhook_port && a->ready_since == b->ready_since &&
           a->unready_since == b->unready_since && a->failing == b->failing &&
           a->allow_bypass == b->allow_bypass && a->place.rank == b->place.rank &&
           a->place.mark == b->place.mark && a->ending == b->ending && a->over == b->over &&
           a->let_go == b->let_go && same_labels(a, b);
}

bool pod_take_version(struct pod *p, const char *version)
{
    size_t len = strlen(version);
    if (len > VERSION_ROOM && len > strlen(p->version)) {
        return false;
    }
    memcpy(p->version, version, len + 1);
    return true;
}

const char *pod_label(const struct pod *p, const char *key)
{
    struct pod_label wanted = {.key = key};
    const struct pod_label *found =
        bsearch(&wanted, p->labels, p->label_count, sizeof wanted, by_key);
    return found == NULL ? NULL : found->value;
}

bool pod_selected(const struct pod *p, const struct selector *s)
{
    size_t count = 0;
    const struct selector_requirement *items = selector_requirements(s, &count);
    for (size_t i = 0; i < count; i++) {
        const char *text = pod_label(p, items[i].key);
        struct slice value = slice_str(text);
        if (!selector_requirement_matches(&items[i], text == NULL ? NULL : &value)) {
            return false;
        }
    }
    return true;
}

void pod_address(const struct pod *p, uint16_t port, char out[POD_ADDRESS_SIZE])
{
    bool six = strchr(p->ip, ':') != NULL;
    out[0] = '\0';
    if (p->ip[0] != '\0' && port != 0) {
        (void)snprintf(out, POD_ADDRESS_SIZE, "%s%s%s:%u", six ? "[" : "", p->ip, six ? "]" : "",
                       port);
    }
}
