/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/unlabel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "base/state_machine.h"
#include "base/xalloc.h"
#include "kube/client/reflector.h"
#include "kube/client/watch_event.h"
#include "label/labeller.h"
#include "label/patcher.h"
#include "net/timer.h"
#include "program/program.h"
#include "json/field.h"

enum {
    PARALLEL = 8,
    PROGRESS_MS = 5000,
    PATIENCE_MS = 120000, /* without any progress */
    LEVEL_LOW = 250,      /* objects that wait: as the labeller has them */
    LEVEL_HIGH = 1000,
    REFUSED_MAX = 20, /* in a row: it is no use with this resource */
    NAME_LEN = 400,
};

/*
 *   DISCOVERING --> REMOVING, a resource after the other, then namespaces --> VERIFYING, the same
 *   (dry_run: COUNTING in place of REMOVING, and no VERIFYING) --> OVER
 */
enum stage { STAGE_DISCOVERING, STAGE_COUNTING, STAGE_REMOVING, STAGE_VERIFYING, STAGE_OVER };

static const struct state_machine stages = {
    .object = "removal of control labels",
    .states = {[STAGE_DISCOVERING] = {"discovering", STATE(STAGE_COUNTING) | STATE(STAGE_REMOVING) |
                                                         STATE(STAGE_OVER)},
               [STAGE_COUNTING] = {"counting", STATE(STAGE_OVER)},
               [STAGE_REMOVING] = {"removing", STATE(STAGE_VERIFYING) | STATE(STAGE_OVER)},
               [STAGE_VERIFYING] = {"verifying", STATE(STAGE_OVER)},
               [STAGE_OVER] = {"over", STATE(STAGE_OVER)}}, /* a signal may come at the very end */
};

struct run {
    struct program program;
    const struct unlabel_command *command;
    struct labels_keys keys;
    struct sharding_resources *configured;
    struct kube_access access;
    struct kube_client *client;
    struct discovery *discovery;
    struct patcher *patcher;
    struct net_timer *progress;
    struct net_timer *patience;
    struct net_task turn;

    enum stage stage;
    struct sharding_resource *resources;
    size_t count;
    size_t at;           /* `count`: namespaces */
    char name[NAME_LEN]; /* of this resource: "deployments.apps" */
    struct reflector *reflector;
    bool held;
    bool listed;             /* all of this resource */
    uint64_t before;         /* `total`, and */
    uint64_t left_before;    /* `left`, when this resource was begun */
    unsigned refused_in_row; /* of this resource */
    uint64_t began_at;
    uint64_t total;    /* taken away, or counted */
    uint64_t failed;   /* objects */
    uint64_t unlisted; /* resources that may not be listed: how many objects is not known */
    uint64_t left;     /* found when verifying */
};

/* ---- words ---- */

static bool is_namespaces(const struct run *r)
{
    return r->at == r->count;
}

static struct discovery_resource current(const struct run *r)
{
    if (is_namespaces(r)) {
        return (struct discovery_resource){.group = "", .version = "v1", .plural = "namespaces"};
    }
    const struct sharding_resource *s = &r->resources[r->at];
    return (struct discovery_resource){
        .group = s->group, .version = s->version, .plural = s->plural, .namespaced = true};
}

static int64_t elapsed(const struct run *r)
{
    return (int64_t)(net_clock_now(&net_clock_system) - r->began_at);
}

/* What keeps it from going on; NULL: nothing. */
static const char *obstacle(const struct run *r)
{
    const char *why = r->reflector != NULL ? reflector_error(r->reflector) : NULL;
    return why == NULL && r->discovery != NULL ? discovery_error(r->discovery) : why;
}

static void on_progress(void *data)
{
    struct run *r = data;
    const char *why = obstacle(r);
    net_timer_set(r->progress, PROGRESS_MS);
    if (why != NULL) {
        log_warn("still waiting for the API server", log_str("error", why),
                 log_num("ms", elapsed(r)), log_num("givesUpAfterMs", PATIENCE_MS));
        return;
    }
    if (r->stage == STAGE_DISCOVERING) {
        return;
    }
    log_info("removing control labels", log_str("resource", r->name),
             log_num("removed", (int64_t)r->total), log_num("failed", (int64_t)r->failed),
             log_num("ms", elapsed(r)));
}

