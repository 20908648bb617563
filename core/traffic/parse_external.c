/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what rules say of other places than the API server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "traffic/parse_internal.h"

/* ---- how many ---- */

static size_t count_of(const cJSON *parent, const char *key)
{
    return (size_t)cJSON_GetArraySize(document_member(parent, key));
}

/* Entries of lists at `inner` of all rules, or rules where that is NULL. */
static size_t count_entries(const cJSON *spec, const char *family, const char *rules,
                            const char *inner)
{
    size_t count = 0;
    const cJSON *policy;
    cJSON_ArrayForEach(policy, document_member(spec, family))
    {
        const cJSON *rule;
        if (inner == NULL) {
            count += count_of(policy, rules);
            continue;
        }
        cJSON_ArrayForEach(rule, document_member(policy, rules))
        {
            count += count_of(rule, inner);
        }
    }
    return count;
}

bool parse_external_begin(const struct document_reader *s, struct traffic *t, const cJSON *spec)
{
    size_t intercepts = count_entries(spec, "breakers", "intercepts", NULL);
    size_t urls = count_entries(spec, "breakers", "limitings", "urls");
    size_t http = count_entries(spec, "faults", "rules", "http");
    if (intercepts > TRAFFIC_INTERCEPTS_MAX || urls > TRAFFIC_EXTERNAL_MAX ||
        http > TRAFFIC_EXTERNAL_MAX) {
        document_fail(s, -E2BIG, spec, "spec",
                      "Too many: must have at most %d intercepts, %d urls and %d http matches",
                      TRAFFIC_INTERCEPTS_MAX, TRAFFIC_EXTERNAL_MAX, TRAFFIC_EXTERNAL_MAX);
        return false;
    }
    t->intercepts = calloc(intercepts + 1, sizeof *t->intercepts);
    if (t->intercepts == NULL || external_table_init(&t->external, urls, http) != 0) {
        err_memory(s->e);
        return false;
    }
    return true;
}

/* ---- texts ---- */

static const char *check_length(struct slice text)
{
    if (text.len == 0) {
        return "must not be empty";
    }
    return text.len > TRAFFIC_URL_MAX ? "must have at most 2048 bytes" : NULL;
}

static const char *check_host(struct slice text)
{
    struct origin_host host;
    const char *why = check_length(text);
    return why != NULL ? why : origin_host_read(text, &host);
}

static void invalid(const struct place *p, const char *key, const char *why)
{
    char path[DOCUMENT_PATH_LEN];
    const cJSON *item = document_member(p->item, key);
    place_path(p, key, path);
    document_fail(p->s, -EINVAL, item, path, "Invalid value: \"%.100s\": %s",
                  cJSON_IsString(item) ? item->valuestring : "", why);
}

/* A text that must be there and that `check` likes; NULL with an error. */
static const char *read_checked(const struct place *p, const char *key,
                                const char *(*check)(struct slice))
{
    char path[DOCUMENT_PATH_LEN];
    place_path(p, key, path);
    const char *text = document_string(p->s, p->item, key, path);
    const char *why = p->s->e->code == 0 ? check(slice_str(text)) : NULL;
    if (why != NULL) {
        invalid(p, key, why);
    }
    return p->s->e->code == 0 ? text : NULL;
}

/* NULL: any, or with an error. */
static const char *read_method(const struct place *p)
{
    const char *text = read_checked(p, "method", origin_method_check);
    return text == NULL || strcmp(text, "*") == 0 ? NULL : text;
}

/* `text` stands at that item. NULL with an error. */
static const struct pattern *read_pattern(const struct place *p, const cJSON *item,
                                          const char *path, bool any_case)
{
    const struct pattern *out = NULL;
    struct err why = ERR_INIT;
    int rc = external_table_pattern(&p->t->external, item->valuestring, any_case, &out, &why);
    if (rc == -ENOMEM) {
        err_memory(p->s->e);
    } else if (rc != 0) {
        document_fail(p->s, rc, item, path, "Invalid value: \"%.100s\": %.200s", item->valuestring,
                      why.msg);
    }
    return out;
}

/* ---- intercepts ---- */

