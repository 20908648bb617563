/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/compile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kube/selector.h"
#include "json/field.h"
#include "json/json.h"

enum { PATH_LEN = 128 };

static const char *const api_groups[] = {"ctrlmesh.kusionstack.io", "kridge.kusionstack.io", NULL};
#define API_VERSION "v1alpha1"

/* Where a limit of the rules came from, for messages. */
struct origin {
    unsigned limit;    /* in spec.limits */
    unsigned resource; /* in its relateResources */
    bool wrapped;      /* in an objectSelector */
};

struct compilation {
    const struct compile_options *options;
    const char *group; /* the config's API group */
    cJSON *limits;     /* of the rules */
    struct origin *origins;
    size_t origin_count;
    size_t origin_cap;
    size_t selector_bytes; /* copied into the rules so far */
    struct err *e;
};

static int out_of_memory(struct compilation *c)
{
    return err_memory(c->e);
}

static int required(struct compilation *c, const char *path)
{
    return err_set(c->e, -EINVAL, "%s: Required value", path);
}

static int wrong_type(struct compilation *c, const char *path, const char *expected)
{
    return err_set(c->e, -EINVAL, "%s: Invalid value: must be %s", path, expected);
}

bool compile_is_config(const cJSON *document)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document, "kind"));
    return kind != NULL && strcmp(kind, COMPILE_KIND) == 0;
}

static int read_api_version(struct compilation *c, const cJSON *config)
{
    const cJSON *item = field_get(config, "apiVersion");
    if (item == NULL) {
        return required(c, "apiVersion");
    }
    if (!cJSON_IsString(item)) {
        return wrong_type(c, "apiVersion", "a string");
    }
    const char *slash = strrchr(item->valuestring, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - item->valuestring);
    for (size_t i = 0; api_groups[i] != NULL && slash != NULL; i++) {
        if (strcmp(slash + 1, API_VERSION) == 0 && strlen(api_groups[i]) == len &&
            memcmp(api_groups[i], item->valuestring, len) == 0) {
            c->group = api_groups[i];
            return 0;
        }
    }
    return err_set(c->e, -EINVAL,
                   "apiVersion: Unsupported value: \"%.100s\": supported are \"%s/%s\" and "
                   "\"%s/%s\"",
                   item->valuestring, api_groups[0], API_VERSION, api_groups[1], API_VERSION);
}

/* Adds {"namespace": …, "name": …}; whether they are good names is checked with the rules. */
static int add_shard(struct compilation *c, const cJSON *config, cJSON *document)
{
    const cJSON *meta = field_get(config, "metadata");
    const cJSON *name = field_get(meta, "name");
    const cJSON *ns = field_get(meta, "namespace");
    if (meta != NULL && !cJSON_IsObject(meta)) {
        return wrong_type(c, "metadata", "an object");
    }
    if (name == NULL) {
        return required(c, "metadata.name");
    }
    if (!cJSON_IsString(name) || (ns != NULL && !cJSON_IsString(ns))) {
        return wrong_type(c, cJSON_IsString(name) ? "metadata.namespace" : "metadata.name",
                          "a string");
    }
    const char *ns_text =
        ns == NULL || ns->valuestring[0] == '\0' ? c->options->namespace : ns->valuestring;
    cJSON *shard = cJSON_AddObjectToObject(document, "shard");
    return shard != NULL && cJSON_AddStringToObject(shard, "name", name->valuestring) != NULL &&
                   cJSON_AddStringToObject(shard, "namespace", ns_text) != NULL
               ? 0
               : out_of_memory(c);
}

/* The pods of the shard: of no use to the rules, but nothing works without. */
static int check_pod_selector(struct compilation *c, const cJSON *spec)
{
    const cJSON *item = field_get(spec, "selector");
    if (item == NULL) {
        return err_set(c->e, -EINVAL,
                       "spec.selector: Required value: selects the pods of the shard");
    }
    struct selector *selector = selector_from_label_selector(item, "spec.selector", c->e);
    selector_free(selector);
    return selector != NULL ? 0 : c->e->code;
}

