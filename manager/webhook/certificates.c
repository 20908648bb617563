/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/certificates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "base/secret.h"
#include "base/state_machine.h"
#include "base/xalloc.h"
#include "kube/client/informer.h"
#include "kube/client/object_request.h"
#include "kube/name.h"
#include "webhook/certificate_set.h"
#include "webhook/client_trust.h"
#include "json/edit.h"
#include "json/field.h"

#define MANAGER "cmesh-manager"

enum {
    AUTHORITY_SECONDS = 365 * 24 * 3600,
    SERVING_SECONDS = 90 * 24 * 3600,
    SETTLE_MS = 60 * 1000,
    LOOK_MAX_MS = 10 * 60 * 1000, /* clocks are set, machines sleep: never trust a long timer */
    SEEN_MS = 10 * 1000,          /* a write shows up within, or is looked at again */
    RETRY_MIN_MS = 500,
    RETRY_MAX_MS = 60 * 1000,
    REPAIR_MIN_MS = 2000, /* between two repairs, should somebody undo each of them */
    REPAIR_MAX_MS = 5 * 60 * 1000,
};

/*
 *     IDLE -> WRITING (a request is under way) -> SEEN (and the reflector has shown something)
 *      ^         |                                 |  |
 *      |         v                                 |  |
 *      +----- WAITING <------ it has failed -------+  |
 *      +----------------------------------------------+
 *
 * WAITING: for the reflector to show what was written, by whomever; or a pause.
 */
enum phase { IDLE, WRITING, SEEN, WAITING };

static const struct state_machine phases = {
    .object = "certificates of the webhooks",
    .states = {[IDLE] = {"Idle", STATE(WRITING) | STATE(WAITING)},
               [WRITING] = {"Writing", STATE(SEEN) | STATE(WAITING)},
               [SEEN] = {"Seen", STATE(IDLE) | STATE(WAITING)},
               [WAITING] = {"Waiting", STATE(IDLE)}},
};

struct certificates {
    struct net_loop *loop;
    const struct net_clock *clock;
    const struct certificates_handlers *handlers;
    void *data;
    struct kube_client *client;
    char *path; /* of the collection */
    const char *secret;
    const struct client_trust *clients;
    struct certificate_rules rules;
    uint64_t settle_ms;

    struct informer *informer;
    struct object_request *request;
    bool creating; /* what `request` does: where that is answered 404, there is no namespace */
    struct net_timer *timer;
    struct net_task check;
    struct backoff backoff;
    enum phase phase;
    struct backoff repairs;
    uint64_t repair_after; /* the next may be made then */

    struct certificate_set set; /* the Secret's, or the last that was good if that is not */
    bool exists;
    bool lost;              /* the Secret is gone or broken, and `set` is good */
    char *version;          /* of the Secret */
    char *bundle;           /* as handed out */
    char *serving;          /* the certificate, as handed out */
    bool clients_changed;   /* since then */
    uint64_t trusted_since; /* the next authority is in all bundles; 0: it is not */

    struct err write; /* why it could not be written */
    struct err use;   /* why what it holds could not be handed out */
    struct certificates_stats stats;
};

static int64_t now_seconds(const struct certificates *c)
{
    return net_clock_wall(c->clock) / 1000000;
}

static void set_phase(struct certificates *c, enum phase phase)
{
    c->phase = state_change(&phases, c->phase, phase, slice_str(""));
}

static void check_soon(struct certificates *c)
{
    net_task_queue(c->loop, &c->check);
}

static void look_after(struct certificates *c, uint64_t ms)
{
    net_clock_set_timer(c->clock, c->timer, ms);
}

/* ---- what is handed out ---- */

static void hand_out_bundle(struct certificates *c)
{
    char *bundle = certificate_set_bundle(&c->set);
    if (c->bundle != NULL && strcmp(bundle, c->bundle) == 0) {
        free(bundle);
        return;
    }
    free(c->bundle);
    c->bundle = bundle;
    c->handlers->on_bundle(c->data, slice_str(c->bundle));
}

