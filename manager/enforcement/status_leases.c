/* SPDX-License-Identifier: Apache-2.0 */
#include "enforcement/status_leases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "kube/client/informer.h"
#include "net/clock.h"
#include "json/field.h"

struct status_leases {
    const struct net_clock *clock;
    status_leases_cb on_told;
    void *data;
    struct informer *informer;
    struct table spaces;
};

/* Whoever may write Leases in one namespace takes no more than its part of the room. */
struct lease_space {
    struct table_node node;
    size_t count;
    char name[];
};

struct lease {
    struct informer_item item; /* its key: "namespace/pod" */
    struct lease_space *space;
    char *document;
    char *version;
    char *uid;
    uint64_t seen_ms;  /* when the version came */
    uint64_t required; /* as control_lease_required has it */
};

static const char *annotation(const cJSON *object, const char *key)
{
    return field_text(field_get(field_get(object, "metadata"), "annotations"), key);
}

static struct lease *lease_of(struct informer_item *item)
{
    return (struct lease *)(void *)item;
}

static struct lease *find_lease(const struct status_leases *s, const char *pod)
{
    return lease_of(informer_find(s->informer, pod));
}

static void leave_space(struct status_leases *s, struct lease_space *space)
{
    if (space->count == 0) {
        table_remove(&s->spaces, &space->node);
        free(space);
    }
}

static void drop(void *data, struct informer_item *item)
{
    struct lease *l = lease_of(item);
    l->space->count--;
    leave_space(data, l->space);
    free(l->document);
    free(l->version);
    free(l->uid);
    free(l);
}

/* NULL: there is no room for it. */
static struct lease *add_lease(struct status_leases *s, const char *pod)
{
    struct slice ns = slice_of(pod, strcspn(pod, "/"));
    struct lease_space *space = xptr(TABLE_PROVIDE(&s->spaces, ns, struct lease_space, name));
    if (informer_size(s->informer) >= STATUS_LEASES_MAX ||
        space->count >= STATUS_LEASES_OF_NAMESPACE_MAX) {
        leave_space(s, space);
        return NULL;
    }
    struct lease *l = informer_item_new(sizeof *l, pod);
    l->space = space;
    space->count++;
    return l;
}

static void replace(char **at, const char *text)
{
    free(*at);
    *at = xstrdup(text);
}

static void note_version(const struct status_leases *s, struct lease *l, const cJSON *object)
{
    const char *version = field_meta(object, "resourceVersion");
    if (l->version == NULL || strcmp(l->version, version) != 0) {
        l->seen_ms = net_clock_now(s->clock);
        replace(&l->version, version);
        replace(&l->uid, field_meta(object, "uid"));
    }
    l->required = control_lease_required(annotation(object, CONTROL_LEASE_REQUIRED));
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
    if (l == NULL) {
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
    if (l == NULL || (strcmp(l->version, p->base) != 0 && strcmp(l->version, p->made) != 0)) {
        return; /* it has spoken since */
    }
    replace(&l->version, p->made);
    l->seen_ms = p->seen_ms;
}

static void tell(const struct status_leases *s, const char *pod, const char *document)
{
    s->on_told(s->data, pod, slice_str(document));
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
    return informer_size(s->informer);
}

/* ---- following ---- */

/* "namespace/pod" of a Lease that has our name. */
static char *key_of(void *data, const cJSON *object)
{
    const size_t prefix = sizeof CONTROL_LEASE_NAME - 1;
    const char *name = field_meta(object, "name");
    (void)data;
    if (strncmp(name, CONTROL_LEASE_NAME, prefix) != 0) {
        return NULL;
    }
    return xasprintf("%s/%s", field_meta(object, "namespace"), name + prefix);
}

/* Listed again as it is known, it was not written meanwhile: what it tells may be long past, and
 * the pod have answered otherwise since. Nor is what a manager wrote a word of the pod's. */
static bool is_news(const struct status_leases *s, const struct lease *l, const cJSON *object)
{
    bool same = l != NULL && strcmp(l->document, annotation(object, CONTROL_LEASE_ANNOTATION)) == 0;
    bool managed = annotation(object, CONTROL_LEASE_REQUIRED)[0] != '\0';
    bool listing = reflector_version(informer_reflector(s->informer))[0] == '\0';
    return !same || (!listing && !managed);
}

/* What cannot be kept is told all the same. */
static bool keep(void *data, const char *pod, const cJSON *object, struct informer_item **item)
{
    struct status_leases *s = data;
    struct lease *l = lease_of(*item);
    const char *document = annotation(object, CONTROL_LEASE_ANNOTATION);
    if (document[0] == '\0' || strlen(document) > CONTROL_LEASE_DOCUMENT_MAX) {
        *item = NULL;
        return false;
    }
    bool news = is_news(s, l, object);
    l = l != NULL ? l : add_lease(s, pod);
    if (l == NULL) {
        if (news) {
            tell(s, pod, document);
        }
        return false;
    }
    replace(&l->document, document);
    note_version(s, l, object);
    *item = &l->item;
    return news;
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    (void)before;
    if (after != NULL) {
        tell(data, after->node.key, lease_of(after)->document);
    }
}

static const struct informer_kind kind = {.path = "/apis/coordination.k8s.io/v1/leases",
                                          .metadata_only = true,
                                          .key = key_of,
                                          .keep = keep,
                                          .drop = drop,
                                          .on_change = on_change};

struct status_leases *status_leases_new(struct net_loop *l, const struct status_leases_options *o)
{
    struct status_leases *s = xcalloc(1, sizeof *s);
    const struct informer_options io = {.client = o->client,
                                        .namespace = o->namespace,
                                        .label_selector = CONTROL_LEASE_SELECTOR,
                                        .effect = "proxies are asked what they enforce",
                                        .ops = o->ops};
    s->clock = o->clock != NULL ? o->clock : &net_clock_system;
    s->on_told = o->on_told;
    s->data = o->data;
    s->informer = informer_new(l, &kind, &io, s);
    return s;
}

void status_leases_free(struct status_leases *s)
{
    if (s == NULL) {
        return;
    }
    informer_free(s->informer);
    table_deinit(&s->spaces);
    free(s);
}