static int add_webhook(struct compilation *c, const cJSON *spec, cJSON *rules_spec)
{
    static const char *const known[] = {"certDir", "port", NULL};
    const cJSON *webhook = field_get(spec, "webhook");
    if (webhook == NULL) {
        return 0;
    }
    if (!cJSON_IsObject(webhook)) {
        return wrong_type(c, "spec.webhook", "an object");
    }
    int rc = field_known(webhook, "spec.webhook", known, c->e);
    const cJSON *dir = field_get(webhook, "certDir");
    const cJSON *port = field_get(webhook, "port");
    if (rc == 0 && dir != NULL && !cJSON_IsString(dir)) {
        return wrong_type(c, "spec.webhook.certDir", "a string");
    }
    if (rc == 0 && port != NULL &&
        !(cJSON_IsNumber(port) && port->valuedouble >= 1 && port->valuedouble <= 65535 &&
          port->valuedouble == (double)port->valueint)) {
        return wrong_type(c, "spec.webhook.port", "a whole number from 1 to 65535");
    }
    cJSON *out = rc == 0 ? cJSON_AddObjectToObject(rules_spec, "webhook") : NULL;
    if (rc == 0 &&
        (out == NULL ||
         (dir != NULL && cJSON_AddStringToObject(out, "certDir", dir->valuestring) == NULL) ||
         (port != NULL && cJSON_AddNumberToObject(out, "port", port->valuedouble) == NULL))) {
        rc = out_of_memory(c);
    }
    return rc;
}

static int add_leader_election(struct compilation *c, const cJSON *spec, cJSON *rules_spec)
{
    static const char *const known[] = {"leaderElectionName", NULL};
    const cJSON *controller = field_get(spec, "controller");
    const cJSON *name = field_get(controller, "leaderElectionName");
    if (controller != NULL && !cJSON_IsObject(controller)) {
        return wrong_type(c, "spec.controller", "an object");
    }
    int rc = field_known(controller, "spec.controller", known, c->e);
    if (rc != 0 || name == NULL) {
        return rc;
    }
    if (!cJSON_IsString(name)) {
        return wrong_type(c, "spec.controller.leaderElectionName", "a string");
    }
    /* An empty string is how Go writes a field that is not set. */
    if (name->valuestring[0] == '\0') {
        return 0;
    }
    cJSON *election = cJSON_AddObjectToObject(rules_spec, "leaderElection");
    return election != NULL && cJSON_AddStringToObject(election, "name", name->valuestring) != NULL
               ? 0
               : out_of_memory(c);
}

static int add_label(struct compilation *c, cJSON *labels, const char *field, const char *name)
{
    const char *prefix = c->options->labels.prefix != NULL ? c->options->labels.prefix : c->group;
    char key[512];
    if (strchr(name, '/') != NULL) {
        (void)snprintf(key, sizeof key, "%s", name);
    } else {
        (void)snprintf(key, sizeof key, "%s/%s", prefix, name);
    }
    return cJSON_AddStringToObject(labels, field, key) != NULL ? 0 : out_of_memory(c);
}

static int add_labels(struct compilation *c, cJSON *rules_spec)
{
    const struct compile_labels *names = &c->options->labels;
    cJSON *labels = cJSON_AddObjectToObject(rules_spec, "labels");
    if (labels == NULL) {
        return out_of_memory(c);
    }
    int rc = add_label(c, labels, "namespace", names->namespace);
    rc = rc != 0 ? rc : add_label(c, labels, "shardHash", names->shard_hash);
    return rc != 0 ? rc : add_label(c, labels, "control", names->control);
}

