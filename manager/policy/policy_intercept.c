/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that allow and forbid requests to other places than the API server: `intercepts` of a
 * document.
 */
#include <stdio.h>
#include <string.h>

#include "policy/policy_external.h"
#include "json/field.h"

/* ---- rules that allow and forbid ---- */

/* Of a rule's contents. */
struct odd {
    size_t index; /* the first that is, */
    const char *text;
    size_t count; /* of all that are */
};

struct intercept {
    const cJSON *rule;
    const char *path;
    const char *name;
    int type;    /* of the words; -1: it is wrong */
    int content; /* likewise */
    cJSON *out;
    struct odd loose;   /* of a Whitelist: may be part of a longer host */
    struct odd opening; /* and matches an address that is protected */
    bool loopback;      /* such as 127.0.0.1 */
    bool metadata;      /* such as 169.254.169.254 */
};

enum { WHITELIST, BLACKLIST };
enum { NORMAL, REGEXP };

static const char *const types[] = {"Whitelist", "Blacklist", NULL};
static const char *const contents[] = {"Normal", "Regexp", NULL};

/* Notes the first of a rule that is odd, and how many others are. */
static void note(struct odd *o, size_t i, const char *text)
{
    if (o->count++ == 0) {
        o->index = i;
        o->text = text;
    }
}

/* " and N more of this rule" */
struct others {
    char text[48];
};

static struct others others_of(const struct odd *o)
{
    struct others more = {.text = ""};
    if (o->count > 1) {
        (void)snprintf(more.text, sizeof more.text, " and %zu more of this rule", o->count - 1);
    }
    return more;
}

static void read_content(struct policy_reader *r, struct intercept *n, size_t i, const char *text)
{
    struct policy_path p = policy_item_path(n->path, "contents", i);
    struct policy_pattern x;
    const char *why = n->content == NORMAL ? external_check_host(text) : NULL;
    (void)policy_count_name(r, p.text);
    if (why != NULL) {
        external_refuse(r, p.text, text, why);
        return;
    }
    bool looks = n->type == WHITELIST;
    if (n->content == REGEXP && external_pattern(r, p.text, text, looks ? &x : NULL) && looks) {
        if (!x.anchored && !x.everything) {
            note(&n->loose, i, text);
        }
        if (x.loopback || x.metadata) {
            note(&n->opening, i, text);
            n->loopback = n->loopback || x.loopback;
            n->metadata = n->metadata || x.metadata;
        }
    }
}

/* What may be meant otherwise than it is written, and lets more through. */
static void warn_of_contents(struct policy_reader *r, const struct intercept *n)
{
    const struct odd *o = &n->loose;
    if (o->count > 0) {
        policy_warn(
            r,
            "%s.contents[%zu]: \"%.100s\"%s: allows every host that has it somewhere in its "
            "name, also one that somebody made for that: write ^ before and $ behind it, "
            "and \\. for a dot",
            n->path, o->index, o->text, others_of(o).text);
    }
    o = &n->opening;
    if (o->count > 0) {
        policy_warn(
            r,
            "%s.contents[%zu]: \"%.100s\"%s: matches %s%s%s, and so opens what is "
            "protected without it: %s",
            n->path, o->index, o->text, others_of(o).text, n->loopback ? "127.0.0.1 or ::1" : "",
            n->loopback && n->metadata ? " and " : "", n->metadata ? "169.254.169.254" : "",
            !n->metadata  ? "what listens there for the pod alone"
            : n->loopback ? "what listens there for the pod alone, and the metadata service "
                            "of clouds, which gives out credentials"
                          : "the metadata service of clouds, which gives out credentials");
    }
}