static void hand_out_serving(struct certificates *c)
{
    const struct certificate_entry *entry = &c->set.entries[CERTIFICATE_SERVING];
    if (c->serving != NULL && strcmp(c->serving, entry->cert) == 0 && !c->clients_changed) {
        return;
    }
    const struct tls_server_options o = {.cert = slice_str(entry->cert),
                                         .cert_name = "tls.crt of the Secret",
                                         .key = slice_str(entry->key),
                                         .key_name = "tls.key of the Secret",
                                         .client_ca = client_trust_ca(c->clients),
                                         .client_name = client_trust_name(c->clients)};
    struct tls_config *tls = tls_config_new_server(&o, &c->use);
    if (tls == NULL) {
        xerr(&c->use);
        log_error("cannot use the webhooks' certificate", log_str("error", c->use.msg));
        return;
    }
    free(c->serving);
    c->serving = xstrdup(entry->cert);
    c->clients_changed = false;
    char expires[RFC3339_SIZE] = "";
    (void)!rfc3339_format(certificate_not_after(entry->read), expires);
    log_info("serving webhooks with a new certificate", log_str("expires", expires));
    c->handlers->on_serving(c->data, tls);
    tls_config_unref(tls);
}

static void hand_out(struct certificates *c)
{
    const struct certificate_entry *e = c->set.entries;
    c->stats.authority_expires = certificate_not_after(e[CERTIFICATE_CURRENT].read);
    c->stats.serving_expires = certificate_not_after(e[CERTIFICATE_SERVING].read);
    c->stats.rotating = e[CERTIFICATE_NEXT].read != NULL;
    c->use = (struct err){0};
    hand_out_bundle(c);
    hand_out_serving(c);
}

/* ---- writing ---- */

static void wait_until_next_check(struct certificates *c, uint64_t ms)
{
    set_phase(c, WAITING);
    look_after(c, ms);
}

/* The reflector may have been faster than the answer. */
static void await_event(struct certificates *c)
{
    if (c->phase == SEEN) {
        set_phase(c, IDLE);
        check_soon(c);
    } else {
        wait_until_next_check(c, SEEN_MS);
    }
}

static void on_written(void *data, const cJSON *object, const struct api_error *error)
{
    struct certificates *c = data;
    c->request = NULL;
    if (object != NULL) {
        c->stats.writes++;
        c->write = (struct err){0};
        backoff_reset(&c->backoff);
        await_event(c);
    } else if (error->code == 409 || (error->code == 404 && !c->creating)) {
        c->stats.conflicts++;
        log_debug("the webhooks' certificates were changed by another process",
                  log_str("error", error->msg));
        await_event(c);
    } else {
        c->stats.failures++;
        (void)err_set(&c->write, -EIO, "cannot write Secret %s: %s", c->secret, error->msg);
        log_at(error->level, "cannot write the webhooks' certificates",
               log_str("error", c->write.msg));
        uint64_t ms = backoff_next(&c->backoff, net_clock_random(c->clock));
        wait_until_next_check(
            c, error->retry_after * UINT64_C(1000) > ms ? error->retry_after * UINT64_C(1000) : ms);
    }
}

static void remove_nulls(cJSON *data)
{
    for (cJSON *item = data->child, *next; item != NULL; item = next) {
        next = item->next;
        if (cJSON_IsNull(item)) {
            cJSON_Delete(cJSON_DetachItemViaPointer(data, item));
        }
    }
}

/* A new Secret; or a merge patch that is refused with 409 unless the Secret is as it was seen.
 * Takes `data`. */
static cJSON *make_body(const struct certificates *c, cJSON *data)
{
    struct edit ed = {.rc = 0};
    cJSON *root = cJSON_CreateObject();
    cJSON *metadata = edit_object(&ed, root, "metadata");
    if (c->exists) {
        edit_string(&ed, metadata, "resourceVersion", c->version);
    } else {
        cJSON *labels = edit_object(&ed, metadata, "labels");
        edit_string(&ed, root, "apiVersion", "v1");
        edit_string(&ed, root, "kind", "Secret");
        edit_string(&ed, root, "type", "kubernetes.io/tls");
        edit_string(&ed, metadata, "name", c->secret);
        edit_string(&ed, labels, "app.kubernetes.io/part-of", "cmesh");
        edit_string(&ed, labels, "app.kubernetes.io/managed-by", MANAGER);
        remove_nulls(data);
    }
    edit_set(&ed, root, "data", data);
    return root;
}