static void set_stage(struct run *r, enum stage stage)
{
    r->stage = state_change(&stages, r->stage, stage, slice_str(""));
}

/* ---- the end ---- */

static void end(struct run *r, int exit_code)
{
    set_stage(r, STAGE_OVER);
    program_stop(&r->program, exit_code);
}

static void give_up(struct run *r, const char *what, const char *why)
{
    log_error(what, log_str("error", why), log_num("removed", (int64_t)r->total));
    end(r, EXIT_FAILED);
}

static void on_patience(void *data)
{
    struct run *r = data;
    const char *why = obstacle(r);
    give_up(r, "given up: no progress for two minutes", why == NULL ? "" : why);
}

static void note_progress(struct run *r)
{
    net_timer_set(r->patience, PATIENCE_MS);
}

static void sum_up(struct run *r)
{
    if (r->command->dry_run) {
        log_info("dry run: control labels would be removed", log_num("objects", (int64_t)r->total),
                 log_num("failed", (int64_t)r->failed), log_num("ms", elapsed(r)));
    } else if (r->left > 0) {
        log_error(
            "objects were labelled again meanwhile: is a manager, or its webhook, still installed?",
            log_num("removed", (int64_t)r->total), log_num("left", (int64_t)r->left));
    } else {
        log_info("control labels removed", log_num("removed", (int64_t)r->total),
                 log_num("failed", (int64_t)r->failed), log_num("ms", elapsed(r)));
    }
    if (r->failed > 0) {
        log_error("control labels of some objects could not be removed",
                  log_num("objects", (int64_t)r->failed));
    }
    if (r->unlisted > 0) {
        log_error("some resources could not be listed: whether their objects have control labels "
                  "is not known",
                  log_num("resources", (int64_t)r->unlisted));
    }
    end(r, r->failed + r->left + r->unlisted == 0 ? EXIT_DONE : EXIT_FAILED);
}

/* ---- one resource after the other ---- */

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    struct run *r = data;
    (void)change;
    note_progress(r);
    if (r->stage == STAGE_OVER || !labels_are_ours(&r->keys, object)) {
        return;
    }
    if (r->stage == STAGE_COUNTING) {
        r->total++;
    } else if (r->stage == STAGE_VERIFYING) {
        r->left++;
    } else if (!patcher_add(r->patcher, (unsigned)r->at, field_meta(object, "namespace"),
                            object_name(object), object_version(object), 0)) {
        r->failed++;
    }
    if (!r->held && patcher_level(r->patcher) >= LEVEL_HIGH) {
        r->held = true;
        reflector_hold(r->reflector);
    }
}

static void stop_listing(struct run *r)
{
    reflector_free(r->reflector);
    r->reflector = NULL;
    r->listed = true;
    net_task_queue(r->program.loop, &r->turn);
}

static void on_synced(void *data)
{
    stop_listing(data);
}

static void on_list(void *data)
{
    struct run *r = data;
    if (r->stage == STAGE_COUNTING) {
        r->total = r->before;
    }
    r->left = r->left_before;
}

/* What is not there, or not allowed, is not waited for. */
static void on_state(void *data, const char *error, enum log_level level)
{
    struct run *r = data;
    if (error == NULL || r->stage == STAGE_OVER) {
        return;
    }
    bool gone = strstr(error, ": 404 ") != NULL;
    bool refused = strstr(error, ": 403 ") != NULL || strstr(error, ": 405 ") != NULL;
    if (!gone) {
        log_at(level, "cannot list a resource", log_str("resource", r->name),
               log_str("error", error));
    }
    if (gone || refused) {
        r->unlisted += refused ? 1 : 0;
        stop_listing(r);
    }
}

static const struct reflector_handlers list_handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
};

