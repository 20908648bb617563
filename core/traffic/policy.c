/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of policies need beside types and bounds. */
#include "traffic/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "kube/name.h"
#include "traffic/origin_text.h"
#include "traffic/policy_checks.h"
#include "json/field.h"

/* ---- bounds ---- */

static const struct {
    size_t max;
    const char *what;
} bounds[TRAFFIC_BOUNDS] = {
    [TRAFFIC_BOUND_POLICIES] = {TRAFFIC_POLICIES_MAX, "policies"},
    [TRAFFIC_BOUND_LIMITINGS] = {TRAFFIC_ROWS_MAX, "rateLimitings"},
    [TRAFFIC_BOUND_FAULTS] = {TRAFFIC_ROWS_MAX, "faults"},
    [TRAFFIC_BOUND_LIMITING_ROWS] = {TRAFFIC_ROWS_MAX, "resource rules"},
    [TRAFFIC_BOUND_FAULT_ROWS] = {TRAFFIC_ROWS_MAX, "resource rules"},
    [TRAFFIC_BOUND_URLS] = {TRAFFIC_EXTERNAL_MAX, "restRules"},
    [TRAFFIC_BOUND_HTTP] = {TRAFFIC_EXTERNAL_MAX, "httpMatch entries"},
    [TRAFFIC_BOUND_INTERCEPTS] = {TRAFFIC_INTERCEPTS_MAX, "trafficInterceptRules"},
    [TRAFFIC_BOUND_PATTERNS] = {TRAFFIC_PATTERNS_MAX, "regular expressions"},
    [TRAFFIC_BOUND_NAMES] = {TRAFFIC_NAMES_MAX, "groups, resources, verbs, namespaces, contents, "
                                                "methods and headers"},
};

bool traffic_counts_add(struct traffic_counts *sum, const struct traffic_counts *more)
{
    for (size_t i = 0; i < TRAFFIC_BOUNDS; i++) {
        if (more->of[i] > bounds[i].max - sum->of[i]) {
            return false;
        }
    }
    for (size_t i = 0; i < TRAFFIC_BOUNDS; i++) {
        sum->of[i] += more->of[i];
    }
    return true;
}

/* One error is enough for all that are too many. */
static void count(struct schema_reader *r, const struct schema_path *at, enum traffic_bound b,
                  size_t more)
{
    struct traffic_reading *x = r->data;
    size_t before = x->counts.of[b];
    x->counts.of[b] += more;
    if (before <= bounds[b].max && x->counts.of[b] > bounds[b].max) {
        schema_fail(r, -E2BIG, at, NULL, "Too many: must have at most %zu %s in all", bounds[b].max,
                    bounds[b].what);
    }
}

/* ---- reading ---- */

static void on_finding(void *data, bool error, const char *text)
{
    const struct traffic_reading *x = data;
    x->on_finding(x->data, error, text);
}

struct schema_reader traffic_reader(struct traffic_reading *x)
{
    return (struct schema_reader){.memory = &x->memory,
                                  .on_finding = x->on_finding == NULL ? NULL : on_finding,
                                  .data = x,
                                  .first = ERR_INIT};
}

void traffic_reading_deinit(struct traffic_reading *x)
{
    for (size_t i = 0; i < x->pattern_count; i++) {
        pattern_free(x->patterns[i]);
    }
    for (size_t i = 0; i < x->selector_count; i++) {
        selector_free(x->selectors[i]);
    }
    schema_memory_deinit(&x->memory);
}

/* Whether it is there, right or wrong; an empty text is not. */
static bool has(const struct schema_path *at, const char *key)
{
    const cJSON *item = field_get(at->item, key);
    return item != NULL && !(cJSON_IsString(item) && item->valuestring[0] == '\0');
}

/* The same of a list with entries. */
static bool has_entries(const struct schema_path *at, const char *key)
{
    const cJSON *list = field_get(at->item, key);
    return cJSON_IsArray(list) && list->child != NULL;
}

/* ---- texts ---- */

const char *policy_check_rule_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == ':') {
            return "must not contain ':'";
        }
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == '"' || text.ptr[i] == 0x7f) {
            return "must not contain quotes or control characters";
        }
    }
    return NULL;
}

static bool is_any(struct slice text)
{
    return slice_eq(text, SLICE("*"));
}