static void begin_write(struct certificates *c, cJSON *data)
{
    cJSON *body = make_body(c, data);
    struct object_request_options q = {
        .verb = c->exists ? OBJECT_REQUEST_MERGE_PATCH : OBJECT_REQUEST_CREATE,
        .path = c->path,
        .name = c->exists ? c->secret : NULL,
        .body = body,
        .field_manager = MANAGER,
    };
    struct err e = ERR_INIT;
    c->request = object_request_start(c->loop, c->client, &q, on_written, c, &e);
    secret_json_delete(body);
    if (c->request != NULL) {
        c->creating = q.verb == OBJECT_REQUEST_CREATE;
        set_phase(c, WRITING);
        return;
    }
    c->write = e;
    wait_until_next_check(c, backoff_next(&c->backoff, net_clock_random(c->clock)));
}

static void log_plan(const struct certificates *c, const struct certificate_plan *p)
{
    static const char *const words[] = {
        [CERTIFICATE_KEEP] = "nothing",
        [CERTIFICATE_RENEW] = "another serving certificate",
        [CERTIFICATE_PREPARE] = "a next authority",
        [CERTIFICATE_PROMOTE] = "the next authority takes over",
        [CERTIFICATE_RESTART] = "another authority and serving certificate",
        [CERTIFICATE_RESTORE] = "the Secret as it was, with a next authority",
    };
    if (p->broken && (c->exists || c->lost)) {
        log_warn("repairing the webhooks' certificates", log_str("secret", c->secret),
                 log_str("why", p->why), log_str("making", words[p->action]));
    } else {
        log_info("renewing the webhooks' certificates", log_str("secret", c->secret),
                 log_str("why", p->why), log_str("making", words[p->action]));
    }
}

/* Whether there was another repair only just before: the longer the more often. */
static bool repairs_too_often(struct certificates *c)
{
    uint64_t now = net_clock_now(c->clock);
    if (now < c->repair_after) {
        wait_until_next_check(c, c->repair_after - now);
        return true;
    }
    if (now - c->repair_after > REPAIR_MAX_MS) {
        backoff_reset(&c->repairs);
    }
    c->repair_after = now + backoff_next(&c->repairs, net_clock_random(c->clock));
    return false;
}

static void carry_out(struct certificates *c, const struct certificate_plan *p)
{
    struct err e = ERR_INIT;
    if (p->broken && (c->exists || c->lost) && repairs_too_often(c)) {
        return;
    }
    cJSON *data = certificate_set_change(&c->set, &c->rules, now_seconds(c), p, &e);
    if (data == NULL) {
        c->write = e;
        log_error("cannot create certificates", log_str("error", e.msg));
        wait_until_next_check(c, backoff_next(&c->backoff, net_clock_random(c->clock)));
        return;
    }
    log_plan(c, p);
    c->stats.replaced += p->broken && (c->exists || c->lost) ? 1 : 0;
    begin_write(c, data);
}

/* ---- deciding ---- */

/* Whether clients have trusted the next authority for long enough. */
static bool next_trusted(struct certificates *c)
{
    const struct certificate_entry *next = &c->set.entries[CERTIFICATE_NEXT];
    if (next->read == NULL || !c->handlers->is_published(c->data, slice_str(next->cert))) {
        c->trusted_since = 0;
        return false;
    }
    uint64_t now = net_clock_now(c->clock) + 1; /* never 0 */
    if (c->trusted_since == 0) {
        c->trusted_since = now;
    }
    return now - c->trusted_since >= c->settle_ms;
}

