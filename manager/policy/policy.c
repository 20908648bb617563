/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/xalloc.h"
#include "crypto/digest.h"
#include "kube/name.h"
#include "policy/policy_check.h"
#include "policy/policy_pattern.h"
#include "policy/policy_reader.h"
#include "json/field.h"
#include "json/json.h"
#include "json/scanner.h"

/* To compare it with the selectors of shards takes time that grows with these. */
enum { REQUIREMENTS_MAX = 64 };

#define GENERATION_MAX 9007199254740992.0 /* 2^53: more a JSON number does not tell */

struct policy {
    unsigned refs;
    enum traffic_kind kind;
    bool valid;
    bool disabled;
    bool has_finalizer;
    bool deleting;
    char *name;
    char *ns;
    char *uid;
    char *created;
    int64_t generation;
    char spec_hash[POLICY_SPEC_HASH_LEN + 1];
    struct selector *selector;
    size_t rules;
    size_t external_rules;
    size_t blind_rules;
    char *entry_text;
    struct policy_entry entry; /* with the text above */
};

/* ---- kinds ---- */

static const struct {
    const char *name;
    const char *plural;
    const char *disable; /* label */
    const char *rules;   /* their list in an entry of the document */
} kinds[] = {
    [TRAFFIC_BREAKER] = {"CircuitBreaker", "circuitbreakers", POLICY_DISABLE_BREAKER, "limitings"},
    [TRAFFIC_FAULT_INJECTION] = {"FaultInjection", "faultinjections", POLICY_DISABLE_FAULT,
                                 "rules"},
};

const char *policy_kind_name(enum traffic_kind kind)
{
    return kinds[kind].name;
}

const char *policy_kind_plural(enum traffic_kind kind)
{
    return kinds[kind].plural;
}

bool policy_is_one(const cJSON *document, enum traffic_kind *kind)
{
    const char *text = field_text(document, "kind");
    for (int i = TRAFFIC_BREAKER; i <= TRAFFIC_FAULT_INJECTION; i++) {
        if (strcmp(text, kinds[i].name) == 0) {
            *kind = (enum traffic_kind)i;
            return true;
        }
    }
    return false;
}

/* ---- metadata ---- */

/* Whatever the label's value, the empty one too. */
static bool read_disabled(enum traffic_kind kind, const cJSON *object)
{
    const cJSON *labels = field_map(field_get(object, "metadata"), "labels");
    bool label = cJSON_GetObjectItemCaseSensitive(labels, kinds[kind].disable) != NULL;
    bool field = kind == TRAFFIC_FAULT_INJECTION &&
                 cJSON_IsTrue(field_get(field_get(object, "spec"), "disabled"));
    return label || field;
}

static void read_spec_hash(struct policy *p, const cJSON *spec)
{
    struct buf text = BUF_INIT(SIZE_MAX / 2);
    char hex[SHA256_HEX_LEN + 1];
    /* What JSON cannot say is refused elsewhere. */
    if (spec == NULL || xrc(json_canonical(spec, &text)) == 0) {
        sha256_hex(buf_data(&text), text.len, hex);
        memcpy(p->spec_hash, hex, POLICY_SPEC_HASH_LEN);
    }
    buf_reset(&text);
}

static void read_metadata(struct policy *p, const cJSON *object)
{
    const cJSON *meta = field_get(object, "metadata");
    double number = field_generation(object);
    p->name = xstrdup(field_text(meta, "name"));
    p->ns = xstrdup(field_text(meta, "namespace"));
    p->uid = xstrdup(field_text(meta, "uid"));
    p->created = xstrdup(field_text(meta, "creationTimestamp"));
    p->generation = number >= 0 && number <= GENERATION_MAX ? (int64_t)number : 0;
    p->has_finalizer = field_has(field_get(meta, "finalizers"), POLICY_FINALIZER);
    p->deleting = field_get(meta, "deletionTimestamp") != NULL;
    p->disabled = read_disabled(p->kind, object);
    read_spec_hash(p, field_get(object, "spec"));
}

static void check_name(struct policy_reader *r, const char *key, const char *name,
                       const char *(*check)(struct slice))
{
    const char *why = check(slice_str(name));
    if (why != NULL) {
        policy_error(r, "metadata.%s: Invalid value: \"%.100s\": %s", key, name, why);
    }
}

static void check_metadata(struct policy_reader *r, const struct policy *p, const cJSON *object)
{
    const char *version = policy_required(r, object, "", "apiVersion");
    if (version[0] != '\0' && strcmp(version, POLICY_API_VERSION) != 0) {
        policy_error(r, "apiVersion: Unsupported value: \"%.100s\": supported values: \"%s\"",
                     version, POLICY_API_VERSION);
    }
    if (policy_required(r, field_get(object, "metadata"), "metadata", "name")[0] != '\0') {
        check_name(r, "name", p->name, name_check_subdomain);
    }
    if (policy_text(r, field_get(object, "metadata"), "metadata", "namespace")[0] != '\0') {
        check_name(r, "namespace", p->ns, name_check_label);
    }
}

/* ---- the selector ---- */

static void read_selector(struct policy_reader *r, struct policy *p, const cJSON *spec)
{
    static const char path[] = "spec.selector";
    struct err e = ERR_INIT;
    size_t requirements = 0;
    const cJSON *item = field_get(spec, "selector");
    if (item == NULL) {
        policy_warn(r, "%s: is not set: no pod is selected; write {} for all of the namespace",
                    path);
        p->selector = xptr(selector_nothing());
        return;
    }
    p->selector = selector_from_label_selector(item, path, &e);
    if (!policy_check(r, p->selector == NULL ? e.code : 0, &e)) {
        return;
    }
    (void)selector_requirements(p->selector, &requirements);
    if (requirements > REQUIREMENTS_MAX) {
        policy_error(r, "%s: Too many: must have at most %d requirements", path, REQUIREMENTS_MAX);
    }
}

