/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kube/name.h"
#include "traffic/parse_internal.h"

#define VALUES_BESIDE_MAX 1000

/* ---- what rules and policies have in common ---- */

void place_path(const struct place *p, const char *key, char out[DOCUMENT_PATH_LEN])
{
    (void)snprintf(out, DOCUMENT_PATH_LEN, "%.96s.%s", p->path, key);
}

static uint64_t read_number(const struct place *p, const char *key, uint64_t min, uint64_t max)
{
    char path[DOCUMENT_PATH_LEN];
    place_path(p, key, path);
    return document_number(p->s, p->item, key, path, min, max);
}

/* The same of what may be left out. */
static uint64_t read_optional(const struct place *p, const char *key, uint64_t min, uint64_t max,
                              uint64_t absent)
{
    return document_member(p->item, key) == NULL ? absent : read_number(p, key, min, max);
}

const cJSON *place_part(const struct place *p, const char *key, const char *const *known,
                        char path[DOCUMENT_PATH_LEN])
{
    place_path(p, key, path);
    return document_object(p->s, p->item, key, path, known);
}

const char *place_text(const struct place *p, const char *key, size_t max)
{
    char path[DOCUMENT_PATH_LEN];
    place_path(p, key, path);
    if (document_member(p->item, key) == NULL) {
        return "";
    }
    const char *text = document_string(p->s, p->item, key, path);
    if (strlen(text) > max) {
        document_fail(p->s, -EINVAL, document_member(p->item, key), path,
                      "Too long: must have at most %zu bytes", max);
    }
    return text;
}

static const char *check_rule_name(struct slice name)
{
    if (name.len == 0 || name.len > NAME_LABEL_MAX) {
        return "must be no more than 63 characters, and at least one";
    }
    if (memchr(name.ptr, ':', name.len) != NULL) {
        return "must not have \":\"";
    }
    for (size_t i = 0; i < name.len; i++) {
        if ((unsigned char)name.ptr[i] < ' ' || name.ptr[i] == '"' || name.ptr[i] == 0x7f) {
            return "must not have control characters or quotes";
        }
    }
    return NULL;
}

const char *place_rule_name(const struct place *p)
{
    char path[DOCUMENT_PATH_LEN];
    place_path(p, "name", path);
    return document_name(p->s, p->item, "name", path, check_rule_name);
}

size_t place_word(const struct place *p, const char *key, const char *const *words, size_t count)
{
    char path[DOCUMENT_PATH_LEN];
    place_path(p, key, path);
    const char *text = document_string(p->s, p->item, key, path);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    document_fail(p->s, -EINVAL, document_member(p->item, key), path,
                  "Unsupported value: \"%.100s\"", text);
    return 0;
}

void place_count_name(const struct place *p)
{
    if (++p->t->name_count > TRAFFIC_NAMES_MAX) {
        document_fail(p->s, -E2BIG, p->item, p->path, "Too many: the rules have more than %d names",
                      TRAFFIC_NAMES_MAX);
    }
}

/* ---- which requests ---- */

static const char *check_group(struct slice group)
{
    return group.len == 0 || slice_eq(group, SLICE("*")) ? NULL : name_check_subdomain(group);
}

/* "pods", "pods/eviction", "x/eviction" with x any, or any. */
static const char *check_resource(struct slice resource)
{
    const char *slash = resource.len == 0 ? NULL : memchr(resource.ptr, '/', resource.len);
    if (slash == NULL) {
        return slice_eq(resource, SLICE("*")) ? NULL : name_check_subdomain(resource);
    }
    struct slice name = slice_of(resource.ptr, (size_t)(slash - resource.ptr));
    struct slice sub = slice_of(slash + 1, resource.len - name.len - 1);
    const char *why = slice_eq(name, SLICE("*")) ? NULL : name_check_subdomain(name);
    return why != NULL ? why : name_check_subdomain(sub);
}

static const char *check_verb(struct slice verb)
{
    if (slice_eq(verb, SLICE("*"))) {
        return NULL;
    }
    return name_check_label(verb);
}

static const char *check_namespace(struct slice namespace)
{
    return namespace.len == 0 || slice_eq(namespace, SLICE("*")) ? NULL
                                                                 : name_check_label(namespace);
}