const char *policy_check_group(struct slice text)
{
    if (text.len == 0 || is_any(text)) {
        return NULL;
    }
    return memchr(text.ptr, '/', text.len) != NULL
               ? "must be a group without its version, as \"apps\""
               : name_check_subdomain(text);
}

const char *policy_check_resource(struct slice text)
{
    const char *slash = text.len == 0 ? NULL : memchr(text.ptr, '/', text.len);
    struct slice name = slash == NULL ? text : slice_of(text.ptr, (size_t)(slash - text.ptr));
    struct slice sub = slash == NULL ? SLICE("a") : slice_of(slash + 1, text.len - name.len - 1);
    if (is_any(sub)) {
        return "must name the subresource; without one a resource stands for all that it has";
    }
    bool good = (is_any(name) || name_check_label(name) == NULL) && name_check_label(sub) == NULL;
    return good ? NULL
                : "must be a plural name in lower case, as \"pods\", \"pods/eviction\" or "
                  "\"*/scale\", or \"*\"";
}

const char *const policy_verbs[] = {
    "*",     "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
    "proxy", NULL};

const char *policy_check_verb(struct slice text)
{
    for (size_t i = 0; policy_verbs[i] != NULL; i++) {
        if (slice_eq(text, slice_str(policy_verbs[i]))) {
            return NULL;
        }
    }
    return "must be one of get, list, watch, create, update, patch, delete, deletecollection, or "
           "\"*\"";
}

/* "": of objects that have none. */
const char *policy_check_namespace(struct slice text)
{
    return text.len == 0 || is_any(text) ? NULL : name_check_label(text);
}

/* Why a text is not a host, with what is likely meant. */
static const char *explain_host(struct slice text)
{
    static const struct slice mark = SLICE("://");
    const char *scheme = memmem(text.ptr, text.len, mark.ptr, mark.len);
    const char *host = scheme == NULL ? text.ptr : scheme + mark.len;
    const char *end = text.ptr + text.len;
    host += end - host >= 2 && strncmp(host, "*.", 2) == 0 ? 2 : 0;
    for (; host < end && *host != '/' && *host != '?'; host++) {
        if (*host == '*') {
            return "must have \"*\" in the host only as in \"*.example.com\", which is any host "
                   "below that: write such a host, or one URL for each";
        }
        if (*host == '@') {
            return "must not have a user name or password";
        }
    }
    return NULL;
}

const char *policy_check_url(struct slice text)
{
    struct origin_url url;
    const char *why = origin_url_read(text, &url);
    const char *better = why == NULL ? NULL : explain_host(text);
    return better != NULL ? better : why;
}

const char *policy_check_host(struct slice text)
{
    struct origin_host host;
    return origin_host_read(text, &host);
}

const char *policy_check_path(struct slice text)
{
    bool plain = text.ptr[0] == '/' && memchr(text.ptr, '?', text.len) == NULL;
    return plain ? NULL : "must begin with \"/\", and have no query";
}

/* RFC 9110 section 5.6.2. */
const char *policy_check_header_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL) {
            return "must be the name of a header, as \"Accept\"";
        }
    }
    return NULL;
}

const char *policy_check_header_value(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool edge = i == 0 || i + 1 == text.len;
        if ((c < ' ' && c != '\t') || c == 0x7f || (edge && (c == ' ' || c == '\t'))) {
            return "must have no control characters, and no white space around it";
        }
    }
    return NULL;
}

const char *policy_check_time(struct slice text)
{
    uint32_t seconds;
    return schedule_read_time(text.ptr, &seconds)
               ? NULL
               : "must be a time from \"00:00:00\" to \"23:59:59\"";
}

/* ---- requests to the API server ---- */

static void count_rows(struct schema_reader *r, const struct schema_path *at,
                       const struct schema_list *rows, enum traffic_bound b)
{
    const struct traffic_resource_rule *all = rows->items;
    size_t names = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const size_t lists[] = {all[i].groups.count, all[i].resources.count, all[i].verbs.count,
                                all[i].namespaces.count};
        for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
            names += lists[k] == 0 ? 1 : lists[k];
        }
    }
    count(r, at, b, rows->count);
    count(r, at, TRAFFIC_BOUND_NAMES, names);
}

/* ---- a breaker's rules ---- */

