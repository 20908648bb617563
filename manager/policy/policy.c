/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "crypto/digest.h"
#include "kube/name.h"
#include "policy/policy_advice.h"
#include "policy/policy_recover.h"
#include "policy/zone_file.h"
#include "json/field.h"
#include "json/json.h"
#include "json/scanner.h"

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
    struct policy_tally tally; /* of one that is valid */
    char *entry_text;
    cJSON *zones;              /* rules of time zones by name */
    struct policy_entry entry; /* with both of the above */
};

/* What it is read with. */
struct reader {
    const struct policy_options *options;
    struct policy_findings *out;
    struct policy *policy;
    struct traffic_reading reading;
};

/* ---- kinds ---- */

static const struct {
    const char *name;
    const char *plural;
    const char *disable; /* label */
    const struct schema_object *spec;
} kinds[TRAFFIC_KINDS] = {
    [TRAFFIC_BREAKER] = {"CircuitBreaker", "circuitbreakers", POLICY_DISABLE_BREAKER,
                         &circuit_breaker_spec},
    [TRAFFIC_FAULT_INJECTION] = {"FaultInjection", "faultinjections", POLICY_DISABLE_FAULT,
                                 &fault_injection_spec},
};

const char *policy_kind_name(enum traffic_kind kind)
{
    return kinds[kind].name;
}

const char *policy_kind_plural(enum traffic_kind kind)
{
    return kinds[kind].plural;
}

const struct schema_object *policy_spec_rows(enum traffic_kind kind)
{
    return kinds[kind].spec;
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

/* ---- the spec ---- */

static void on_finding(void *data, bool error, const char *text)
{
    struct reader *x = data;
    warnings_add(error ? &x->out->errors : &x->out->warnings, "%s", text);
}

/* The rows of what is checked, beside the spec. */
struct head {
    const char *name;
    const char *namespace;
    const char *uid;
};

static const struct schema_field metadata_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct head, name), .required = "",
     .check = name_check_subdomain},
    {"namespace", SCHEMA_TEXT, SCHEMA_MEMBER(struct head, namespace), .check = name_check_label},
    /* The API server makes none that is longer. */
    {"uid", SCHEMA_TEXT, SCHEMA_MEMBER(struct head, uid), .max = TRAFFIC_UID_MAX},
};
static const struct schema_object metadata = {SCHEMA_OBJECT_OF(metadata_fields, struct head),
                                              .open = true};

static const char *const versions[] = {POLICY_API_VERSION, NULL};
static const struct schema_field head_fields[] = {
    {"apiVersion", SCHEMA_CONSTANT, .required = "", .words = versions},
    {"metadata", SCHEMA_PART, .required = "", .object = &metadata},
};
static const struct schema_object head = {SCHEMA_OBJECT_OF(head_fields, struct head), .open = true};

static void check_metadata(struct reader *x, const cJSON *object)
{
    struct head ignored;
    struct schema_reader r = {.on_finding = on_finding, .data = x};
    const struct schema_path at = SCHEMA_AT(NULL, "", object);
    (void)!schema_read(&r, &head, &at, &ignored);
}

/* Notes its rule for the document. */
static void on_zone(struct schema_reader *r, const struct schema_path *at, const char *name,
                    struct time_zone *out)
{
    const struct reader *x = ((const struct traffic_reading *)r->data)->data;
    struct err e = ERR_INIT;
    struct zone_rule rule;
    char when[RFC3339_SIZE];
    if (zone_file_rule(x->options->zones, name, x->options->now, &rule, &e) != 0 ||
        time_zone_parse(rule.text, out, &e) != 0) {
        schema_error(r, at, NULL, "Invalid value: \"%.100s\": %s", name, e.msg);
        return;
    }
    if (field_get(x->policy->zones, name) == NULL) {
        (void)xptr(cJSON_AddStringToObject(x->policy->zones, name, rule.text));
    }
    if (rule.differs != 0 && rfc3339_format(rule.differs, when) == 0) {
        schema_warn(r, at, NULL,
                    "clocks of %.100s do not follow one rule: from %s they differ for a while from "
                    "%s, which is used",
                    name, when, rule.text);
    }
}

