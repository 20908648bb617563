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
#include "kube/selector.h"
#include "kube/user_agent.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum { PATH_LEN = 128 };

static const char *const api_groups[] = {"ctrlmesh.kusionstack.io", "kridge.kusionstack.io", NULL};
#define API_VERSION "v1alpha1"
#define CONTROLLER "spec.controller"

/* Where a limit of the rules came from, for messages. */
struct origin {
    unsigned limit;    /* in spec.limits */
    unsigned resource; /* in its relateResources */
    bool wrapped;      /* in an objectSelector */
};

struct compilation {
    const struct compile_options *options;
    const char *group; /* the config's API group */
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

static int not_object(struct compilation *c, const char *path)
{
    return err_set(c->e, -EINVAL, "%s: Invalid value: must be an object", path);
}

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

void compile_prefix(const cJSON *config, const struct compile_labels *l,
                    char out[COMPILE_PREFIX_SIZE])
{
    const char *version = field_text(config, "apiVersion");
    const char *slash = strrchr(version, '/');
    int len = slash == NULL ? 0 : (int)(slash - version);
    (void)snprintf(out, COMPILE_PREFIX_SIZE, "%.*s", l->prefix != NULL ? INT_MAX : len,
                   l->prefix != NULL ? l->prefix : version);
}

static int read_api_version(struct compilation *c, const cJSON *config)
{
    const char *text = "";
    if (field_required(config, "", "apiVersion", &text, c->e) != 0) {
        return c->e->code;
    }
    const char *slash = strrchr(text, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - text);
    for (size_t i = 0; api_groups[i] != NULL && slash != NULL; i++) {
        if (strcmp(slash + 1, API_VERSION) == 0 && strlen(api_groups[i]) == len &&
            memcmp(api_groups[i], text, len) == 0) {
            c->group = api_groups[i];
            return 0;
        }
    }
    return err_set(c->e, -EINVAL,
                   "apiVersion: Unsupported value: \"%.100s\": supported are \"%s/%s\" and "
                   "\"%s/%s\"",
                   text, api_groups[0], API_VERSION, api_groups[1], API_VERSION);
}

/* Adds {"namespace": …, "name": …}; whether they are good names is checked with the rules. */
static int add_shard(struct compilation *c, const cJSON *config, cJSON *document)
{
    const cJSON *meta = NULL;
    const char *name = "";
    const char *ns = "";
    if (field_object(config, "", "metadata", &meta, c->e) != 0 ||
        field_required(meta, "metadata", "name", &name, c->e) != 0 ||
        field_string(meta, "metadata", "namespace", &ns, c->e) != 0) {
        return c->e->code;
    }
    cJSON *shard = edit_object(&c->edit, document, "shard");
    edit_string(&c->edit, shard, "name", name);
    edit_string(&c->edit, shard, "namespace", ns[0] == '\0' ? c->options->namespace : ns);
    return 0;
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
    static const char path[] = "spec.webhook";
    static const char *const known[] = {"certDir", "port", NULL};
    const cJSON *webhook = NULL;
    const char *dir = "";
    int port = 0;
    if (field_object(spec, "spec", "webhook", &webhook, c->e) != 0 ||
        field_known(webhook, path, known, c->e) != 0 ||
        field_string(webhook, path, "certDir", &dir, c->e) != 0 ||
        field_int(webhook, path, "port", 1, 65535, &port, c->e) != 0) {
        return c->e->code;
    }
    cJSON *out = webhook == NULL ? NULL : edit_object(&c->edit, rules_spec, "webhook");
    if (field_get(webhook, "certDir") != NULL) {
        edit_string(&c->edit, out, "certDir", dir);
    }
    if (port != 0) {
        edit_number(&c->edit, out, "port", port);
    }
    return 0;
}

/* It is not of the rules: the webhook tells the sidecars of new pods. */
static int check_user_agent(struct compilation *c, const cJSON *controller)
{
    const char *text = "";
    int rc = field_string(controller, CONTROLLER, COMPILE_USER_AGENT, &text, c->e);
    const char *why = text[0] == '\0' ? NULL : user_agent_check(slice_str(text));
    return rc != 0 || why == NULL ? rc
                                  : field_invalid(c->e, CONTROLLER, COMPILE_USER_AGENT, text, why);
}

static int add_leader_election(struct compilation *c, const cJSON *spec, cJSON *rules_spec)
{
    static const char *const known[] = {COMPILE_LOCK_NAME, COMPILE_LOCK_NAMESPACE,
                                        COMPILE_USER_AGENT, NULL};
    const cJSON *controller = NULL;
    const char *name = "";
    const char *ns = "";
    if (field_object(spec, "spec", "controller", &controller, c->e) != 0 ||
        field_known(controller, CONTROLLER, known, c->e) != 0 ||
        field_string(controller, CONTROLLER, COMPILE_LOCK_NAME, &name, c->e) != 0 ||
        field_string(controller, CONTROLLER, COMPILE_LOCK_NAMESPACE, &ns, c->e) != 0 ||
        check_user_agent(c, controller) != 0) {
        return c->e->code;
    }
    /* An empty string is how Go writes a field that is not set. */
    if (name[0] == '\0') {
        return ns[0] == '\0'
                   ? 0
                   : err_set(c->e, -EINVAL,
                             CONTROLLER "." COMPILE_LOCK_NAME
                                        ": Required value: " COMPILE_LOCK_NAMESPACE " is set");
    }
    cJSON *election = edit_object(&c->edit, rules_spec, "leaderElection");
    edit_string(&c->edit, election, "name", name);
    if (ns[0] != '\0') {
        edit_string(&c->edit, election, "namespace", ns);
    }
    return 0;
}

/* Whether they are good keys is checked with the rules. */
static void make_keys(struct compilation *c)
{
    const struct compile_labels *l = &c->options->labels;
    const char *const names[CONTROL_LABEL_KEYS] = {l->namespace, l->shard_hash, l->control};
    const char *prefix = l->prefix != NULL ? l->prefix : c->group;
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

/* Copies one list; whether it is in order is checked with the rules. */
static void copy_list(struct compilation *c, const cJSON *from, cJSON *to, const char *key)
{
    const cJSON *list = field_get(from, key);
    if (list != NULL) {
        edit_set(&c->edit, to, key, cJSON_Duplicate(list, true));
    }
}

/* One entry of relateResources becomes one limit of the rules. */
static int add_rule(struct compilation *c, const cJSON *resources, const char *path,
                    const char *selector, const struct origin *o)
{
    static const char *const known[] = {"apiGroups", "resources", NULL};
    if (!cJSON_IsObject(resources)) {
        return not_object(c, path);
    }
    if (field_known(resources, path, known, c->e) != 0 || check_size(c, path, selector) != 0) {
        return c->e->code;
    }
    c->origins = xptr(grow_array(c->origins, c->origin_count, &c->origin_cap, sizeof *o));
    c->origins[c->origin_count++] = *o;
    cJSON *limit = edit_append_object(&c->edit, c->limits);
    copy_list(c, resources, limit, "apiGroups");
    copy_list(c, resources, limit, "resources");
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
static struct selector *read_own_selector(struct compilation *c, const cJSON *limit,
                                          const char *path)
{
    const cJSON *item = field_get(limit, "selector");
    if (item == NULL && field_get(limit, NAMESPACE_SELECTOR) != NULL) {
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
static struct selector *and_namespaces(struct compilation *c, const cJSON *limit,
                                       const char *limit_path, struct selector *own)
{
    char path[PATH_LEN];
    const cJSON *item = field_get(limit, NAMESPACE_SELECTOR);
    if (item == NULL) {
        return own;
    }
    (void)snprintf(path, sizeof path, "%s." NAMESPACE_SELECTOR, limit_path);
    struct selector *names = select_namespaces(c, item, path);
    const struct selector *const both[] = {own, names};
    struct selector *made = names == NULL ? NULL : selector_and(both, ARRAY_LEN(both), c->e);
    selector_free(names);
    selector_free(own);
    return made;
}

/* What the limit selects as canonical text; the caller frees. NULL with the error set. */
static char *read_selector(struct compilation *c, const cJSON *limit, const char *limit_path)
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

static int add_rules(struct compilation *c, const cJSON *limit, const char *path, struct origin o)
{
    /* Beside it the other spelling may stand as null: so Go's encoder writes what is not set. */
    const char *const known[] = {"relateResources", "selector", NAMESPACE_SELECTOR,
                                 o.wrapped ? NULL : "objectSelector", NULL};
    const cJSON *list = NULL;
    if (field_known(limit, path, known, c->e) != 0 ||
        field_array(limit, path, "relateResources", &list, c->e) != 0) {
        return c->e->code;
    }
    if (list == NULL || list->child == NULL) {
        return err_set(c->e, -EINVAL,
                       "%s.relateResources: Required value: must have at least one entry", path);
    }
    char *selector = read_selector(c, limit, path);
    int rc = selector == NULL ? c->e->code : 0;
    for (const cJSON *item = list->child; item != NULL && rc == 0; item = item->next) {
        char inner[PATH_LEN];
        (void)snprintf(inner, sizeof inner, "%s.relateResources[%u]", path, o.resource);
        rc = add_rule(c, item, inner, selector, &o);
        o.resource++;
    }
    free(selector);
    return rc;
}

static int add_limit(struct compilation *c, const cJSON *limit, unsigned index)
{
    static const char *const known[] = {"objectSelector", "relateResources", "selector",
                                        NAMESPACE_SELECTOR, NULL};
    struct origin o = {.limit = index};
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "spec.limits[%u]", index);
    if (!cJSON_IsObject(limit)) {
        return not_object(c, path);
    }
    const cJSON *inner = field_get(limit, "objectSelector");
    if (inner == NULL) {
        return add_rules(c, limit, path, o);
    }
    if (field_known(limit, path, known, c->e) != 0) {
        return c->e->code;
    }
    for (size_t i = 1; known[i] != NULL; i++) {
        if (field_get(limit, known[i]) != NULL) {
            return err_set(c->e, -EINVAL,
                           "%s.%s: Forbidden: may not be set together with objectSelector", path,
                           known[i]);
        }
    }
    (void)snprintf(path, sizeof path, "spec.limits[%u].objectSelector", index);
    if (!cJSON_IsObject(inner)) {
        return not_object(c, path);
    }
    o.wrapped = true;
    return add_rules(c, inner, path, o);
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

static int add_limits(struct compilation *c, const cJSON *spec, cJSON *rules_spec)
{
    const cJSON *limits = NULL;
    unsigned i = 0;
    const cJSON *item;
    c->limits = edit_array(&c->edit, rules_spec, "limits");
    if (field_array(spec, "spec", "limits", &limits, c->e) != 0) {
        return c->e->code;
    }
    if (limits == NULL) {
        add_nothing(c);
    }
    cJSON_ArrayForEach(item, limits)
    {
        if (add_limit(c, item, i++) != 0) {
            return c->e->code;
        }
    }
    return 0;
}

static int add_spec(struct compilation *c, const cJSON *config, cJSON *document)
{
    static const char *const known[] = {"selector", "controller",  "webhook", "limits",
                                        "root",     SHARING_FIELD, NULL};
    const cJSON *spec = NULL;
    if (field_object(config, "", "spec", &spec, c->e) != 0) {
        return c->e->code;
    }
    if (spec == NULL) {
        return err_set(c->e, -EINVAL, "spec: Required value");
    }
    if (field_known(spec, "spec", known, c->e) != 0) {
        return c->e->code;
    }
    if (field_get(spec, "root") != NULL) {
        return err_set(
            c->e, -EINVAL,
            "spec.root: Forbidden: a root has no rules of its own: its shards have, which "
            "are ShardingConfigs that are made of it");
    }
    cJSON *rules_spec = edit_object(&c->edit, document, "spec");
    make_keys(c);
    c->sharing = (struct sharing){.all = c->options->shared,
                                  .namespace_key = c->keys.key[CONTROL_LABEL_NAMESPACE],
                                  .hash_key = c->keys.key[CONTROL_LABEL_HASH]};
    if (sharing_read(spec, &c->sharing.own, c->e) != 0) {
        return c->e->code;
    }
    add_labels(c, rules_spec);
    bool added = check_pod_selector(c, spec) == 0 && add_webhook(c, spec, rules_spec) == 0 &&
                 add_leader_election(c, spec, rules_spec) == 0 &&
                 add_limits(c, spec, rules_spec) == 0;
    return added ? 0 : c->e->code;
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
    struct compilation c = {.options = o, .e = e};
    struct rules *made = NULL;
    cJSON *document = cJSON_CreateObject();
    edit_string(&c.edit, document, "apiVersion", RULES_API_VERSION);
    edit_string(&c.edit, document, "kind", RULES_KIND);
    edit_number(&c.edit, document, "generation", (double)o->generation);
    if (read_api_version(&c, config) == 0 && add_shard(&c, config, document) == 0 &&
        add_spec(&c, config, document) == 0) {
        made = make_rules(&c, document);
    }
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