static void sleep_until(struct certificates *c, int64_t look)
{
    int64_t seconds = look - now_seconds(c);
    uint64_t ms = LOOK_MAX_MS;
    if (seconds < LOOK_MAX_MS / 1000) {
        ms = seconds > 0 ? (uint64_t)seconds * 1000 : 1;
    }
    if (c->trusted_since != 0) {
        uint64_t settled = c->trusted_since + c->settle_ms - (net_clock_now(c->clock) + 1);
        ms = settled < ms ? settled + 1 : ms;
    }
    look_after(c, ms);
}

/* What the Secret should have been is still held: that is better than anything new. */
static void plan_restoration(const struct certificates *c, struct certificate_plan *p)
{
    p->action = CERTIFICATE_RESTORE;
    p->broken = true;
    (void)snprintf(p->why, sizeof p->why, "the Secret %s",
                   c->exists ? "was overwritten with invalid data" : "was deleted");
}

static void renew_if_due(struct certificates *c)
{
    struct certificate_plan plan;
    int64_t now = now_seconds(c);
    bool serves = certificate_set_serves(&c->set, &c->rules, now, plan.why);
    if (serves) {
        hand_out(c);
    } else if (c->lost || !c->exists) {
        certificate_set_deinit(&c->set);
        c->lost = false;
    }
    certificate_set_plan(&c->set, &c->rules, now, next_trusted(c), &plan);
    if (c->lost && plan.action != CERTIFICATE_PROMOTE) {
        plan_restoration(c, &plan);
    }
    if (plan.action != CERTIFICATE_KEEP) {
        carry_out(c, &plan);
        return;
    }
    c->write = (struct err){0};
    if (c->use.code != 0) {
        look_after(c, RETRY_MIN_MS);
    } else {
        sleep_until(c, plan.next_look);
    }
}

static void on_check(struct net_task *t)
{
    struct certificates *c = LIST_ITEM(t, struct certificates, check);
    if (informer_synced(c->informer) && c->phase == IDLE) {
        renew_if_due(c);
    }
}

/* ---- following the Secret ---- */

/* What a write waited for has come, or something else that makes another look worth it. */
static void secret_changed(struct certificates *c)
{
    if (c->phase == WRITING) {
        set_phase(c, SEEN);
    } else if (c->phase == WAITING) {
        set_phase(c, IDLE);
    }
    check_soon(c);
}

/* Takes `set`, unless nobody could be served with it and with the one that is held somebody can. */
static void use_certificates(struct certificates *c, struct certificate_set *set)
{
    const struct certificate_rules any_name = {0};
    char why[256];
    int64_t now = now_seconds(c);
    c->lost = !certificate_set_serves(set, &any_name, now, why) &&
              certificate_set_serves(&c->set, &c->rules, now, why);
    if (c->lost) {
        certificate_set_deinit(set);
    } else {
        certificate_set_deinit(&c->set);
        c->set = *set;
        c->trusted_since = 0;
    }
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    struct certificates *c = data;
    struct certificate_set set = {0};
    free(c->version);
    c->version = xstrdup(field_meta(object, "resourceVersion"));
    c->exists = true;
    certificate_set_read(&set, object);
    use_certificates(c, &set);
    *item = *item != NULL ? *item : informer_item_new(sizeof **item, key);
    return true;
}

static void secret_deleted(struct certificates *c)
{
    char why[256];
    c->exists = false;
    c->lost = certificate_set_serves(&c->set, &c->rules, now_seconds(c), why);
    secret_changed(c);
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    (void)before;
    if (after == NULL) {
        secret_deleted(data);
    } else {
        secret_changed(data);
    }
}

static void on_synced(void *data, bool first)
{
    struct certificates *c = data;
    (void)first;
    if (informer_size(c->informer) == 0) {
        secret_deleted(c);
    }
    check_soon(c);
}

static const struct informer_kind kind = {
    .path = "/api/v1/secrets", .keep = keep, .on_change = on_change, .on_synced = on_synced};

static void on_timer(void *data)
{
    struct certificates *c = data;
    if (c->phase == WAITING) {
        set_phase(c, IDLE);
    }
    check_soon(c);
}

