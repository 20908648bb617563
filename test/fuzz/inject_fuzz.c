/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte says whether the rest is a whole pod in YAML or stands in place of some part of a
 * good one, which kind of sidecars it gets, and whether its shard has webhooks. What is injected
 * must be whole: the patch fits, the second time nothing is left to do, every container that was
 * there still is, none of the operator's has a way around localproxy, and no proxy of the pod's own
 * was replaced silently.
 */
#include "inject/inject.h"

#include <string.h>

#include "base/array.h"
#include "check.h"
#include "inject/inject_account.h"
#include "kube/access/access.h"
#include "object/route_names.h"
#include "yaml/yaml.h"

#include "patch_apply.h"

#define KUBECONFIG "/etc/cmesh/kubeconfig/config"
#define EGRESS "http://127.0.0.1:15002"

static const struct {
    const char *before;
    const char *after;
} frames[] = {
    {"", ""},
    {"metadata: {}\nspec:\n  containers:\n  - name: op\n", "\n"},
    {"metadata: {}\nspec: {containers: [{name: op, args: [", "]}]}\n"},
    {"metadata: {}\nspec: {containers: [{name: op, command: [/op], env: [", "]}]}\n"},
    {"metadata: {annotations: {", "}}\nspec: {containers: [{name: op, command: [/op]}]}\n"},
    {"metadata: {}\nspec: {containers: [{name: op, args: [--kubeconfig=/k/c], volumeMounts: [",
     "]}]}\n"},
};

static cJSON *read_pod(const uint8_t *data, size_t size)
{
    size_t frame = data[0] / 2 % (ARRAY_LEN(frames));
    struct buf text = BUF_INIT(65536);
    struct err e = ERR_INIT;
    cJSON *pod = NULL;
    if (buf_append_str(&text, frames[frame].before) == 0 &&
        buf_append(&text, data + 1, size - 1) == 0 &&
        buf_append_str(&text, frames[frame].after) == 0) {
        pod = yaml_parse((const char *)buf_data(&text), text.len, NULL, &e);
    }
    buf_reset(&text);
    return pod;
}

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static bool has_text(const cJSON *object, const char *key, const char *text)
{
    const char *found = cJSON_GetStringValue(get(object, key));
    return found != NULL && strcmp(found, text) == 0;
}

static bool says(const cJSON *pod, const char *name)
{
    const cJSON *metadata = get(pod, "metadata");
    return get(get(metadata, "annotations"), name) != NULL ||
           get(get(metadata, "labels"), name) != NULL;
}

static bool leaves_out(const cJSON *pod)
{
    return says(pod, "m/operator-containers");
}

/* Whether labels or annotations let the pod keep something, or leave a container out. */
static bool has_wishes(const cJSON *pod)
{
    return leaves_out(pod) || says(pod, "m/disable-fake-kubeconfig-arg") ||
           says(pod, "m/disable-fake-kubeconfig-env");
}

static void check_operator(const cJSON *container)
{
    const cJSON *item;
    const char *kubeconfig = "";
    cJSON_ArrayForEach(item, get(container, "env"))
    {
        if (has_text(item, "name", "KUBECONFIG")) {
            kubeconfig = cJSON_GetStringValue(get(item, "value"));
            CHECK(get(item, "valueFrom") == NULL);
        }
    }
    CHECK(kubeconfig != NULL && strcmp(kubeconfig, KUBECONFIG) == 0);
    cJSON_ArrayForEach(item, get(container, "args"))
    {
        const char *text = cJSON_GetStringValue(item);
        if (text != NULL && strncmp(text, "--kubeconfig=", 13) == 0) {
            CHECK(strcmp(text + 13, KUBECONFIG) == 0);
        }
    }
}

static bool has_named(const cJSON *list, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (has_text(item, "name", name)) {
            return true;
        }
    }
    return false;
}

/* Nothing else is in the place of the folder that every pod has, by whatever name; and the last
 * value of a variable is the one that counts. */
static void check_account(const cJSON *container, bool nat)
{
    const cJSON *item;
    int places = 0;
    const char *host = NULL;
    cJSON_ArrayForEach(item, get(container, "volumeMounts"))
    {
        const char *path = cJSON_GetStringValue(get(item, "mountPath"));
        bool ours = has_text(item, "name", INJECT_ACCOUNT_VOLUME);
        places += ours && has_text(item, "mountPath", KUBE_SERVICE_ACCOUNT_DIR) ? 1 : 0;
        CHECK(ours || path == NULL || !inject_account_is_folder(path));
    }
    cJSON_ArrayForEach(item, get(container, "env"))
    {
        if (has_text(item, "name", "KUBERNETES_SERVICE_HOST")) {
            host = cJSON_GetStringValue(get(item, "value"));
        }
    }
    CHECK(places == 1);
    CHECK(nat || (host != NULL && strcmp(host, "127.0.0.1") == 0));
}