/* A list of texts, which must be there. */
static void read_texts(struct policy_reader *r, struct intercept *n, const char *key,
                       void (*read)(struct policy_reader *r, struct intercept *n, size_t i,
                                    const char *text))
{
    size_t i = 0;
    const cJSON *written = field_get(n->rule, key);
    const cJSON *item = policy_list(r, n->rule, n->path, key, TRAFFIC_LIST_MAX);
    cJSON *copy = edit_array(&r->edit, n->out, key);
    if (written == NULL || (cJSON_IsArray(written) && written->child == NULL)) {
        policy_error(r, "%s.%s: Required value: must have at least one entry", n->path, key);
    }
    for (; item != NULL; item = item->next, i++) {
        if (cJSON_IsString(item)) {
            read(r, n, i, item->valuestring);
            edit_append_string(&r->edit, copy, item->valuestring);
        } else {
            struct policy_path p = policy_item_path(n->path, key, i);
            policy_error(r, "%s: Invalid value: must be a string", p.text);
        }
    }
}

static void read_method(struct policy_reader *r, struct intercept *n, size_t i, const char *text)
{
    const char *why = external_check_method(text);
    struct policy_path p = policy_item_path(n->path, "methods", i);
    (void)policy_count_name(r, p.text);
    if (why != NULL) {
        external_refuse(r, p.text, text, why);
    }
}

/* A tunnel is all that may be in it. */
static void warn_of_methods(struct policy_reader *r, const struct intercept *n)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(n->out, "methods"))
    {
        if (external_is_any_method(item->valuestring)) {
            return;
        }
    }
    if (n->type == WHITELIST) {
        external_add_blind(r, n->name);
        policy_warn(r,
                    "%s.methods: has neither \"*\" nor \"CONNECT\": tunnels to these hosts, which "
                    "HTTPS_PROXY clients open, are refused",
                    n->path);
    } else if (n->type == BLACKLIST) {
        policy_warn(r,
                    "%s.methods: tunnels to these hosts, which HTTPS_PROXY clients open, are "
                    "refused whatever the methods in them are",
                    n->path);
    }
}

static void read_intercept_rule(struct policy_reader *r, struct intercept *n, cJSON *seen)
{
    static const char *const known[] = {"name",     "interceptType", "contentType",
                                        "contents", "methods",       NULL};
    static const char *const meant[] = {"White", "Black", NULL};
    static const char *const regex[] = {NULL, "Regex", NULL};
    if (!policy_object(r, n->rule, n->path, known)) {
        return;
    }
    n->name = policy_required(r, n->rule, n->path, "name");
    n->name = policy_rule_name(r, n->name, n->path, seen);
    n->type = policy_enum(r, n->rule, n->path, "interceptType", types, meant);
    n->content = policy_enum(r, n->rule, n->path, "contentType", contents, regex);
    edit_string(&r->edit, n->out, "name", n->name);
    if (n->type >= 0 && n->content >= 0) {
        edit_string(&r->edit, n->out, "type", types[n->type]);
        edit_string(&r->edit, n->out, "content", contents[n->content]);
    }
    read_texts(r, n, "contents", read_content);
    read_texts(r, n, "methods", read_method);
    warn_of_contents(r, n);
    warn_of_methods(r, n);
}

void policy_intercept_rules(struct policy_reader *r, const cJSON *spec, cJSON *entry)
{
    static const char key[] = "trafficInterceptRules";
    size_t i = 0;
    cJSON *seen = cJSON_CreateArray();
    const cJSON *rule = policy_list(r, spec, "spec", key, TRAFFIC_INTERCEPTS_MAX);
    cJSON *list = rule == NULL ? NULL : edit_array(&r->edit, entry, "intercepts");
    for (; rule != NULL; rule = rule->next) {
        struct policy_path p = policy_item_path("spec", key, i++);
        struct intercept n = {.rule = rule,
                              .path = p.text,
                              .type = -1,
                              .content = -1,
                              .out = edit_append_object(&r->edit, list)};
        read_intercept_rule(r, &n, seen);
        r->intercept_count++;
        r->external_count++;
        r->enforced_count++;
    }
    cJSON_Delete(seen);
}