/* Each entry repeats the selector of its limit: a small config must not fill memory. */
static int check_size(struct compilation *c, const char *path, const char *selector)
{
    c->selector_bytes += strlen(selector);
    if (c->origin_count >= RULES_LIMITS_MAX) {
        return err_set(c->e, -E2BIG, "%s: Too many: a shard has at most %d of them in all", path,
                       RULES_LIMITS_MAX);
    }
    return c->selector_bytes <= RULES_TEXT_MAX
               ? 0
               : err_set(c->e, -E2BIG, "%s: Too long: the rules have more than %d bytes", path,
                         RULES_TEXT_MAX);
}

static int note_origin(struct compilation *c, const struct origin *o)
{
    if (c->origin_count == c->origin_cap) {
        size_t cap = c->origin_cap == 0 ? 16 : c->origin_cap * 2;
        struct origin *grown = realloc(c->origins, cap * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(c);
        }
        c->origins = grown;
        c->origin_cap = cap;
    }
    c->origins[c->origin_count++] = *o;
    return 0;
}

/* Copies one list; whether it is in order is checked with the rules. */
static int copy_list(struct compilation *c, const cJSON *from, cJSON *to, const char *key)
{
    const cJSON *list = field_get(from, key);
    if (list == NULL) {
        return 0;
    }
    cJSON *copy = cJSON_Duplicate(list, true);
    if (copy == NULL || !cJSON_AddItemToObject(to, key, copy)) {
        cJSON_Delete(copy);
        return out_of_memory(c);
    }
    return 0;
}

/* One entry of relateResources becomes one limit of the rules. */
static int add_rule(struct compilation *c, const cJSON *resources, const char *path,
                    const char *selector, const struct origin *o)
{
    static const char *const known[] = {"apiGroups", "resources", NULL};
    if (!cJSON_IsObject(resources)) {
        return wrong_type(c, path, "an object");
    }
    int rc = field_known(resources, path, known, c->e);
    rc = rc != 0 ? rc : check_size(c, path, selector);
    rc = rc != 0 ? rc : note_origin(c, o);
    if (rc != 0) {
        return rc;
    }
    cJSON *limit = cJSON_CreateObject();
    if (limit == NULL || !cJSON_AddItemToArray(c->limits, limit)) {
        cJSON_Delete(limit);
        return out_of_memory(c);
    }
    rc = copy_list(c, resources, limit, "apiGroups");
    rc = rc != 0 ? rc : copy_list(c, resources, limit, "resources");
    if (rc == 0 && cJSON_AddStringToObject(limit, "selector", selector) == NULL) {
        rc = out_of_memory(c);
    }
    return rc;
}

/* The limit's selector as canonical text; the caller frees. */
static int read_selector(struct compilation *c, const cJSON *limit, const char *limit_path,
                         char **text)
{
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s.selector", limit_path);
    const cJSON *item = field_get(limit, "selector");
    if (item == NULL) {
        return required(c, path);
    }
    struct selector *selector = selector_from_label_selector(item, path, c->e);
    if (selector == NULL) {
        return c->e->code;
    }
    struct buf out = BUF_INIT(SELECTOR_TEXT_MAX);
    int rc = selector_print(selector, &out);
    *text = rc == 0 ? buf_take_str(&out) : NULL;
    buf_reset(&out);
    selector_free(selector);
    if (rc == -ENOBUFS) {
        return err_set(c->e, -E2BIG, "%s: Too long: more than %d bytes", path, SELECTOR_TEXT_MAX);
    }
    return *text != NULL ? 0 : out_of_memory(c);
}

