/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requests to other places than the API server a limiting or a fault is for: `urls` and
 * `http` of a document.
 */
#include <stdio.h>
#include <string.h>

#include "policy/policy_external.h"
#include "policy/policy_url.h"
#include "json/field.h"

/* ---- texts ---- */

/* All return what is wrong with a text, or NULL, as core/traffic/parse_external.c sees it. */

static const char *check_path(const char *text)
{
    const char *why = external_check_any(text);
    bool path = text[0] == '/' && strchr(text, '?') == NULL;
    return why == NULL && !path ? "must begin with \"/\", and have no query" : why;
}

/* RFC 9110 section 5.6.2. */
static const char *check_header_name(const char *text)
{
    static const char letters[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return text[strspn(text, letters)] != '\0' ? "must be the name of a header, as \"Accept\""
                                               : external_check_any(text);
}

static const char *check_header_value(const char *text)
{
    size_t len = strlen(text);
    for (const char *p = text; *p != '\0'; p++) {
        bool edge = p == text || p[1] == '\0';
        bool blank = *p == ' ' || *p == '\t';
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f || (edge && blank)) {
            return "must have no control characters, and no white space around it";
        }
    }
    return len > TRAFFIC_URL_MAX ? external_check_any(text) : NULL;
}

/* A text that may be left out; "" if it is, or is wrong. */
static const char *read_field(struct policy_reader *r, const cJSON *parent, const char *path,
                              const char *key, const char *(*check)(const char *))
{
    const char *text = policy_text(r, parent, path, key);
    const char *why = text[0] == '\0' ? NULL : check(text);
    struct policy_path p = policy_field_path(path, key);
    if (why != NULL) {
        external_refuse(r, p.text, text, why);
        return "";
    }
    return text;
}

/* One that must be there. */
static const char *read_required(struct policy_reader *r, const cJSON *parent, const char *path,
                                 const char *key, const char *(*check)(const char *))
{
    return policy_required(r, parent, path, key)[0] == '\0'
               ? ""
               : read_field(r, parent, path, key, check);
}

/* ---- of limitings ---- */

/* Also of a list that is too long to be read. */
static size_t count_of(const cJSON *parent, const char *key)
{
    const cJSON *list = field_get(parent, key);
    return cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
}

/* One error is enough for all that are too many. */
static bool count_external(struct policy_reader *r, const char *path, const char *what)
{
    if (r->external_rows == TRAFFIC_EXTERNAL_MAX) {
        policy_error(r, "%s: Too many: a policy can have at most %d %s in all", path,
                     TRAFFIC_EXTERNAL_MAX, what);
    }
    return r->external_rows++ < TRAFFIC_EXTERNAL_MAX;
}

/* Whether it holds in tunnels, too. */
static bool read_rest_rule(struct policy_reader *r, const cJSON *rule, const char *path, cJSON *out)
{
    struct policy_url u = {.whole_host = false};
    struct policy_path p = policy_field_path(path, "url");
    const char *url = policy_required(r, rule, path, "url");
    const char *method = read_required(r, rule, path, "method", external_check_method);
    if (url[0] == '\0') {
        return true;
    }
    const char *why = policy_url_read(url, &u);
    if (why != NULL) {
        external_refuse(r, p.text, url, why);
        return true;
    }
    if (u.odd_star) {
        policy_warn(r,
                    "%s: \"%.100s\" has a \"*\" in its path that stands for itself: it hardly ever "
                    "matches. Only \"/*\" at the end is all below; write that, or each path",
                    p.text, url);
    }
    edit_string(&r->edit, out, "url", url);
    edit_string(&r->edit, out, "method", method);
    return u.whole_host && u.tunnelled && external_is_any_method(method);
}

void policy_rest_rules(struct policy_reader *r, const cJSON *limiting, const char *path, cJSON *out,
                       struct policy_externals *found)
{
    static const char *const known[] = {"url", "method", NULL};
    size_t i = 0;
    const cJSON *rule = policy_list(r, limiting, path, "restRules", TRAFFIC_LIST_MAX);
    found->count = count_of(limiting, "restRules");
    cJSON *urls = rule == NULL ? NULL : edit_array(&r->edit, out, "urls");
    for (; rule != NULL; rule = rule->next) {
        struct policy_path p = policy_item_path(path, "restRules", i++);
        if (!count_external(r, p.text, "restRules")) {
            return;
        }
        if (policy_object(r, rule, p.text, known)) {
            bool holds = read_rest_rule(r, rule, p.text, edit_append_object(&r->edit, urls));
            found->blind = found->blind || !holds;
        }
    }
}