static const struct {
    const char *key;
    const char *(*check)(struct slice);
} dimensions[ROW_DIMENSIONS] = {
    [ROW_NAMESPACE] = {"namespaces", check_namespace},
    [ROW_GROUP] = {"apiGroups", check_group},
    [ROW_RESOURCE] = {"resources", check_resource},
    [ROW_VERB] = {"verbs", check_verb},
};

static void add_name(const struct place *p, struct row_table *rows, uint16_t row,
                     enum row_dimension d, const char *value)
{
    place_count_name(p);
    if (p->s->e->code == 0 && row_table_name(rows, row, d, value) != 0) {
        err_memory(p->s->e);
    }
}

static void read_row(const struct place *p, struct row_table *rows, size_t rule, bool complete)
{
    static const char *const known[] = {"apiGroups", "resources", "verbs", "namespaces", NULL};
    uint16_t row = 0;
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    if (row_table_add(rows, rule, &row) != 0) {
        document_fail(p->s, -E2BIG, p->item, p->path, "Too many: must have at most %d in all",
                      TRAFFIC_ROWS_MAX);
        return;
    }
    for (enum row_dimension d = 0; d < ROW_DIMENSIONS && p->s->e->code == 0; d++) {
        if (!complete && document_member(p->item, dimensions[d].key) == NULL) {
            add_name(p, rows, row, d, "*");
            continue;
        }
        const cJSON *list = document_list(p->s, p->item, p->path, dimensions[d].key,
                                          TRAFFIC_LIST_MAX, dimensions[d].check);
        const cJSON *name;
        cJSON_ArrayForEach(name, list)
        {
            add_name(p, rows, row, d, name->valuestring);
        }
    }
}

const cJSON *place_array(const struct place *p, const char *key, char path[DOCUMENT_PATH_LEN])
{
    place_path(p, key, path);
    const cJSON *list = document_required(p->s, p->item, key, path);
    if (list != NULL && !cJSON_IsArray(list)) {
        document_wrong_type(p->s, list, path, "an array");
    } else if (list != NULL && list->child == NULL) {
        document_fail(p->s, -EINVAL, list, path, "Required value: must have at least one entry");
    }
    return p->s->e->code == 0 ? list : NULL;
}

/* They may be left out where there is `instead`. */
static void read_rows(const struct place *p, struct row_table *rows, size_t rule, bool complete,
                      const char *instead)
{
    char path[DOCUMENT_PATH_LEN];
    size_t i = 0;
    if (document_member(p->item, "resources") == NULL &&
        document_member(p->item, instead) != NULL) {
        return;
    }
    const cJSON *list = place_array(p, "resources", path);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        char item_path[DOCUMENT_PATH_LEN];
        (void)snprintf(item_path, sizeof item_path, "%.100s[%zu]", path, i++);
        read_row(&(struct place){p->s, p->t, item, item_path}, rows, rule, complete);
        if (p->s->e->code != 0) {
            return;
        }
    }
}

/* ---- a breaker's rule ---- */

static void read_bucket(const struct place *p, struct traffic_limiting *l)
{
    static const char *const known[] = {"burst", "limit", "intervalMs", NULL};
    char path[DOCUMENT_PATH_LEN];
    const cJSON *item = place_part(p, "bucket", known, path);
    bool optional = l->trigger != TRAFFIC_NORMAL &&
                    (l->trigger != TRAFFIC_LIMITER_ONLY || l->max_in_flight > 0);
    l->has_bucket = item != NULL;
    if (item == NULL) {
        if (!optional) {
            document_fail(p->s, -EINVAL, p->item, path, "Required value");
        }
        return;
    }
    struct place inner = {p->s, p->t, item, path};
    l->bucket.burst = (uint32_t)read_number(&inner, "burst", 0, UINT32_MAX);
    l->bucket.limit = (uint32_t)read_number(&inner, "limit", 0, UINT32_MAX);
    l->bucket.interval_ms = read_number(&inner, "intervalMs", 1, TRAFFIC_TIME_MAX_MS);
}

static void read_recover(const struct place *p, struct traffic_limiting *l)
{
    static const char *const known[] = {"type", "windowMs", NULL};
    char path[DOCUMENT_PATH_LEN];
    const cJSON *item = place_part(p, "recover", known, path);
    if (item == NULL) {
        if (l->trigger == TRAFFIC_NORMAL || l->trigger == TRAFFIC_HEALTH) {
            document_fail(p->s, -EINVAL, p->item, path, "Required value");
        }
        return;
    }
    struct place inner = {p->s, p->t, item, path};
    l->recover =
        (enum traffic_recover)place_word(&inner, "type", traffic_recover_words, TRAFFIC_RECOVERS);
    if (l->recover == TRAFFIC_SLEEPING_WINDOW) {
        l->window_ms = read_number(&inner, "windowMs", 1, TRAFFIC_TIME_MAX_MS);
    }
}

