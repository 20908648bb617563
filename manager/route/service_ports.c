/* SPDX-License-Identifier: Apache-2.0 */
#include "route/service_ports.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "json/edit.h"
#include "json/field.h"

static const cJSON *ports_of(const cJSON *service)
{
    return field_get(field_get(service, "spec"), "ports");
}

/* 0: it is no number of a port. */
static double number_of(const cJSON *port, const char *key)
{
    const cJSON *n = field_get(port, key);
    bool is = cJSON_IsNumber(n) && n->valuedouble >= 0 && n->valuedouble <= UINT16_MAX;
    return is ? n->valuedouble : 0;
}

static const char *protocol_of(const cJSON *port)
{
    const char *protocol = field_text(port, "protocol");
    return protocol[0] == '\0' ? "TCP" : protocol;
}

/* ---- numbers ---- */

/* The port of the Service with that number; NULL: there is none. */
static const cJSON *find_number(const cJSON *service, double number)
{
    const cJSON *port;
    cJSON_ArrayForEach(port, ports_of(service))
    {
        if (number_of(port, "port") == number && strcmp(protocol_of(port), "TCP") == 0) {
            return port;
        }
    }
    return NULL;
}

static bool is_given(const struct service_port *ports, size_t count, uint16_t number)
{
    size_t i = 0;
    while (i < count && ports[i].number != number) {
        i++;
    }
    return i < count;
}

/* One that the Service has, be it by somebody else, is not free for a port of another name. */
static bool is_taken(const cJSON *service, const struct service_port *port)
{
    const cJSON *there = find_number(service, port->number);
    return there != NULL && strcmp(field_text(there, "name"), port->name) != 0;
}

static uint16_t next_free(const cJSON *service, const struct service_port *ports, size_t count)
{
    uint16_t number = ROUTE_FIRST_PORT;
    while (find_number(service, number) != NULL || is_given(ports, count, number)) {
        number++; /* there are SERVICE_PORTS_MAX ports on either side at most */
    }
    return number;
}

static void give_numbers(const cJSON *service, struct service_port *ports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const cJSON *there = edit_find(ports_of(service), "name", ports[i].name);
        if (there != NULL) {
            ports[i].number = (uint16_t)number_of(there, "port");
        } else if (is_given(ports, i, ports[i].number) || is_taken(service, &ports[i])) {
            ports[i].number = 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (ports[i].number == 0) {
            ports[i].number = next_free(service, ports, count);
        }
    }
}

/* ---- what is there ---- */

bool service_ports_has(const cJSON *service, const struct service_port *port)
{
    const cJSON *there = edit_find(ports_of(service), "name", port->name);
    return there != NULL && number_of(there, "port") == port->number &&
           strcmp(protocol_of(there), "TCP") == 0 &&
           strcmp(field_text(there, "targetPort"), port->name) == 0;
}

/* The ports of the Service that are ours by its managedFields, as {"k:{...}": ...}; NULL: none. */
static const cJSON *owned_ports(const cJSON *managed)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, managed)
    {
        if (strcmp(field_text(entry, "manager"), ROUTE_FIELD_MANAGER) == 0 &&
            strcmp(field_text(entry, "operation"), "Apply") == 0) {
            return field_map(field_get(field_get(entry, "fieldsV1"), "f:spec"), "f:ports");
        }
    }
    return NULL;
}

/* Those by their names, where nothing is said of owners. */
static size_t count_named(const cJSON *service)
{
    const cJSON *port;
    size_t n = 0;
    cJSON_ArrayForEach(port, ports_of(service))
    {
        n += route_port_is(field_text(port, "name"));
    }
    return n;
}

/* Of ports that somebody else has applied, too, ours stay when we apply them no more; so what
 * counts is which are ours. */
static size_t count_ours(const cJSON *service)
{
    const cJSON *managed = field_get(field_get(service, "metadata"), "managedFields");
    const cJSON *key;
    size_t n = 0;
    if (managed == NULL) {
        return count_named(service);
    }
    cJSON_ArrayForEach(key, owned_ports(managed))
    {
        n += strncmp(key->string, "k:", 2) == 0;
    }
    return n;
}