/* ---- of faults ---- */

/* {exact} or {regex}, of which the first one counts if there are both. Whether it is there. */
static bool read_text_match(struct policy_reader *r, const cJSON *match, const char *path,
                            const char *key, const char *(*check)(const char *), cJSON *out)
{
    static const char *const known[] = {"exact", "regex", NULL};
    struct policy_path p = policy_field_path(path, key);
    struct policy_path inner = policy_field_path(p.text, "regex");
    const cJSON *text = policy_object_field(r, match, path, key, known);
    if (text == NULL) {
        return false;
    }
    const char *exact = read_field(r, text, p.text, "exact", check);
    const char *regex = policy_text(r, text, p.text, "regex");
    if (exact[0] != '\0') {
        edit_string(&r->edit, edit_object(&r->edit, out, key), "exact", exact);
        if (regex[0] != '\0') {
            policy_warn(r, "%s: is not used beside exact", inner.text);
        }
    } else if (regex[0] != '\0' && external_pattern(r, inner.text, regex, NULL)) {
        edit_string(&r->edit, edit_object(&r->edit, out, key), "regex", regex);
    } else if (regex[0] == '\0' && field_text(text, "exact")[0] == '\0') {
        policy_error(r, "%s: Required value: write exact or regex", p.text);
    }
    return true;
}

/* How many there are. */
static size_t read_headers(struct policy_reader *r, const cJSON *match, const char *path,
                           cJSON *out)
{
    static const char *const known[] = {"name", "value", NULL};
    size_t i = 0;
    const cJSON *header = policy_list(r, match, path, "headers", TRAFFIC_LIST_MAX);
    cJSON *list = header == NULL ? NULL : edit_array(&r->edit, out, "headers");
    for (; header != NULL; header = header->next) {
        struct policy_path p = policy_item_path(path, "headers", i++);
        if (policy_object(r, header, p.text, known)) {
            const char *name = read_required(r, header, p.text, "name", check_header_name);
            const char *value = read_field(r, header, p.text, "value", check_header_value);
            cJSON *item = edit_append_object(&r->edit, list);
            (void)policy_count_name(r, p.text);
            edit_string(&r->edit, item, "name", name);
            if (value[0] != '\0') {
                edit_string(&r->edit, item, "value", value);
            }
        }
    }
    return i;
}

/* Whether it holds in tunnels, too. */
static bool read_http_match(struct policy_reader *r, const cJSON *http, const char *path,
                            cJSON *out)
{
    bool host = read_text_match(r, http, path, "host", external_check_host, out);
    bool way = read_text_match(r, http, path, "path", check_path, out);
    const char *method = read_field(r, http, path, "method", external_check_method);
    size_t headers = read_headers(r, http, path, out);
    if (method[0] != '\0') {
        edit_string(&r->edit, out, "method", method);
    } else if (!host && !way && headers == 0 && field_text(http, "method")[0] == '\0') {
        policy_error(r, "%s: Required value: host, path, method or headers", path);
    }
    return !way && headers == 0 && (method[0] == '\0' || external_is_any_method(method));
}

void policy_http_matches(struct policy_reader *r, const cJSON *match, const char *path, cJSON *out,
                         struct policy_externals *found)
{
    static const char *const known[] = {"host", "path", "method", "headers", NULL};
    size_t i = 0;
    const cJSON *http = policy_list(r, match, path, "httpMatch", TRAFFIC_LIST_MAX);
    found->count = count_of(match, "httpMatch");
    cJSON *list = http == NULL ? NULL : edit_array(&r->edit, out, "http");
    for (; http != NULL; http = http->next) {
        struct policy_path p = policy_item_path(path, "httpMatch", i++);
        if (!count_external(r, p.text, "httpMatch entries")) {
            return;
        }
        if (policy_object(r, http, p.text, known)) {
            bool holds = read_http_match(r, http, p.text, edit_append_object(&r->edit, list));
            found->blind = found->blind || !holds;
        }
    }
}
