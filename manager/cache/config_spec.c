/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/config_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/heap_size.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "compile/sharing.h"
#include "kube/name.h"
#include "object/root_child.h"
#include "json/digest.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum { SHARE_MAX = 256 * 1024 }; /* bytes: a thousand names are less */

static const char SPEC[] = "spec";

static size_t text_weight(const char *text)
{
    return text == NULL ? 0 : heap_size(strlen(text) + 1);
}

size_t config_spec_weight(const struct config_spec *s)
{
    size_t asks = s->asks == NULL ? 0 : namespace_selectors_weight(s->asks);
    return text_weight(s->text) + text_weight(s->refusal) + asks;
}

static void forget_asks(struct config_spec *s)
{
    if (s->asks != NULL) {
        namespace_selectors_deinit(s->asks);
        free(s->asks);
        s->asks = NULL;
    }
}

void config_spec_forget(struct config_spec *s)
{
    free(s->text);
    free(s->refusal);
    rules_unref(s->rules);
    forget_asks(s);
    *s = (struct config_spec){.text = NULL};
}

static void note_asks(struct config_spec *s, const cJSON *object)
{
    struct namespace_selectors asks = {.count = 0};
    namespace_selectors_read(&asks, object);
    if (asks.count > 0) {
        s->asks = xmalloc(sizeof *s->asks);
        *s->asks = asks;
    }
}

void config_spec_set(struct config_spec *s, const cJSON *object)
{
    const cJSON *spec = field_get(object, "spec");
    const cJSON *limits = field_get(spec, "limits");
    config_spec_forget(s);
    s->lacks_limits = compile_lacks_limits(object);
    s->unlimited = cJSON_IsArray(limits) && limits->child == NULL;
    s->root = field_get(spec, "root") != NULL;
    s->digest = json_digest(spec);
    s->text = spec == NULL ? NULL : xptr(cJSON_PrintUnformatted(spec));
    note_asks(s, object);
}

/* ---- what stays ---- */

static void keep(struct edit *ed, cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *item = field_get(from, key);
    if (item != NULL) {
        edit_set(ed, to, key, cJSON_Duplicate(item, true));
    }
}

/* Of its labels, or its annotations, those below the prefix. */
static void keep_ours(struct edit *ed, cJSON *meta, const cJSON *old, const char *which,
                      const char *prefix)
{
    const cJSON *item = NULL;
    size_t len = strlen(prefix);
    cJSON_ArrayForEach(item, field_map(old, which))
    {
        bool ours = strncmp(item->string, prefix, len) == 0 && item->string[len] == '/';
        if (ours && cJSON_IsString(item)) {
            edit_string(ed, edit_object(ed, meta, which), item->string, item->valuestring);
        }
    }
}

/* The one that controls it. */
static void keep_owner(struct edit *ed, cJSON *meta, const cJSON *owner)
{
    if (owner != NULL) {
        edit_append(ed, edit_array(ed, meta, "ownerReferences"), cJSON_Duplicate(owner, true));
    }
}

static void keep_metadata(struct edit *ed, cJSON *rest, const cJSON *object, const char *prefix)
{
    static const char *const keys[] = {
        "name",       "namespace",         "uid",       "resourceVersion",
        "generation", "deletionTimestamp", "finalizers"};
    const cJSON *old = field_get(object, "metadata");
    cJSON *meta = edit_object(ed, rest, "metadata");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        keep(ed, meta, old, keys[i]);
    }
    (void)edit_object(ed, meta, "annotations");
    keep_ours(ed, meta, old, "labels", prefix);
    keep_ours(ed, meta, old, "annotations", prefix);
    keep_owner(ed, meta, field_controller(object));
    if (field_get(field_get(object, SPEC), "root") != NULL) {
        keep(ed, meta, old, "creationTimestamp"); /* root_child_precedes */
    }
}

/* What must not be that of another root too. */
static void keep_root(struct edit *ed, cJSON *kept, const cJSON *root)
{
    static const char *const keys[] = {"prefix", "targetStatefulSet", "targetDeployment"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *text = field_text(root, keys[i]);
        if (text[0] != '\0' && strlen(text) <= NAME_SUBDOMAIN_MAX) {
            edit_string(ed, kept, keys[i], text);
        }
    }
}

static void keep_lock(struct edit *ed, cJSON *spec, const cJSON *old)
{
    const cJSON *controller = field_get(old, "controller");
    const char *name = field_text(controller, COMPILE_LOCK_NAME);
    const char *ns = field_text(controller, COMPILE_LOCK_NAMESPACE);
    if (name[0] == '\0' || strlen(name) > NAME_SUBDOMAIN_MAX) {
        return;
    }
    const char *left_to = field_text(old, COMPILE_LEAVING);
    edit_string(ed, edit_object(ed, spec, "controller"), COMPILE_LOCK_NAME, name);
    if (left_to[0] != '\0' && strlen(left_to) <= NAME_SUBDOMAIN_MAX) {
        edit_string(ed, spec, COMPILE_LEAVING, left_to); /* shard_lock_find */
    }
    if (name_check_label(slice_str(ns)) == NULL) { /* else it would be half a path */
        edit_string(ed, edit_object(ed, spec, "controller"), COMPILE_LOCK_NAMESPACE, ns);
    }
}

