/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/compile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/grow.h"
#include "base/xalloc.h"
#include "compile/control_labels.h"
#include "compile/namespace_selectors.h"
#include "config/sharding_config.h"
#include "kube/selector.h"
#include "kube/user_agent.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum { PATH_LEN = 128, LIMIT_PATH_LEN = 64 };

#define CONTROLLER "spec.controller"

/* Where a limit of the rules came from, for messages. */
struct origin {
    unsigned limit;    /* in spec.limits */
    unsigned resource; /* in its relateResources */
    bool wrapped;      /* in an objectSelector */
};

struct compilation {
    const struct compile_options *options;
    const cJSON *config;
    struct control_label_keys keys;
    struct sharing sharing;
    struct namespace_selectors namespaces;
    struct edit edit;
    cJSON *limits; /* of the rules */
    struct origin *origins;
    size_t origin_count;
    size_t origin_cap;
    size_t selector_bytes; /* copied into the rules so far */
    struct err *e;
};

bool compile_is_config(const cJSON *document)
{
    return strcmp(field_text(document, "kind"), COMPILE_KIND) == 0;
}

const char *compile_user_agent(const cJSON *config)
{
    const cJSON *controller = field_get(field_get(config, "spec"), "controller");
    const char *text = field_text(controller, COMPILE_USER_AGENT);
    return user_agent_check(slice_str(text)) == NULL ? text : NULL;
}

unsigned compile_webhook_port(const cJSON *config)
{
    const cJSON *webhook = field_get(field_get(config, "spec"), COMPILE_WEBHOOK);
    const cJSON *port = field_get(webhook, COMPILE_WEBHOOK_PORT);
    bool right = cJSON_IsNumber(port) && port->valueint > 0 && port->valueint <= UINT16_MAX &&
                 port->valuedouble == port->valueint;
    return right ? (unsigned)port->valueint : 0;
}

bool compile_webhook_holds(const cJSON *config)
{
    const cJSON *webhook = field_get(field_get(config, "spec"), COMPILE_WEBHOOK);
    return strcmp(field_text(webhook, COMPILE_WEBHOOK_HANDOVER), COMPILE_WEBHOOK_HOLD) == 0;
}

void compile_prefix(const cJSON *config, const struct compile_labels *l,
                    char out[COMPILE_PREFIX_SIZE])
{
    const char *version = field_text(config, "apiVersion");
    const char *slash = strrchr(version, '/');
    int len = slash == NULL ? 0 : (int)(slash - version);
    (void)snprintf(out, COMPILE_PREFIX_SIZE, "%.*s", l->prefix != NULL ? INT_MAX : len,
                   l->prefix != NULL ? l->prefix : version);
}

/* Adds {"namespace": …, "name": …}; whether they are good names is checked with the rules. */
static void add_shard(struct compilation *c, const struct sharding_metadata *meta, cJSON *document)
{
    cJSON *shard = edit_object(&c->edit, document, "shard");
    edit_string(&c->edit, shard, "name", meta->name);
    edit_string(&c->edit, shard, "namespace",
                meta->namespace[0] == '\0' ? c->options->namespace : meta->namespace);
}

/* The pods of the shard: of no use to the rules, but nothing works without. */
static int check_pod_selector(struct compilation *c, const cJSON *item)
{
    if (item == NULL) {
        return err_set(c->e, -EINVAL,
                       "spec.selector: Required value: selects the pods of the shard");
    }
    struct selector *selector = selector_from_label_selector(item, "spec.selector", c->e);
    selector_free(selector);
    return selector != NULL ? 0 : c->e->code;
}

static void add_webhook(struct compilation *c, const cJSON *spec,
                        const struct sharding_webhook *webhook, cJSON *rules_spec)
{
    cJSON *out = webhook == NULL ? NULL : edit_object(&c->edit, rules_spec, COMPILE_WEBHOOK);
    if (field_get(field_get(spec, COMPILE_WEBHOOK), "certDir") != NULL) {
        edit_string(&c->edit, out, "certDir", webhook->cert_dir);
    }
    if (webhook != NULL && webhook->port != 0) {
        edit_number(&c->edit, out, COMPILE_WEBHOOK_PORT, webhook->port);
    }
}

