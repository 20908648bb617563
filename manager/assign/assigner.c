/* SPDX-License-Identifier: Apache-2.0 */
#include "assign/assigner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "assign/assignment.h"
#include "assign/assignments.h"
#include "base/array.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "base/xalloc.h"
#include "config/sharding_config.h"
#include "object/names.h"
#include "object/root_child.h"
#include "json/field.h"

enum {
    WAITS_MAX = 32,
    FORGET_WAIT_MS = 60000, /* a ReplicaSet that waits for a place tries more often */
};

enum result { ASSIGNED, BEYOND, NO_PLACE, NO_SHARD, RESULTS };

static const char *const result_names[RESULTS] = {
    [ASSIGNED] = "assigned",
    [BEYOND] = "beyond",
    [NO_PLACE] = "no_place",
    [NO_SHARD] = "no_shard",
};

/* The pods of a ReplicaSet, for which there is no place. */
struct wait {
    uint64_t revision; /* 0: it is not used */
    uint64_t since_ms;
    uint64_t last_ms;
};

struct assigner {
    const struct net_clock *clock;
    struct assignments made;
    struct wait waits[WAITS_MAX];
    uint64_t results[RESULTS];
};

static uint64_t hash_of(const char *uid)
{
    return keyed_hash(0, slice_str(uid)) | 1;
}

struct assigner *assigner_new(const struct net_clock *clock)
{
    struct assigner *a = xcalloc(1, sizeof *a);
    a->clock = clock != NULL ? clock : &net_clock_system;
    assignments_init(&a->made,
                     (uint64_t)net_clock_random(a->clock) << 32 | net_clock_random(a->clock));
    return a;
}

void assigner_free(struct assigner *a)
{
    free(a);
}

/* ---- which Deployment ---- */

/* A ReplicaSet of a Deployment has its name, and the hash that its pods have as a label. The length
 * of the Deployment's name, which the ReplicaSet's begins with; 0: it is of none. */
static size_t deployment_name_len(const cJSON *pod, const cJSON *owner)
{
    const char *name = field_text(owner, "name");
    const char *hash =
        field_text(field_get(field_get(pod, "metadata"), "labels"), "pod-template-hash");
    size_t len = strlen(name);
    size_t tail = strlen(hash) + 1;
    bool is_set = strcmp(field_text(owner, "kind"), "ReplicaSet") == 0 &&
                  strncmp(field_text(owner, "apiVersion"), "apps/", 5) == 0;
    if (!is_set || tail == 1 || len <= tail || name[len - tail] != '-' ||
        strcmp(name + len - tail + 1, hash) != 0) {
        return 0;
    }
    return len - tail;
}

/* Each webhook must find the same one, whatever the order of the list. */
static const struct shards_item *find_root(const struct shards_list *shards, const char *name,
                                           size_t len)
{
    const struct shards_item *found = NULL;
    for (size_t i = 0; i < shards->count; i++) {
        const struct shards_item *item = &shards->items[i];
        const char *target = item->root ? root_child_deployment(item->config) : "";
        if (strlen(target) == len && memcmp(target, name, len) == 0 &&
            (found == NULL || root_child_precedes(item->config, found->config))) {
            found = item;
        }
    }
    return found;
}

/* ---- its shards ---- */

struct choosing {
    const struct assigner_view *view;
    struct assigner *assigner;
    const char *owner; /* uid of the ReplicaSet */
    uint64_t root;
    uint64_t revision;
    struct assignment_shard shards[ROOT_SHARDS_MAX + 1];
    const cJSON *configs[ROOT_SHARDS_MAX + 1];
    size_t count;
    uint64_t sized_ms; /* when one of them was sized last; 0: long ago */
};

static void add_pod(void *arg, const struct assigner_pod *pod)
{
    struct choosing *c = arg;
    if (pod->lives) {
        assignment_add_pod(&c->shards[c->count], strcmp(pod->owner, c->owner) == 0,
                           pod->place.rank);
    }
}