static void read_methods(const struct place *p, struct traffic_intercept *rule,
                         struct external_methods *m)
{
    struct buf text = BUF_INIT(TRAFFIC_LIST_MAX * (ORIGIN_METHOD_MAX + 2));
    const cJSON *item;
    m->list =
        document_list(p->s, p->item, p->path, "methods", TRAFFIC_LIST_MAX, origin_method_check);
    cJSON_ArrayForEach(item, m->list)
    {
        place_count_name(p);
        m->any = m->any || strcmp(item->valuestring, "*") == 0;
        buf_append_str(&text, text.len > 0 ? ", " : "");
        buf_append_str(&text, item->valuestring);
    }
    rule->methods = external_table_text(&p->t->external, buf_slice(&text));
    if (buf_error(&text) != 0 || rule->methods == NULL) {
        err_memory(p->s->e);
    }
    buf_reset(&text);
}

static void add_host(const struct place *p, const cJSON *item, size_t index)
{
    struct origin_host host;
    if (origin_host_read(slice_str(item->valuestring), &host) == NULL &&
        external_table_name(&p->t->external, index, &host) != 0) {
        err_memory(p->s->e);
    }
}

static void read_contents(const struct place *p, size_t index, bool regexp)
{
    char path[DOCUMENT_PATH_LEN];
    struct external_patterns *patterns = &p->t->external.intercepts[index].patterns;
    size_t i = 0;
    const cJSON *item;
    const cJSON *list = document_list(p->s, p->item, p->path, "contents", TRAFFIC_LIST_MAX,
                                      regexp ? check_length : check_host);
    patterns->first = p->t->external.pattern_count;
    cJSON_ArrayForEach(item, list)
    {
        (void)snprintf(path, sizeof path, "%.90s.contents[%zu]", p->path, i++);
        place_count_name(p);
        if (p->s->e->code != 0) {
            return;
        }
        if (regexp) {
            (void)read_pattern(p, item, path, true);
        } else {
            add_host(p, item, index);
        }
    }
    patterns->count = p->t->external.pattern_count - patterns->first;
}

void parse_intercept(const struct place *p, struct traffic_intercept *rule, size_t index)
{
    static const char *const known[] = {"name", "type", "content", "contents", "methods", NULL};
    static const char *const types[] = {"Whitelist", "Blacklist"};
    static const char *const contents[] = {"Normal", "Regexp"};
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    rule->name = place_rule_name(p);
    rule->whitelist = place_word(p, "type", types, ARRAY_LEN(types)) == 0;
    bool regexp = place_word(p, "content", contents, ARRAY_LEN(contents)) == 1;
    read_methods(p, rule, &p->t->external.intercepts[index].methods);
    read_contents(p, index, regexp);
}

/* ---- what stands in a list of a rule ---- */

typedef void (*read_entry_cb)(const struct place *p, size_t rule);

static void read_entries(const struct place *p, const char *key, size_t rule, read_entry_cb read)
{
    char path[DOCUMENT_PATH_LEN];
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, place_array(p, key, path))
    {
        char item_path[DOCUMENT_PATH_LEN];
        (void)snprintf(item_path, sizeof item_path, "%.100s[%zu]", path, i++);
        read(&(struct place){p->s, p->t, item, item_path}, rule);
        if (p->s->e->code != 0) {
            return;
        }
    }
}

/* ---- urls ---- */

static void read_url(const struct place *p, size_t rule)
{
    static const char *const known[] = {"url", "method", NULL};
    struct origin_url url;
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    const char *text = read_checked(p, "url", check_length);
    const char *why = text != NULL ? origin_url_read(slice_str(text), &url) : NULL;
    if (why != NULL) {
        invalid(p, "url", why);
    }
    const char *method = read_method(p);
    if (p->s->e->code == 0 && external_table_url(&p->t->external, rule, &url, method) != 0) {
        err_memory(p->s->e);
    }
}

void parse_urls(const struct place *p, size_t limiting)
{
    read_entries(p, "urls", limiting, read_url);
}

/* ---- http matches ---- */

static const char *check_path(struct slice text)
{
    const char *why = check_length(text);
    if (why != NULL) {
        return why;
    }
    bool plain = text.ptr[0] == '/' && memchr(text.ptr, '?', text.len) == NULL;
    return plain ? NULL : "must begin with '/', and have no query";
}