/* ---- life ---- */

static void copy_options(struct certificates *c, const struct certificates_options *o)
{
    c->client = o->client;
    c->clients = o->clients;
    c->clock = o->clock != NULL ? o->clock : &net_clock_system;
    c->settle_ms = o->settle_ms != 0 ? o->settle_ms : SETTLE_MS;
    c->rules.authority_seconds =
        o->authority_seconds != 0 ? o->authority_seconds : AUTHORITY_SECONDS;
    c->rules.serving_seconds = o->serving_seconds != 0 ? o->serving_seconds : SERVING_SECONDS;
    c->secret = o->secret != NULL ? o->secret : CERTIFICATES_SECRET;
    c->rules.names = o->names;
    c->rules.name_count = o->name_count;
    c->version = xstrdup("");
    c->path = xasprintf("/api/v1/namespaces/%s/secrets", o->namespace);
}

static int check_options(const struct certificates_options *o, struct err *e)
{
    const char *secret = o->secret != NULL ? o->secret : CERTIFICATES_SECRET;
    if (o->namespace == NULL || name_check_label(slice_str(o->namespace)) != NULL) {
        return err_set(e, -EINVAL, "the namespace of the webhooks' Secret is missing or invalid");
    }
    if (name_check_subdomain(slice_str(secret)) != NULL) {
        return err_set(e, -EINVAL, "%s cannot be the name of a Secret", secret);
    }
    if (o->name_count == 0 || o->name_count > CERTIFICATE_NAMES_MAX) {
        return err_set(e, -EINVAL, "the webhooks' certificate needs 1 to %d names",
                       CERTIFICATE_NAMES_MAX);
    }
    return 0;
}

struct certificates *certificates_new(struct net_loop *l, const struct certificates_options *o,
                                      const struct certificates_handlers *handlers, void *data,
                                      struct err *e)
{
    if (check_options(o, e) != 0) {
        return NULL;
    }
    struct certificates *c = xcalloc(1, sizeof *c);
    c->loop = l;
    c->handlers = handlers;
    c->data = data;
    net_task_init(&c->check, on_check);
    backoff_init(&c->backoff, RETRY_MIN_MS, RETRY_MAX_MS);
    backoff_init(&c->repairs, REPAIR_MIN_MS, REPAIR_MAX_MS);
    c->timer = xptr(net_timer_new(l, on_timer, c));
    copy_options(c, o);
    const struct informer_options io = {.client = o->client,
                                        .namespace = o->namespace,
                                        .name = c->secret,
                                        .effect = "the webhooks' certificates are not renewed",
                                        .ops = o->ops};
    c->informer = informer_new(l, &kind, &io, c);
    return c;
}

bool certificates_ready(const struct certificates *c)
{
    return c->serving != NULL && c->stats.serving_expires >= now_seconds(c);
}

const char *certificates_error(const struct certificates *c)
{
    const char *error = reflector_error(informer_reflector(c->informer));
    if (error != NULL) {
        return error;
    }
    if (c->write.code != 0 || c->use.code != 0) {
        return c->write.code != 0 ? c->write.msg : c->use.msg;
    }
    if (c->serving == NULL) {
        return informer_synced(c->informer) ? "the webhooks' certificates are being created"
                                            : "the webhooks' certificates have not been read yet";
    }
    return certificates_ready(c) ? NULL : "the webhooks' certificate has expired";
}

const struct certificates_stats *certificates_stats(const struct certificates *c)
{
    return &c->stats;
}

void certificates_clients_changed(struct certificates *c)
{
    c->clients_changed = true;
    check_soon(c);
}

void certificates_check(struct certificates *c)
{
    check_soon(c);
}

void certificates_free(struct certificates *c)
{
    if (c == NULL) {
        return;
    }
    informer_free(c->informer);
    object_request_cancel(c->request);
    net_timer_free(c->timer);
    net_task_cancel(&c->check);
    certificate_set_deinit(&c->set);
    free(c->path);
    free(c->version);
    free(c->bundle);
    free(c->serving);
    free(c);
}