static void read_health(const struct place *p, struct traffic_limiting *l)
{
    static const char *const known[] = {
        "windowMs", "minimumRequests", "errorPercent", "slowMs", "slowPercent", "halfOpen", NULL};
    char path[DOCUMENT_PATH_LEN];
    const cJSON *item = place_part(p, "health", known, path);
    if ((item != NULL) != (l->trigger == TRAFFIC_HEALTH)) {
        document_fail(p->s, -EINVAL, item != NULL ? item : p->item, path, "%s",
                      item != NULL ? "Forbidden: only with the trigger Health" : "Required value");
    }
    if (item == NULL) {
        return;
    }
    struct place inner = {p->s, p->t, item, path};
    struct traffic_health *h = &l->health;
    h->window_ms = read_number(&inner, "windowMs", TRAFFIC_HEALTH_MIN_MS, TRAFFIC_TIME_MAX_MS);
    h->minimum_requests = (uint32_t)read_number(&inner, "minimumRequests", 1, UINT32_MAX);
    h->error_percent = (uint32_t)read_optional(&inner, "errorPercent", 1, 100, 0);
    h->slow_ms = read_optional(&inner, "slowMs", 1, TRAFFIC_TIME_MAX_MS, 0);
    h->slow_percent = (uint32_t)read_optional(&inner, "slowPercent", 1, 100, 0);
    h->half_open = (uint32_t)read_optional(&inner, "halfOpen", 1, TRAFFIC_HALF_OPEN_MAX, 1);
    if ((h->slow_ms == 0) != (h->slow_percent == 0)) {
        document_fail(p->s, -EINVAL, item, path,
                      "Required value: slowMs and slowPercent go together");
    } else if (h->error_percent == 0 && h->slow_ms == 0) {
        document_fail(p->s, -EINVAL, item, path,
                      "Required value: errorPercent, or slowMs and slowPercent");
    }
}

static void read_limiting(const struct place *p, struct traffic_limiting *l, size_t rule)
{
    static const char *const known[] = {"name",        "resources", "urls",   "trigger", "bucket",
                                        "maxInFlight", "recover",   "health", NULL};
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    l->name = place_rule_name(p);
    l->trigger =
        (enum traffic_trigger)place_word(p, "trigger", traffic_trigger_words, TRAFFIC_TRIGGERS);
    l->max_in_flight = (uint32_t)read_optional(p, "maxInFlight", 1, UINT32_MAX, 0);
    read_bucket(p, l);
    read_recover(p, l);
    read_health(p, l);
    if (document_member(p->item, "urls") != NULL) {
        parse_urls(p, rule);
    }
    read_rows(p, &p->t->limiting_rows, rule, true, "urls");
}

/* ---- a fault ---- */

static const char *read_when_time(const struct place *p, const char *key, uint32_t *out)
{
    char path[DOCUMENT_PATH_LEN];
    place_path(p, key, path);
    if (document_member(p->item, key) == NULL) {
        return NULL;
    }
    const char *text = document_string(p->s, p->item, key, path);
    if (!schedule_read_time(text, out)) {
        document_fail(p->s, -EINVAL, document_member(p->item, key), path,
                      "Invalid value: \"%.100s\": must be a time like 15:04:05", text);
    }
    return text;
}

/* A bit for each number in a list that may be left out. */
static uint32_t read_days(const struct place *p, const char *key, int min, int max)
{
    char path[DOCUMENT_PATH_LEN];
    uint32_t bits = 0;
    if (document_member(p->item, key) == NULL) {
        return 0;
    }
    const cJSON *list = place_array(p, key, path);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        double n = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(n >= min && n <= max) || n != (double)(int)n) {
            document_fail(p->s, -EINVAL, item, path,
                          "Invalid value: must be integers from %d to %d", min, max);
            return 0;
        }
        bits |= UINT32_C(1) << (unsigned)n;
    }
    return bits;
}

