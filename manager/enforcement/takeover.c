/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of each pod that is wanted one patch at a time, and the next one some time after it, whatever
 * became of it; then it is forgotten when nobody has wanted it for a while.
 */
#include "enforcement/takeover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "control/status.h"
#include "kube/client/object_request.h"
#include "object/preconditions.h"
#include "json/field.h"

enum {
    MS = 1000,
    PART = 4,             /* of the lease: what it is waited for longer */
    AGAIN_MS = 5000,      /* between two patches, of which the first may have failed */
    FORBIDDEN_MS = 60000, /* after a failure that only a person can mend */
    CONFLICT_MS = 1000,   /* what is newer is about to be seen */
};

struct takeover {
    struct net_loop *loop;
    struct takeover_options o;
    struct table attempts;
    uint64_t count;
};

/* At a pod. */
struct attempt {
    struct table_node node;
    struct takeover *owner;
    struct object_request *request; /* NULL: it is over, and: */
    uint64_t again_at;
    bool forbidden;
    bool proves; /* what it says was certain when it was sent */
    uint64_t seen_ms;
    uint64_t generation;
    char checksum[PROBE_CHECKSUM_SIZE];
    char *uid;  /* of the pod */
    char *base; /* the version that it names */
    char pod[];
};

static uint64_t now_of(const struct takeover *t)
{
    return net_clock_now(t->o.clock);
}

/* ---- attempts ---- */

static struct attempt *find(const struct takeover *t, const char *pod)
{
    return TABLE_FIND(&t->attempts, slice_str(pod), struct attempt);
}

static void attempt_free(struct attempt *a)
{
    object_request_cancel(a->request);
    table_remove(&a->owner->attempts, &a->node);
    free(a->uid);
    free(a->base);
    free(a);
}

/* Those that nobody wants any more. */
static void sweep(struct takeover *t)
{
    struct table_node *next = table_next(&t->attempts, NULL);
    while (next != NULL) {
        struct attempt *a = LIST_ITEM(next, struct attempt, node);
        next = table_next(&t->attempts, next);
        if (a->request == NULL && now_of(t) >= a->again_at + FORBIDDEN_MS) {
            attempt_free(a);
        }
    }
}

static struct attempt *provide(struct takeover *t, const struct pod *p)
{
    struct attempt *a = find(t, p->key);
    if (a != NULL && strcmp(a->uid, p->uid) == 0) {
        return a;
    }
    if (a != NULL) {
        attempt_free(a);
    }
    sweep(t);
    a = xptr(TABLE_PROVIDE(&t->attempts, slice_str(p->key), struct attempt, pod));
    a->owner = t;
    a->uid = xstrdup(p->uid);
    return a;
}

/* ---- the patch ---- */

static void succeeded(struct attempt *a, const cJSON *lease)
{
    struct takeover *t = a->owner;
    const struct status_lease_patch done = {a->base, field_meta(lease, "resourceVersion"),
                                            a->seen_ms};
    status_leases_patched(t->o.leases, a->pod, &done);
    if (a->proves) {
        t->count++;
        log_info("a pod was given up: its rules have expired, and older ones cannot come back",
                 log_str("pod", a->pod), log_num("generation", (int64_t)a->generation));
        prober_require(t->o.prober, a->pod, a->uid, a->generation, a->checksum);
    }
}

static void failed(struct attempt *a, const struct api_error *error)
{
    bool conflict = error->code == 409 || error->code == 404;
    a->forbidden = error->code == 403;
    a->again_at = now_of(a->owner) + (a->forbidden ? FORBIDDEN_MS
                                      : conflict   ? CONFLICT_MS
                                                   : AGAIN_MS);
    log_at(error->level, "cannot say in a Lease which rules are required of its pod",
           log_str("pod", a->pod), log_str("error", error->msg));
}

static void on_patched(void *data, const cJSON *object, const struct api_error *error)
{
    struct attempt *a = data;
    struct takeover *t = a->owner;
    char *pod = xstrdup(a->pod);
    a->request = NULL;
    if (object != NULL) {
        a->again_at = now_of(t) + AGAIN_MS;
        succeeded(a, object);
    } else {
        failed(a, error);
    }
    t->o.on_change(t->o.data, pod);
    free(pod);
}

/* Of that version alone. */
static cJSON *make_patch(const struct status_lease_seen *lease, uint64_t generation)
{
    struct edit ed = {.rc = 0};
    char number[24];
    cJSON *patch = cJSON_CreateObject();
    cJSON *meta = preconditions_set(&ed, patch, lease->uid, lease->version);
    (void)snprintf(number, sizeof number, "%" PRIu64, generation);
    edit_string(&ed, edit_object(&ed, meta, "annotations"), CONTROL_LEASE_REQUIRED, number);
    return xptr(edit_result(&ed, patch));
}

