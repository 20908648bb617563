/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/array.h"
#include "base/prometheus.h"
#include "label/labeller_internal.h"

typedef uint64_t (*value_cb)(const struct resource *r);

static uint64_t labelled(const struct resource *r)
{
    return r->outcomes[PATCHER_CHANGED];
}

static uint64_t failed(const struct resource *r)
{
    return r->outcomes[PATCHER_REFUSED] + r->outcomes[PATCHER_UNDONE];
}

static uint64_t foreign(const struct resource *r)
{
    return r->foreign.count;
}

static struct resource *resource_of(const struct list *n)
{
    return LIST_ITEM(n, struct resource, link);
}

/* ---- metrics ---- */

/* One sample for each resource. */
static void write_by_resource(const struct labeller *l, struct buf *out, const char *name,
                              const char *type, const char *help, value_cb value)
{
    prometheus_head(out, name, type, help);
    LIST_FOR_EACH(n, &l->resources)
    {
        const struct resource *r = resource_of(n);
        buf_printf(out, "%s{resource=\"%s\"} %" PRIu64 "\n", name, r->name, value(r));
    }
}

static size_t count_phase(const struct labeller *l, enum resource_phase phase)
{
    size_t count = 0;
    LIST_FOR_EACH(n, &l->resources)
    {
        count += resource_of(n)->phase == phase ? 1 : 0;
    }
    return count;
}

static void write_by_phase(const struct labeller *l, struct buf *out)
{
    static const char name[] = "cmesh_manager_label_resources";
    prometheus_head(out, name, "gauge", "Resources whose objects get control labels, by state.");
    for (unsigned i = 0; i < RESOURCE_PHASES; i++) {
        buf_printf(out, "%s{state=\"%s\"} %zu\n", name, state_name(&resource_phases, i),
                   count_phase(l, (enum resource_phase)i));
    }
}

static void add_stats(const struct reflector *r, uint64_t *pages, uint64_t *watches)
{
    if (r != NULL) {
        *pages += reflector_stats(r)->pages;
        *watches += reflector_stats(r)->watches;
    }
}

static void write_requests(const struct labeller *l, struct buf *out)
{
    static const char name[] = "cmesh_manager_label_requests_total";
    const struct patcher_stats *s = patcher_stats(l->patcher);
    uint64_t pages = l->pages;
    uint64_t watches = l->watches;
    LIST_FOR_EACH(n, &l->resources)
    {
        add_stats(resource_of(n)->unlabelled, &pages, &watches);
        add_stats(resource_of(n)->labelled, &pages, &watches);
    }
    prometheus_head(out, name, "counter",
                    "Requests to the API server to set control labels, by verb.");
    buf_printf(out,
               "%s{verb=\"patch\"} %" PRIu64 "\n%s{verb=\"get\"} %" PRIu64
               "\n%s{verb=\"list\"} %" PRIu64 "\n%s{verb=\"watch\"} %" PRIu64 "\n",
               name, s->patches, name, s->looks, name, pages, name, watches);
}

static void write_plain(const struct labeller *l, struct buf *out)
{
    const struct patcher_stats *s = patcher_stats(l->patcher);
    const struct prometheus_metric metrics[] = {
        {"cmesh_manager_label_pending", "gauge", "Objects waiting for their control labels.",
         patcher_level(l->patcher)},
        {"cmesh_manager_label_contested_total", "counter",
         "Times that labelling an object was delayed because its control labels are removed "
         "repeatedly.",
         l->pauses},
        {"cmesh_manager_label_retries_total", "counter",
         "Requests to set control labels that were retried.", s->retries},
        {"cmesh_manager_label_throttled_total", "counter",
         "Requests to set control labels that the API server answered with status 429.",
         s->throttled},
    };
    prometheus_write(out, metrics, ARRAY_LEN(metrics));
}

void labeller_metrics(const struct labeller *l, struct buf *out)
{
    if (l == NULL) {
        return;
    }
    write_by_resource(l, out, "cmesh_manager_label_labelled_total", "counter",
                      "Objects that were given control labels, by resource.", labelled);
    write_by_resource(l, out, "cmesh_manager_label_failed_total", "counter",
                      "Failed attempts to set control labels on an object, by resource.", failed);
    write_by_resource(
        l, out, "cmesh_manager_label_foreign", "gauge",
        "Objects skipped because another owner set their control labels, by resource.", foreign);
    write_by_phase(l, out);
    write_requests(l, out);
    write_plain(l, out);
}

/* ---- status ---- */

static void add_counts(cJSON *to, uint64_t changed, uint64_t failures, uint64_t others)
{
    (void)cJSON_AddNumberToObject(to, "labelled", (double)changed);
    (void)cJSON_AddNumberToObject(to, "failed", (double)failures);
    (void)cJSON_AddNumberToObject(to, "foreign", (double)others);
}

static void add_resource(cJSON *items, const struct resource *r)
{
    cJSON *item = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(item, "resource", r->name);
    (void)cJSON_AddStringToObject(item, "state", state_name(&resource_phases, r->phase));
    (void)cJSON_AddBoolToObject(item, "checked", r->check == CHECK_DONE);
    add_counts(item, labelled(r), failed(r), foreign(r));
    if (resource_error(r) != NULL) {
        (void)cJSON_AddStringToObject(item, "error", resource_error(r));
    }
    cJSON_AddItemToArray(items, item);
}

void labeller_status(const struct labeller *l, cJSON *root)
{
    if (l == NULL) {
        return;
    }
    cJSON *labels = cJSON_AddObjectToObject(root, "labels");
    uint64_t others = 0;
    LIST_FOR_EACH(n, &l->resources)
    {
        others += foreign(resource_of(n));
    }
    (void)cJSON_AddNumberToObject(labels, "pending", (double)patcher_level(l->patcher));
    (void)cJSON_AddBoolToObject(labels, "complete",
                                l->stage >= LABELLER_CHECKING && labeller_follows_all(l));
    (void)cJSON_AddBoolToObject(labels, "checked",
                                l->stage == LABELLER_STEADY && labeller_follows_all(l));
    add_counts(labels, labeller_outcomes(l, PATCHER_CHANGED),
               labeller_outcomes(l, PATCHER_REFUSED) + labeller_outcomes(l, PATCHER_UNDONE),
               others);
    cJSON *items = cJSON_AddArrayToObject(labels, "resources");
    LIST_FOR_EACH(n, &l->resources)
    {
        add_resource(items, resource_of(n));
    }
}
