/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for traffic to other places than the API server: none is enforced, but what other
 * controllers would misread is refused, so that what is stored now is in order when they are.
 */
#include <stdio.h>
#include <string.h>

#include "traffic/policy_reader.h"
#include "json/field.h"

enum {
    RULES_MAX = 1000,
    CONTENTS_MAX = 4096, /* of one rule */
    TEXT_MAX = 2048,     /* bytes of a URL or an expression */
};

/* ---- texts ---- */

/* An upper-case method, or `*`. */
static const char *check_method(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return strcmp(text, "*") == 0 || (len > 0 && text[len] == '\0')
               ? NULL
               : "must be an HTTP method in upper case, as \"GET\", or \"*\"";
}

static const char *check_url(const char *text)
{
    const char *host = strstr(text, "://");
    if (strlen(text) > TEXT_MAX) {
        return "must be no more than 2048 characters";
    }
    if (host == NULL || host == text || host[3] == '\0' || host[3] == '/' ||
        strpbrk(text, " \t\r\n") != NULL) {
        return "must be a URL, as \"https://example.com:8443/path\"";
    }
    return NULL;
}

static const char *check_any(const char *text)
{
    return strlen(text) > TEXT_MAX ? "must be no more than 2048 characters" : NULL;
}

/* Behind a set of characters, [...]; NULL: it does not end. */
static const char *skip_set(const char *p)
{
    p++;
    p += *p == '^' ? 1 : 0;
    p += *p == ']' ? 1 : 0; /* stands for itself there */
    for (; *p != ']'; p++) {
        p += *p == '\\' && p[1] != '\0' ? 1 : 0;
        if (*p == '\0') {
            return NULL;
        }
    }
    return p;
}

/* Behind what begins at `p`, one character mostly; NULL: it does not end. */
static const char *skip_atom(const char *p)
{
    if (*p == '[') {
        p = skip_set(p);
    } else if (*p == '\\') {
        p = p[1] == '\0' ? NULL : p + 1;
    }
    return p == NULL ? NULL : p + 1;
}

/* What can be told without compiling it. */
static const char *check_regex(const char *text)
{
    static const char lonely[] = "must be a regular expression: there is nothing to repeat";
    unsigned depth = 0;
    bool begins = true; /* nothing that can be repeated stands before */
    for (const char *p = text; *p != '\0';) {
        if (begins && (*p == '*' || *p == '+' || (*p == '?' && (p == text || p[-1] != '(')))) {
            return lonely;
        }
        if (*p == ')' && depth-- == 0) {
            return "must be a regular expression: a '(' is missing";
        }
        depth += *p == '(' ? 1 : 0;
        begins = *p == '(' || *p == '|';
        p = skip_atom(p);
        if (p == NULL) {
            return "must be a regular expression: a ']' or what follows a backslash is missing";
        }
    }
    return depth == 0 ? check_any(text) : "must be a regular expression: a ')' is missing";
}

static void check_field(struct policy_reader *r, const cJSON *parent, const char *path,
                        const char *key, const char *(*check)(const char *))
{
    const char *text = policy_text(r, parent, path, key);
    const char *why = text[0] == '\0' ? NULL : check(text);
    if (why != NULL) {
        policy_error(r, "%s.%s: Invalid value: \"%.100s\": %s", path, key, text, why);
    }
}

/* A list of texts, which must be there. */
static void check_list(struct policy_reader *r, const cJSON *parent, const char *path,
                       const char *key, const char *(*check)(const char *))
{
    size_t i = 0;
    const cJSON *written = field_get(parent, key);
    const cJSON *item = policy_list(r, parent, path, key, CONTENTS_MAX);
    if (written == NULL || (cJSON_IsArray(written) && written->child == NULL)) {
        policy_error(r, "%s.%s: Required value: must have at least one entry", path, key);
    }
    for (; item != NULL; item = item->next, i++) {
        const char *why = cJSON_IsString(item) ? check(item->valuestring) : "must be a string";
        if (why != NULL) {
            policy_error(r, "%s.%s[%zu]: Invalid value: \"%.100s\": %s", path, key, i,
                         cJSON_IsString(item) ? item->valuestring : "", why);
        }
    }
}

/* ---- of limitings ---- */

