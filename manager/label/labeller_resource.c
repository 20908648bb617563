/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "kube/client/watch_event.h"
#include "label/labeller_internal.h"
#include "json/field.h"

enum {
    AGAIN_MIN_MS = 60000,
    AGAIN_MAX_MS = 1800000,
    REFUSED_MAX = 20,      /* in a row: it is no use */
    TOLD_FOREIGN_MAX = 10, /* objects of a resource that are named in the log */
    SELECTOR_MAX = 2 * NAMES_KEY_SIZE + 32,
    FIELDS_MAX = 1024,
    OBJECT_MAX_LEN = 800,
};

static const char *const system_namespaces[] = {"kube-system", "kube-public", "kube-node-lease"};

enum { SYSTEM_NAMESPACES = ARRAY_LEN(system_namespaces) };

/* ---- states ---- */

const struct state_machine resource_phases = {
    .object = "labelled resource",
    .states = {[RESOURCE_DUE] = {"due", STATE(RESOURCE_LISTING) | STATE(RESOURCE_RESTING)},
               [RESOURCE_LISTING] = {"listing", STATE(RESOURCE_LISTING) |
                                                    STATE(RESOURCE_FOLLOWING) |
                                                    STATE(RESOURCE_RESTING)},
               [RESOURCE_FOLLOWING] = {"following",
                                       STATE(RESOURCE_LISTING) | STATE(RESOURCE_RESTING)},
               [RESOURCE_RESTING] = {"resting", STATE(RESOURCE_LISTING) | STATE(RESOURCE_RESTING)}},
};

static const struct state_machine checks = {
    .object = "check of a labelled resource",
    .states = {[CHECK_DUE] = {"due", STATE(CHECK_DUE) | STATE(CHECK_RUNNING)},
               [CHECK_RUNNING] = {"running", STATE(CHECK_DUE) | STATE(CHECK_DONE)},
               [CHECK_DONE] = {"done", STATE(CHECK_DUE)}},
};

static void set_phase(struct resource *r, enum resource_phase phase)
{
    r->phase = state_change(&resource_phases, r->phase, phase, slice_str(r->name));
}

void resource_set_check(struct resource *r, enum resource_check check)
{
    r->check = state_change(&checks, r->check, check, slice_str(r->name));
}

/* ---- namespaces that are left out ---- */

static const char *left_out(const struct labeller *l, size_t i)
{
    return i < SYSTEM_NAMESPACES ? system_namespaces[i] : l->options.namespace;
}

static bool is_left_out(const struct labeller *l, const char *ns)
{
    const char *own = l->options.namespace;
    bool system = ARRAY_HAS(system_namespaces, ns) || (own != NULL && strcmp(own, ns) == 0);
    return system && !l->options.system_namespaces;
}

/* The same for the API server, which sends nothing of them then. */
static const char *field_selector(const struct resource *r, char *out, size_t size)
{
    const struct labeller *l = r->labeller;
    size_t at = 0;
    if (l->options.system_namespaces || r->no_fields) {
        return NULL;
    }
    for (size_t i = 0; i <= SYSTEM_NAMESPACES && at < size; i++) {
        if (left_out(l, i) != NULL) {
            at += (size_t)snprintf(out + at, size - at, "%smetadata.%s!=%s", i == 0 ? "" : ",",
                                   r->api.namespaced ? "namespace" : "name", left_out(l, i));
        }
    }
    return out;
}

/* ---- words ---- */

static void tell_foreign(struct resource *r, const char *ns, const char *name,
                         const struct labels_plan *plan)
{
    char object[OBJECT_MAX_LEN];
    if (r->told_foreign >= TOLD_FOREIGN_MAX) {
        return;
    }
    r->told_foreign++;
    (void)snprintf(object, sizeof object, "%s%s%s", ns, ns[0] == '\0' ? "" : "/", name);
    const char *label = plan == NULL ? "" : r->labeller->options.keys->key[plan->foreign];
    log_warn("object is labelled by another owner, skipped: its shard may not see it",
             log_str("resource", r->name), log_str("object", object), log_str("label", label),
             log_str("value", plan == NULL ? "" : plan->found));
}

static const char *hint(const struct api_error *error)
{
    return error->code == 403 && strstr(error->msg, "cannot ") != NULL
               ? "the manager needs the verbs list, watch and patch on this resource"
               : "will retry";
}

