/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_check.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "inject/inject_alias.h"
#include "inject/inject_operator.h"
#include "inject/inject_sidecars.h"
#include "object/names.h"
#include "json/edit.h"
#include "json/field.h"

/* ---- containers ---- */

static bool is_taken(const struct inject_options *o, const cJSON *port)
{
    const int taken[] = {SIDECAR_API_PORT,
                         SIDECAR_ADMIN_PORT,
                         SIDECAR_RULESYNC_PORT,
                         o->keep_account ? 0 : SIDECAR_TLS_PORT,
                         o->by_name ? INJECT_ALIAS_PORT : 0,
                         (int)o->egress_port};
    const cJSON *number = field_get(port, "containerPort");
    const char *protocol = field_text(port, "protocol");
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        if (cJSON_IsNumber(number) && number->valueint == taken[i]) {
            return protocol[0] == '\0' || strcmp(protocol, "TCP") == 0;
        }
    }
    return false;
}

static int check_ports(const struct inject_options *o, const cJSON *container, const char *list,
                       unsigned index, struct err *e)
{
    unsigned i = 0;
    const cJSON *port;
    cJSON_ArrayForEach(port, field_get(container, "ports"))
    {
        if (is_taken(o, port)) {
            return err_set(e, -EINVAL,
                           "spec.%s[%u].ports[%u].containerPort: Invalid value: %d: is a port of "
                           "the sidecars",
                           list, index, i, field_get(port, "containerPort")->valueint);
        }
        i++;
    }
    return 0;
}

static int check_mounts(const cJSON *container, unsigned index, struct err *e)
{
    unsigned i = 0;
    const cJSON *mount;
    cJSON_ArrayForEach(mount, field_get(container, "volumeMounts"))
    {
        const char *path = field_text(mount, "mountPath");
        if (inject_paths_in(path, INJECT_KUBECONFIG_DIR)) {
            return err_set(e, -EINVAL,
                           "spec.containers[%u].volumeMounts[%u].mountPath: Invalid value: "
                           "\"%.100s\": is where the kubeconfig is mounted",
                           index, i, path);
        }
        i++;
    }
    return 0;
}

static int check_containers(const struct inject_options *o, const cJSON *spec, struct err *e)
{
    const cJSON *list = field_get(spec, "containers");
    unsigned i = 0;
    const cJSON *container;
    if (list != NULL && !cJSON_IsArray(list)) {
        return err_set(e, -EINVAL, "spec.containers: Invalid value: must be an array");
    }
    if (list == NULL || list->child == NULL) {
        return err_set(e, -EINVAL, "spec.containers: Required value");
    }
    cJSON_ArrayForEach(container, list)
    {
        if (!cJSON_IsObject(container)) {
            return err_set(e, -EINVAL, "spec.containers[%u]: Invalid value: must be an object", i);
        }
        if (check_ports(o, container, "containers", i, e) != 0 ||
            check_mounts(container, i, e) != 0) {
            return e->code;
        }
        i++;
    }
    return 0;
}

/* Of those that go on running beside ours. */
static int check_init_containers(const struct inject_options *o, const cJSON *spec, struct err *e)
{
    const cJSON *list = field_get(spec, "initContainers");
    unsigned i = 0;
    int rc = 0;
    if (list != NULL && !cJSON_IsArray(list)) {
        return err_set(e, -EINVAL, "spec.initContainers: Invalid value: must be an array");
    }
    const cJSON *container;
    cJSON_ArrayForEach(container, list)
    {
        if (rc == 0 && strcmp(field_text(container, "restartPolicy"), "Always") == 0) {
            rc = check_ports(o, container, "initContainers", i, e);
        }
        i++;
    }
    return rc;
}

/* ---- what labels and annotations ask for ---- */