static void add_child(struct choosing *c, size_t position, const struct root_child_seat *seat)
{
    if (c->count == ARRAY_LEN(c->shards)) {
        return;
    }
    c->shards[c->count] = (struct assignment_shard){
        .number = seat->number, .wanted = seat->wanted, .leaving = seat->leaving};
    const struct shards_item *item = &c->view->shards->items[position];
    c->configs[c->count] = item->config;
    c->sized_ms = item->sized_ms > c->sized_ms ? item->sized_ms : c->sized_ms;
    c->view->pods_of(c->view->data, position, add_pod, c);
    c->count++;
}

static void add_children(struct choosing *c, const cJSON *root)
{
    const struct shards_list *all = c->view->shards;
    const char *uid = field_meta(root, "uid");
    struct root_child_seat seat;
    for (size_t i = 0; i < all->count; i++) {
        const cJSON *config = all->items[i].config;
        if (!all->items[i].root && strcmp(field_text(field_controller(config), "uid"), uid) == 0 &&
            root_child_seat(root, config, c->view->prefix, &seat)) {
            add_child(c, i, &seat);
        }
    }
}

static void add_unseen(struct choosing *c)
{
    const struct assignments *made = &c->assigner->made;
    for (const struct assignment *a = NULL; (a = assignments_next(made, a)) != NULL;) {
        for (size_t i = 0; i < c->count && a->root == c->root; i++) {
            if (c->shards[i].number == a->number) {
                assignment_add_pod(&c->shards[i], a->revision == c->revision, a->rank);
            }
        }
    }
}

/* ---- patience ---- */

/* Its own, else the one that was used least lately. */
static struct wait *wait_of(struct assigner *a, uint64_t revision)
{
    struct wait *oldest = &a->waits[0];
    for (size_t i = 0; i < WAITS_MAX; i++) {
        struct wait *w = &a->waits[i];
        if (w->revision == revision) {
            return w;
        }
        oldest = w->last_ms < oldest->last_ms ? w : oldest;
    }
    return oldest;
}

static bool is_patient(struct assigner *a, uint64_t revision, uint64_t now)
{
    struct wait *w = wait_of(a, revision);
    if (w->revision != revision || now - w->last_ms > FORGET_WAIT_MS) {
        *w = (struct wait){.revision = revision, .since_ms = now};
    }
    w->last_ms = now;
    return now - w->since_ms < ASSIGNER_PATIENCE_MS;
}

static void end_wait(struct assigner *a, uint64_t revision)
{
    struct wait *w = wait_of(a, revision);
    if (w->revision == revision) {
        w->revision = 0;
    }
}

/* ---- the choice ---- */

static int find_place(struct choosing *c, struct assignment_place *place, uint64_t now)
{
    struct assigner *a = c->assigner;
    bool back = c->view->from_back;
    if (c->sized_ms != 0 && now - c->sized_ms < ASSIGNER_SETTLE_MS) {
        return -ENOENT;
    }
    int rc = assignment_choose(c->shards, c->count, back, false, place);
    if (rc == 0) {
        end_wait(a, c->revision);
    } else if (rc == -EAGAIN && !is_patient(a, c->revision, now)) {
        rc = assignment_choose(c->shards, c->count, back, true, place);
        a->results[BEYOND] += rc == 0;
    }
    return rc;
}

static int refuse(struct assigner *a, int rc, const char *deployment, size_t len, struct err *e)
{
    a->results[rc == -ENOENT ? NO_SHARD : NO_PLACE]++;
    return rc == -ENOENT
               ? err_set(e, -ENOENT,
                         "the automatic shards of Deployment \"%.*s\" have not all been made yet: "
                         "the pod can be created as soon as they are there. What they wait for is "
                         "said by kubectl get shardingconfigs -o wide",
                         (int)len, deployment)
               : err_set(e, -ENOENT,
                         "each automatic shard of Deployment \"%.*s\" has all its pods: the pod "
                         "can be created as soon as one gets more, or has lost one",
                         (int)len, deployment);
}