static void tell_refusal(struct resource *r, const char *ns, const char *name,
                         const struct api_error *error)
{
    if (r->told_refusal) {
        return;
    }
    r->told_refusal = true;
    log_at(error == NULL ? LOG_WARN : error->level,
           "cannot label an object (further failures of this resource are not logged)",
           log_str("resource", r->name), log_str("namespace", ns), log_str("name", name),
           log_str("error", error == NULL ? "another webhook removes the labels" : error->msg),
           log_str("hint", error == NULL ? "" : hint(error)));
}

void resource_tell_backoff(struct resource *r, const char *ns, const char *name)
{
    if (r->told_backoff) {
        return;
    }
    r->told_backoff = true;
    log_warn("the control labels of an object are removed repeatedly: backing off (further objects "
             "of this resource are not logged)",
             log_str("resource", r->name), log_str("namespace", ns), log_str("name", name));
}

/* ---- what comes ---- */

/* `plan` NULL: what it is labelled with is not known. */
static void take_foreign(struct resource *r, const char *ns, const char *name,
                         const struct labels_plan *plan)
{
    if (object_set_add(&r->foreign, ns, name)) {
        tell_foreign(r, ns, name, plan);
    }
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct resource *r = data;
    struct labeller *l = r->labeller;
    struct labels_plan plan;
    const char *name = object_name(object);
    const char *ns = r->api.namespaced ? field_meta(object, "namespace") : "";
    const char *owner = r->api.namespaced ? ns : name;
    if (owner[0] == '\0' || is_left_out(l, owner)) {
        return;
    }
    labels_plan_init(&plan, l->options.keys, object, owner);
    if (change != REFLECTOR_DELETED && plan.state == LABELS_FOREIGN) {
        take_foreign(r, ns, name, &plan);
        return;
    }
    (void)object_set_remove(&r->foreign, ns, name);
    if (change != REFLECTOR_DELETED && plan.state == LABELS_MISSING) {
        bool kept = labeller_add(l, r, ns, name, object_version(object));
        r->left_out = r->left_out || !kept;
    }
}

static void on_list(void *data)
{
    struct resource *r = data;
    object_set_clear(&r->foreign);
}

static void on_synced(void *data)
{
    struct resource *r = data;
    if (r->phase == RESOURCE_LISTING) {
        set_phase(r, RESOURCE_FOLLOWING);
    }
    labeller_go_on(r->labeller);
}

/* An API server that does not know the field says so, and is asked without it. */
static bool is_about_fields(const char *error)
{
    return strstr(error, "400 ") != NULL && strstr(error, "field label not supported") != NULL;
}

static void on_state(void *data, const char *error, enum log_level level)
{
    struct resource *r = data;
    labeller_go_on(r->labeller);
    if (error == NULL) {
        log_at(level, "watching the resource again", log_str("resource", r->name));
        return;
    }
    if (!r->no_fields && is_about_fields(error)) {
        r->no_fields = true;
        r->left_out = true;
        return;
    }
    if (strstr(error, ": 404 ") != NULL) {
        discovery_refresh(r->labeller->options.discovery);
    }
    log_at(level, "cannot watch a resource: its new objects do not get control labels",
           log_str("resource", r->name), log_str("error", error),
           log_str("hint", strstr(error, ": 403 ") != NULL
                               ? "the manager needs the verbs list, watch and patch on it"
                               : ""));
}

static const struct reflector_handlers unlabelled_handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

/* ---- what is labelled, and not rightly ---- */

static void drop_reflector(struct resource *r, struct reflector **which)
{
    if (*which != NULL) {
        const struct reflector_stats *s = reflector_stats(*which);
        r->labeller->pages += s->pages;
        r->labeller->watches += s->watches;
        reflector_free(*which);
        *which = NULL;
    }
}

static void on_all_labelled(void *data)
{
    struct resource *r = data;
    resource_set_check(r, CHECK_DONE);
    drop_reflector(r, &r->labelled);
    labeller_go_on(r->labeller);
}

static void on_check_state(void *data, const char *error, enum log_level level)
{
    struct resource *r = data;
    if (error != NULL) {
        log_at(level, "cannot verify the labels of a resource", log_str("resource", r->name),
               log_str("error", error));
    }
    labeller_go_on(r->labeller);
}

static const struct reflector_handlers labelled_handlers = {
    .on_object = on_object,
    .on_synced = on_all_labelled,
    .on_state = on_check_state,
};

/* ---- beginnings ---- */

