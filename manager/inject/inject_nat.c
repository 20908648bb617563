/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_nat.h"

#include <errno.h>

#include "base/array.h"
#include "inject/inject_account.h"
#include "inject/inject_operator.h"
#include "object/names.h"
#include "json/field.h"

#define WITHOUT                                                                                    \
    "without the label " SIDECAR_NAT " the operator is led by its service account's folder"

static int refuse(const struct inject_options *o, struct err *e, const char *why)
{
    return err_set(e, -EINVAL,
                   "metadata.labels[%.253s/" SIDECAR_NAT "]: Invalid value: \"true\": %s",
                   o->prefix, why);
}

/* By the names that Istio and Linkerd give theirs. */
static bool is_of_another_mesh(const cJSON *spec)
{
    static const char *const lists[] = {"initContainers", "containers"};
    static const char *const names[] = {"istio-init", "istio-proxy", "linkerd-init",
                                        "linkerd-proxy"};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        for (size_t j = 0; j < ARRAY_LEN(names); j++) {
            if (edit_find(field_get(spec, lists[i]), "name", names[j]) != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* Why not, by what the installation and the pod say; NULL: nothing stands against it. */
static const char *why_not(const struct inject_settings *s, const struct inject_options *o,
                           const cJSON *spec)
{
    if (cJSON_IsTrue(field_get(spec, "hostNetwork"))) {
        return "on the host's network it would redirect the connections of the node; " WITHOUT;
    }
    if (s->restricted) {
        return "the namespace's label pod-security.kubernetes.io/enforce keeps the capability "
               "NET_ADMIN from its pods; " WITHOUT;
    }
    if (s->nat_image == NULL) {
        return "the manager was started without --nat-image; " WITHOUT;
    }
    if (is_of_another_mesh(spec)) {
        return "the pod has a container of another service mesh, which redirects localproxy's own "
               "connections, and whose own come back to localproxy; " WITHOUT;
    }
    if (s->user == 0) {
        return "with --sidecar-user=0 nothing tells the sidecars' connections from the "
               "operator's; " WITHOUT;
    }
    if (o->keep_account) {
        return INJECT_ACCOUNT_KEPT;
    }
    return NULL;
}

int inject_nat_check(const struct inject_settings *s, const struct inject_options *o,
                     const cJSON *spec, struct warnings *warnings, struct err *e)
{
    if (!o->nat) {
        return 0;
    }
    const char *why = why_not(s, o, spec);
    if (why != NULL) {
        return refuse(o, e, why);
    }
    if (inject_operator_leaves_out(o, spec)) {
        warnings_add(warnings, INJECT_ACCOUNT_OTHERS SIDECAR_NAT);
    }
    return 0;
}