static struct object_request *send_patch(struct attempt *a, const struct pod *p, const cJSON *patch,
                                         struct err *e)
{
    struct takeover *t = a->owner;
    char path[256];
    char name[320];
    (void)snprintf(path, sizeof path, "/apis/coordination.k8s.io/v1/namespaces/%s/leases", p->ns);
    (void)snprintf(name, sizeof name, CONTROL_LEASE_NAME "%s", p->name);
    const struct object_request_options q = {.verb = OBJECT_REQUEST_MERGE_PATCH,
                                             .path = path,
                                             .name = name,
                                             .body = patch,
                                             .field_manager = RULES_MAP_MANAGER,
                                             .metadata_only = true};
    return object_request_start(t->loop, t->o.client, &q, on_patched, a, e);
}

/* What cannot be sent now is to be tried again. */
static void start(struct attempt *a, const struct pod *p, const struct status_lease_seen *lease,
                  const struct rules_map *published)
{
    struct err e = ERR_INIT;
    cJSON *patch = make_patch(lease, published->generation);
    a->again_at = now_of(a->owner) + AGAIN_MS;
    a->forbidden = false;
    free(a->base);
    a->base = xstrdup(lease->version);
    a->seen_ms = lease->seen_ms;
    a->generation = published->generation;
    (void)snprintf(a->checksum, sizeof a->checksum, "%s", published->checksum);
    if (a->owner->o.may_write(a->owner->o.data)) {
        a->request = send_patch(a, p, patch, &e);
    }
    cJSON_Delete(patch);
}

/* ---- when ---- */

/* Whether a generation of what is published can be required of the pod. */
static bool is_judged(const struct probe_result *r, const char *shard,
                      const struct rules_map *published)
{
    return r != NULL && strcmp(r->shard, shard) == 0 && published != NULL && !published->unread &&
           published->generation != 0;
}

/* What it has is what is published, or older: else it would go on with what it has. */
static bool can_prove(const struct probe_result *r, const struct rules_map *published)
{
    bool same =
        r->generation == published->generation && strcmp(r->checksum, published->checksum) == 0;
    return same || r->generation < published->generation;
}

static void try(struct takeover *t, const struct pod *p, const struct status_lease_seen *lease,
                const struct rules_map *published, struct takeover_word *out)
{
    struct attempt *a = provide(t, p);
    uint64_t now = now_of(t);
    out->state = TAKEOVER_ASKED;
    if (a->request == NULL && now >= a->again_at) {
        a->proves = true;
        start(a, p, lease, published);
    }
    if (a->forbidden) {
        out->state = TAKEOVER_FORBIDDEN;
    }
    if (a->request == NULL) {
        out->again_ms = a->again_at > now ? a->again_at - now : 0;
    }
}

void takeover_want(struct takeover *t, const struct pod *p, const struct probe_result *r,
                   const char *shard, const struct rules_map *published, struct takeover_word *out)
{
    struct status_lease_seen lease;
    *out = (struct takeover_word){.again_ms = UINT64_MAX};
    if (!is_judged(r, shard, published) || !can_prove(r, published) ||
        !status_leases_find(t->o.leases, p->key, &lease) || lease.seconds == 0 ||
        strcmp(lease.pod_uid, p->uid) != 0) {
        return;
    }
    uint64_t over = lease.seen_ms + lease.seconds * MS + lease.seconds * MS / PART + t->o.margin_ms;
    uint64_t now = now_of(t);
    if (now >= over) {
        try(t, p, &lease, published, out);
        return;
    }
    out->state = TAKEOVER_LATER;
    out->again_ms = over - now;
    out->expires = (net_clock_wall(t->o.clock) / MS + (int64_t)out->again_ms) / MS;
}

void takeover_answer(struct takeover *t, const struct pod *p, const struct probe_result *r,
                     const char *shard, const struct rules_map *published)
{
    struct status_lease_seen lease;
    if (!is_judged(r, shard, published) || !status_leases_find(t->o.leases, p->key, &lease) ||
        !lease.asks || strcmp(lease.pod_uid, p->uid) != 0) {
        return;
    }
    struct attempt *a = provide(t, p);
    if (a->request == NULL && now_of(t) >= a->again_at) {
        a->proves = false;
        start(a, p, &lease, published);
    }
}

/* ---- life ---- */

uint64_t takeover_count(const struct takeover *t)
{
    return t->count;
}

struct takeover *takeover_new(struct net_loop *l, const struct takeover_options *o)
{
    struct takeover *t = xcalloc(1, sizeof *t);
    t->loop = l;
    t->o = *o;
    t->o.margin_ms = o->margin_ms != 0 ? o->margin_ms : TAKEOVER_MARGIN_MS;
    return t;
}

void takeover_free(struct takeover *t)
{
    if (t == NULL) {
        return;
    }
    for (struct table_node *n = NULL; (n = table_next(&t->attempts, NULL)) != NULL;) {
        attempt_free(LIST_ITEM(n, struct attempt, node));
    }
    table_deinit(&t->attempts);
    free(t);
}