/* The user agent is not of the rules: the webhook tells the sidecars of new pods. */
static void add_leader_election(struct compilation *c, const struct sharding_controller *controller,
                                cJSON *rules_spec)
{
    if (controller->lock[0] == '\0') {
        return;
    }
    cJSON *election = edit_object(&c->edit, rules_spec, "leaderElection");
    edit_string(&c->edit, election, "name", controller->lock);
    if (controller->lock_namespace[0] != '\0') {
        edit_string(&c->edit, election, "namespace", controller->lock_namespace);
    }
}

/* Whether they are good keys is checked with the rules. */
static void make_keys(struct compilation *c)
{
    const struct compile_labels *l = &c->options->labels;
    const char *const names[CONTROL_LABEL_KEYS] = {l->namespace, l->shard_hash, l->control};
    char prefix[COMPILE_PREFIX_SIZE];
    compile_prefix(c->config, l, prefix);
    for (size_t i = 0; i < CONTROL_LABEL_KEYS; i++) {
        (void)names_key(prefix, names[i], c->keys.key[i]);
    }
}

static void add_labels(struct compilation *c, cJSON *rules_spec)
{
    static const char *const fields[CONTROL_LABEL_KEYS] = {"namespace", "shardHash", "control"};
    cJSON *labels = edit_object(&c->edit, rules_spec, "labels");
    for (size_t i = 0; i < CONTROL_LABEL_KEYS; i++) {
        edit_string(&c->edit, labels, fields[i], c->keys.key[i]);
    }
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

/* Whether it is in order is checked with the rules. */
static void add_texts(struct compilation *c, cJSON *limit, const char *key,
                      const struct schema_texts *texts)
{
    cJSON *list = edit_array(&c->edit, limit, key);
    for (size_t i = 0; i < texts->count; i++) {
        edit_append_string(&c->edit, list, texts->items[i]);
    }
}

/* One entry of relateResources becomes one limit of the rules. */
static int add_rule(struct compilation *c, const struct sharding_resources *resources,
                    const char *path, const char *selector, const struct origin *o)
{
    if (check_size(c, path, selector) != 0) {
        return c->e->code;
    }
    c->origins = xptr(grow_array(c->origins, c->origin_count, &c->origin_cap, sizeof *o));
    c->origins[c->origin_count++] = *o;
    cJSON *limit = edit_append_object(&c->edit, c->limits);
    add_texts(c, limit, "apiGroups", &resources->groups);
    add_texts(c, limit, "resources", &resources->resources);
    edit_string(&c->edit, limit, "selector", selector);
    return 0;
}

/* The caller frees. */
static char *print_selector(const struct selector *selector, const char *path, struct err *e)
{
    struct buf out = BUF_INIT(SELECTOR_TEXT_MAX);
    if (xrc(selector_print(selector, &out)) != 0) {
        (void)err_set(e, -E2BIG, "%s: Too long: more than %d bytes", path, SELECTOR_TEXT_MAX);
        buf_reset(&out);
        return NULL;
    }
    return xptr(buf_take_str(&out));
}

/* By labels of the objects; empty, if there is a namespaceSelector. The caller frees. */
static struct selector *read_own_selector(struct compilation *c, const struct sharding_limit *limit,
                                          const char *path)
{
    const cJSON *item = limit->selector;
    if (item == NULL && limit->namespaces != NULL) {
        return selector_and(NULL, 0, c->e);
    }
    if (item == NULL) {
        (void)err_set(c->e, -EINVAL, "%s: Required value", path);
        return NULL;
    }
    cJSON *wide = cJSON_Duplicate(item, true);
    sharing_widen(&c->sharing, wide);
    struct selector *selector = selector_from_label_selector(wide, path, c->e);
    cJSON_Delete(wide);
    if (selector == NULL || control_labels_check(&c->keys, item, path, c->e) != 0) {
        selector_free(selector);
        return NULL;
    }
    return selector;
}

/* What the namespaceSelector comes to. The caller frees. */
static struct selector *select_namespaces(struct compilation *c, const cJSON *item,
                                          const char *path)
{
    int number = namespace_selectors_add(&c->namespaces, item, path, c->e);
    const struct selector *names = NULL;
    if (number >= 0) {
        names = namespace_selectors_resolve(&c->namespaces, number, c->options->namespaces,
                                            c->keys.key[CONTROL_LABEL_NAMESPACE], path, c->e);
    }
    if (names != NULL && c->sharing.own != NULL) {
        return sharing_widen_names(&c->sharing, names);
    }
    return names == NULL ? NULL : xptr(selector_and(&names, 1, NULL));
}

/* Takes `own`, and returns what is selected by it and by labels of namespaces. */
static struct selector *and_namespaces(struct compilation *c, const struct sharding_limit *limit,
                                       const char *limit_path, struct selector *own)
{
    char path[PATH_LEN];
    if (limit->namespaces == NULL) {
        return own;
    }
    (void)snprintf(path, sizeof path, "%s." NAMESPACE_SELECTOR, limit_path);
    struct selector *names = select_namespaces(c, limit->namespaces, path);
    const struct selector *const both[] = {own, names};
    struct selector *made = names == NULL ? NULL : selector_and(both, ARRAY_LEN(both), c->e);
    selector_free(names);
    selector_free(own);
    return made;
}

/* What the limit selects as canonical text; the caller frees. NULL with the error set. */
static char *read_selector(struct compilation *c, const struct sharding_limit *limit,
                           const char *limit_path)
{
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s.selector", limit_path);
    struct selector *selector = read_own_selector(c, limit, path);
    selector = selector == NULL ? NULL : and_namespaces(c, limit, limit_path, selector);
    if (selector == NULL) {
        return NULL;
    }
    selector = control_labels_demand(&c->keys, selector, c->e);
    if (selector == NULL) {
        err_prefix(c->e, "%s", path);
        return NULL;
    }
    char *text = print_selector(selector, path, c->e);
    selector_free(selector);
    return text;
}

static int add_limit(struct compilation *c, const struct sharding_limit *limit, unsigned index)
{
    struct origin o = {.limit = index, .wrapped = limit->wrapped != NULL};
    const struct sharding_limit *said = o.wrapped ? limit->wrapped : limit;
    const struct sharding_resources *related = said->related.items;
    char path[LIMIT_PATH_LEN];
    (void)snprintf(path, sizeof path, "spec.limits[%u]%s", index,
                   o.wrapped ? ".objectSelector" : "");
    char *selector = read_selector(c, said, path);
    int rc = selector == NULL ? c->e->code : 0;
    for (; o.resource < said->related.count && rc == 0; o.resource++) {
        char inner[PATH_LEN];
        (void)snprintf(inner, sizeof inner, "%s.relateResources[%u]", path, o.resource);
        rc = add_rule(c, &related[o.resource], inner, selector, &o);
    }
    free(selector);
    return rc;
}

/* A list that is not there may have been lost on the way: under another name by the API server,
 * which drops the fields that it does not know, or by a template that had no values. */
static void add_nothing(struct compilation *c)
{
    cJSON *limit = edit_append_object(&c->edit, c->limits);
    edit_append(&c->edit, edit_array(&c->edit, limit, "apiGroups"), cJSON_CreateString("*"));
    edit_append(&c->edit, edit_array(&c->edit, limit, "resources"), cJSON_CreateString("*"));
    edit_string(&c->edit, limit, "selector", SELECTOR_NOTHING);
}

bool compile_lacks_limits(const cJSON *config)
{
    return field_get(field_get(config, "spec"), "limits") == NULL;
}

static int add_limits(struct compilation *c, const struct schema_list *limits, cJSON *rules_spec)
{
    const struct sharding_limit *items = limits->items;
    c->limits = edit_array(&c->edit, rules_spec, "limits");
    if (compile_lacks_limits(c->config)) {
        add_nothing(c);
    }
    for (unsigned i = 0; i < limits->count; i++) {
        if (add_limit(c, &items[i], i) != 0) {
            return c->e->code;
        }
    }
    return 0;
}

/* `name`: of the shard. */
static int add_spec(struct compilation *c, const cJSON *item, const struct sharding_spec *spec,
                    const char *name, cJSON *document)
{
    cJSON *rules_spec = edit_object(&c->edit, document, "spec");
    make_keys(c);
    c->sharing = (struct sharing){.own = sharing_of(c->config),
                                  .all = c->options->shared,
                                  .namespace_key = c->keys.key[CONTROL_LABEL_NAMESPACE],
                                  .hash_key = c->keys.key[CONTROL_LABEL_HASH]};
    add_labels(c, rules_spec);
    if (check_pod_selector(c, spec->selector) != 0) {
        return c->e->code;
    }
    add_webhook(c, item, spec->webhook, rules_spec);
    if (spec->leaving[0] != '\0' && strcmp(spec->leaving, name) == 0) {
        (void)edit_array(&c->edit, rules_spec, "limits");
        return 0; /* as a pod without sidecars, elected by the same lock */
    }
    add_leader_election(c, &spec->controller, rules_spec);
    int rc = add_limits(c, &spec->limits, rules_spec);
    if (rc == 0 && spec->leaving[0] != '\0') {
        const struct rules_labels keys = {.namespace = c->keys.key[CONTROL_LABEL_NAMESPACE],
                                          .shard_hash = c->keys.key[CONTROL_LABEL_HASH]};
        sharing_hide(c->limits, &keys, c->sharing.own);
    }
    return rc;
}

/* The document that the rules are made of; NULL with the error set. */
static cJSON *make_document(struct compilation *c)
{
    struct sharding_head head;
    struct sharding_spec spec;
    struct schema_memory memory = {0};
    if (sharding_read_head(c->config, &head, c->e) != 0) {
        return NULL;
    }
    if (field_get(head.spec, "root") != NULL) {
        (void)err_set(
            c->e, -EINVAL,
            "spec.root: Forbidden: a root has no rules of its own: its shards have, which "
            "are ShardingConfigs that are made of it");
        return NULL;
    }
    cJSON *document = cJSON_CreateObject();
    edit_string(&c->edit, document, "apiVersion", RULES_API_VERSION);
    edit_string(&c->edit, document, "kind", RULES_KIND);
    edit_number(&c->edit, document, "generation", (double)c->options->generation);
    add_shard(c, &head.metadata, document);
    bool made = sharding_read_spec(head.spec, &memory, &spec, c->e) == 0 &&
                add_spec(c, head.spec, &spec, head.metadata.name, document) == 0;
    schema_memory_deinit(&memory);
    if (!made) {
        cJSON_Delete(document);
        return NULL;
    }
    return document;
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
        {"spec.leaderElection.namespace", CONTROLLER "." COMPILE_LOCK_NAMESPACE},
        {"spec.leaderElection.name", CONTROLLER "." COMPILE_LOCK_NAME},
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
        made = rules_parse_plain((const char *)buf_data(&text), text.len, &inner);
    }
    if (rc == 0 && made == NULL) {
        translate(c, &inner);
    }
    buf_reset(&text);
    return made;
}

struct rules *compile_config(const cJSON *config, const struct compile_options *o, struct err *e)
{
    struct compilation c = {.options = o, .config = config, .e = e};
    cJSON *document = make_document(&c);
    struct rules *made = document == NULL ? NULL : make_rules(&c, document);
    if (made == NULL) {
        xerr(e);
    }
    cJSON_Delete(document);
    namespace_selectors_deinit(&c.namespaces);
    free(c.origins);
    return made;
}

struct rules *compile_draft(const cJSON *config, const struct compile_options *o, bool *unknown,
                            struct err *e)
{
    static const struct namespace_set none;
    struct compile_options without = *o;
    struct rules *rules = compile_config(config, o, e);
    *unknown = rules == NULL && e->code == -EAGAIN;
    if (*unknown) {
        err_clear(e);
        without.namespaces = &none;
        rules = compile_config(config, &without, e);
    }
    return rules;
}