void policy_check_health(struct schema_reader *r, const struct schema_path *at, void *out)
{
    bool errors = has(at, "errorPercent");
    bool slow = has(at, "slowCallDuration");
    bool percent = has(at, "slowCallPercent");
    (void)out;
    if (slow != percent) {
        schema_error(r, at, slow ? "slowCallPercent" : "slowCallDuration",
                     "Required value: with %s", slow ? "slowCallDuration" : "slowCallPercent");
    } else if (!errors && !slow) {
        schema_error(r, at, "errorPercent",
                     "Required value: this, or slowCallDuration and slowCallPercent");
    }
}

static void check_bucket(struct schema_reader *r, const struct schema_path *at,
                         struct traffic_limiting *l)
{
    bool there = has(at, "bucket");
    bool used = l->trigger == TRAFFIC_NORMAL || l->trigger == TRAFFIC_LIMITER_ONLY;
    l->has_bucket = used && there;
    if (!l->has_bucket) {
        l->bucket = (struct traffic_bucket){0};
    }
    if (used && !there && l->trigger == TRAFFIC_NORMAL) {
        schema_error(r, at, "bucket", "Required value: with triggerPolicy Normal");
    } else if (used && !there && l->max_in_flight == 0) {
        schema_error(r, at, "bucket",
                     "Required value: with triggerPolicy LimiterOnly and without maxInFlight");
    }
}

static void check_recover(struct schema_reader *r, const struct schema_path *at,
                          struct traffic_limiting *l)
{
    const cJSON *policy = field_get(at->item, "recoverPolicy");
    const struct schema_path inner = SCHEMA_AT(at, "recoverPolicy", policy);
    if (l->recover == TRAFFIC_SLEEPING_WINDOW && field_get(policy, "sleepingWindowSize") == NULL) {
        schema_error(r, &inner, "sleepingWindowSize", "Required value: with type SleepingWindow");
    }
    if (l->trigger != TRAFFIC_NORMAL && l->trigger != TRAFFIC_HEALTH) {
        l->recover = TRAFFIC_MANUAL;
    }
    if (l->recover == TRAFFIC_MANUAL) {
        l->window_ms = 0;
    }
}

static void check_health_of(struct schema_reader *r, const struct schema_path *at,
                            struct traffic_limiting *l)
{
    bool there = has(at, "healthPolicy");
    if (l->trigger == TRAFFIC_HEALTH && !there) {
        schema_error(r, at, "healthPolicy", "Required value");
    } else if (l->trigger != TRAFFIC_HEALTH && l->trigger != TRAFFIC_TRIGGERS && there) {
        schema_error(r, at, "healthPolicy", "Forbidden: needs triggerPolicy Health");
    }
    if (l->trigger != TRAFFIC_HEALTH) {
        l->health = (struct traffic_health){0};
    }
}

void policy_check_limiting(struct schema_reader *r, const struct schema_path *at, void *out)
{
    struct traffic_limiting *l = out;
    l->reset = "";
    count(r, at, TRAFFIC_BOUND_LIMITINGS, 1);
    count(r, at, TRAFFIC_BOUND_URLS, l->urls.count);
    count_rows(r, at, &l->resources, TRAFFIC_BOUND_LIMITING_ROWS);
    if (!has_entries(at, "resourceRules") && !has_entries(at, "restRules")) {
        schema_error(r, at, "resourceRules", "Required value: this, or restRules");
    }
    check_bucket(r, at, l);
    check_recover(r, at, l);
    check_health_of(r, at, l);
}

/* NULL with a finding. */
static const struct pattern *add_pattern(struct schema_reader *r, const struct schema_path *at,
                                         const char *text, bool any_case)
{
    struct traffic_reading *x = r->data;
    struct pattern *p = NULL;
    struct err e = ERR_INIT;
    count(r, at, TRAFFIC_BOUND_PATTERNS, 1);
    if (x->pattern_count == TRAFFIC_PATTERNS_MAX || schema_stopped(r)) {
        return NULL;
    }
    int rc = any_case ? pattern_compile_any_case(text, &p, &e) : pattern_compile(text, &p, &e);
    if (rc != 0) {
        schema_fail(r, rc, at, NULL,
                    "Invalid value: \"%.100s\": must be a regular expression: %.200s", text, e.msg);
        return NULL;
    }
    x->patterns[x->pattern_count++] = p;
    return p;
}