static void read_zone(const struct place *p, struct schedule *s)
{
    static const char *const known[] = {"name", "rule", NULL};
    char path[DOCUMENT_PATH_LEN];
    char rule_path[DOCUMENT_PATH_LEN];
    struct err why = ERR_INIT;
    const cJSON *item = place_part(p, "zone", known, path);
    if (item == NULL) {
        return;
    }
    struct place inner = {p->s, p->t, item, path};
    (void)place_text(&inner, "name", 255);
    place_path(&inner, "rule", rule_path);
    const char *rule = document_string(p->s, item, "rule", rule_path);
    if (time_zone_parse(rule, &s->zone, &why) != 0) {
        document_fail(p->s, -EINVAL, document_member(item, "rule"), rule_path, "Invalid value: %s",
                      why.msg);
    }
}

static void read_when(const struct place *p, struct traffic_fault *f, struct schedule *s)
{
    static const char *const known[] = {"start",  "end",  "daysOfWeek", "daysOfMonth",
                                        "months", "zone", NULL};
    char path[DOCUMENT_PATH_LEN];
    const cJSON *item = place_part(p, "when", known, path);
    if (item == NULL) {
        return;
    }
    struct place inner = {p->s, p->t, item, path};
    schedule_init(s);
    bool start = read_when_time(&inner, "start", &s->start) != NULL;
    bool end = read_when_time(&inner, "end", &s->end) != NULL;
    if (start != end) {
        document_fail(p->s, -EINVAL, item, path, "Required value: start and end go together");
    }
    s->days_of_week = (uint8_t)read_days(&inner, "daysOfWeek", 0, 6);
    s->days_of_month = read_days(&inner, "daysOfMonth", 1, 31);
    s->months = (uint16_t)read_days(&inner, "months", 1, 12);
    read_zone(&inner, s);
    f->when = s;
}

static void read_fault(const struct place *p, struct traffic_fault *f, size_t rule)
{
    static const char *const known[] = {"name",  "resources", "http", "delay",
                                        "abort", "when",      NULL};
    static const char *const delay_known[] = {"ms", "ppm", NULL};
    static const char *const abort_known[] = {"status", "ppm", NULL};
    char path[DOCUMENT_PATH_LEN];
    if (!document_check_object(p->s, p->item, p->path, known)) {
        return;
    }
    f->name = place_rule_name(p);
    const cJSON *delay = place_part(p, "delay", delay_known, path);
    if (delay != NULL) {
        struct place inner = {p->s, p->t, delay, path};
        f->delay_ms = read_number(&inner, "ms", 1, TRAFFIC_DELAY_MAX_MS);
        f->delay_ppm = (uint32_t)read_number(&inner, "ppm", 0, TRAFFIC_PPM);
    }
    const cJSON *abort = place_part(p, "abort", abort_known, path);
    if (abort != NULL) {
        struct place inner = {p->s, p->t, abort, path};
        f->abort_status = (unsigned)read_number(&inner, "status", 400, 599);
        f->abort_ppm = (uint32_t)read_number(&inner, "ppm", 0, TRAFFIC_PPM);
    }
    if (delay == NULL && abort == NULL) {
        document_fail(p->s, -EINVAL, p->item, p->path, "Required value: delay or abort");
    }
    read_when(p, f, &p->t->schedules[rule]);
    if (document_member(p->item, "http") != NULL) {
        parse_http(p, rule);
    }
    read_rows(p, &p->t->fault_rows, rule, false, "http");
}

/* ---- policies ---- */

struct family {
    enum traffic_kind kind;
    const char *key; /* in the spec */
    const char *rules;
    const char *const *known;
};

#define INTERCEPTS "intercepts"

static const char *const breaker_known[] = {"name",  "uid",       "specHash",   "pods",
                                            "reset", "limitings", "intercepts", NULL};
static const char *const fault_known[] = {"name", "uid", "specHash", "pods", "rules", NULL};

static const struct family families[] = {
    {TRAFFIC_BREAKER, "breakers", "limitings", breaker_known},
    {TRAFFIC_FAULT_INJECTION, "faults", "rules", fault_known},
};