/* Variables that name a proxy of the pod's own. */
static int count_proxies(const cJSON *pod)
{
    static const char *const names[] = {"HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
                                        "https_proxy", "ALL_PROXY",  "all_proxy"};
    int count = 0;
    const cJSON *container;
    cJSON_ArrayForEach(container, get(get(pod, "spec"), "containers"))
    {
        const cJSON *item;
        cJSON_ArrayForEach(item, get(container, "env"))
        {
            const char *value = cJSON_GetStringValue(get(item, "value"));
            bool own = get(item, "valueFrom") != NULL ||
                       (value != NULL && value[0] != '\0' && strcmp(value, EGRESS) != 0);
            for (size_t i = 0; own && i < ARRAY_LEN(names); i++) {
                count += has_text(item, "name", names[i]) ? 1 : 0;
            }
        }
    }
    return count;
}

/* They stay, unless they are to be chained, or set. */
static void check_proxies(const cJSON *before, const cJSON *after)
{
    const cJSON *metadata = get(before, "metadata");
    bool chained = has_text(get(metadata, "annotations"), "m/egress", "chain") ||
                   has_text(get(metadata, "labels"), "m/egress", "chain");
    CHECK(chained || says(before, "m/env-inject") || count_proxies(after) >= count_proxies(before));
}

/* Ports that lead reviews to the pod. More than one must have been there. */
static int count_webhook_ports(const cJSON *pod)
{
    const cJSON *container;
    int count = 0;
    cJSON_ArrayForEach(container, get(get(pod, "spec"), "containers"))
    {
        const cJSON *port;
        cJSON_ArrayForEach(port, get(container, "ports"))
        {
            const char *name = cJSON_GetStringValue(get(port, "name"));
            count += name != NULL && route_port_is(name) ? 1 : 0;
        }
    }
    return count > 1 ? 1 : count;
}

static void check_pod(const cJSON *before, const cJSON *after)
{
    const cJSON *list = get(get(after, "spec"), "containers");
    const cJSON *container;
    int kept = 0;
    bool account = has_named(get(get(after, "spec"), "volumes"), INJECT_ACCOUNT_VOLUME);
    bool nat = has_named(get(get(after, "spec"), "initContainers"), "cmesh-nat");
    cJSON_ArrayForEach(container, list)
    {
        const char *name = cJSON_GetStringValue(get(container, "name"));
        if (name == NULL || strncmp(name, "cmesh-", 6) != 0) {
            kept++;
            if (!has_wishes(before)) {
                check_operator(container);
            }
            if (account && !leaves_out(before)) {
                check_account(container, nat);
            }
        }
    }
    const cJSON *were = get(get(before, "spec"), "containers");
    CHECK(kept <= cJSON_GetArraySize(were) && kept + 4 >= cJSON_GetArraySize(list));
    CHECK(cJSON_GetArraySize(get(get(after, "spec"), "initContainers")) >= 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *pod = size > 0 ? read_pod(data, size) : NULL;
    if (pod == NULL) {
        return 0;
    }
    struct inject_settings s = inject_defaults;
    struct warnings warnings = WARNINGS_INIT;
    struct err e = ERR_INIT;
    cJSON *patch = NULL;
    s.prefix = "m";
    s.image = "image";
    s.nat_image = "image";
    s.low_ports = true;
    s.native = data[0] % 2 == 1;
    s.webhook_port = data[0] > 127 ? 9443 : 0;
    int rc = inject_pod(&s, pod, "ns", "shard", &warnings, &patch, &e);
    CHECK(rc == 0 || (e.msg[0] != '\0' && patch == NULL));
    if (patch != NULL) {
        cJSON *made = patch_apply(pod, patch);
        cJSON *again = NULL;
        CHECK(made != NULL);
        check_pod(pod, made);
        check_proxies(pod, made);
        CHECK(count_webhook_ports(made) == (s.webhook_port != 0 ? 1 : 0));
        CHECK(inject_pod(&s, made, "ns", "shard", NULL, &again, &e) == 0 && again == NULL);
        cJSON_Delete(made);
    }
    cJSON_Delete(patch);
    warnings_deinit(&warnings);
    cJSON_Delete(pod);
    return 0;
}