static int add_rules(struct compilation *c, const cJSON *limit, const char *path, struct origin o)
{
    /* Beside it the other spelling may stand as null: so Go's encoder writes what is not set. */
    const char *const known[] = {"relateResources", "selector", o.wrapped ? NULL : "objectSelector",
                                 NULL};
    char *selector = NULL;
    char inner[PATH_LEN];
    (void)snprintf(inner, sizeof inner, "%s.relateResources", path);
    int rc = field_known(limit, path, known, c->e);
    const cJSON *list = field_get(limit, "relateResources");
    if (rc == 0 && list == NULL) {
        rc = required(c, inner);
    } else if (rc == 0 && !cJSON_IsArray(list)) {
        rc = wrong_type(c, inner, "an array");
    } else if (rc == 0 && list->child == NULL) {
        rc = err_set(c->e, -EINVAL, "%s: Required value: must have at least one entry", inner);
    }
    rc = rc != 0 ? rc : read_selector(c, limit, path, &selector);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (rc != 0) {
            break;
        }
        (void)snprintf(inner, sizeof inner, "%s.relateResources[%u]", path, o.resource);
        rc = add_rule(c, item, inner, selector, &o);
        o.resource++;
    }
    free(selector);
    return rc;
}

static int add_limit(struct compilation *c, const cJSON *limit, unsigned index)
{
    static const char *const known[] = {"objectSelector", "relateResources", "selector", NULL};
    struct origin o = {.limit = index};
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "spec.limits[%u]", index);
    if (!cJSON_IsObject(limit)) {
        return wrong_type(c, path, "an object");
    }
    const cJSON *inner = field_get(limit, "objectSelector");
    if (inner == NULL) {
        return add_rules(c, limit, path, o);
    }
    int rc = field_known(limit, path, known, c->e);
    for (size_t i = 1; rc == 0 && known[i] != NULL; i++) {
        if (field_get(limit, known[i]) != NULL) {
            rc = err_set(c->e, -EINVAL,
                         "%s.%s: Forbidden: may not be set together with objectSelector", path,
                         known[i]);
        }
    }
    if (rc != 0) {
        return rc;
    }
    (void)snprintf(path, sizeof path, "spec.limits[%u].objectSelector", index);
    if (!cJSON_IsObject(inner)) {
        return wrong_type(c, path, "an object");
    }
    o.wrapped = true;
    return add_rules(c, inner, path, o);
}