/* The selector is put into its canonical form. */
static void read_pods(const struct place *p, struct traffic_policy *policy)
{
    struct err inner = ERR_INIT;
    char path[DOCUMENT_PATH_LEN];
    place_path(p, "pods", path);
    const char *text = document_string(p->s, p->item, "pods", path);
    cJSON *item = document_member(p->item, "pods");
    if (p->s->e->code != 0) {
        return;
    }
    struct selector *selector = selector_parse(slice_str(text), &inner);
    struct buf canonical = BUF_INIT((size_t)2 * SELECTOR_TEXT_MAX); /* blanks are added */
    policy->pods = selector;
    if (selector == NULL) {
        document_fail(p->s, inner.code, item, path, "Invalid value: \"%.100s\": %s", text,
                      inner.msg);
    } else if (selector_print(selector, &canonical) != 0 || buf_cstr(&canonical) == NULL ||
               cJSON_SetValuestring(item, buf_cstr(&canonical)) == NULL) {
        err_memory(p->s->e);
    }
    buf_reset(&canonical);
}

static void read_resets(const struct place *p)
{
    char path[DOCUMENT_PATH_LEN];
    const cJSON *resets = place_part(p, "reset", NULL, path);
    const cJSON *token;
    cJSON_ArrayForEach(token, resets)
    {
        if (!cJSON_IsString(token) || token->valuestring[0] == '\0' ||
            strlen(token->valuestring) > TRAFFIC_TOKEN_MAX) {
            document_fail(p->s, -EINVAL, token, path,
                          "Invalid value: must be texts of 1 to %d bytes by the rule's name",
                          TRAFFIC_TOKEN_MAX);
        }
    }
}

static void read_policy(const struct place *p, const struct family *f,
                        struct traffic_policy *policy)
{
    char path[DOCUMENT_PATH_LEN];
    if (!document_check_object(p->s, p->item, p->path, f->known)) {
        return;
    }
    policy->kind = f->kind;
    place_path(p, "name", path);
    policy->name = document_name(p->s, p->item, "name", path, name_check_subdomain);
    policy->uid = place_text(p, "uid", 63);
    policy->spec_hash = place_text(p, "specHash", 71);
    read_pods(p, policy);
    bool intercepts = f->kind == TRAFFIC_BREAKER && document_member(p->item, INTERCEPTS) != NULL;
    if (f->kind == TRAFFIC_BREAKER) {
        read_resets(p);
    }
    if (intercepts) {
        (void)place_array(p, INTERCEPTS, path);
    }
    if (!intercepts || document_member(p->item, f->rules) != NULL) {
        (void)place_array(p, f->rules, path);
    }
}

/* Where each policy stands in the document: they are read in that order, and evaluated by name. */
struct listed {
    const cJSON *item;
    size_t index;
    struct traffic_policy policy;
};

static int compare_listed(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->policy.name, ((const struct listed *)b)->policy.name);
}

static void check_distinct_policies(const struct document_reader *s, const struct family *f,
                                    const struct listed *all, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(all[i - 1].policy.name, all[i].policy.name) == 0) {
            char path[DOCUMENT_PATH_LEN];
            (void)snprintf(path, sizeof path, "spec.%s", f->key);
            document_fail(s, -EINVAL, all[i].item, path, "Duplicate value: \"%.100s\"",
                          all[i].policy.name);
        }
    }
}

/* Against those of the same policy before it. */
static bool limiting_is_new(const struct traffic *t, const struct traffic_limiting *l)
{
    for (const struct traffic_limiting *o = l; o > t->limitings && o[-1].policy == l->policy; o--) {
        if (strcmp(o[-1].name, l->name) == 0) {
            return false;
        }
    }
    return true;
}

static bool fault_is_new(const struct traffic *t, const struct traffic_fault *f)
{
    for (const struct traffic_fault *o = f; o > t->faults && o[-1].policy == f->policy; o--) {
        if (strcmp(o[-1].name, f->name) == 0) {
            return false;
        }
    }
    return true;
}

/* The token that closes it. */
static const char *reset_of(const cJSON *policy, const char *rule)
{
    const cJSON *token = document_member(document_member(policy, "reset"), rule);
    return cJSON_IsString(token) ? token->valuestring : "";
}

static bool intercept_is_new(const struct traffic *t, const struct traffic_intercept *r)
{
    for (const struct traffic_intercept *o = r; o > t->intercepts && o[-1].policy == r->policy;
         o--) {
        if (strcmp(o[-1].name, r->name) == 0) {
            return false;
        }
    }
    return true;
}

/* Each returns whether there is none with its name. */
typedef bool (*read_rule_cb)(const struct place *p, const struct listed *of,
                             const struct traffic_policy *policy);