/* With a name that is none the operator would not be led, and see everything. */
static int check_operator(const struct inject_options *o, const cJSON *spec, struct err *e)
{
    struct inject_index containers;
    inject_index_init(&containers);
    inject_index_add_list(&containers, field_get(spec, "containers"));
    int rc = 0;
    const struct table_node *n = NULL;
    while (rc == 0 && (n = table_next(&o->named.table, n)) != NULL) {
        if (inject_index_find(&containers, n->key) == NULL) {
            rc = inject_options_invalid(o, "operator-containers", e,
                                        "\"%.63s\" is not in spec.containers", n->key);
        }
    }
    if (rc == 0 && o->containers != NULL && o->named.table.count == 0) {
        rc = inject_options_invalid(o, "operator-containers", e, "names no container");
    }
    inject_index_deinit(&containers);
    return rc;
}

/* Whether that is the volume which only localproxy is to have. */
static bool is_hidden(const struct inject_options *o, const char *volume)
{
    const char *hidden = o->kubeconfig_volume;
    size_t len = hidden == NULL ? 0 : strcspn(hidden, "/");
    return volume != NULL && len > 0 && strlen(volume) == len && memcmp(volume, hidden, len) == 0;
}

static int check_logs(const struct inject_options *o, const cJSON *spec, struct err *e)
{
    if (o->log_path == NULL) {
        return 0;
    }
    if (edit_find(field_get(spec, "volumes"), "name", INJECT_LOGS_VOLUME) != NULL) {
        return inject_options_invalid(
            o, "log-path", e, "the pod has a volume \"" INJECT_LOGS_VOLUME "\" already: rename it");
    }
    if (is_hidden(o, inject_operator_volume_at(field_get(spec, "containers"), o->log_path))) {
        return inject_options_invalid(o, "log-path", e, "is where kubeconfig-volume is mounted");
    }
    return 0;
}

/* ---- the pod ---- */

/* Whether it is injected already. */
static int check_parts(const struct inject_options *o, const cJSON *spec, const char *shard,
                       struct err *e)
{
    if (o->injected == NULL) {
        const char *ours = inject_sidecars_taken(spec);
        return ours == NULL ? 0
                            : err_set(e, -EINVAL,
                                      "spec: \"%s\" is the name of something that is injected, and "
                                      "the pod has it already: rename or remove it",
                                      ours);
    }
    const char *missing = inject_sidecars_missing(spec, o->nat);
    if (missing == NULL && strcmp(o->injected, shard) == 0) {
        return 1;
    }
    return inject_options_invalid(o, SIDECAR_INJECTED, e,
                                  "\"%.100s\": the pod looks like a copy of an injected one, "
                                  "%s%s: remove what was injected, and this annotation",
                                  o->injected,
                                  missing != NULL ? "without " : "of another shard than ",
                                  missing != NULL ? missing : shard);
}

static int check_system(const cJSON *spec, struct err *e)
{
    static const char *const labels[] = {"kubernetes.io/os", "beta.kubernetes.io/os"};
    const char *os = field_text(field_get(spec, "os"), "name");
    if (os[0] != '\0' && strcmp(os, "linux") != 0) {
        return err_set(e, -EINVAL,
                       "spec.os.name: Invalid value: \"%.63s\": the sidecars run on linux only",
                       os);
    }
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        os = field_text(field_get(spec, "nodeSelector"), labels[i]);
        if (os[0] != '\0' && strcmp(os, "linux") != 0) {
            return err_set(e, -EINVAL,
                           "spec.nodeSelector[%s]: Invalid value: \"%.63s\": the sidecars run on "
                           "linux only",
                           labels[i], os);
        }
    }
    return 0;
}

int inject_check(const struct inject_options *o, const cJSON *pod, const char *shard, struct err *e)
{
    const cJSON *spec = field_get(pod, "spec");
    if (!cJSON_IsObject(field_get(pod, "metadata")) || !cJSON_IsObject(spec)) {
        return err_set(e, -EINVAL, "the pod has no metadata or no spec");
    }
    if (check_system(spec, e) != 0) {
        return e->code;
    }
    int rc = check_parts(o, spec, shard, e);
    if (rc != 0) {
        return rc;
    }
    bool right = check_containers(o, spec, e) == 0 && check_init_containers(o, spec, e) == 0 &&
                 check_operator(o, spec, e) == 0 && check_logs(o, spec, e) == 0;
    return right ? 0 : e->code;
}