size_t policy_rest_rules(struct policy_reader *r, const cJSON *limiting, const char *path)
{
    static const char *const known[] = {"url", "method", NULL};
    size_t i = 0;
    const cJSON *rule = policy_list(r, limiting, path, "restRules", RULES_MAX);
    for (; rule != NULL; rule = rule->next) {
        struct policy_path p = policy_item_path(path, "restRules", i++);
        if (policy_object(r, rule, p.text, known)) {
            (void)policy_required(r, rule, p.text, "url");
            (void)policy_required(r, rule, p.text, "method");
            check_field(r, rule, p.text, "url", check_url);
            check_field(r, rule, p.text, "method", check_method);
        }
    }
    return i;
}

/* ---- rules that allow and forbid ---- */

static void read_intercept_rule(struct policy_reader *r, const cJSON *rule, const char *path,
                                cJSON *seen)
{
    static const char *const known[] = {"name",     "interceptType", "contentType",
                                        "contents", "methods",       NULL};
    static const char *const types[] = {"Whitelist", "Blacklist", NULL};
    static const char *const meant[] = {"White", "Black", NULL};
    static const char *const contents[] = {"Normal", "Regexp", NULL};
    static const char *const regex[] = {NULL, "Regex", NULL};
    if (!policy_object(r, rule, path, known)) {
        return;
    }
    (void)policy_rule_name(r, policy_required(r, rule, path, "name"), path, seen);
    (void)policy_enum(r, rule, path, "interceptType", types, meant);
    int content = policy_enum(r, rule, path, "contentType", contents, regex);
    check_list(r, rule, path, "contents", content == 1 ? check_regex : check_any);
    check_list(r, rule, path, "methods", check_method);
}

void policy_intercept_rules(struct policy_reader *r, const cJSON *spec)
{
    static const char key[] = "trafficInterceptRules";
    size_t i = 0;
    cJSON *seen = cJSON_CreateArray();
    const cJSON *rule = policy_list(r, spec, "spec", key, RULES_MAX);
    for (; rule != NULL; rule = rule->next) {
        struct policy_path p = policy_item_path("spec", key, i++);
        read_intercept_rule(r, rule, p.text, seen);
        r->external_count++;
    }
    cJSON_Delete(seen);
}

/* ---- of faults ---- */

/* {exact} or {regex}. */
static void read_text_match(struct policy_reader *r, const cJSON *match, const char *path,
                            const char *key)
{
    static const char *const known[] = {"exact", "regex", NULL};
    struct policy_path p = policy_field_path(path, key);
    const cJSON *text = policy_object_field(r, match, path, key, known);
    if (text == NULL) {
        return;
    }
    if (policy_text(r, text, p.text, "exact")[0] == '\0' &&
        policy_text(r, text, p.text, "regex")[0] == '\0') {
        policy_error(r, "%s: Required value: write exact or regex", p.text);
    }
    check_field(r, text, p.text, "exact", check_any);
    check_field(r, text, p.text, "regex", check_regex);
}

static void read_headers(struct policy_reader *r, const cJSON *match, const char *path)
{
    static const char *const known[] = {"name", "value", NULL};
    size_t i = 0;
    const cJSON *header = policy_list(r, match, path, "headers", CONTENTS_MAX);
    for (; header != NULL; header = header->next) {
        struct policy_path p = policy_item_path(path, "headers", i++);
        if (policy_object(r, header, p.text, known)) {
            (void)policy_required(r, header, p.text, "name");
            check_field(r, header, p.text, "value", check_any);
        }
    }
}

size_t policy_http_matches(struct policy_reader *r, const cJSON *match, const char *path)
{
    static const char *const known[] = {"host", "path", "method", "headers", NULL};
    size_t i = 0;
    const cJSON *http = policy_list(r, match, path, "httpMatch", RULES_MAX);
    for (; http != NULL; http = http->next) {
        struct policy_path p = policy_item_path(path, "httpMatch", i++);
        if (policy_object(r, http, p.text, known)) {
            read_text_match(r, http, p.text, "host");
            read_text_match(r, http, p.text, "path");
            check_field(r, http, p.text, "method", check_method);
            read_headers(r, http, p.text);
        }
    }
    return i;
}

/* ---- all of them ---- */

void policy_warn_external(struct policy_reader *r)
{
    if (r->external_count > 0) {
        policy_warn(r,
                    "spec: %zu rule%s for traffic to other places than the API server: this "
                    "release does not enforce that, nor does it check regular expressions fully",
                    r->external_count, r->external_count == 1 ? " is" : "s are");
    }
}
