/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: open_all > on_turn > on_workload > on_list, one list after the other > on_metrics, of
 * one pod after the other > conclude, once discovery is complete as well.
 *
 * Ways to fail: give_up, where the workload cannot be read, or discovery. A list that cannot be
 * read is a finding.
 */
#include "commands/check_operator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/flags.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "kube/client/object_request.h"
#include "net/timer.h"
#include "object/names.h"
#include "program/program.h"
#include "readiness/operator_check.h"
#include "json/field.h"

enum {
    PATIENCE_MS = 120000,
    REPORT_MAX = 1024 * 1024,
    PODS_MAX = 10, /* that are asked for what they have seen */
    METRICS_MAX = 4 * 1024 * 1024,
    METRICS_MS = 10000,
};

struct run {
    struct program program;
    const struct check_operator_command *command;
    struct kube_access access;
    struct kube_client *client;
    struct discovery *discovery;
    struct sharding_resources *configured;
    struct sharding_resource *labelled;
    struct object_request *request;
    struct net_timer *patience;
    struct net_task turn;
    const char *ns;
    cJSON *workload;
    cJSON *lists[OPERATOR_LISTS];
    char *errors[OPERATOR_LISTS];
    size_t at; /* the next list */
    struct http_fetch *fetch;
    struct requests_seen seen;
    int pod; /* the next one, in its list */
    size_t asked;
    char *seen_error;
    bool over;
};

static void end(struct run *r, int exit_code)
{
    r->over = true;
    program_stop(&r->program, exit_code);
}

static void give_up(struct run *r, const char *why)
{
    log_error("cannot look at the operator", log_str("namespace", r->ns),
              log_str("name", r->command->name), log_str("error", why));
    end(r, CHECK_OPERATOR_TROUBLE);
}

/* ---- the report ---- */