/* What namespaces the canary of a root has. Anybody may call a ShardingConfig so. */
static void keep_share(struct edit *ed, cJSON *spec, const cJSON *object)
{
    static const char canary[] = "-0-canary";
    const char *name = field_meta(object, "name");
    size_t len = strlen(name);
    const cJSON *share = root_child_share(object);
    bool is_canary = len >= sizeof canary && strcmp(name + len - (sizeof canary - 1), canary) == 0;
    if (is_canary && share != NULL && json_weight(share) <= SHARE_MAX) {
        cJSON *limit = edit_append_object(ed, edit_array(ed, spec, "limits"));
        cJSON *selector = edit_object(ed, limit, "selector");
        edit_append(ed, edit_array(ed, selector, "matchExpressions"), cJSON_Duplicate(share, true));
    }
}

static void keep_webhook(struct edit *ed, cJSON *spec, const cJSON *object)
{
    unsigned port = compile_webhook_port(object);
    if (port != 0) {
        edit_number(ed, edit_object(ed, spec, COMPILE_WEBHOOK), COMPILE_WEBHOOK_PORT, port);
    }
    if (compile_webhook_holds(object)) {
        edit_string(ed, edit_object(ed, spec, COMPILE_WEBHOOK), COMPILE_WEBHOOK_HANDOVER,
                    COMPILE_WEBHOOK_HOLD);
    }
}

static void keep_spec(struct edit *ed, cJSON *rest, const cJSON *object)
{
    const cJSON *old = field_get(object, "spec");
    const char *agent = compile_user_agent(object);
    cJSON *spec = edit_object(ed, rest, "spec");
    keep(ed, spec, old, "selector");
    if (sharing_of(object) != NULL) {
        keep(ed, spec, old, SHARING_FIELD);
    }
    const cJSON *root = field_get(old, "root");
    if (root != NULL) {
        keep_root(ed, edit_object(ed, spec, "root"), root);
    }
    keep_lock(ed, spec, old);
    keep_share(ed, spec, object);
    if (agent != NULL) {
        edit_string(ed, edit_object(ed, spec, "controller"), COMPILE_USER_AGENT, agent);
    }
    keep_webhook(ed, spec, object);
}

cJSON *config_spec_rest(const cJSON *object, const char *prefix)
{
    struct edit ed = {.rc = 0};
    cJSON *rest = cJSON_CreateObject();
    edit_string(&ed, rest, "apiVersion", COMPILE_API_VERSION); /* items of lists have none */
    edit_string(&ed, rest, "kind", COMPILE_KIND);
    keep_metadata(&ed, rest, object, prefix);
    if (field_get(object, "spec") != NULL) {
        keep_spec(&ed, rest, object);
    }
    keep(&ed, rest, object, "status");
    return xptr(edit_result(&ed, rest));
}

cJSON *config_spec_whole(const struct config_spec *s, const cJSON *rest)
{
    struct edit ed = {.rc = 0};
    if (s->text == NULL) {
        return NULL;
    }
    cJSON *whole = cJSON_Duplicate(rest, true);
    cJSON_DeleteItemFromObjectCaseSensitive(whole, SPEC);
    edit_set(&ed, whole, SPEC, cJSON_Parse(s->text));
    return xptr(edit_result(&ed, whole));
}

/* ---- compiling ---- */

void config_spec_renew(struct config_spec *s)
{
    free(s->refusal);
    rules_unref(s->rules);
    s->rules = NULL;
    s->refusal = NULL;
    s->refused = 0;
    s->compiled = false;
}

void config_spec_drop_share(cJSON *rest)
{
    cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(rest, SPEC), "limits");
}

void config_spec_give_up(struct config_spec *s, const char *why)
{
    free(s->text);
    free(s->refusal);
    rules_unref(s->rules);
    forget_asks(s);
    s->text = NULL;
    s->rules = NULL;
    s->compiled = true;
    s->refused = -EDQUOT;
    s->refusal = xstrdup(why);
}

static void note_refusal(struct config_spec *s, const struct err *e)
{
    s->refusal = xstrdup(e->msg);
    s->refused = e->code;
    s->compiled = true;
}

/* For as long as it takes, the object is whole. */
static void compile(struct config_spec *s, cJSON *rest, const struct compile_options *o,
                    struct err *e)
{
    cJSON *kept = cJSON_DetachItemFromObjectCaseSensitive(rest, SPEC);
    if (s->text != NULL) {
        (void)cJSON_AddItemToObjectCS(rest, SPEC, xptr(cJSON_Parse(s->text)));
    }
    s->rules = compile_config(rest, o, e);
    cJSON_DeleteItemFromObjectCaseSensitive(rest, SPEC);
    if (kept != NULL) {
        (void)cJSON_AddItemToObjectCS(rest, SPEC, kept);
    }
    s->compiled = s->rules != NULL;
    if (s->rules == NULL && xrc(e->code) != -EAGAIN) {
        note_refusal(s, e);
    }
    if (s->asks != NULL && s->compiled) {
        s->namespaces = namespace_selectors_count(s->asks, o->namespaces);
    }
    s->by_hash = s->rules != NULL && control_labels_ask_hash(s->rules);
    if (s->asks == NULL && s->compiled && !s->root && !s->by_hash) {
        free(s->text);
        s->text = NULL;
    }
}

struct rules *config_spec_compile(struct config_spec *s, cJSON *rest,
                                  const struct compile_options *o, struct byte_budget *budget,
                                  struct err *e)
{
    struct err why = ERR_INIT;
    if (!s->compiled) {
        compile(s, rest, o, &why);
    } else if (s->rules == NULL) {
        (void)err_set(&why, s->refused, "%s", s->refusal);
    }
    if (s->rules == NULL) {
        (void)err_set(e, why.code, "%s", why.msg);
        return NULL;
    }
    rules_count_once(s->rules, budget);
    return s->rules;
}