static void write_selector(struct policy_reader *r, const struct policy *p, cJSON *entry)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    if (p->selector != NULL && xrc(selector_print(p->selector, &text)) != 0) {
        policy_error(r, "spec.selector: Too long: must have at most %d bytes", SELECTOR_TEXT_MAX);
        buf_clear(&text);
    }
    edit_string(&r->edit, entry, "pods", xptr(buf_cstr(&text)));
    buf_reset(&text);
}

/* ---- the entry ---- */

/* Of a policy without errors and with rules. */
static void take_entry(struct policy_reader *r, struct policy *p, const cJSON *entry)
{
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    struct err e = ERR_INIT;
    if (policy_check(r, policy_check_entry(p->kind, entry, &text, &e), &e)) {
        size_t len = text.len;
        p->entry_text = xptr(buf_take_str(&text));
        p->entry = (struct policy_entry){.text = p->entry_text,
                                         .len = len,
                                         .rows = r->row_count,
                                         .names = r->name_count,
                                         .intercepts = r->intercept_count,
                                         .externals = r->external_rows,
                                         .patterns = r->pattern_count,
                                         .values = json_count_values(slice_of(p->entry_text, len))};
    }
    buf_reset(&text);
}

static void read_rules(struct policy_reader *r, struct policy *p, const cJSON *object, cJSON *entry)
{
    const cJSON *spec = field_get(object, "spec");
    edit_string(&r->edit, entry, "name", p->name);
    edit_string(&r->edit, entry, "specHash", p->spec_hash);
    if (p->uid[0] != '\0') {
        edit_string(&r->edit, entry, "uid", p->uid);
    }
    r->rules = edit_array(&r->edit, entry, kinds[p->kind].rules);
    check_metadata(r, p, object);
    if (spec == NULL) {
        policy_error(r, "spec: Required value");
        return;
    }
    read_selector(r, p, spec);
    write_selector(r, p, entry);
    if (p->kind == TRAFFIC_BREAKER) {
        policy_read_breaker(r, spec, entry);
        policy_read_recover(r, object, entry);
        if (cJSON_GetArraySize(r->rules) == 0) { /* the parser takes no empty list */
            cJSON_DeleteItemFromObjectCaseSensitive(entry, kinds[p->kind].rules);
        }
    } else {
        (void)policy_bool(r, spec, "spec", "disabled");
        policy_read_fault_injection(r, spec);
    }
}

static void read_all(struct policy_reader *r, struct policy *p, const cJSON *object)
{
    cJSON *entry = cJSON_CreateObject();
    read_rules(r, p, object, entry);
    if (!policy_findings_failed(r->out) && r->enforced_count > 0) {
        take_entry(r, p, entry);
    }
    cJSON_Delete(entry);
}

static void settle(struct policy *p, const struct policy_reader *r)
{
    p->valid = !policy_findings_failed(r->out);
    p->rules = p->valid ? r->enforced_count : 0;
    p->external_rules = p->valid ? r->external_count : 0;
    p->blind_rules = p->valid ? r->blind_count : 0;
}

struct policy *policy_read(enum traffic_kind kind, const cJSON *object,
                           const struct policy_options *o, struct policy_findings *out)
{
    struct policy_findings own = POLICY_FINDINGS_INIT;
    struct policy_reader r = {
        .options = o, .out = out == NULL ? &own : out, .pattern_steps = POLICY_PATTERN_STEPS};
    struct policy *p = xcalloc(1, sizeof *p);
    p->refs = 1;
    p->kind = kind;
    read_metadata(p, object);
    read_all(&r, p, object);
    settle(p, &r);
    policy_findings_deinit(&own);
    return p;
}

struct policy *policy_ref(struct policy *p)
{
    p->refs++;
    return p;
}

void policy_unref(struct policy *p)
{
    if (p == NULL || --p->refs > 0) {
        return;
    }
    free(p->name);
    free(p->ns);
    free(p->uid);
    free(p->created);
    free(p->entry_text);
    selector_free(p->selector);
    free(p);
}

/* ---- what is known of it ---- */

bool policy_valid(const struct policy *p)
{
    return p->valid;
}

enum traffic_kind policy_kind(const struct policy *p)
{
    return p->kind;
}

const char *policy_name(const struct policy *p)
{
    return p->name;
}

const char *policy_namespace(const struct policy *p)
{
    return p->ns;
}

const char *policy_uid(const struct policy *p)
{
    return p->uid;
}

const char *policy_created(const struct policy *p)
{
    return p->created;
}

int64_t policy_generation(const struct policy *p)
{
    return p->generation;
}

const char *policy_spec_hash(const struct policy *p)
{
    return p->spec_hash;
}

const struct selector *policy_selector(const struct policy *p)
{
    return p->selector;
}

bool policy_disabled(const struct policy *p)
{
    return p->disabled;
}

bool policy_has_finalizer(const struct policy *p)
{
    return p->has_finalizer;
}

bool policy_deleting(const struct policy *p)
{
    return p->deleting;
}

size_t policy_rules(const struct policy *p)
{
    return p->rules;
}

size_t policy_external_rules(const struct policy *p)
{
    return p->external_rules;
}

size_t policy_blind_rules(const struct policy *p)
{
    return p->blind_rules;
}

const struct policy_entry *policy_entry(const struct policy *p)
{
    return p->valid && p->entry.text != NULL ? &p->entry : NULL;
}
