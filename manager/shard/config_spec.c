/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/config_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap_size.h"
#include "json/field.h"

#define LIMITS "limits"

static cJSON *spec_of(cJSON *object)
{
    return cJSON_GetObjectItemCaseSensitive(object, "spec");
}

static size_t text_weight(const char *text)
{
    return text == NULL ? 0 : heap_size(strlen(text) + 1);
}

size_t config_spec_weight(const struct config_spec *s)
{
    return text_weight(s->limits) + text_weight(s->refusal);
}

void config_spec_forget(struct config_spec *s)
{
    free(s->limits);
    free(s->refusal);
    rules_unref(s->rules);
    *s = (struct config_spec){.limits = NULL};
}

/* NULL: there are none, or it is no list, which is little, or refused. */
static cJSON *take_limits(cJSON *object)
{
    cJSON *spec = spec_of(object);
    const cJSON *limits = field_get(spec, LIMITS);
    bool many = cJSON_IsArray(limits) && limits->child != NULL;
    return many ? cJSON_DetachItemFromObjectCaseSensitive(spec, LIMITS) : NULL;
}

int config_spec_set(struct config_spec *s, cJSON *object)
{
    const cJSON *limits = field_get(field_get(object, "spec"), LIMITS);
    config_spec_forget(s);
    s->lacks_limits = compile_lacks_limits(object);
    s->unlimited = cJSON_IsArray(limits) && limits->child == NULL;
    cJSON *many = take_limits(object);
    if (many == NULL) {
        return 0;
    }
    s->limits = cJSON_PrintUnformatted(many);
    cJSON_Delete(many);
    return s->limits == NULL ? -ENOMEM : 0;
}

void config_spec_strip(cJSON *object)
{
    cJSON_Delete(take_limits(object));
}

void config_spec_give_up(struct config_spec *s, const char *why)
{
    free(s->limits);
    free(s->refusal);
    rules_unref(s->rules);
    s->limits = NULL;
    s->rules = NULL;
    s->compiled = true;
    s->refused = -EDQUOT;
    s->refusal = strdup(why);
}

static void note_refusal(struct config_spec *s, const struct err *e)
{
    s->refusal = strdup(e->msg);
    s->refused = s->refusal == NULL ? 0 : e->code;
    s->compiled = s->refusal != NULL;
}

/* 0 or -ENOMEM. */
static int put_limits(const struct config_spec *s, cJSON *object)
{
    cJSON *limits = s->limits == NULL ? NULL : cJSON_Parse(s->limits);
    if (s->limits == NULL) {
        return 0;
    }
    if (limits == NULL || !cJSON_AddItemToObject(spec_of(object), LIMITS, limits)) {
        cJSON_Delete(limits);
        return -ENOMEM;
    }
    return 0;
}

static void compile(struct config_spec *s, cJSON *object, const struct compile_options *o,
                    struct err *e)
{
    if (put_limits(s, object) != 0) {
        (void)err_memory(e);
        return;
    }
    s->rules = compile_config(object, o, e);
    s->compiled = s->rules != NULL;
    config_spec_strip(object);
    if (s->rules == NULL && e->code != -ENOMEM) {
        note_refusal(s, e);
    }
    if (s->compiled) {
        free(s->limits);
        s->limits = NULL;
    }
}

struct rules *config_spec_compile(struct config_spec *s, cJSON *object,
                                  const struct compile_options *o, struct byte_budget *budget,
                                  struct err *e)
{
    struct err why = ERR_INIT;
    if (!s->compiled) {
        compile(s, object, o, &why);
    } else if (s->rules == NULL) {
        (void)err_set(&why, s->refused, "%s", s->refusal == NULL ? "refused" : s->refusal);
    }
    if (s->rules == NULL) {
        (void)err_set(e, why.code, "%s", why.msg);
        return NULL;
    }
    rules_count_once(s->rules, budget);
    return s->rules;
}
