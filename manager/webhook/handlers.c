/* SPDX-License-Identifier: Apache-2.0 */
#include "webhook/handlers.h"

#include <errno.h>

/* A refusal is an answer that is known; what is not known yet must not look like one. */
static int take_snapshot(const struct webhook_context *context, const char *ns,
                         struct validate_context *w, struct err *e)
{
    *w = (struct validate_context){0};
    int rc = context->look(context->data, ns, w, e);
    if (rc == 0) {
        return 0;
    }
    if (e->msg[0] == '\0') {
        (void)err_set(e, rc, "%s", err_text(rc));
    }
    err_prefix(e, "not ready to decide");
    e->code = -EAGAIN;
    return e->code;
}

static int decide_pod(void *data, const struct admission_request *r, struct webhook_decision *d,
                      struct err *e)
{
    const struct webhook_context *context = data;
    struct validate_context w;
    if (r->operation != ADMISSION_CREATE || !inject_wanted(context->inject, r->object)) {
        return 0;
    }
    if (take_snapshot(context, r->namespace, &w, e) != 0) {
        return e->code;
    }
    return inject_admit(r, context->inject, &w.shards, &d->warnings, &d->patch, e);
}

static int decide_labels(void *data, const struct admission_request *r, struct webhook_decision *d,
                         struct err *e)
{
    const struct webhook_context *context = data;
    return labels_admit(context->keys, r, &d->patch, &d->warnings, e);
}

static int decide_config(void *data, const struct admission_request *r, struct webhook_decision *d,
                         struct err *e)
{
    const struct webhook_context *context = data;
    struct validate_context w;
    if (take_snapshot(context, r->namespace, &w, e) != 0) {
        return e->code;
    }
    return validate_admit(r, context->compile, &w, &d->warnings, e);
}

const struct webhook_route webhook_routes[] = {
    {WEBHOOK_PATH_PODS, "pods", decide_pod},
    {WEBHOOK_PATH_NAMESPACES, "namespaces", decide_labels},
    {WEBHOOK_PATH_RESOURCES, "resources", decide_labels},
    {WEBHOOK_PATH_CONFIGS, "shardingconfigs", decide_config},
    {.path = NULL},
};