/* An object with an exact text or an expression. */
static enum external_how read_how(const struct place *p, const char *key,
                                  const char *(*check)(struct slice), const cJSON **out,
                                  char path[DOCUMENT_PATH_LEN])
{
    static const char *const known[] = {"exact", "regex", NULL};
    char item_path[DOCUMENT_PATH_LEN];
    const cJSON *item = place_part(p, key, known, item_path);
    *out = NULL;
    if (item == NULL) {
        return EXTERNAL_ANY;
    }
    struct place inner = {p->s, p->t, item, item_path};
    bool exact = document_member(item, "exact") != NULL;
    if (exact == (document_member(item, "regex") != NULL)) {
        document_fail(p->s, -EINVAL, item, item_path,
                      "Required value: exact or regex, and not both");
        return EXTERNAL_ANY;
    }
    (void)read_checked(&inner, exact ? "exact" : "regex", exact ? check : check_length);
    place_path(&inner, exact ? "exact" : "regex", path);
    *out = document_member(item, exact ? "exact" : "regex");
    return exact ? EXTERNAL_EXACT : EXTERNAL_REGEX;
}

static void read_http_host(const struct place *p, struct external_http *m)
{
    char path[DOCUMENT_PATH_LEN];
    struct origin_host host;
    const cJSON *item;
    m->host = read_how(p, "host", check_host, &item, path);
    if (p->s->e->code != 0 || item == NULL) {
        return;
    }
    if (m->host == EXTERNAL_REGEX) {
        m->host_pattern = read_pattern(p, item, path, true);
    } else if (origin_host_read(slice_str(item->valuestring), &host) == NULL) {
        m->host_port = host.port;
        m->host_text = external_table_text(&p->t->external, slice_str(host.host));
        if (m->host_text == NULL) {
            err_memory(p->s->e);
        }
    }
}

static void read_http_path(const struct place *p, struct external_http *m)
{
    char path[DOCUMENT_PATH_LEN];
    struct plain_path plain;
    const cJSON *item;
    m->path = read_how(p, "path", check_path, &item, path);
    if (p->s->e->code != 0 || item == NULL) {
        return;
    }
    if (m->path == EXTERNAL_REGEX) {
        m->path_pattern = read_pattern(p, item, path, false);
        return;
    }
    plain_path_read(&plain, slice_str(item->valuestring));
    m->path_text =
        slice_of(external_table_text(&p->t->external, slice_of(plain.text, plain.len)), plain.len);
    if (m->path_text.ptr == NULL) {
        err_memory(p->s->e);
    }
}

/* RFC 9110 section 5.6.2. */
static const char *check_header_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c <= ' ' || c == 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL) {
            return "must be the name of a header";
        }
    }
    return check_length(text);
}

static const char *check_header_value(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool edge = i == 0 || i + 1 == text.len;
        if ((c < ' ' && c != '\t') || c == 0x7f || (edge && (c == ' ' || c == '\t'))) {
            return "must not have control characters, or white space around it";
        }
    }
    return text.len > TRAFFIC_URL_MAX ? check_length(text) : NULL;
}

static void read_header(const struct place *p, size_t rule)
{
    static const char *const known[] = {"name", "value", NULL};
    (void)rule;
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    place_count_name(p);
    (void)read_checked(p, "name", check_header_name);
    if (document_member(p->item, "value") != NULL) {
        (void)read_checked(p, "value", check_header_value);
    }
}

static void read_match(const struct place *p, size_t rule)
{
    static const char *const known[] = {"host", "path", "method", "headers", NULL};
    struct external_table *x = &p->t->external;
    struct external_http *m = &x->http[x->http_count];
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    if (p->item->child == NULL) {
        document_fail(p->s, -EINVAL, p->item, p->path,
                      "Required value: host, path, method or headers");
        return;
    }
    x->http_rule[x->http_count++] = (uint16_t)rule;
    read_http_host(p, m);
    read_http_path(p, m);
    if (document_member(p->item, "method") != NULL) {
        m->method = read_method(p);
    }
    m->headers = document_member(p->item, "headers");
    if (m->headers != NULL) {
        read_entries(p, "headers", rule, read_header);
    }
}

void parse_http(const struct place *p, size_t fault)
{
    read_entries(p, "http", fault, read_match);
}