static void print(struct run *r, const struct findings *found, const char *about)
{
    struct buf out = BUF_INIT(REPORT_MAX);
    if (r->command->json) {
        findings_write_json(found, about, &out);
    } else {
        findings_write_text(found, about, &out);
    }
    xok(buf_error(&out));
    if (fwrite(buf_data(&out), 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
        give_up(r, "the report cannot be written to standard output");
    } else {
        end(r, found->by_level[FINDING_BREAKS] > 0 ? CHECK_OPERATOR_BREAKS : CHECK_OPERATOR_READY);
    }
    buf_reset(&out);
}

static struct operator_facts known(const struct run *r)
{
    struct operator_facts facts = {.prefix = r->command->prefix, .workload = r->workload};
    for (size_t i = 0; i < OPERATOR_LISTS; i++) {
        facts.lists[i] = r->lists[i];
        facts.errors[i] = r->errors[i];
    }
    return facts;
}

static void conclude(struct run *r)
{
    struct warnings warnings = WARNINGS_INIT;
    struct findings found;
    struct err e = ERR_INIT;
    char *about = NULL;
    struct operator_facts facts = known(r);
    facts.seen = r->seen;
    facts.seen_error = r->seen_error;
    facts.resources = discovery_all(r->discovery, &facts.resource_count);
    r->labelled =
        sharding_resources_resolve(r->configured, r->discovery, &facts.labelled_count, &warnings);
    facts.labelled = r->labelled;
    for (size_t i = 0; i < warnings.count; i++) {
        log_warn("configured resource skipped", log_str("reason", warnings.items[i]));
    }
    if (operator_check(&facts, &found, &about, &e) != 0) {
        give_up(r, e.msg);
    } else {
        print(r, &found, about);
    }
    findings_deinit(&found);
    free(about);
    warnings_deinit(&warnings);
}

/* ---- what is read ---- */

static void go_on(struct run *r)
{
    net_task_queue(r->program.loop, &r->turn);
}

static void on_list(void *data, const cJSON *object, const struct api_error *error)
{
    struct run *r = data;
    r->request = NULL;
    if (object != NULL) {
        r->lists[r->at] = xptr(cJSON_Duplicate(object, true));
    } else {
        r->errors[r->at] = xstrdup(error->msg);
    }
    r->at++;
    go_on(r);
}

static void on_workload(void *data, const cJSON *object, const struct api_error *error)
{
    struct run *r = data;
    r->request = NULL;
    if (object == NULL) {
        give_up(r, error->msg);
        return;
    }
    r->workload = xptr(cJSON_Duplicate(object, true));
    go_on(r);
}

static void request(struct run *r, char *path, const char *name, object_request_cb cb)
{
    struct err e = ERR_INIT;
    const struct object_request_options q = {
        .verb = OBJECT_REQUEST_GET, .path = path, .name = name};
    r->request = object_request_start(r->program.loop, r->client, &q, cb, r, &e);
    free(path);
    if (r->request == NULL) {
        give_up(r, e.msg);
    }
}

static void on_metrics(void *data, const struct http_answer *a, const struct err *e)
{
    struct run *r = data;
    r->fetch = NULL;
    if (a != NULL && a->status == 200) {
        requests_seen_add(&r->seen, a->body);
    } else {
        free(r->seen_error);
        r->seen_error =
            a == NULL ? xstrdup(e->msg) : xasprintf("the API server answers %u", a->status);
    }
    go_on(r);
}

/* Through the API server, as whoever runs this may not reach pods. */
static void ask_pod(struct run *r, const char *pod)
{
    struct err e = ERR_INIT;
    char *target =
        xasprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/metrics", r->ns, pod, SIDECAR_ADMIN_PORT);
    const struct http_fetch_options o = {
        .via = kube_client_requester(r->client),
        .method = SLICE("GET"),
        .target = slice_str(target),
        .answer_max = METRICS_MAX,
        .timeout_ms = METRICS_MS,
    };
    r->asked++;
    r->fetch = http_fetch_start(r->program.loop, &o, on_metrics, r, &e);
    if (r->fetch == NULL) {
        on_metrics(r, NULL, &e);
    }
    free(target);
}

/* False: all have been asked. */
static bool ask_next_pod(struct run *r)
{
    const struct operator_facts facts = known(r);
    const cJSON *pods = field_get(r->lists[OPERATOR_PODS], "items");
    const cJSON *pod;
    while (r->asked < PODS_MAX && (pod = cJSON_GetArrayItem(pods, r->pod)) != NULL) {
        r->pod++;
        if (operator_pod_in_mesh(&facts, pod)) {
            ask_pod(r, field_meta(pod, "name"));
            return true;
        }
    }
    return false;
}

static void on_turn(struct net_task *task)
{
    struct run *r = LIST_ITEM(task, struct run, turn);
    if (r->over || r->request != NULL || r->fetch != NULL || !kube_client_ready(r->client)) {
        return; /* on_client tells when there are credentials */
    }
    if (r->workload == NULL) {
        const char *plural = r->command->stateful_set ? "statefulsets" : "deployments";
        request(r, xasprintf("/apis/apps/v1/namespaces/%s/%s", r->ns, plural), r->command->name,
                on_workload);
    } else if (r->at < OPERATOR_LISTS) {
        request(r, operator_list_path((enum operator_list)r->at, r->ns), NULL, on_list);
    } else if (!ask_next_pod(r) && discovery_ready(r->discovery)) {
        conclude(r);
    }
}

static void on_client(void *data)
{
    go_on(data);
}

static void on_discovered(void *data)
{
    go_on(data);
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
    .on_complete = on_discovered,
};

static void on_patience(void *data)
{
    struct run *r = data;
    const char *why =
        kube_client_ready(r->client) ? discovery_error(r->discovery) : kube_client_error(r->client);
    give_up(r, why == NULL ? "the API server does not answer" : why);
}

static void on_shutdown(void *data)
{
    give_up(data, "interrupted by a signal");
}

/* ---- life ---- */

static int open_all(void *data, struct err *e)
{
    struct run *r = data;
    const struct check_operator_command *c = r->command;
    int rc;
    r->configured = c->resources == NULL ? sharding_resources_default()
                                         : sharding_resources_load(c->resources, e);
    if (r->configured == NULL) {
        return e->code;
    }
    rc = kube_flags_open(&c->kube, &r->access, e);
    if (rc != 0) {
        return rc;
    }
    const struct kube_client_options ko = {
        .access = &r->access,
        .max_idle = 1,
        .http1_only = c->kube.protocol == UPSTREAM_HTTP1,
        .on_change = on_client,
        .data = r,
    };
    r->ns = c->ns == NULL ? r->access.ns : c->ns;
    net_task_init(&r->turn, on_turn);
    r->client = kube_client_new(r->program.loop, &ko, e);
    if (r->client == NULL) {
        return e->code;
    }
    const struct discovery_options dopt = {.client = r->client};
    r->discovery = discovery_new(r->program.loop, &dopt, &discovery_handlers, r);
    r->patience = xptr(net_timer_new(r->program.loop, on_patience, r));
    net_timer_set(r->patience, PATIENCE_MS);
    go_on(r);
    return 0;
}

static void close_all(void *data)
{
    struct run *r = data;
    object_request_cancel(r->request);
    http_fetch_cancel(r->fetch);
    discovery_free(r->discovery);
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

int check_operator_run(const struct check_operator_command *command)
{
    struct run r = {.command = command};
    int code = program_run(&r.program, &ops, &r);
    for (size_t i = 0; i < OPERATOR_LISTS; i++) {
        cJSON_Delete(r.lists[i]);
        free(r.errors[i]);
    }
    cJSON_Delete(r.workload);
    requests_seen_deinit(&r.seen);
    free(r.seen_error);
    free(r.labelled);
    sharding_resources_free(r.configured);
    kube_access_deinit(&r.access);
    return code;
}