static bool has_all(const cJSON *service, const struct service_port *ports, size_t count)
{
    size_t i = 0;
    while (i < count && service_ports_has(service, &ports[i])) {
        i++;
    }
    return i == count;
}

/* ---- the plan ---- */

static enum service_ports_fault find_fault(const cJSON *service, size_t count)
{
    const cJSON *port;
    size_t others = 0;
    bool unnamed = false;
    cJSON_ArrayForEach(port, ports_of(service))
    {
        const char *name = field_text(port, "name");
        others += !route_port_is(name);
        unnamed = unnamed || name[0] == '\0';
    }
    if (count > 0 && unnamed) {
        return SERVICE_PORTS_UNNAMED;
    }
    return count > 0 && others + count > SERVICE_PORTS_MAX ? SERVICE_PORTS_TOO_MANY
                                                           : SERVICE_PORTS_FINE;
}

static cJSON *make_apply(const cJSON *service, const struct service_port *ports, size_t count)
{
    struct edit ed = {.rc = 0};
    cJSON *body = cJSON_CreateObject();
    edit_string(&ed, body, "apiVersion", "v1");
    edit_string(&ed, body, "kind", "Service");
    cJSON *metadata = edit_object(&ed, body, "metadata");
    edit_string(&ed, metadata, "uid", field_meta(service, "uid")); /* so that it is never created */
    edit_string(&ed, metadata, "namespace", field_meta(service, "namespace"));
    edit_string(&ed, metadata, "name", field_meta(service, "name"));
    for (size_t i = 0; i < count; i++) {
        cJSON *list = edit_array(&ed, edit_object(&ed, body, "spec"), "ports");
        cJSON *port = edit_append_object(&ed, list);
        edit_string(&ed, port, "name", ports[i].name);
        edit_number(&ed, port, "port", ports[i].number);
        edit_string(&ed, port, "protocol", "TCP");
        edit_string(&ed, port, "targetPort", ports[i].name);
    }
    return xptr(edit_result(&ed, body));
}

void service_ports_plan(const cJSON *service, struct service_port *ports, size_t count,
                        struct service_ports *out)
{
    *out = (struct service_ports){.fault = find_fault(service, count)};
    if (out->fault != SERVICE_PORTS_FINE) {
        return;
    }
    give_numbers(service, ports, count);
    out->right = count_ours(service) == count && has_all(service, ports, count);
    out->apply = out->right ? NULL : make_apply(service, ports, count);
}

enum service_ports_target service_ports_target(const cJSON *service, double number,
                                               double container_port)
{
    const cJSON *port = find_number(service, number);
    const cJSON *target = field_get(port, "targetPort");
    if (port == NULL) {
        return SERVICE_PORTS_ABSENT;
    }
    double leads = cJSON_IsNumber(target) ? target->valuedouble : 0;
    if (cJSON_IsString(target)) {
        return SERVICE_PORTS_THERE;
    }
    return (leads == 0 ? number : leads) == container_port ? SERVICE_PORTS_THERE
                                                           : SERVICE_PORTS_OTHER;
}

const char *service_ports_name(const cJSON *service, double number)
{
    const cJSON *port = find_number(service, number);
    return port == NULL ? NULL : field_text(port, "name");
}

struct selector *service_ports_selector(const cJSON *service)
{
    struct edit ed = {.rc = 0};
    struct err e = ERR_INIT;
    const cJSON *spec = field_get(service, "spec");
    const cJSON *labels = field_map(spec, "selector");
    bool external = strcmp(field_text(spec, "type"), "ExternalName") == 0;
    if (external || labels == NULL || labels->child == NULL) {
        return NULL;
    }
    cJSON *selector = cJSON_CreateObject();
    edit_set(&ed, selector, "matchLabels", cJSON_Duplicate(labels, true));
    xok(ed.rc);
    struct selector *made = selector_from_label_selector(selector, "spec.selector", &e);
    xerr(&e);
    cJSON_Delete(selector);
    return made;
}