static int begin_listing(struct run *r, struct err *e)
{
    char selector[NAMES_KEY_SIZE + 8];
    struct discovery_resource d = current(r);
    struct buf path = BUF_INIT(1024);
    (void)snprintf(r->name, sizeof r->name, "%s%s%s", d.plural, d.group[0] == '\0' ? "" : ".",
                   d.group);
    (void)snprintf(selector, sizeof selector, "%s=true", r->keys.key[LABELS_CONTROL]);
    const char *text = discovery_path(&d, NULL, &path) == 0 ? buf_cstr(&path) : NULL;
    const struct reflector_options o = {
        .client = r->client, .path = text, .label_selector = selector, .metadata_only = true};
    r->reflector = reflector_new(r->program.loop, &o, &list_handlers, r, e);
    buf_reset(&path);
    r->held = false;
    r->listed = false;
    r->before = r->total;
    r->left_before = r->left;
    r->refused_in_row = 0;
    return r->reflector == NULL ? e->code : 0;
}

static void tell_resource(const struct run *r)
{
    if (r->total > r->before) {
        log_info(r->stage == STAGE_COUNTING ? "control labels would be removed" : "unlabelled",
                 log_str("resource", r->name), log_num("objects", (int64_t)(r->total - r->before)));
    }
}

static void next_resource(struct run *r)
{
    struct err e = ERR_INIT;
    tell_resource(r);
    if (r->at < r->count) {
        r->at++;
    } else if (r->stage == STAGE_REMOVING && r->failed + r->unlisted == 0) {
        set_stage(r, STAGE_VERIFYING);
        r->at = 0;
    } else {
        sum_up(r);
        return;
    }
    if (begin_listing(r, &e) != 0) {
        give_up(r, "cannot continue", e.msg);
    }
}

static void on_turn(struct net_task *task)
{
    struct run *r = LIST_ITEM(task, struct run, turn);
    size_t level = patcher_level(r->patcher);
    if (r->stage == STAGE_OVER) {
        return;
    }
    if (r->held && level <= LEVEL_LOW) {
        r->held = false;
        if (r->reflector != NULL) {
            reflector_release(r->reflector);
        }
    }
    if (r->listed && level == 0) {
        next_resource(r);
    }
}

/* ---- patches ---- */

static int path_of(void *data, unsigned resource, const char *ns, struct buf *out)
{
    struct run *r = data;
    struct discovery_resource d = current(r);
    if (resource != r->at || r->refused_in_row >= REFUSED_MAX) {
        return -ENOENT;
    }
    return discovery_path(&d, ns[0] == '\0' ? NULL : ns, out);
}

static void take_refusal(struct run *r, const char *ns, const char *name,
                         const struct api_error *error)
{
    r->failed++;
    log_warn("cannot remove the control labels of an object", log_str("resource", r->name),
             log_str("namespace", ns), log_str("name", name), log_str("error", error->msg));
    if (++r->refused_in_row == REFUSED_MAX) {
        log_warn("giving up on a resource: the API server refuses all its objects",
                 log_str("resource", r->name));
        if (r->reflector != NULL) {
            stop_listing(r);
        }
    }
}

static void on_done(void *data, unsigned resource, const char *ns, const char *name,
                    enum patcher_outcome outcome, const struct api_error *error)
{
    struct run *r = data;
    (void)resource;
    note_progress(r);
    if (r->stage == STAGE_OVER) {
        return;
    }
    if (outcome == PATCHER_CHANGED) {
        r->total++;
        r->refused_in_row = 0;
    } else if (outcome == PATCHER_REFUSED) {
        take_refusal(r, ns, name, error);
    } else if (outcome == PATCHER_UNDONE) {
        give_up(r, "stopped: the labels are added again immediately",
                "the manager's webhook is still installed: delete its MutatingWebhookConfiguration "
                "first");
    }
    net_task_queue(r->program.loop, &r->turn);
}

static const struct patcher_handlers patcher_handlers = {.path = path_of, .on_done = on_done};

/* ---- the beginning ---- */

