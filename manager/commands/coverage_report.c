/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/coverage_report.h"

#include <stdio.h>

#include "json/field.h"
#include "json/json.h"

/* ---- the document ---- */

static void add_text(cJSON *array, const char *text)
{
    cJSON_AddItemToArray(array, cJSON_CreateString(text));
}

static cJSON *append_object(cJSON *array)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(array, object);
    return object;
}

/* Those that have the namespace; `c` NULL: all. */
static void add_shards(const struct coverage_report *r, cJSON *object, const struct coverage *c)
{
    cJSON *names = cJSON_AddArrayToObject(object, "shards");
    for (size_t i = 0; i < r->count; i++) {
        if (c == NULL || coverage_has(c, i)) {
            add_text(names, rules_shard_name(r->shards[i]));
        }
    }
}

void coverage_report_begin(struct coverage_report *r, const struct rules *const *shards,
                           size_t count)
{
    const char *lock = rules_leader_election(shards[0]);
    r->operators = r->operators == NULL ? cJSON_CreateArray() : r->operators;
    r->current = append_object(r->operators);
    r->shards = shards;
    r->count = count;
    r->covered = 0;
    cJSON_AddStringToObject(r->current, "namespace", rules_shard_namespace(shards[0]));
    cJSON_AddStringToObject(r->current, "leaderElectionName", lock == NULL ? "" : lock);
    add_shards(r, r->current, NULL);
    cJSON_AddArrayToObject(r->current, "gaps");
    cJSON_AddArrayToObject(r->current, "overlaps");
}

static cJSON *list_of(const cJSON *operator_, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(operator_, key);
}

void coverage_report_add(struct coverage_report *r, const char *ns, enum coverage_verdict verdict,
                         const struct coverage *c)
{
    r->covered += verdict == COVERAGE_ONE;
    r->wrong += verdict != COVERAGE_ONE;
    if (verdict == COVERAGE_GAP) {
        add_text(list_of(r->current, "gaps"), ns);
    } else if (verdict != COVERAGE_ONE) {
        cJSON *overlap = append_object(list_of(r->current, "overlaps"));
        cJSON_AddStringToObject(overlap, "namespace", ns);
        add_shards(r, overlap, c);
    }
}

void coverage_report_end(struct coverage_report *r, bool applies)
{
    cJSON_AddBoolToObject(r->current, "byNamespace", applies);
    cJSON_AddNumberToObject(r->current, "covered", (double)r->covered);
}

bool coverage_report_complete(const struct coverage_report *r)
{
    return r->wrong == 0;
}

/* ---- for people ---- */

/* What is wrong: a line for each. */
static void write_names(const cJSON *operator_, struct buf *out)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list_of(operator_, "gaps"))
    {
        (void)buf_printf(out, "  in no shard: %s\n", item->valuestring);
    }
    cJSON_ArrayForEach(item, list_of(operator_, "overlaps"))
    {
        const char *between = "";
        const cJSON *shard;
        (void)buf_printf(out, "  in several shards: %s (", field_text(item, "namespace"));
        cJSON_ArrayForEach(shard, list_of(item, "shards"))
        {
            (void)buf_printf(out, "%s%s", between, shard->valuestring);
            between = ", ";
        }
        (void)buf_append_str(out, ")\n");
    }
}

static void write_operator(const cJSON *operator_, struct buf *out)
{
    char name[520];
    const char *lock = field_text(operator_, "leaderElectionName");
    (void)snprintf(name, sizeof name, "%s%s%s", field_text(operator_, "namespace"),
                   lock[0] == '\0' ? "" : "/", lock);
    (void)buf_printf(out, "%-40s %7d ", name, cJSON_GetArraySize(list_of(operator_, "shards")));
    if (cJSON_IsTrue(list_of(operator_, "byNamespace"))) {
        (void)buf_printf(out, "%8.0f %6d %9d\n", list_of(operator_, "covered")->valuedouble,
                         cJSON_GetArraySize(list_of(operator_, "gaps")),
                         cJSON_GetArraySize(list_of(operator_, "overlaps")));
    } else {
        (void)buf_printf(out, "%8s %6s %9s\n", "-", "-", "-");
    }
    write_names(operator_, out);
}

void coverage_report_write(const struct coverage_report *r, bool json, struct buf *out)
{
    const cJSON *item;
    if (json) {
        (void)buf_append_str(out, "{\"operators\":");
        (void)json_canonical(r->operators, out);
        (void)buf_append_str(out, "}\n");
        return;
    }
    (void)buf_printf(out, "%-40s %7s %8s %6s %9s\n", "OPERATOR", "SHARDS", "COVERED", "GAPS",
                     "OVERLAPS");
    cJSON_ArrayForEach(item, r->operators)
    {
        write_operator(item, out);
    }
}

void coverage_report_deinit(struct coverage_report *r)
{
    cJSON_Delete(r->operators);
    *r = (struct coverage_report)COVERAGE_REPORT_INIT;
}