/* Of a content that is a text. */
static void check_content(struct schema_reader *r, const struct schema_path *at, const char *text,
                          const struct traffic_intercept *x, const struct pattern **pattern)
{
    const char *written = at->item->valuestring;
    const char *why = NULL;
    if (written[0] == '\0') {
        why = "must not be empty";
    } else if (text[0] != '\0' && x->content == TRAFFIC_HOSTS) { /* else it is too long */
        why = policy_check_host(slice_str(text));
    } else if (text[0] != '\0' && x->content == TRAFFIC_EXPRESSIONS) {
        *pattern = add_pattern(r, at, text, true);
    }
    if (why != NULL) {
        schema_error(r, at, NULL, "Invalid value: \"%.100s\": %s", written, why);
    }
}

static void check_contents(struct schema_reader *r, const struct schema_path *at,
                           struct traffic_intercept *x)
{
    struct traffic_reading *reading = r->data;
    size_t count = x->contents.count;
    const struct pattern **patterns =
        schema_alloc(&reading->memory, count, sizeof(const struct pattern *));
    const cJSON *list = field_get(at->item, "contents");
    const cJSON *item = count == 0 ? NULL : list->child;
    if (patterns == NULL) {
        schema_fail(r, -ENOMEM, at, NULL, "%s", "");
        return;
    }
    x->patterns = patterns;
    for (size_t i = 0; i < count && !schema_stopped(r); i++, item = item->next) {
        const struct schema_path entry = SCHEMA_ENTRY(at, "contents", i, item);
        if (cJSON_IsString(item)) {
            check_content(r, &entry, x->contents.items[i], x, &patterns[i]);
        }
    }
}

void policy_check_intercept(struct schema_reader *r, const struct schema_path *at, void *out)
{
    struct traffic_intercept *x = out;
    count(r, at, TRAFFIC_BOUND_INTERCEPTS, 1);
    count(r, at, TRAFFIC_BOUND_NAMES, x->contents.count + x->methods.count);
    for (size_t i = 0; i < x->methods.count; i++) {
        x->any_method = x->any_method || strcmp(x->methods.items[i], "*") == 0;
    }
    if (!schema_stopped(r)) {
        check_contents(r, at, x);
    }
}

/* ---- a fault injection's rules ---- */

void policy_check_delay(struct schema_reader *r, const struct schema_path *at, void *out)
{
    struct traffic_fault *f = out;
    (void)r;
    (void)at;
    if (f->delay_ppm == 0) {
        f->delay_ms = 0;
    }
}

/* 0 and 200 are how an abort is switched off elsewhere. */
void policy_check_abort(struct schema_reader *r, const struct schema_path *at, void *out)
{
    enum { OK = 200, LEAST = 400 };
    struct traffic_fault *f = out;
    if (f->abort_status == OK || f->abort_ppm == 0) {
        f->abort_status = 0;
    } else if (f->abort_status != 0 && f->abort_status < LEAST) {
        schema_error(r, at, "httpStatus",
                     "Invalid value: must be a whole number from 400 to 599, or 0 or 200 for none");
    }
}

static void check_text_match(struct schema_reader *r, const struct schema_path *at,
                             struct traffic_text_match *m, bool any_case)
{
    const struct schema_path regex = SCHEMA_AT(at, "regex", field_get(at->item, "regex"));
    if (!has(at, "exact") && !has(at, "regex")) {
        schema_error(r, at, NULL, "Required value: write exact or regex");
    } else if (!has(at, "exact") && m->regex[0] != '\0') {
        m->pattern = add_pattern(r, &regex, m->regex, any_case);
    }
}

void policy_check_host_match(struct schema_reader *r, const struct schema_path *at, void *out)
{
    check_text_match(r, at, out, true);
}

void policy_check_path_match(struct schema_reader *r, const struct schema_path *at, void *out)
{
    check_text_match(r, at, out, false);
}

void policy_check_http(struct schema_reader *r, const struct schema_path *at, void *out)
{
    const struct traffic_http *http = out;
    count(r, at, TRAFFIC_BOUND_HTTP, 1);
    count(r, at, TRAFFIC_BOUND_NAMES, http->headers.count);
    if (!has(at, "host") && !has(at, "path") && !has(at, "method") && !has_entries(at, "headers")) {
        schema_error(r, at, NULL, "Required value: host, path, method or headers");
    }
}

