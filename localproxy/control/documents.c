/* SPDX-License-Identifier: Apache-2.0 */
#include "control/documents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/ensure.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"

struct documents {
    const struct proxy *proxy;
    struct policies *policies;
    char *path; /* NULL: there is no file */
};

/* It is of the shard whose rules are in force. */
static int check_shard(const struct documents *d, const struct traffic *t, struct err *e)
{
    const struct rules *rules = proxy_rules(d->proxy);
    if (rules == NULL || (strcmp(traffic_shard_name(t), rules_shard_name(rules)) == 0 &&
                          strcmp(traffic_shard_namespace(t), rules_shard_namespace(rules)) == 0)) {
        return 0;
    }
    return err_set(e, -ESTALE,
                   "these are traffic policies of shard %s/%s, but the rules of shard %s/%s are in "
                   "force",
                   traffic_shard_namespace(t), traffic_shard_name(t), rules_shard_namespace(rules),
                   rules_shard_name(rules));
}

static bool is_in_force(const struct documents *d, const struct traffic *t)
{
    const struct traffic *now = policies_document(d->policies);
    return now != NULL && traffic_generation(t) == traffic_generation(now) &&
           strcmp(traffic_checksum(t), traffic_checksum(now)) == 0 &&
           strcmp(traffic_shard_name(t), traffic_shard_name(now)) == 0 &&
           strcmp(traffic_shard_namespace(t), traffic_shard_namespace(now)) == 0;
}

static void log_in_force(const struct traffic *t)
{
    log_info("traffic policies are in force", log_str("namespace", traffic_shard_namespace(t)),
             log_str("shard", traffic_shard_name(t)),
             log_num("generation", (int64_t)traffic_generation(t)),
             log_str("checksum", traffic_checksum(t)),
             log_num("policies", (int64_t)traffic_policy_count(t)));
}

static int put_in_force(struct documents *d, struct traffic *t, bool *changed, struct err *e)
{
    int rc = check_shard(d, t, e);
    if (rc != 0) {
        return rc;
    }
    *changed = !is_in_force(d, t);
    if (*changed && policies_set(d->policies, t) != 0) {
        return err_memory(e);
    }
    if (*changed) {
        log_in_force(t);
    }
    policies_explain(d->policies, NULL);
    return 0;
}

static int take_text(struct documents *d, struct slice text, bool *changed, struct err *e)
{
    struct traffic *t = traffic_parse(text.ptr, text.len, e);
    int rc = t == NULL ? e->code : put_in_force(d, t, changed, e);
    traffic_unref(t);
    return rc;
}

static void note_refused(struct documents *d, const struct err *e)
{
    log_error(policies_document(d->policies) != NULL
                  ? "refused new traffic policies, keeping those in force"
                  : "no valid traffic policies",
              log_str("error", e->msg));
    policies_explain(d->policies, e->msg);
}

/* None, from now on. */
static void clear(struct documents *d)
{
    if (policies_document(d->policies) != NULL) {
        log_info("there are no traffic policies any more");
    }
    ensure(policies_set(d->policies, NULL) == 0); /* needs no memory */
    policies_explain(d->policies, NULL);
}

/* ---- the file ---- */

void documents_read_again(struct documents *d)
{
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    bool changed;
    if (d->path == NULL || proxy_draining(d->proxy)) {
        return;
    }
    int rc = file_read(d->path, &text, &e);
    if (rc == -ENOENT) {
        clear(d);
    } else if (rc != 0) {
        note_refused(d, &e);
    } else if (take_text(d, buf_slice(&text), &changed, &e) != 0) {
        err_prefix(&e, "%s", d->path);
        note_refused(d, &e);
    }
    buf_reset(&text);
}

/* ---- the control socket ---- */

static int on_reload(void *data, struct slice text, struct control_call *call, struct err *e)
{
    struct documents *d = data;
    bool changed;
    if (proxy_draining(d->proxy)) {
        return err_set(e, -ESHUTDOWN, "localproxy is shutting down");
    }
    int rc = take_text(d, text, &changed, e);
    if (rc != 0) {
        note_refused(d, e);
        return rc;
    }
    policies_hear(d->policies, "");
    control_done(call, changed);
    return 0;
}

static int on_remove(void *data, struct err *e)
{
    struct documents *d = data;
    if (proxy_draining(d->proxy)) {
        return err_set(e, -ESHUTDOWN, "localproxy is shutting down");
    }
    clear(d);
    return 0;
}

static void on_describe(void *data, struct control_state *out)
{
    const struct documents *d = data;
    control_state_set_traffic(out, policies_document(d->policies), policies_since(d->policies),
                              NULL);
}

/* It may quote what is no UTF-8. */
static void on_heard(void *data, const char *trouble)
{
    const struct documents *d = data;
    struct buf clean = BUF_INIT(POLICIES_TROUBLE_MAX + 1);
    size_t most = POLICIES_TROUBLE_MAX / 3; /* each byte may become a replacement */
    struct slice text = slice_of(trouble, strnlen(trouble, most));
    const char *valid = utf8_append_valid(&clean, text) == 0 ? buf_cstr(&clean) : NULL;
    policies_hear(d->policies, text.len == 0 ? "" : valid != NULL ? valid : "out of memory");
    buf_reset(&clean);
}

const struct control_handlers documents_handlers = {
    .reload = on_reload,
    .remove = on_remove,
    .describe = on_describe,
    .heard = on_heard,
};

/* ---- life ---- */

static int find_path(struct documents *d, const struct localproxy_flags *flags, struct err *e)
{
    if (flags->traffic != NULL) {
        d->path = strdup(flags->traffic);
    } else if (flags->rules != NULL) {
        d->path = file_resolve(flags->rules, DOCUMENTS_FILE);
    } else {
        return 0;
    }
    return d->path == NULL ? err_memory(e) : 0;
}

struct documents *documents_new(const struct localproxy_flags *flags, const struct proxy *proxy,
                                struct policies *policies, struct err *e)
{
    struct documents *d = calloc(1, sizeof *d);
    if (d == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    d->proxy = proxy;
    d->policies = policies;
    if (find_path(d, flags, e) != 0) {
        free(d);
        return NULL;
    }
    documents_read_again(d);
    return d;
}

void documents_free(struct documents *d)
{
    if (d != NULL) {
        free(d->path);
        free(d);
    }
}
