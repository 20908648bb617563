/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_webhook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "inject/inject_access.h"
#include "kube/name.h"
#include "object/route_names.h"
#include "json/field.h"

static const char *const lists[] = {"containers", "initContainers"};

/* The name of the shard's port. */
static const char *name_of(const struct inject_plan *plan, char out[ROUTE_PORT_SIZE])
{
    char key[NAME_LABEL_MAX + 1 + NAME_SUBDOMAIN_MAX + 1];
    (void)snprintf(key, sizeof key, "%s/%s", plan->ns, plan->shard);
    return route_port_name(key, out);
}

static bool is_tcp(const cJSON *port)
{
    const char *protocol = field_text(port, "protocol");
    return protocol[0] == '\0' || strcmp(protocol, "TCP") == 0;
}

static bool is_port(const cJSON *port, unsigned number)
{
    const cJSON *item = field_get(port, "containerPort");
    return is_tcp(port) && cJSON_IsNumber(item) && item->valuedouble == (double)number;
}

/* ---- what stands against it ---- */

static int refuse(struct err *e, const char *list, const char *container, const char *name,
                  const char *why)
{
    return err_set(e, -EINVAL, "spec.%s[%.63s].ports: Invalid value: name \"%.15s\": %s", list,
                   container, name, why);
}

static int check_port(const struct inject_plan *plan, const char *list, const cJSON *container,
                      const cJSON *port, struct err *e)
{
    char own[ROUTE_PORT_SIZE];
    char why[128];
    unsigned number = plan->settings->webhook_port;
    const char *name = field_text(port, "name");
    if (!route_port_is(name)) {
        return 0;
    }
    if (number == 0 || strcmp(name, name_of(plan, own)) != 0) {
        return refuse(
            e, list, field_text(container, "name"), name,
            "leads reviews for webhooks of another shard to this pod: remove it, or rename "
            "the port");
    }
    if (!is_port(port, number)) {
        (void)snprintf(why, sizeof why,
                       "belongs to TCP port %u, spec.webhook.port of the ShardingConfig: remove it",
                       number);
        return refuse(e, list, field_text(container, "name"), name, why);
    }
    return 0;
}

static int check_list(const struct inject_plan *plan, const cJSON *spec, const char *list,
                      struct err *e)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, field_get(spec, list))
    {
        const cJSON *port;
        cJSON_ArrayForEach(port, field_get(container, "ports"))
        {
            if (check_port(plan, list, container, port, e) != 0) {
                return e->code;
            }
        }
    }
    return 0;
}

int inject_webhook_check(const struct inject_plan *plan, const cJSON *spec, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (check_list(plan, spec, lists[i], e) != 0) {
            return e->code;
        }
    }
    return 0;
}

/* ---- the change ---- */

static bool declares(const cJSON *container, unsigned number)
{
    const cJSON *port;
    cJSON_ArrayForEach(port, field_get(container, "ports"))
    {
        if (is_port(port, number)) {
            return true;
        }
    }
    return false;
}

static bool has_host_ip(const cJSON *container, unsigned number, const char *ip)
{
    const cJSON *port;
    cJSON_ArrayForEach(port, field_get(container, "ports"))
    {
        if (is_port(port, number) && strcmp(field_text(port, "hostIP"), ip) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_taken(const cJSON *spec, unsigned number, const char *ip)
{
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const cJSON *container;
        cJSON_ArrayForEach(container, field_get(spec, lists[i]))
        {
            if (has_host_ip(container, number, ip)) {
                return true;
            }
        }
    }
    return false;
}

/* On the host's network the API server makes each port one of the host, and refuses a pod that has
 * one twice for the same address. Schedulers take no address and 0.0.0.0 for the same, and kubelets
 * do nothing with either there. */
static void set_host_port(struct edit *ed, const cJSON *spec, cJSON *port, unsigned number)
{
    static const char *const addresses[] = {"", "0.0.0.0", "127.0.0.1"};
    size_t i = 0;
    while (i + 1 < ARRAY_LEN(addresses) && is_taken(spec, number, addresses[i])) {
        i++;
    }
    edit_number(ed, port, "hostPort", number);
    if (addresses[i][0] != '\0') {
        edit_string(ed, port, "hostIP", addresses[i]);
    }
}

/* Of the operator's containers the first that has the port, else the one that the pod calls its
 * main one, else the first. */
static cJSON *choose(const struct inject_plan *plan, const cJSON *containers)
{
    const char *of_pod = plan->options->default_container;
    cJSON *first = NULL;
    cJSON *main = NULL;
    cJSON *container;
    cJSON_ArrayForEach(container, containers)
    {
        if (!inject_access_concerns(plan->options, container)) {
            continue;
        }
        if (declares(container, plan->settings->webhook_port)) {
            return container;
        }
        first = first == NULL ? container : first;
        if (of_pod != NULL && strcmp(field_text(container, "name"), of_pod) == 0) {
            main = container;
        }
    }
    return main != NULL ? main : first;
}

/* Whoever wrote the pod gave it the name already. */
static bool is_named(const cJSON *containers, const char *name)
{
    const cJSON *container;
    cJSON_ArrayForEach(container, containers)
    {
        if (edit_find(field_get(container, "ports"), "name", name) != NULL) {
            return true;
        }
    }
    return false;
}

void inject_webhook_add(struct edit *ed, const struct inject_plan *plan, cJSON *spec)
{
    char name[ROUTE_PORT_SIZE];
    unsigned number = plan->settings->webhook_port;
    cJSON *containers = edit_array(ed, spec, "containers");
    cJSON *container = number == 0 ? NULL : choose(plan, containers);
    if (container == NULL || is_named(containers, name_of(plan, name))) {
        return;
    }
    cJSON *port = cJSON_CreateObject();
    edit_string(ed, port, "name", name);
    edit_number(ed, port, "containerPort", number);
    edit_string(ed, port, "protocol", "TCP");
    if (cJSON_IsTrue(field_get(spec, "hostNetwork"))) {
        set_host_port(ed, spec, port, number);
    }
    edit_append(ed, edit_array(ed, container, "ports"), port);
}