/* NULL: its name is none that can be asked for. */
static struct reflector *follow_resource(struct resource *r, const char *operator,
                                         const struct reflector_handlers * handlers)
{
    struct labeller *l = r->labeller;
    char labels[SELECTOR_MAX];
    char fields[FIELDS_MAX];
    struct buf path = BUF_INIT(FIELDS_MAX);
    struct err e = ERR_INIT;
    struct reflector *made = NULL;
    (void)snprintf(labels, sizeof labels, "%s%strue,%s!=true",
                   l->options.keys->key[LABELS_CONTROL], operator, l->options.keys->ignore);
    if (xrc(discovery_path(&r->api, NULL, &path)) == 0) {
        const struct reflector_options o = {
            .client = l->options.client,
            .path = xptr(buf_cstr(&path)),
            .label_selector = labels,
            .field_selector = field_selector(r, fields, sizeof fields),
            .metadata_only = true,
        };
        made = reflector_new(l->loop, &o, handlers, r, &e);
        xerr(&e);
    }
    buf_reset(&path);
    if (made != NULL && l->held) {
        reflector_hold(made);
    }
    return made;
}

/* At some time, since not all could be done. */
static void come_again(struct resource *r)
{
    const struct net_clock *clock = r->labeller->options.clock;
    if (r->again_at == 0) {
        r->again_at = net_clock_now(clock) + backoff_next(&r->backoff, net_clock_random(clock));
    }
    labeller_go_on(r->labeller);
}

static void back_off_resource(struct resource *r)
{
    log_warn("backing off from a resource: the API server refuses all its objects",
             log_str("resource", r->name));
    drop_reflector(r, &r->unlabelled);
    drop_reflector(r, &r->labelled);
    resource_set_check(r, CHECK_DUE);
    set_phase(r, RESOURCE_RESTING);
    come_again(r);
}

void resource_begin(struct resource *r)
{
    drop_reflector(r, &r->unlabelled);
    /* What was refused or left out may be one that is labelled. */
    if ((r->again_at != 0 || r->left_out) && r->check == CHECK_DONE) {
        resource_set_check(r, CHECK_DUE);
    }
    r->left_out = false;
    r->again_at = 0;
    r->refused_in_row = 0;
    r->unlabelled = follow_resource(r, "!=", &unlabelled_handlers);
    set_phase(r, r->unlabelled == NULL ? RESOURCE_RESTING : RESOURCE_LISTING);
    if (r->unlabelled == NULL) {
        come_again(r);
    }
}

void resource_check(struct resource *r)
{
    r->labelled = follow_resource(r, "=", &labelled_handlers);
    resource_set_check(r, r->labelled == NULL ? CHECK_DUE : CHECK_RUNNING);
}

void resource_recheck(struct resource *r)
{
    drop_reflector(r, &r->labelled);
    resource_set_check(r, CHECK_DUE);
}

const char *resource_error(const struct resource *r)
{
    return r->unlabelled == NULL ? NULL : reflector_error(r->unlabelled);
}

void resource_take_outcome(struct resource *r, const char *ns, const char *name,
                           enum patcher_outcome outcome, const struct api_error *error)
{
    r->outcomes[outcome]++;
    switch (outcome) {
    case PATCHER_FOREIGN:
        take_foreign(r, ns, name, NULL);
        break;
    case PATCHER_CHANGED:
        r->refused_in_row = 0;
        break;
    case PATCHER_REFUSED:
    case PATCHER_UNDONE:
        tell_refusal(r, ns, name, error);
        if (++r->refused_in_row == REFUSED_MAX) {
            back_off_resource(r);
        } else {
            come_again(r);
        }
        break;
    default:
        break;
    }
}

/* ---- life ---- */

struct resource *resource_new(struct labeller *l, const char *group, const char *version,
                              const char *plural, bool namespaced)
{
    struct resource *r = xcalloc(1, sizeof *r);
    r->name = xasprintf("%s%s%s%c%s%c%s%c%s", plural, group[0] == '\0' ? "" : ".", group, 0, plural,
                        0, group, 0, version);
    r->api.plural = r->name + strlen(r->name) + 1;
    r->api.group = r->api.plural + strlen(plural) + 1;
    r->api.version = r->api.group + strlen(group) + 1;
    r->api.namespaced = namespaced;
    r->labeller = l;
    r->id = l->next_id++;
    backoff_init(&r->backoff, AGAIN_MIN_MS, AGAIN_MAX_MS);
    list_append(&l->resources, &r->link);
    return r;
}

void resource_free(struct resource *r)
{
    drop_reflector(r, &r->unlabelled);
    drop_reflector(r, &r->labelled);
    object_set_clear(&r->foreign);
    list_remove(&r->link);
    free(r->name);
    free(r);
}

bool resource_is(const struct resource *r, const struct sharding_resource *s)
{
    return strcmp(r->api.group, s->group) == 0 && strcmp(r->api.version, s->version) == 0 &&
           strcmp(r->api.plural, s->plural) == 0;
}