void policy_check_match(struct schema_reader *r, const struct schema_path *at, void *out)
{
    (void)out;
    if (!has_entries(at, "resources") && !has_entries(at, "httpMatch")) {
        schema_error(r, at, NULL,
                     "Required value: must say in resources or httpMatch which requests are meant");
    }
}

void policy_check_effective(struct schema_reader *r, const struct schema_path *at, void *out)
{
    const struct traffic_reading *x = r->data;
    struct traffic_time *t = out;
    struct schedule any;
    bool start = has(at, "startTime");
    bool end = has(at, "endTime");
    if (start != end) {
        schema_error(r, at, start ? "endTime" : "startTime", "Required value: with %s",
                     start ? "startTime" : "endTime");
    }
    schedule_init(&any);
    t->schedule.start = any.start;
    t->schedule.end = any.end;
    if (t->start[0] != '\0' && t->end[0] != '\0') {
        (void)schedule_read_time(t->start, &t->schedule.start); /* the row has seen it */
        (void)schedule_read_time(t->end, &t->schedule.end);
    }
    if (t->zone[0] != '\0' && x->zone != NULL) {
        const struct schema_path zone = SCHEMA_AT(at, "timeZone", field_get(at->item, "timeZone"));
        x->zone(r, &zone, t->zone, &t->schedule.zone);
    }
}

static bool is_always(const struct traffic_time *t)
{
    return t->start[0] == '\0' && t->schedule.days_of_week == 0 && t->schedule.days_of_month == 0 &&
           t->schedule.months == 0;
}

/* A fault need not have a name. */
static void name_fault(struct schema_reader *r, const struct schema_path *at,
                       struct traffic_fault *f)
{
    enum { SIZE = 32 };
    struct traffic_reading *x = r->data;
    char *name = schema_alloc(&x->memory, 1, SIZE);
    if (name == NULL) {
        schema_fail(r, -ENOMEM, at, NULL, "%s", "");
        return;
    }
    (void)snprintf(name, SIZE, "httpFault-%zu", at->index);
    f->name = name;
}

void policy_check_fault(struct schema_reader *r, const struct schema_path *at, void *out)
{
    struct traffic_fault *f = out;
    count(r, at, TRAFFIC_BOUND_FAULTS, 1);
    count_rows(r, at, &f->resources, TRAFFIC_BOUND_FAULT_ROWS);
    if (!has(at, "delay") && !has(at, "abort")) {
        schema_error(r, at, "delay", "Required value: this, or abort");
    }
    if (!has(at, "name")) {
        name_fault(r, at, f);
    }
    f->when = f->time == NULL || is_always(f->time) ? NULL : &f->time->schedule;
}

bool traffic_fault_acts(const struct traffic_fault *f)
{
    return f->delay_ms != 0 || f->abort_status != 0;
}

/* ---- the whole ---- */

static struct selector *make_selector(struct schema_reader *r, const struct schema_path *at,
                                      const cJSON *selector)
{
    struct err e = ERR_INIT;
    char path[SCHEMA_PATH_MAX];
    const struct schema_path place = SCHEMA_AT(at, "selector", selector);
    struct selector *pods =
        selector == NULL
            ? selector_nothing()
            : selector_from_label_selector(selector, schema_path_text(&place, path), &e);
    if (pods == NULL) {
        e.code = e.code == 0 ? -ENOMEM : e.code;
        schema_pass_on(r, &place, &e);
    }
    return pods;
}

void policy_check_spec(struct schema_reader *r, const struct schema_path *at, void *out)
{
    struct traffic_reading *x = r->data;
    struct traffic_spec *s = out;
    size_t requirements = 0;
    bool readable = s->selector != NULL || !has(at, "selector");
    count(r, at, TRAFFIC_BOUND_POLICIES, 1);
    if (!readable || x->selector_count == TRAFFIC_POLICIES_MAX || schema_stopped(r)) {
        return;
    }
    struct selector *pods = make_selector(r, at, s->selector);
    if (pods == NULL) {
        return;
    }
    x->selectors[x->selector_count++] = pods;
    s->pods = pods;
    (void)selector_requirements(pods, &requirements);
    if (requirements > TRAFFIC_REQUIREMENTS_MAX) {
        schema_error(r, at, "selector", "Too many: must have at most %d requirements",
                     TRAFFIC_REQUIREMENTS_MAX);
    }
}