/* A webhook has chosen already, which is asked again because another one changed the pod. */
static bool is_injected(const cJSON *pod, const char *prefix)
{
    char key[NAMES_KEY_SIZE];
    const cJSON *annotations = field_get(field_get(pod, "metadata"), "annotations");
    return field_get(annotations, names_key(prefix, SIDECAR_INJECTED, key)) != NULL;
}

static void note_label(const cJSON *pod, const char *prefix, const char *shard,
                       struct warnings *warnings)
{
    char key[NAMES_KEY_SIZE];
    const char *label = field_text(field_get(field_get(pod, "metadata"), "labels"),
                                   names_key(prefix, POD_SHARD, key));
    if (label[0] != '\0') {
        warnings_add(warnings,
                     "metadata.labels[%s]: \"%.63s\" is replaced by \"%.63s\": the Deployment has "
                     "automatic shards, and its pods are assigned to them",
                     key, label, shard);
    }
}

int assigner_choose(struct assigner *a, const struct admission_request *r,
                    const struct assigner_view *view, struct assigner_choice *out,
                    struct warnings *warnings, struct err *e)
{
    const cJSON *owner = field_controller(r->object);
    size_t len = owner == NULL ? 0 : deployment_name_len(r->object, owner);
    const char *name = field_text(owner, "name");
    const struct shards_item *root = len == 0 ? NULL : find_root(view->shards, name, len);
    *out = (struct assigner_choice){.config = NULL};
    if (root == NULL || is_injected(r->object, view->prefix)) {
        return 0;
    }
    uint64_t now = net_clock_now(a->clock);
    struct assignment_place place;
    struct choosing c = {.view = view,
                         .assigner = a,
                         .owner = field_text(owner, "uid"),
                         .root = hash_of(field_meta(root->config, "uid")),
                         .revision = hash_of(field_text(owner, "uid"))};
    add_children(&c, root->config);
    assignments_expire(&a->made, now);
    add_unseen(&c);
    int rc = find_place(&c, &place, now);
    if (rc != 0) {
        return refuse(a, rc, name, len, e);
    }
    *out = (struct assigner_choice){
        .config = c.configs[place.shard],
        .number = c.shards[place.shard].number,
        .place = {.rank = place.rank, .mark = assignments_mark(&a->made)},
    };
    note_label(r->object, view->prefix, shards_name(out->config), warnings);
    return 0;
}

void assigner_keep(struct assigner *a, const struct admission_request *r,
                   const struct assigner_choice *choice)
{
    const cJSON *owner = field_controller(r->object);
    log_debug("pod assigned to automatic shard", log_str("namespace", r->namespace),
              log_str("owner", field_text(owner, "name")),
              log_str("shard", shards_name(choice->config)), log_num("rank", choice->place.rank));
    if (r->dry_run) {
        return;
    }
    const struct assignment made = {
        .root = hash_of(field_text(field_controller(choice->config), "uid")),
        .revision = hash_of(field_text(owner, "uid")),
        .number = choice->number,
        .rank = choice->place.rank,
        .at_ms = net_clock_now(a->clock)};
    assignments_add(&a->made, &made);
    a->results[ASSIGNED]++;
}

void assigner_see(struct assigner *a, const struct pod_place *place)
{
    assignments_see(&a->made, place->mark);
}

void assigner_metrics(const struct assigner *a, struct buf *out)
{
    prometheus_head(out, "cmesh_webhook_assignments_total", "counter",
                    "Pods of Deployments with automatic shards by what became of them: assigned to "
                    "a shard, of these beyond what the shards are to have, or refused.");
    for (size_t i = 0; i < RESULTS; i++) {
        buf_printf(out, "cmesh_webhook_assignments_total{result=\"%s\"} %" PRIu64 "\n",
                   result_names[i], a->results[i]);
    }
}
