/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Service by anybody, to which ports of three shards are to be added. If it is one that an API
 * server takes, each port gets a number of its own that nothing else there has, what is applied
 * comes to rest, and ports of others stay as they are.
 */
#include "route/service_ports.h"

#include <string.h>

#include "base/array.h"
#include "base/xalloc.h"
#include "check.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum { PORTS = 3 };

static const struct service_port wanted[PORTS] = {
    {"wh-00000001", 20443}, {"wh-00000002", 0}, {ROUTE_HOLD_PORT, 443}};

static const cJSON *ports_of(const cJSON *service)
{
    return field_get(field_get(service, "spec"), "ports");
}

static bool is_tcp(const cJSON *port)
{
    const char *protocol = field_text(port, "protocol");
    return protocol[0] == '\0' || strcmp(protocol, "TCP") == 0;
}

static double number_of(const cJSON *port)
{
    const cJSON *number = field_get(port, "port");
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

static bool is_number(double d)
{
    return d >= 1 && d <= 65535 && d == (double)(int)d;
}

static bool collide(const cJSON *a, const cJSON *b)
{
    return strcmp(field_text(a, "name"), field_text(b, "name")) == 0 ||
           (number_of(a) == number_of(b) && is_tcp(a) == is_tcp(b));
}

/* As an API server takes it. */
static bool is_valid(const cJSON *service)
{
    const cJSON *a;
    bool valid = cJSON_IsArray(ports_of(service)) && ports_of(service)->child != NULL;
    cJSON_ArrayForEach(a, ports_of(service))
    {
        const cJSON *b = a->next;
        valid = valid && cJSON_IsObject(a) && is_number(number_of(a));
        for (; valid && b != NULL; b = b->next) {
            valid = !collide(a, b);
        }
    }
    return valid;
}

/* What server-side apply makes of it. */
static void apply(cJSON *service, const cJSON *patch)
{
    struct edit ed = {.rc = 0};
    cJSON *list = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(service, "spec"), "ports");
    cJSON *fields = cJSON_CreateObject();
    const cJSON *port;
    cJSON_ArrayForEach(port, ports_of(patch))
    {
        const cJSON *there = edit_find(list, "name", field_text(port, "name"));
        char key[64];
        (void)snprintf(key, sizeof key, "k:{\"port\":%d,\"protocol\":\"TCP\"}",
                       (int)number_of(port));
        edit_set(&ed, fields, key, cJSON_CreateObject());
        if (there != NULL) {
            cJSON_Delete(cJSON_DetachItemViaPointer(list, (cJSON *)there));
        }
        edit_append(&ed, list, cJSON_Duplicate(port, true));
    }
    cJSON *metadata = edit_object(&ed, service, "metadata");
    cJSON_DeleteItemFromObjectCaseSensitive(metadata, "managedFields");
    cJSON *entry = edit_append_object(&ed, edit_array(&ed, metadata, "managedFields"));
    edit_string(&ed, entry, "manager", ROUTE_FIELD_MANAGER);
    edit_string(&ed, entry, "operation", "Apply");
    edit_set(&ed, edit_object(&ed, edit_object(&ed, entry, "fieldsV1"), "f:spec"), "f:ports",
             fields);
    xok(ed.rc);
}

static bool is_wanted(const char *name)
{
    size_t i = 0;
    while (i < PORTS && strcmp(wanted[i].name, name) != 0) {
        i++;
    }
    return i < PORTS;
}

static void check_numbers(const cJSON *service, const struct service_port *ports)
{
    for (size_t i = 0; i < PORTS; i++) {
        const cJSON *port;
        CHECK(ports[i].number != 0);
        for (size_t k = 0; k < i; k++) {
            CHECK(ports[i].number != ports[k].number);
        }
        cJSON_ArrayForEach(port, ports_of(service))
        {
            CHECK(!is_tcp(port) || number_of(port) != ports[i].number ||
                  strcmp(field_text(port, "name"), ports[i].name) == 0);
        }
    }
}

static void check_rest(const cJSON *before, cJSON *service, const cJSON *patch,
                       struct service_port *ports)
{
    struct service_ports again;
    const cJSON *port;
    apply(service, patch);
    service_ports_plan(service, ports, PORTS, &again);
    CHECK(again.fault == SERVICE_PORTS_FINE && again.right && again.apply == NULL);
    cJSON_ArrayForEach(port, ports_of(before))
    {
        const char *name = field_text(port, "name");
        CHECK(is_wanted(name) ||
              cJSON_Compare(port, edit_find(ports_of(service), "name", name), true));
    }
    for (size_t i = 0; i < PORTS; i++) {
        CHECK(service_ports_has(service, &ports[i]));
    }
}

/* A name of ours that is there with another protocol: nothing can be applied. */
static bool is_usable(const cJSON *service)
{
    const cJSON *port;
    bool usable = is_valid(service);
    cJSON_ArrayForEach(port, ports_of(service))
    {
        usable = usable && (is_tcp(port) || !is_wanted(field_text(port, "name")));
    }
    return usable;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    cJSON *service = json_parse((const char *)data, size, &e);
    cJSON *before = cJSON_Duplicate(service, true);
    struct service_port ports[PORTS];
    struct service_ports out;
    memcpy(ports, wanted, sizeof ports);
    service_ports_plan(service, ports, PORTS, &out);
    selector_free(service_ports_selector(service));
    (void)service_ports_target(service, 443, 9443);
    (void)service_ports_name(service, 443);
    if (out.fault == SERVICE_PORTS_FINE && is_usable(service)) {
        check_numbers(service, ports);
    }
    if (out.apply != NULL && is_usable(service) && cJSON_IsObject(field_get(service, "metadata"))) {
        check_rest(before, service, out.apply, ports);
    }
    cJSON_Delete(out.apply);
    cJSON_Delete(before);
    cJSON_Delete(service);
    return 0;
}
