/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/status_leases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "control/status.h"
#include "net/clock.h"
#include "json/field.h"

#define GROUP_PATH "/apis/coordination.k8s.io/v1"

struct status_leases {
    struct status_leases_options o;
    struct reflector *reflector;
    struct table leases;
    struct table spaces;
};

/* Whoever may write Leases in one namespace takes no more than its part of the room. */
struct lease_space {
    struct table_node node;
    size_t count;
    char name[];
};

struct lease {
    struct table_node node;
    struct lease_space *space;
    char *document;
    char *version;
    char *uid;
    uint64_t seen_ms;  /* when the version came */
    uint64_t required; /* as control_lease_required has it */
    bool stale;        /* not seen yet in the list under way */
    char pod[];
};

static const char *annotation(const cJSON *object, const char *key)
{
    return field_text(field_get(field_get(object, "metadata"), "annotations"), key);
}

static struct lease *find_lease(const struct status_leases *s, const char *pod)
{
    struct table_node *n = table_find(&s->leases, pod);
    return n == NULL ? NULL : LIST_ITEM(n, struct lease, node);
}

/* Of the pod "namespace/name"; NULL without memory. */
static struct lease_space *provide_space(struct status_leases *s, const char *pod)
{
    size_t len = strcspn(pod, "/");
    struct lease_space *space = calloc(1, sizeof *space + len + 1);
    if (space == NULL) {
        return NULL;
    }
    memcpy(space->name, pod, len);
    struct table_node *known = table_find(&s->spaces, space->name);
    if (known != NULL || table_insert(&s->spaces, &space->node, space->name) != 0) {
        free(space);
        space = known == NULL ? NULL : LIST_ITEM(known, struct lease_space, node);
    }
    return space;
}

static void leave_space(struct status_leases *s, struct lease_space *space)
{
    if (space->count == 0) {
        table_remove(&s->spaces, &space->node);
        free(space);
    }
}

static void drop_lease(struct status_leases *s, struct lease *l)
{
    l->space->count--;
    leave_space(s, l->space);
    table_remove(&s->leases, &l->node);
    free(l->document);
    free(l->version);
    free(l->uid);
    free(l);
}

static struct lease *add_lease(struct status_leases *s, const char *pod)
{
    size_t size = strlen(pod) + 1;
    struct lease *l = s->leases.count < STATUS_LEASES_MAX ? calloc(1, sizeof *l + size) : NULL;
    if (l == NULL) {
        return NULL;
    }
    memcpy(l->pod, pod, size);
    l->space = provide_space(s, pod);
    bool fits = l->space != NULL && l->space->count < STATUS_LEASES_OF_NAMESPACE_MAX;
    if (!fits || table_insert(&s->leases, &l->node, l->pod) != 0) {
        if (l->space != NULL) {
            leave_space(s, l->space);
        }
        free(l);
        return NULL;
    }
    l->space->count++;
    return l;
}

static void replace(char **at, const char *text)
{
    free(*at);
    *at = strdup(text);
}

/* Without memory nothing is known of it but its document. */
static void note_version(const struct status_leases *s, struct lease *l, const cJSON *object)
{
    const char *version = field_meta(object, "resourceVersion");
    if (l->version == NULL || strcmp(l->version, version) != 0) {
        l->seen_ms = net_clock_now(s->o.clock);
        replace(&l->version, version);
        replace(&l->uid, field_meta(object, "uid"));
    }
    l->required = control_lease_required(annotation(object, CONTROL_LEASE_REQUIRED));
}

/* What there is no room for is told all the same, and not kept. */
static void keep(struct status_leases *s, const char *pod, const cJSON *object)
{
    struct lease *l = find_lease(s, pod);
    char *copy = strdup(annotation(object, CONTROL_LEASE_ANNOTATION));
    l = l != NULL || copy == NULL ? l : add_lease(s, pod);
    if (l == NULL || copy == NULL) {
        free(copy);
        return;
    }
    free(l->document);
    l->document = copy;
    l->stale = false;
    note_version(s, l, object);
}

/* ---- what its lease is worth ---- */

static void read_document(const struct lease *l, struct status_lease_seen *out)
{
    struct err e = ERR_INIT;
    struct control_rules_lease lease;
    cJSON *root = control_status_parse(slice_str(l->document), CONTROL_STATUS_LOCALPROXY, &e);
    const char *uid = control_pod_read(root).uid;
    control_rules_lease_read(root, &lease);
    out->seconds = lease.seconds;
    if (strlen(uid) < sizeof out->pod_uid) {
        (void)snprintf(out->pod_uid, sizeof out->pod_uid, "%s", uid);
    }
    cJSON_Delete(root);
}

bool status_leases_find(const struct status_leases *s, const char *pod,
                        struct status_lease_seen *out)
{
    const struct lease *l = find_lease(s, pod);
    if (l == NULL || l->version == NULL || l->uid == NULL) {
        return false;
    }
    *out = (struct status_lease_seen){.version = l->version,
                                      .uid = l->uid,
                                      .seen_ms = l->seen_ms,
                                      .asks = l->required == UINT64_MAX};
    read_document(l, out);
    return true;
}