static bool read_one_limiting(const struct place *p, const struct listed *of,
                              const struct traffic_policy *policy)
{
    struct traffic *t = p->t;
    struct traffic_limiting *l = &t->limitings[t->limiting_count];
    l->policy = policy;
    read_limiting(p, l, t->limiting_count++);
    if (p->s->e->code != 0) {
        return true;
    }
    l->reset = reset_of(of->item, l->name);
    return limiting_is_new(t, l);
}

static bool read_one_intercept(const struct place *p, const struct listed *of,
                               const struct traffic_policy *policy)
{
    struct traffic *t = p->t;
    struct traffic_intercept *r = &t->intercepts[t->intercept_count];
    (void)of;
    r->policy = policy;
    parse_intercept(p, r, t->intercept_count++);
    return p->s->e->code != 0 || intercept_is_new(t, r);
}

static bool read_one_fault(const struct place *p, const struct listed *of,
                           const struct traffic_policy *policy)
{
    struct traffic *t = p->t;
    struct traffic_fault *f = &t->faults[t->fault_count];
    (void)of;
    f->policy = policy;
    read_fault(p, f, t->fault_count++);
    return p->s->e->code != 0 || fault_is_new(t, f);
}

static void read_rule(const struct place *p, const struct listed *of,
                      const struct traffic_policy *policy, read_rule_cb read)
{
    if (!read(p, of, policy)) {
        char path[DOCUMENT_PATH_LEN];
        place_path(p, "name", path);
        document_fail(p->s, -EINVAL, p->item, path, "Duplicate value: \"%.100s\"",
                      document_member(p->item, "name")->valuestring);
    }
}

/* Those that stand at `key` of the policy. */
static void read_rules(const struct place *family, const char *key, const struct listed *of,
                       const struct traffic_policy *policy, read_rule_cb read)
{
    size_t i = 0;
    const cJSON *rule;
    cJSON_ArrayForEach(rule, document_member(of->item, key))
    {
        char path[DOCUMENT_PATH_LEN];
        (void)snprintf(path, sizeof path, "%.64s[%zu].%s[%zu]", family->path, of->index, key, i++);
        read_rule(&(struct place){family->s, family->t, rule, path}, of, policy, read);
        if (family->s->e->code != 0) {
            return;
        }
    }
}

static void read_rules_of(const struct place *family, const struct family *f,
                          const struct listed *of, const struct traffic_policy *policy)
{
    if (f->kind == TRAFFIC_FAULT_INJECTION) {
        read_rules(family, f->rules, of, policy, read_one_fault);
        return;
    }
    read_rules(family, f->rules, of, policy, read_one_limiting);
    if (family->s->e->code == 0) {
        read_rules(family, INTERCEPTS, of, policy, read_one_intercept);
    }
}

static void read_family(const struct document_reader *s, struct traffic *t, const struct family *f,
                        const cJSON *list, struct listed *all)
{
    size_t count = 0;
    const cJSON *item;
    size_t first = t->policy_count;
    cJSON_ArrayForEach(item, list)
    {
        char path[DOCUMENT_PATH_LEN];
        struct listed *of = &all[count];
        (void)snprintf(path, sizeof path, "spec.%s[%zu]", f->key, count);
        *of = (struct listed){.item = item, .index = count++};
        read_policy(&(struct place){s, t, item, path}, f, &of->policy);
        /* What it has made is freed with the rest. */
        t->policies[t->policy_count++] = of->policy;
        if (s->e->code != 0) {
            return;
        }
    }
    qsort(all, count, sizeof *all, compare_listed);
    check_distinct_policies(s, f, all, count);
    for (size_t i = 0; i < count; i++) {
        t->policies[first + i] = all[i].policy;
    }
    char family_path[DOCUMENT_PATH_LEN];
    (void)snprintf(family_path, sizeof family_path, "spec.%s", f->key);
    for (size_t i = 0; i < count && s->e->code == 0; i++) {
        read_rules_of(&(struct place){s, t, list, family_path}, f, &all[i],
                      &t->policies[first + i]);
    }
}

/* ---- the document ---- */

/* How many policies or rules stand in it: so many at most that can be read. */
static size_t count_rules(const cJSON *list, const char *key)
{
    size_t count = 0;
    const cJSON *policy;
    cJSON_ArrayForEach(policy, list)
    {
        count += (size_t)cJSON_GetArraySize(document_member(policy, key));
    }
    return count;
}