static void take_selector(struct reader *x, const struct traffic_spec *spec)
{
    if (spec->pods != NULL) {
        x->policy->selector = x->reading.selectors[0];
        x->reading.selector_count = 0;
    }
}

/* What its document has of it (core/traffic/README.md), in canonical form. */
static int write_entry(const struct policy *p, const cJSON *spec, const cJSON *reset,
                       struct buf *out)
{
    (void)buf_append_str(out, "{\"name\":");
    (void)json_quote(p->name, out);
    if (reset != NULL) {
        (void)buf_append_str(out, ",\"reset\":");
        (void)json_canonical(reset, out);
    }
    (void)buf_append_str(out, ",\"spec\":");
    (void)json_canonical(spec, out);
    (void)buf_printf(out, ",\"specHash\":\"%s\"", p->spec_hash);
    if (p->uid[0] != '\0') {
        (void)buf_append_str(out, ",\"uid\":");
        (void)json_quote(p->uid, out);
    }
    (void)buf_append_char(out, '}');
    return xrc(buf_error(out));
}

static void make_entry(struct reader *x, const cJSON *spec, const cJSON *reset)
{
    struct policy *p = x->policy;
    struct buf text = BUF_INIT(TRAFFIC_TEXT_MAX);
    int rc = write_entry(p, spec, reset, &text);
    if (rc == -ENOBUFS) {
        warnings_add(&x->out->errors, "spec: Too long: must have at most %d bytes",
                     TRAFFIC_TEXT_MAX);
    } else if (rc != 0) {
        warnings_add(&x->out->errors, "spec: %s", err_text(rc));
    } else {
        size_t len = text.len;
        p->entry_text = xptr(buf_take_str(&text));
        p->entry = (struct policy_entry){.text = p->entry_text,
                                         .len = len,
                                         .counts = x->reading.counts,
                                         .values = json_count_values(slice_of(p->entry_text, len)),
                                         .zones = p->zones};
    }
    buf_reset(&text);
}

static void read_spec(struct reader *x, const cJSON *object)
{
    struct policy *p = x->policy;
    const cJSON *item = field_get(object, "spec");
    const struct schema_path at = SCHEMA_AT(NULL, "spec", item);
    struct schema_reader r = traffic_reader(&x->reading);
    struct traffic_spec spec = {.selector = NULL};
    cJSON *reset = NULL;
    if (item == NULL) {
        warnings_add(&x->out->errors, "spec: Required value");
        return;
    }
    (void)!xrc(schema_read(&r, kinds[p->kind].spec, &at, &spec));
    policy_advise(&r, p->kind, &at, &spec, &p->tally);
    take_selector(x, &spec);
    if (p->kind == TRAFFIC_BREAKER) {
        reset = policy_read_recover(object, &spec.limitings, x->out);
    }
    if (!policy_findings_failed(x->out) && p->tally.rules > 0) {
        make_entry(x, item, reset);
    }
    cJSON_Delete(reset);
}

struct policy *policy_read(enum traffic_kind kind, const cJSON *object,
                           const struct policy_options *o, struct policy_findings *out)
{
    struct policy_findings own = POLICY_FINDINGS_INIT;
    struct policy *p = xcalloc(1, sizeof *p);
    struct reader x = {.options = o, .out = out == NULL ? &own : out, .policy = p};
    x.reading.on_finding = on_finding;
    x.reading.zone = on_zone;
    x.reading.data = &x;
    p->refs = 1;
    p->kind = kind;
    p->zones = xptr(cJSON_CreateObject());
    read_metadata(p, object);
    check_metadata(&x, object);
    read_spec(&x, object);
    p->valid = !policy_findings_failed(x.out);
    if (!p->valid) {
        p->tally = (struct policy_tally){0};
    }
    traffic_reading_deinit(&x.reading);
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
    cJSON_Delete(p->zones);
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
    return p->tally.rules;
}

size_t policy_external_rules(const struct policy *p)
{
    return p->tally.external;
}

size_t policy_blind_rules(const struct policy *p)
{
    return p->tally.blind;
}

const struct policy_entry *policy_entry(const struct policy *p)
{
    return p->valid && p->entry.text != NULL ? &p->entry : NULL;
}