void status_leases_patched(struct status_leases *s, const char *pod,
                           const struct status_lease_patch *p)
{
    struct lease *l = find_lease(s, pod);
    if (l == NULL || l->version == NULL ||
        (strcmp(l->version, p->base) != 0 && strcmp(l->version, p->made) != 0)) {
        return; /* it has spoken since */
    }
    replace(&l->version, p->made);
    l->seen_ms = p->seen_ms;
}

static void tell(const struct status_leases *s, const char *pod, const char *document)
{
    s->o.on_told(s->o.data, pod, slice_str(document));
}

void status_leases_tell(const struct status_leases *s, const char *pod)
{
    const struct lease *l = find_lease(s, pod);
    if (l != NULL) {
        tell(s, pod, l->document);
    }
}

size_t status_leases_count(const struct status_leases *s)
{
    return s->leases.count;
}

/* ---- following ---- */

static void on_list(void *data)
{
    struct status_leases *s = data;
    for (struct table_node *n = NULL; (n = table_next(&s->leases, n)) != NULL;) {
        LIST_ITEM(n, struct lease, node)->stale = true;
    }
}

/* "namespace/pod" of a Lease that has our name; the caller frees. NULL: it has another one, or
 * there is no memory. */
static char *pod_of(const cJSON *object)
{
    const size_t prefix = sizeof CONTROL_LEASE_NAME - 1;
    const char *name = field_meta(object, "name");
    char *pod = NULL;
    bool ours = strncmp(name, CONTROL_LEASE_NAME, prefix) == 0;
    if (!ours || asprintf(&pod, "%s/%s", field_meta(object, "namespace"), name + prefix) < 0) {
        return NULL;
    }
    return pod;
}

/* Listed again as it is known, it was not written meanwhile: what it tells may be long past, and
 * the pod have answered otherwise since. Nor is what a manager wrote a word of the pod's. */
static bool is_news(const struct lease *l, enum reflector_change change, const cJSON *object)
{
    bool same = l != NULL && strcmp(l->document, annotation(object, CONTROL_LEASE_ANNOTATION)) == 0;
    bool managed = annotation(object, CONTROL_LEASE_REQUIRED)[0] != '\0';
    return !same || (change != REFLECTOR_LISTED && !managed);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct status_leases *s = data;
    const char *document = annotation(object, CONTROL_LEASE_ANNOTATION);
    char *pod = pod_of(object);
    struct lease *l = pod == NULL ? NULL : find_lease(s, pod);
    bool fits = document[0] != '\0' && strlen(document) <= CONTROL_LEASE_DOCUMENT_MAX;
    if (pod != NULL && fits && change != REFLECTOR_DELETED) {
        bool news = is_news(l, change, object);
        keep(s, pod, object);
        if (news) {
            tell(s, pod, document);
        }
    } else if (l != NULL) {
        drop_lease(s, l);
    }
    free(pod);
}

static void on_synced(void *data)
{
    struct status_leases *s = data;
    struct table_node *next = table_next(&s->leases, NULL);
    while (next != NULL) {
        struct lease *l = LIST_ITEM(next, struct lease, node);
        next = table_next(&s->leases, next);
        if (l->stale) {
            drop_lease(s, l);
        }
    }
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)data;
    if (error != NULL) {
        log_at(level,
               "cannot watch the Leases by which proxies tell what they enforce; they are asked",
               log_str("error", error));
    } else {
        log_at(level, "watching the Leases of proxies again");
    }
}

static const struct reflector_handlers handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

static int follow(struct status_leases *s, struct net_loop *l, struct err *e)
{
    char path[256];
    const char *ns = s->o.namespace;
    (void)snprintf(path, sizeof path, GROUP_PATH "%s%s/leases", ns == NULL ? "" : "/namespaces/",
                   ns == NULL ? "" : ns);
    struct reflector_options o = {
        .client = s->o.client,
        .path = path,
        .label_selector = CONTROL_LEASE_SELECTOR,
        .metadata_only = true,
        .ops = s->o.ops,
    };
    s->reflector = reflector_new(l, &o, &handlers, s, e);
    return s->reflector == NULL ? e->code : 0;
}

struct status_leases *status_leases_new(struct net_loop *l, const struct status_leases_options *o,
                                        struct err *e)
{
    struct status_leases *s = calloc(1, sizeof *s);
    if (s == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    s->o = *o;
    s->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    if (follow(s, l, e) != 0) {
        status_leases_free(s);
        return NULL;
    }
    s->o.namespace = NULL; /* copied by the reflector */
    return s;
}

void status_leases_free(struct status_leases *s)
{
    if (s == NULL) {
        return;
    }
    reflector_free(s->reflector);
    for (struct table_node *n = NULL; (n = table_next(&s->leases, NULL)) != NULL;) {
        drop_lease(s, LIST_ITEM(n, struct lease, node));
    }
    table_deinit(&s->leases);
    table_deinit(&s->spaces);
    free(s);
}