static int add_limits(struct compilation *c, const cJSON *spec, cJSON *rules_spec)
{
    const cJSON *limits = field_get(spec, "limits");
    c->limits = cJSON_AddArrayToObject(rules_spec, "limits");
    if (c->limits == NULL) {
        return out_of_memory(c);
    }
    if (limits != NULL && !cJSON_IsArray(limits)) {
        return wrong_type(c, "spec.limits", "an array");
    }
    unsigned i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, limits)
    {
        int rc = add_limit(c, item, i++);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int add_spec(struct compilation *c, const cJSON *config, cJSON *document)
{
    static const char *const known[] = {"selector", "controller", "webhook",
                                        "limits",   "root",       NULL};
    const cJSON *spec = field_get(config, "spec");
    if (spec == NULL) {
        return required(c, "spec");
    }
    if (!cJSON_IsObject(spec)) {
        return wrong_type(c, "spec", "an object");
    }
    int rc = field_known(spec, "spec", known, c->e);
    if (rc == 0 && field_get(spec, "root") != NULL) {
        rc = err_set(c->e, -EINVAL,
                     "spec.root: Forbidden: automatic sharding is not supported yet: write one "
                     "ShardingConfig for each shard");
    }
    cJSON *rules_spec = cJSON_AddObjectToObject(document, "spec");
    if (rules_spec == NULL) {
        return out_of_memory(c);
    }
    rc = rc != 0 ? rc : check_pod_selector(c, spec);
    rc = rc != 0 ? rc : add_webhook(c, spec, rules_spec);
    rc = rc != 0 ? rc : add_leader_election(c, spec, rules_spec);
    rc = rc != 0 ? rc : add_labels(c, rules_spec);
    return rc != 0 ? rc : add_limits(c, spec, rules_spec);
}

/* Finds what the rules call `path` in the config: "spec.limits[3]" is the fourth entry of
 * relateResources, wherever that stands. Returns the bytes of `path` that `out` stands for. */
static size_t translate_limit(const struct compilation *c, const char *path, char out[PATH_LEN])
{
    static const char head[] = "spec.limits[";
    if (strncmp(path, head, sizeof head - 1) != 0) {
        return 0;
    }
    char *end;
    unsigned long i = strtoul(path + sizeof head - 1, &end, 10);
    if (*end != ']' || i >= c->origin_count) {
        return 0;
    }
    const struct origin *o = &c->origins[i];
    bool whole = strncmp(end, "].selector", 10) == 0;
    int n =
        snprintf(out, PATH_LEN, "spec.limits[%u]%s", o->limit, o->wrapped ? ".objectSelector" : "");
    if (!whole) {
        (void)snprintf(out + n, PATH_LEN - (size_t)n, ".relateResources[%u]", o->resource);
    }
    return (size_t)(end + 1 - path);
}

static size_t translate_field(const char *path, char out[PATH_LEN])
{
    static const struct {
        const char *rules;
        const char *config;
    } fields[] = {
        {"shard.", "metadata."},
        {"spec.leaderElection.name", "spec.controller.leaderElectionName"},
        {"spec.labels.namespace", "--label-namespace"},
        {"spec.labels.shardHash", "--label-shard-hash"},
        {"spec.labels.control", "--label-control"},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        size_t len = strlen(fields[i].rules);
        if (strncmp(path, fields[i].rules, len) == 0) {
            (void)snprintf(out, PATH_LEN, "%s", fields[i].config);
            return len;
        }
    }
    return 0;
}

/* An error of the rules in terms of the config, as its author knows nothing of rules. */
static void translate(const struct compilation *c, const struct err *from)
{
    char path[PATH_LEN] = "";
    const char *msg = from->msg;
    if (strncmp(msg, "line ", 5) == 0 && strchr(msg, ':') != NULL) {
        msg = strchr(msg, ':') + 1;
        msg += strspn(msg, " ");
    }
    size_t used = translate_limit(c, msg, path);
    used = used != 0 ? used : translate_field(msg, path);
    (void)err_set(c->e, from->code, "%s%s", path, msg + used);
}

/* The rules are made by the parser that the proxies use: what one compiles the other takes. */
static struct rules *make_rules(struct compilation *c, const cJSON *document)
{
    struct buf text = BUF_INIT(RULES_TEXT_MAX);
    struct err inner = ERR_INIT;
    struct rules *made = NULL;
    int rc = json_canonical(document, &text);
    if (rc == -ENOBUFS) {
        (void)err_set(c->e, -E2BIG, "spec.limits: Too long: the rules have more than %d bytes",
                      RULES_TEXT_MAX);
    } else if (rc != 0) {
        (void)err_set(c->e, rc, "spec: %s", err_text(rc));
    } else {
        made = rules_parse((const char *)buf_data(&text), text.len, &inner);
    }
    if (rc == 0 && made == NULL) {
        translate(c, &inner);
    }
    buf_reset(&text);
    return made;
}

static cJSON *new_document(const struct compile_options *o)
{
    cJSON *d = cJSON_CreateObject();
    if (cJSON_AddStringToObject(d, "apiVersion", RULES_API_VERSION) != NULL &&
        cJSON_AddStringToObject(d, "kind", RULES_KIND) != NULL &&
        cJSON_AddNumberToObject(d, "generation", (double)o->generation) != NULL) {
        return d;
    }
    cJSON_Delete(d);
    return NULL;
}

struct rules *compile_config(const cJSON *config, const struct compile_options *o, struct err *e)
{
    struct compilation c = {.options = o, .e = e};
    struct rules *made = NULL;
    cJSON *document = new_document(o);
    int rc = document != NULL ? 0 : out_of_memory(&c);
    rc = rc != 0 ? rc : read_api_version(&c, config);
    rc = rc != 0 ? rc : add_shard(&c, config, document);
    rc = rc != 0 ? rc : add_spec(&c, config, document);
    if (rc == 0) {
        made = make_rules(&c, document);
    }
    cJSON_Delete(document);
    free(c.origins);
    return made;
}
