/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/permission.h"

#include <stdio.h>
#include <string.h>

enum { SUBJECT_SIZE = 320 };

static void name_permission(const struct request_info *ri, char out[SUBJECT_SIZE])
{
    if (!ri->is_resource) {
        (void)snprintf(out, SUBJECT_SIZE, "%.*s %.*s", (int)ri->verb_name.len, ri->verb_name.ptr,
                       (int)ri->path.len, ri->path.ptr);
        return;
    }
    (void)snprintf(out, SUBJECT_SIZE, "%.*s %.*s%s%.*s%s%.*s%s%.*s", (int)ri->verb_name.len,
                   ri->verb_name.ptr, (int)ri->resource.len, ri->resource.ptr,
                   ri->group.len > 0 ? "." : "", (int)ri->group.len, ri->group.ptr,
                   ri->subresource.len > 0 ? "/" : "", (int)ri->subresource.len,
                   ri->subresource.ptr, ri->namespace.len > 0 ? " in namespace " : "",
                   (int)ri->namespace.len, ri->namespace.ptr);
}

/* Those who authorize say which verb, admission plugins do not:
 * k8s.io/apiserver/pkg/endpoints/handlers/responsewriters, forbiddenMessage. To read is admitted by
 * nobody else. */
static bool is_about_permission(const struct request_info *ri, const char *message)
{
    bool reads =
        ri->verb == VERB_GET || ri->verb == VERB_LIST || ri->verb == VERB_WATCH || !ri->is_resource;
    return reads || strstr(message, "\" cannot ") != NULL;
}

bool permission_denied(struct health *h, const char *(*granted_by)(const struct request_info *ri),
                       struct slice method, struct slice target, const char *message)
{
    struct request_info ri;
    char subject[SUBJECT_SIZE];
    struct err e = ERR_INIT;
    if (request_info_parse(&ri, method, target, &e) != 0) {
        return false;
    }
    bool denied = is_about_permission(&ri, message);
    if (denied) {
        const char *remedy = granted_by != NULL ? granted_by(&ri) : NULL;
        name_permission(&ri, subject);
        const struct health_report r = {
            .cause = HEALTH_PERMISSION,
            .subject = subject,
            .message = message,
            .remedy = remedy != NULL ? remedy : "allow it by RBAC",
        };
        health_raise(h, &r);
    }
    request_info_deinit(&ri);
    return denied;
}

void permission_granted(struct health *h, struct slice method, struct slice target)
{
    struct request_info ri;
    char subject[SUBJECT_SIZE];
    struct err e = ERR_INIT;
    if (health_count(h, HEALTH_PERMISSION) == 0 ||
        request_info_parse(&ri, method, target, &e) != 0) {
        return;
    }
    name_permission(&ri, subject);
    health_clear(h, HEALTH_PERMISSION, subject);
    request_info_deinit(&ri);
}
