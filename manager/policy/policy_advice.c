/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/policy_pattern.h"
#include "traffic/origin_text.h"
#include "json/field.h"

enum { BLIND_NAMES_MAX = 4, BLIND_LEN = 320, HTTP_PORT = 80, HTTPS_PORT = 443 };

struct advice {
    struct schema_reader *r;
    struct policy_tally *tally;
    uint32_t steps;        /* that expressions may still take */
    char blind[BLIND_LEN]; /* some of the rules that are blind */
};

/* ---- what several have in common ---- */

static bool has(const struct schema_texts *texts, const char *name)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (strcmp(texts->items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The next entry of a list that was read; all of them are there. */
static const cJSON *next_of(const cJSON *item)
{
    return item == NULL ? NULL : item->next;
}

static const cJSON *first_of(const struct schema_path *at, const char *key)
{
    const cJSON *list = field_get(at->item, key);
    return list == NULL ? NULL : list->child;
}

/* A number that is, and not one that could not be read. */
static bool is_number(const cJSON *item, int number)
{
    return cJSON_IsNumber(item) && !(item->valuedouble < number) && !(item->valuedouble > number);
}

/* Names leases itself, so that the operator's own are not exempt. */
static bool names_leases(const struct schema_list *rows)
{
    const struct traffic_resource_rule *all = rows->items;
    for (size_t i = 0; i < rows->count; i++) {
        const struct schema_texts *groups = &all[i].groups;
        bool group = groups->count == 0 || has(groups, "*") || has(groups, "coordination.k8s.io");
        if (group && has(&all[i].resources, "leases")) {
            return true;
        }
    }
    return false;
}

/* A method that holds in tunnels, too. */
static bool is_any_method(const char *method)
{
    return method[0] == '\0' || strcmp(method, "*") == 0 || strcmp(method, "CONNECT") == 0;
}

static void count_rule(struct advice *a, const char *name, bool external, bool blind)
{
    size_t used = strlen(a->blind);
    a->tally->rules++;
    a->tally->external += external ? 1 : 0;
    if (external && blind && a->tally->blind++ < BLIND_NAMES_MAX) {
        (void)snprintf(a->blind + used, sizeof a->blind - used, "%s\"%.63s\"",
                       used == 0 ? "" : ", ", name);
    }
}

/* ---- a breaker's rules ---- */

/* A star in the path that is not the end of it behind a slash. */
static bool has_odd_star(const char *url)
{
    const char *host = strstr(url, "://");
    const char *rest = host == NULL ? "" : host + 3;
    rest += strcspn(rest, "/?");
    size_t path = strcspn(rest, "?");
    bool below = path >= 2 && strncmp(rest + path - 2, "/*", 2) == 0;
    size_t plain = below ? path - 2 : path;
    return plain > 0 && memchr(rest, '*', plain) != NULL;
}

/* Whether it does not hold in tunnels. */
static bool is_blind_rule(const struct traffic_rest_rule *rule)
{
    struct origin_url url;
    if (rule->url[0] == '\0' || origin_url_read(slice_str(rule->url), &url) != NULL) {
        return false;
    }
    bool whole_host = url.below_path && url.path.len <= 1;
    bool tunnelled = url.at.port != (url.https ? HTTP_PORT : HTTPS_PORT);
    return !whole_host || !tunnelled || !is_any_method(rule->method);
}

/* Whether one is blind. */
static bool advise_rest_rules(struct advice *a, const struct schema_path *at,
                              const struct schema_list *rules)
{
    const struct traffic_rest_rule *all = rules->items;
    const cJSON *item = first_of(at, "restRules");
    bool blind = false;
    for (size_t i = 0; i < rules->count; i++, item = next_of(item)) {
        const struct schema_path place = SCHEMA_ENTRY(at, "restRules", i, item);
        if (has_odd_star(all[i].url)) {
            schema_warn(a->r, &place, "url",
                        "\"%.100s\" has a \"*\" in its path that stands for itself: it hardly ever "
                        "matches. Only \"/*\" at the end is all below; write that, or each path",
                        all[i].url);
        }
        blind = blind || is_blind_rule(&all[i]);
    }
    return blind;
}

static bool relists(const struct schema_list *rows)
{
    const struct traffic_resource_rule *all = rows->items;
    for (size_t i = 0; i < rows->count; i++) {
        const struct schema_texts *verbs = &all[i].verbs;
        if (has(&all[i].namespaces, "*") &&
            (has(verbs, "list") || has(verbs, "watch") || has(verbs, "*"))) {
            return true;
        }
    }
    return false;
}

static void advise_rows(struct advice *a, const struct schema_path *at,
                        const struct traffic_limiting *l)
{
    if (l->trigger == TRAFFIC_FORCE_CLOSED) {
        return;
    }
    if (names_leases(&l->resources)) {
        schema_warn(a->r, at, "resourceRules",
                    "names leases, so it is for those of the operator's own leader election, too: "
                    "refused for too long, it ends the operator's processes");
    }
    if (relists(&l->resources)) {
        schema_warn(a->r, at, "resourceRules",
                    "is for list or watch in all namespaces: what the operator reads at its start "
                    "and after an interrupted watch may be refused, and its caches stay empty");
    }
}

static void advise_bucket(struct advice *a, const struct schema_path *at,
                          const struct traffic_limiting *l)
{
    const cJSON *bucket = field_get(at->item, "bucket");
    const struct schema_path place = SCHEMA_AT(at, "bucket", bucket);
    if (bucket != NULL && l->trigger == TRAFFIC_HEALTH) {
        schema_warn(a->r, &place, NULL, "is not used with triggerPolicy Health");
    } else if (l->has_bucket && is_number(field_get(bucket, "burst"), 0)) {
        schema_warn(a->r, &place, "burst", "is 0: refuses every request");
    } else if (l->has_bucket && is_number(field_get(bucket, "limit"), 0)) {
        schema_warn(a->r, &place, "limit",
                    "is 0: never refills, and refuses every request when burst is used up");
    }
}

/* Without one it is valid, for such objects are stored in clusters. */
static void advise_recover(struct advice *a, const struct schema_path *at,
                           const struct traffic_limiting *l)
{
    const cJSON *recover = field_get(at->item, "recoverPolicy");
    const struct schema_path place = SCHEMA_AT(at, "recoverPolicy", recover);
    uint64_t refill_ms = l->bucket.limit == 0 ? 0 : l->bucket.interval_ms / l->bucket.limit;
    bool opens = l->trigger == TRAFFIC_NORMAL || l->trigger == TRAFFIC_HEALTH;
    if (recover == NULL && opens) {
        schema_warn(a->r, &place, NULL,
                    "is not set, as if type were Manual: once open it stays open until it is "
                    "closed by annotation %s",
                    POLICY_RECOVER);
    }
    if (l->trigger == TRAFFIC_NORMAL && l->window_ms > 0 && l->window_ms < refill_ms) {
        schema_warn(a->r, &place, "sleepingWindowSize",
                    "is less than the %" PRIu64 " ms in which bucket gets a request more: it can "
                    "open again at once",
                    refill_ms);
    }
}

static void advise_limiting(struct advice *a, const struct schema_path *at,
                            const struct traffic_limiting *l)
{
    bool blind = advise_rest_rules(a, at, &l->urls);
    advise_rows(a, at, l);
    advise_bucket(a, at, l);
    advise_recover(a, at, l);
    if (l->properties != NULL) {
        schema_warn(a->r, at, "properties", "is not used");
    }
    count_rule(a, l->name, l->urls.count > 0, blind);
}

/* ---- rules that allow and forbid ---- */

/* Contents of a rule. */
struct odd {
    size_t index; /* the first that is, */
    size_t count; /* of all that are */
};

static void note(struct odd *o, size_t i)
{
    if (o->count++ == 0) {
        o->index = i;
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

static void warn_of_contents(struct advice *a, const struct schema_path *at,
                             const struct traffic_intercept *x, const struct odd *loose,
                             const struct odd *opening, const struct policy_pattern *opened)
{
    const struct schema_path first = SCHEMA_ENTRY(at, "contents", loose->index, at->item);
    const struct schema_path second = SCHEMA_ENTRY(at, "contents", opening->index, at->item);
    if (loose->count > 0) {
        schema_warn(a->r, &first, NULL,
                    "\"%.100s\"%s: allows every host that has it somewhere in its name, also one "
                    "that somebody made for that: write ^ before and $ behind it, and \\. for a "
                    "dot",
                    x->contents.items[loose->index], others_of(loose).text);
    }
    if (opening->count > 0) {
        schema_warn(a->r, &second, NULL,
                    "\"%.100s\"%s: matches %s%s%s, and so opens what is protected without it: %s",
                    x->contents.items[opening->index], others_of(opening).text,
                    opened->loopback ? "127.0.0.1 or ::1" : "",
                    opened->loopback && opened->metadata ? " and " : "",
                    opened->metadata ? "169.254.169.254" : "",
                    !opened->metadata ? "what listens there for the pod alone"
                    : opened->loopback
                        ? "what listens there for the pod alone, and the metadata service "
                          "of clouds, which gives out credentials"
                        : "the metadata service of clouds, which gives out credentials");
    }
}

/* Of a Whitelist rule. */
static void advise_expressions(struct advice *a, const struct schema_path *at,
                               const struct traffic_intercept *x)
{
    struct odd loose = {.count = 0};
    struct odd opening = {.count = 0};
    struct policy_pattern opened = {.anchored = false};
    for (size_t i = 0; i < x->contents.count; i++) {
        struct policy_pattern p;
        if (x->patterns[i] == NULL) {
            continue; /* it is wrong */
        }
        policy_pattern_look(x->contents.items[i], x->patterns[i], &a->steps, &p);
        if (!p.anchored && !p.everything) {
            note(&loose, i);
        }
        if (p.loopback || p.metadata) {
            note(&opening, i);
            opened.loopback = opened.loopback || p.loopback;
            opened.metadata = opened.metadata || p.metadata;
        }
    }
    warn_of_contents(a, at, x, &loose, &opening, &opened);
}

/* A tunnel is all that may be in it. */
static void advise_intercept(struct advice *a, const struct schema_path *at,
                             const struct traffic_intercept *x)
{
    bool tunnels = x->methods.count == 0 || x->any_method || has(&x->methods, "CONNECT");
    bool whitelist = x->type == TRAFFIC_WHITELIST;
    if (whitelist && x->content == TRAFFIC_EXPRESSIONS) {
        advise_expressions(a, at, x);
    }
    if (!tunnels && whitelist) {
        schema_warn(a->r, at, "methods",
                    "has neither \"*\" nor \"CONNECT\": tunnels to these hosts, which HTTPS_PROXY "
                    "clients open, are refused");
    } else if (!tunnels && x->type == TRAFFIC_BLACKLIST) {
        schema_warn(a->r, at, "methods",
                    "tunnels to these hosts, which HTTPS_PROXY clients open, are refused whatever "
                    "the methods in them are");
    }
    count_rule(a, x->name, true, !tunnels && whitelist);
}

/* ---- a fault injection's rules ---- */

static void advise_percent(struct advice *a, const struct schema_path *at, uint32_t ppm)
{
    const cJSON *percent = field_get(at->item, "percent");
    const char *text = cJSON_GetStringValue(percent);
    bool zero =
        text == NULL ? is_number(percent, 0) : text[0] == '0' && text[strspn(text, "0.")] == '\0';
    if (cJSON_IsObject(at->item) && percent == NULL) {
        schema_warn(a->r, at, "percent",
                    "is not set: no request is affected, write \"100\" for all");
    } else if (zero && ppm == 0) {
        schema_warn(a->r, at, "percent", "is 0: no request is affected");
    }
}

static void advise_what_it_does(struct advice *a, const struct schema_path *at,
                                const struct traffic_fault *f)
{
    const struct schema_path delay = SCHEMA_AT(at, "delay", field_get(at->item, "delay"));
    const struct schema_path abort = SCHEMA_AT(at, "abort", field_get(at->item, "abort"));
    const cJSON *status = field_get(abort.item, "httpStatus");
    advise_percent(a, &delay, f->delay_ppm);
    if (is_number(status, 0) || is_number(status, 200)) {
        schema_warn(a->r, &abort, "httpStatus", "is %d: no request is aborted", status->valueint);
    }
    advise_percent(a, &abort, f->abort_ppm);
}

static void advise_text_match(struct advice *a, const struct schema_path *at, const char *key,
                              const struct traffic_text_match *m)
{
    const struct schema_path place = SCHEMA_AT(at, key, field_get(at->item, key));
    if (m->exact[0] != '\0' && m->regex[0] != '\0') {
        schema_warn(a->r, &place, "regex", "is not used beside exact");
    }
}

/* Whether one is blind. */
static bool advise_http(struct advice *a, const struct schema_path *at,
                        const struct schema_list *matches)
{
    const struct traffic_http *all = matches->items;
    const cJSON *item = first_of(at, "httpMatch");
    bool blind = false;
    for (size_t i = 0; i < matches->count; i++, item = next_of(item)) {
        const struct schema_path place = SCHEMA_ENTRY(at, "httpMatch", i, item);
        advise_text_match(a, &place, "host", &all[i].host);
        advise_text_match(a, &place, "path", &all[i].path);
        blind = blind || field_get(item, "path") != NULL || all[i].headers.count > 0 ||
                !is_any_method(all[i].method);
    }
    return blind;
}

/* As in the first examples of KusionStack's mesh, which are refused. */
static void advise_old_match(struct advice *a, const struct schema_path *at)
{
    if (cJSON_IsArray(at->item)) {
        schema_warn(a->r, at, NULL,
                    "of {method, url}, write httpMatch with method, host and path; of requests to "
                    "the API server, write resources");
    } else if (field_get(at->item, "relatedResources") != NULL) {
        schema_warn(a->r, at, "relatedResources", "write resources");
    }
}

/* The 30th of February, and the like. */
static bool never_comes(const struct schedule *s)
{
    static const uint8_t length[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (s->days_of_month == 0 || s->months == 0) {
        return false;
    }
    for (unsigned month = 1; month <= 12; month++) {
        bool there = (s->months >> month & 1) != 0;
        if (there && (s->days_of_month & ((UINT64_C(2) << length[month - 1]) - 1)) != 0) {
            return false;
        }
    }
    return true;
}

static void advise_fault(struct advice *a, const struct schema_path *at,
                         const struct traffic_fault *f)
{
    const struct schema_path match = SCHEMA_AT(at, "match", field_get(at->item, "match"));
    const struct schema_path time =
        SCHEMA_AT(at, "effectiveTime", field_get(at->item, "effectiveTime"));
    const cJSON *name = field_get(at->item, "name");
    if (name == NULL || (cJSON_IsString(name) && name->valuestring[0] == '\0')) {
        schema_warn(a->r, at, "name", "is not set: it is called %s", f->name);
    }
    advise_what_it_does(a, at, f);
    advise_old_match(a, &match);
    bool blind = advise_http(a, &match, &f->http);
    if (names_leases(&f->resources)) {
        schema_warn(a->r, &match, "resources",
                    "names leases, so it is for those of the operator's own leader election, too");
    }
    if (f->time != NULL && never_comes(&f->time->schedule)) {
        schema_warn(a->r, &time, "daysOfMonth",
                    "none of these months has such a day: never in effect");
    }
    if (traffic_fault_acts(f)) {
        count_rule(a, f->name, f->http.count > 0, blind);
    }
}

/* ---- the whole ---- */

static void advise_external(struct advice *a, const struct schema_path *at)
{
    const struct policy_tally *t = a->tally;
    char more[32] = "";
    if (t->external > 0) {
        schema_warn(a->r, at, NULL,
                    "%zu rule%s for requests to other places than the API server: this holds in "
                    "pods with annotation " POLICY_EGRESS "=" POLICY_EGRESS_PROXY
                    ", only for requests that are sent to localproxy's proxy; it is no firewall",
                    t->external, t->external == 1 ? " is" : "s are");
    }
    if (t->blind > BLIND_NAMES_MAX) {
        (void)snprintf(more, sizeof more, " and %zu more", t->blind - BLIND_NAMES_MAX);
    }
    if (t->blind > 0) {
        schema_warn(a->r, at, NULL,
                    "rule%s %s%s: nobody sees paths, methods and headers in a tunnel, as "
                    "HTTPS_PROXY clients open it by CONNECT: what is said of them holds only for "
                    "requests that localproxy sees",
                    t->blind == 1 ? "" : "s", a->blind, more);
    }
}

void policy_advise(struct schema_reader *r, enum traffic_kind kind, const struct schema_path *at,
                   const struct traffic_spec *spec, struct policy_tally *out)
{
    struct advice a = {.r = r, .tally = out, .steps = POLICY_PATTERN_STEPS};
    const struct traffic_limiting *limitings = spec->limitings.items;
    const struct traffic_intercept *intercepts = spec->intercepts.items;
    const struct traffic_fault *faults = spec->faults.items;
    const cJSON *item = first_of(at, kind == TRAFFIC_BREAKER ? "rateLimitings" : "httpFault");
    if (field_get(at->item, "selector") == NULL) {
        schema_warn(r, at, "selector",
                    "is not set: no pod is selected; write {} for all of the namespace");
    }
    for (size_t i = 0; i < spec->limitings.count; i++, item = next_of(item)) {
        const struct schema_path place = SCHEMA_ENTRY(at, "rateLimitings", i, item);
        advise_limiting(&a, &place, &limitings[i]);
    }
    for (size_t i = 0; i < spec->faults.count; i++, item = next_of(item)) {
        const struct schema_path place = SCHEMA_ENTRY(at, "httpFault", i, item);
        advise_fault(&a, &place, &faults[i]);
    }
    item = first_of(at, "trafficInterceptRules");
    for (size_t i = 0; i < spec->intercepts.count; i++, item = next_of(item)) {
        const struct schema_path place = SCHEMA_ENTRY(at, "trafficInterceptRules", i, item);
        advise_intercept(&a, &place, &intercepts[i]);
    }
    advise_external(&a, at);
}