static int allocate(struct traffic *t, size_t policies, size_t limitings, size_t faults)
{
    t->policies = calloc(policies + 1, sizeof *t->policies);
    t->limitings = calloc(limitings + 1, sizeof *t->limitings);
    t->faults = calloc(faults + 1, sizeof *t->faults);
    t->schedules = calloc(faults + 1, sizeof *t->schedules);
    bool all =
        t->policies != NULL && t->limitings != NULL && t->faults != NULL && t->schedules != NULL;
    return all ? 0 : -ENOMEM;
}

static void read_policies(const struct document_reader *s, struct traffic *t, const cJSON *spec)
{
    struct listed all[TRAFFIC_POLICIES_MAX];
    size_t counts[ARRAY_LEN(families)] = {0};
    size_t policies = 0;
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        const cJSON *list = document_member(spec, families[i].key);
        char path[DOCUMENT_PATH_LEN];
        (void)snprintf(path, sizeof path, "spec.%s", families[i].key);
        if (list != NULL && !cJSON_IsArray(list)) {
            document_wrong_type(s, list, path, "an array");
            return;
        }
        policies += (size_t)cJSON_GetArraySize(list);
        counts[i] = count_rules(list, families[i].rules);
    }
    if (policies > TRAFFIC_POLICIES_MAX || counts[0] > TRAFFIC_ROWS_MAX ||
        counts[1] > TRAFFIC_ROWS_MAX) {
        document_fail(s, -E2BIG, spec, "spec",
                      "Too many: must have at most %d policies, and %d rules of either kind",
                      TRAFFIC_POLICIES_MAX, TRAFFIC_ROWS_MAX);
        return;
    }
    if (allocate(t, policies, counts[0], counts[1]) != 0) {
        err_memory(s->e);
        return;
    }
    if (!parse_external_begin(s, t, spec)) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(families) && s->e->code == 0; i++) {
        read_family(s, t, &families[i], document_member(spec, families[i].key), all);
    }
}

static void read_document(const struct document_reader *s, struct traffic *t)
{
    static const char *const known[] = {"breakers", "faults", NULL};
    char too_long[64];
    (void)snprintf(too_long, sizeof too_long, "it has more than %d bytes",
                   TRAFFIC_TEXT_MAX - TRAFFIC_FRAME_MAX);
    if (!cJSON_IsObject(s->root)) {
        err_set(s->e, -EINVAL, "the document must be a JSON object");
        return;
    }
    document_constant(s, "apiVersion", TRAFFIC_API_VERSION);
    document_constant(s, "kind", TRAFFIC_KIND);
    document_shard(s, &t->shard_namespace, &t->shard_name);
    t->generation = document_generation(
        s, document_required(s, s->root, "generation", "generation"), "generation");
    (void)document_required(s, s->root, "spec", "spec");
    const cJSON *spec = document_object(s, s->root, "spec", "spec", known);
    if (s->e->code != 0) {
        return;
    }
    read_policies(s, t, spec);
    if (s->e->code == 0) {
        document_checksum(s, TRAFFIC_TEXT_MAX - TRAFFIC_FRAME_MAX, "spec", too_long, t->checksum);
    }
    if (s->e->code == 0 &&
        (row_table_build(&t->limiting_rows) != 0 || row_table_build(&t->fault_rows) != 0 ||
         external_table_build(&t->external) != 0)) {
        err_memory(s->e);
    }
}

struct traffic *traffic_parse(const char *text, size_t len, struct err *e)
{
    static const struct document_bounds bounds = {
        .bytes = TRAFFIC_TEXT_MAX, .values = TRAFFIC_VALUES_MAX, .beside = VALUES_BESIDE_MAX};
    struct err why = ERR_INIT;
    struct slice document = document_without_mark(slice_of(text, len));
    struct traffic *t = calloc(1, sizeof *t);
    if (t == NULL) {
        err_memory(e);
        return NULL;
    }
    t->refs = 1;
    t->document = document_parse(document, &bounds, &why);
    if (why.code == 0) {
        const struct document_reader s = {
            .text = document.ptr, .len = document.len, .root = t->document, .e = &why};
        read_document(&s, t);
    }
    if (why.code != 0) {
        traffic_unref(t);
        err_set(e, why.code, "%s", why.msg);
        return NULL;
    }
    return t;
}