static void on_discovered(void *data)
{
    struct run *r = data;
    struct warnings warnings = WARNINGS_INIT;
    struct err e = ERR_INIT;
    note_progress(r);
    if (!discovery_ready(r->discovery)) {
        return;
    }
    r->resources = sharding_resources_resolve(r->configured, r->discovery, &r->count, &warnings);
    for (size_t i = 0; i < warnings.count; i++) {
        log_warn("configured resource skipped", log_str("reason", warnings.items[i]));
    }
    warnings_deinit(&warnings);
    discovery_free(r->discovery);
    r->discovery = NULL;
    set_stage(r, r->command->dry_run ? STAGE_COUNTING : STAGE_REMOVING);
    if (begin_listing(r, &e) != 0) {
        give_up(r, "cannot start", e.msg);
    }
}

static void on_discovery_state(void *data, const char *error, enum log_level level)
{
    (void)data;
    if (error != NULL) {
        log_at(level, "discovery is incomplete", log_str("error", error));
    }
}

static const struct discovery_handlers discovery_handlers = {
    .on_change = on_discovered,
    .on_state = on_discovery_state,
};

static void on_shutdown(void *data)
{
    give_up(data, "stopped; the remaining labels are kept", "interrupted by a signal");
}

static int read_command(struct run *r, struct err *e)
{
    const struct unlabel_command *c = r->command;
    int rc = labels_keys_init(&r->keys, &c->labels, e);
    if (rc != 0) {
        return rc;
    }
    if (c->all_resources) {
        r->configured = sharding_resources_everything();
    } else if (c->resources != NULL) {
        r->configured = sharding_resources_load(c->resources, e);
    } else {
        r->configured = sharding_resources_default();
    }
    if (r->configured == NULL) {
        return e->code;
    }
    return kube_flags_open(&c->kube, &r->access, e);
}

static int open_parts(struct run *r, struct err *e)
{
    const struct unlabel_command *c = r->command;
    const unsigned parallel = c->parallel == 0 ? PARALLEL : (unsigned)c->parallel;
    const struct kube_client_options ko = {
        .access = &r->access,
        .max_idle = parallel,
        .http1_only = c->kube.protocol == UPSTREAM_HTTP1,
    };
    r->client = kube_client_new(r->program.loop, &ko, e);
    if (r->client == NULL) {
        return e->code;
    }
    const struct patcher_options po = {
        .client = r->client,
        .keys = &r->keys,
        .remove = true,
        .qps = c->qps == 0 ? LABELLER_QPS : (unsigned)c->qps,
        .parallel = parallel,
        .clock = &net_clock_system,
    };
    const struct discovery_options dopt = {.client = r->client};
    r->patcher = patcher_new(r->program.loop, &po, &patcher_handlers, r);
    r->discovery = discovery_new(r->program.loop, &dopt, &discovery_handlers, r);
    r->progress = xptr(net_timer_new(r->program.loop, on_progress, r));
    r->patience = xptr(net_timer_new(r->program.loop, on_patience, r));
    return 0;
}

static int open_all(void *data, struct err *e)
{
    struct run *r = data;
    int rc = read_command(r, e);
    if (rc != 0) {
        return rc;
    }
    net_task_init(&r->turn, on_turn);
    rc = open_parts(r, e);
    if (rc != 0) {
        return rc;
    }
    r->began_at = net_clock_now(&net_clock_system);
    net_timer_set(r->progress, PROGRESS_MS);
    note_progress(r);
    return 0;
}

static void close_all(void *data)
{
    struct run *r = data;
    reflector_free(r->reflector);
    patcher_free(r->patcher);
    discovery_free(r->discovery);
    net_timer_free(r->progress);
    net_timer_free(r->patience);
    if (r->client != NULL) {
        kube_client_close(r->client, NULL, NULL);
    }
}

static const struct program_ops ops = {
    .open = open_all,
    .on_shutdown = on_shutdown,
    .close = close_all,
};

int unlabel_command_run(const struct unlabel_command *command)
{
    struct run r = {.command = command};
    int code = program_run(&r.program, &ops, &r);
    free(r.resources);
    sharding_resources_free(r.configured);
    kube_access_deinit(&r.access);
    return code;
}
