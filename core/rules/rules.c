/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/heap_size.h"
#include "document/document.h"
#include "kube/name.h"
#include "rules/lock_name.h"
#include "rules/rules_table.h"
#include "rules/selector_texts.h"
#include "rules/shared_selectors.h"
#include "json/field.h"
#include "json/json.h"

#define LONG_TEXTS ((size_t)256 * 1024)
#define FRAME_MAX 1024 /* bytes of what rules_to_version writes around the spec */

static const struct rules_labels default_labels = {
    .namespace = "ctrlmesh.kusionstack.io/namespace",
    .shard_hash = "ctrlmesh.kusionstack.io/sharding-hash",
    .control = "ctrlmesh.kusionstack.io/control",
};

static const char *const versions[RULES_VERSIONS + 1] = {
    [RULES_V1] = RULES_API_VERSION,
    [RULES_V2] = "cmesh/v2",
};

struct rules {
    size_t refs;
    enum rules_version version;  /* in which it was written */
    struct rules *whole;         /* whose all of this is but the generations; NULL: its own */
    cJSON *document;             /* in version 1; what all strings below point into */
    struct selector_texts texts; /* to which the document refers, in canonical form */
    uint64_t generation;
    uint64_t voids; /* from this one on; 0: none */
    char checksum[RULES_CHECKSUM_LEN + 1];
    const char *shard_namespace;
    const char *shard_name;
    const char *leader_election;
    const char *leader_election_namespace;
    struct rules_labels labels;
    size_t limit_count;
    size_t pair_count; /* that the limits name, each as often as it is named */
    struct rules_table table;
    struct byte_share share; /* of who counts what is in memory */
};

/* ---- reading ---- */

struct election {
    const char *name;
    const char *namespace;
};

struct webhook {
    const char *cert_dir;
    uint32_t port;
};

struct limit {
    struct schema_texts groups;
    struct schema_texts resources;
    const cJSON *selector; /* a text; in version 2 a place in the spec's selectors */
};

struct spec {
    struct election election;
    struct webhook webhook;
    struct rules_labels labels;
    struct schema_texts selectors; /* of version 2 */
    struct schema_list limits;
};

struct document {
    struct document_head head;
    uint64_t voids;
    const cJSON *spec;
};

/* What a document is read with. */
struct reading {
    struct rules *rules;
    struct spec spec;
    const struct selector_text **known; /* of its selectors, those that a limit has named */
    size_t bytes;                       /* that the limits have together, as in version 1 */
};

static const char *check_group(struct slice group)
{
    return group.len == 0 || slice_eq(group, SLICE("*")) ? NULL : name_check_subdomain(group);
}

static const char *check_resource(struct slice resource)
{
    if (slice_eq(resource, SLICE("*"))) {
        return NULL;
    }
    if (resource.len > 0 && memchr(resource.ptr, '/', resource.len) != NULL) {
        return "must be a resource without \"/\": subresources cannot be listed or watched, and "
               "follow from their resource";
    }
    return name_check_subdomain(resource) == NULL
               ? NULL
               : "must be a plural name in lower case, as \"pods\", or \"*\"";
}

static void check_election(struct schema_reader *s, const struct schema_path *at, void *out)
{
    const struct election *election = out;
    const struct reading *x = s->data;
    char lock[LOCK_NAME_SIZE];
    if (!lock_name_of_shard(election->name, x->rules->shard_name, lock)) {
        schema_error(s, at, "name",
                     "Invalid value: with \"" LOCK_NAME_BETWEEN
                     "\" and the shard's name it has more than %d characters",
                     NAME_SUBDOMAIN_MAX);
    }
}

static const struct selector_text *compile_selector(struct schema_reader *s, struct rules *r,
                                                    const struct schema_path *at, const char *text)
{
    struct err inner = ERR_INIT;
    struct selector *selector = selector_parse(slice_str(text), &inner);
    if (selector == NULL) {
        schema_fail(s, inner.code, at, NULL, "Invalid value: \"%.100s\": %s", text, inner.msg);
        return NULL;
    }
    if (selector_is_everything(selector)) {
        schema_error(s, at, NULL, "Required value: an empty selector would limit nothing");
        selector_free(selector);
        return NULL;
    }
    const struct selector_text *known = selector_texts_add(&r->texts, text, selector);
    if (known == NULL) {
        schema_fail(s, -ENOMEM, at, NULL, "%s", "");
    } else if (r->texts.requirements > RULES_REQUIREMENTS_MAX) {
        schema_fail(s, -E2BIG, at, NULL, "the selectors have more than %d requirements",
                    RULES_REQUIREMENTS_MAX);
    }
    return known;
}

/* NULL with an error. */
static const struct selector_text *obtain_text(struct schema_reader *s, struct rules *r,
                                               const struct schema_path *at, const char *text)
{
    const struct selector_text *known = selector_texts_find(&r->texts, text);
    return known != NULL ? known : compile_selector(s, r, at, text);
}

/* Of the limit itself; NULL with an error. */
static const struct selector_text *own_text(struct schema_reader *s, struct rules *r,
                                            const struct schema_path *at)
{
    if (!cJSON_IsString(at->item)) {
        schema_error(s, at, NULL, "Invalid value: must be a string");
        return NULL;
    }
    return obtain_text(s, r, at, at->item->valuestring);
}

/* What stands at the place that the limit names, looked for once; NULL with an error. */
static const struct selector_text *shared_text(struct schema_reader *s, struct reading *x,
                                               const struct schema_path *at)
{
    const struct schema_texts *all = &x->spec.selectors;
    double n = cJSON_IsNumber(at->item) ? at->item->valuedouble : -1;
    if (!(n >= 0 && n < (double)all->count) || (double)(size_t)n < n) {
        schema_error(s, at, NULL, "Invalid value: must be a place in spec.selectors, from 0");
        return NULL;
    }
    size_t place = (size_t)n;
    if (x->known == NULL) {
        x->known = schema_alloc(s->memory, all->count, sizeof *x->known);
    }
    if (x->known == NULL) {
        schema_fail(s, -ENOMEM, at, NULL, "%s", "");
        return NULL;
    }
    if (x->known[place] == NULL) {
        x->known[place] = obtain_text(s, x->rules, at, all->items[place]);
    }
    x->bytes += x->known[place] == NULL ? 0 : x->known[place]->length;
    if (x->bytes > RULES_TEXT_MAX) {
        schema_fail(s, -E2BIG, at, NULL, "the selectors of all limits have more than %d bytes",
                    RULES_TEXT_MAX);
    }
    return x->known[place];
}

/* It refers to the canonical text from now on, which all limits with it share. */
static void refer(cJSON *item, const struct selector_text *text)
{
    cJSON_free(item->valuestring);
    item->type = cJSON_String | cJSON_IsReference;
    item->valuestring = text->canonical;
}

static void add_pattern(struct schema_reader *s, const struct schema_path *at, struct rules *r,
                        struct slice group, struct slice resource, uint32_t place)
{
    if (++r->pair_count > RULES_PAIRS_MAX) {
        schema_fail(s, -E2BIG, at, NULL, "groups and resources are paired more than %d times",
                    RULES_PAIRS_MAX);
        return;
    }
    int rc = rules_table_add(&r->table, group, resource, place);
    if (rc != 0) {
        schema_fail(s, rc, at, NULL, "more than %d pairs of group and resource",
                    RULES_PATTERNS_MAX);
    }
}

/* Adds it to the table. */
static void add_limit(struct schema_reader *s, const struct schema_path *at, void *out)
{
    const struct limit *limit = out;
    struct reading *x = s->data;
    struct rules *r = x->rules;
    cJSON *item = cJSON_GetObjectItemCaseSensitive(at->item, "selector");
    const struct schema_path place = SCHEMA_AT(at, "selector", item);
    const struct selector_text *text =
        r->version == RULES_V1 ? own_text(s, r, &place) : shared_text(s, x, &place);
    if (schema_stopped(s)) {
        return;
    }
    refer(item, text);
    for (size_t i = 0; i < limit->groups.count; i++) {
        for (size_t j = 0; j < limit->resources.count && !schema_stopped(s); j++) {
            add_pattern(s, at, r, slice_str(limit->groups.items[i]),
                        slice_str(limit->resources.items[j]), text->place);
        }
    }
}

static const struct schema_field election_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct election, name), .required = "",
     .check = name_check_subdomain},
    {"namespace", SCHEMA_TEXT, SCHEMA_MEMBER(struct election, namespace), .flags = SCHEMA_EMPTY,
     .check = name_check_label},
};
static const struct schema_object election_object = {
    SCHEMA_OBJECT_OF(election_fields, struct election), .check = check_election};

/* Of no use to list and watch: carried along for those who know the shard by its rules. */
static const struct schema_field webhook_fields[] = {
    {"certDir", SCHEMA_TEXT, SCHEMA_MEMBER(struct webhook, cert_dir)},
    {"port", SCHEMA_NUMBER, SCHEMA_MEMBER(struct webhook, port), .min = 1, .max = 65535},
};
static const struct schema_object webhook_object = {
    SCHEMA_OBJECT_OF(webhook_fields, struct webhook)};

static const struct schema_field labels_fields[] = {
    {"namespace", SCHEMA_TEXT, SCHEMA_MEMBER(struct rules_labels, namespace), .flags = SCHEMA_EMPTY,
     .check = name_check_qualified},
    {"shardHash", SCHEMA_TEXT, SCHEMA_MEMBER(struct rules_labels, shard_hash),
     .flags = SCHEMA_EMPTY, .check = name_check_qualified},
    {"control", SCHEMA_TEXT, SCHEMA_MEMBER(struct rules_labels, control), .flags = SCHEMA_EMPTY,
     .check = name_check_qualified},
};
static const struct schema_object labels_object = {
    SCHEMA_OBJECT_OF(labels_fields, struct rules_labels)};

static const struct schema_field limit_fields[] = {
    {"apiGroups", SCHEMA_TEXTS, SCHEMA_MEMBER(struct limit, groups), .required = "", .min = 1,
     .max = RULES_LIST_MAX, .flags = SCHEMA_DISTINCT, .check = check_group},
    {"resources", SCHEMA_TEXTS, SCHEMA_MEMBER(struct limit, resources), .required = "", .min = 1,
     .max = RULES_LIST_MAX, .flags = SCHEMA_DISTINCT, .check = check_resource},
    {"selector", SCHEMA_TREE, SCHEMA_MEMBER(struct limit, selector), .required = ""},
};
static const struct schema_object limit_object = {SCHEMA_OBJECT_OF(limit_fields, struct limit),
                                                  .check = add_limit};

static const struct schema_field spec_fields[] = {
    {"selectors", SCHEMA_TEXTS, SCHEMA_MEMBER(struct spec, selectors), .required = ""},
    {"leaderElection", SCHEMA_PART, SCHEMA_MEMBER(struct spec, election),
     .object = &election_object},
    {"webhook", SCHEMA_PART, SCHEMA_MEMBER(struct spec, webhook), .object = &webhook_object},
    {"labels", SCHEMA_PART, SCHEMA_MEMBER(struct spec, labels), .object = &labels_object},
    {"limits", SCHEMA_LIST, SCHEMA_MEMBER(struct spec, limits),
     .required = "write [] if the shard has no limits", .max = RULES_LIMITS_MAX,
     .object = &limit_object},
};
static const struct schema_object spec_objects[RULES_VERSIONS] = {
    /* All but the selectors. */
    [RULES_V1] = {.fields = spec_fields + 1,
                  .count = ARRAY_LEN(spec_fields) - 1,
                  .size = sizeof(struct spec)},
    [RULES_V2] = {SCHEMA_OBJECT_OF(spec_fields, struct spec)},
};

static const char *const kind[] = {RULES_KIND, NULL};
static const struct schema_field document_fields[] = {
    DOCUMENT_FIELDS(struct document, versions, kind),
    {"voids", SCHEMA_NUMBER64, SCHEMA_MEMBER(struct document, voids), .min = 1,
     .max = DOCUMENT_GENERATION_MAX},
    {"spec", SCHEMA_TREE, SCHEMA_MEMBER(struct document, spec), .required = ""},
};
static const struct schema_object document_object = {
    SCHEMA_OBJECT_OF(document_fields, struct document), .open = true};

static const char *or_default(const char *key, const char *otherwise)
{
    return key[0] == '\0' ? otherwise : key;
}

static void read_spec(struct schema_reader *s, struct reading *x, const cJSON *item)
{
    struct rules *r = x->rules;
    struct spec *spec = &x->spec;
    struct err inner = ERR_INIT;
    const struct schema_path at = SCHEMA_AT(NULL, "spec", item);
    if (schema_read(s, &spec_objects[r->version], &at, spec) != 0) {
        return;
    }
    if (spec->election.name[0] != '\0') {
        r->leader_election = spec->election.name;
    }
    if (spec->election.namespace[0] != '\0') {
        r->leader_election_namespace = spec->election.namespace;
    }
    r->labels.namespace = or_default(spec->labels.namespace, default_labels.namespace);
    r->labels.shard_hash = or_default(spec->labels.shard_hash, default_labels.shard_hash);
    r->labels.control = or_default(spec->labels.control, default_labels.control);
    r->limit_count = spec->limits.count;
    const struct selector *const *selectors = (const struct selector *const *)r->texts.compiled;
    int rc = rules_table_compile(&r->table, selectors, &inner);
    if (rc != 0) {
        schema_fail(s, rc, &at, "limits", "%s", inner.msg);
    }
}

static void read_document(struct schema_reader *s, struct reading *x)
{
    /* However short it was written: programs write version 1, and read no more of it. */
    char too_long[64];
    struct document d = {0};
    struct rules *r = x->rules;
    const struct schema_path at = SCHEMA_AT(NULL, "", r->document);
    (void)snprintf(too_long, sizeof too_long, "the rules have more than %d bytes in version 1",
                   RULES_TEXT_MAX);
    if (schema_read(s, &document_object, &at, &d) != 0) {
        return;
    }
    if (d.voids != 0 && d.voids <= d.head.generation) {
        schema_error(s, &at, "voids", "Invalid value: must be larger than the generation");
        return;
    }
    r->version = (enum rules_version)d.head.version;
    r->shard_namespace = d.head.shard.namespace;
    r->shard_name = d.head.shard.name;
    r->generation = d.head.generation;
    r->voids = d.voids;
    read_spec(s, x, d.spec);
    if (r->version == RULES_V2) { /* as it would be in version 1 */
        cJSON_DeleteItemFromObjectCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(r->document, "spec"), "selectors");
    }
    if (!schema_stopped(s)) {
        document_checksum(s, &d.head, RULES_TEXT_MAX - FRAME_MAX, "spec.limits", too_long,
                          r->checksum);
    }
}

/* Whether somebody took what rules are made of for rules; in YAML or JSON. */
static bool is_sharding_config(struct slice text)
{
    static const char key[] = "kind";
    static const char sharding[] = "ShardingConfig";
    if (text.len == 0) {
        return false; /* there may be no pointer */
    }
    const char *end = text.ptr + text.len;
    const char *at = text.ptr;
    while (at < end && (at = memmem(at, (size_t)(end - at), key, sizeof key - 1)) != NULL) {
        for (at += sizeof key - 1; at < end && memchr("\"': \t", *at, 5) != NULL; at++) {
        }
        if ((size_t)(end - at) >= sizeof sharding - 1 &&
            memcmp(at, sharding, sizeof sharding - 1) == 0) {
            return true;
        }
    }
    return false;
}

static struct rules *parse(const char *text, size_t len, bool plain, struct err *e)
{
    static const struct document_bounds bounds = {
        .bytes = RULES_TEXT_MAX, .values = RULES_VALUES_MAX, .beside = RULES_VALUES_BESIDE_MAX};
    struct err why = ERR_INIT;
    struct slice document = document_without_mark(slice_of(text, len));
    struct rules *r = calloc(1, sizeof *r);
    if (r == NULL) {
        err_memory(e);
        return NULL;
    }
    r->refs = 1;
    r->table.plain = plain;
    r->document = document_parse(document, &bounds, &why);
    if (why.code == 0) {
        struct schema_memory memory = {0};
        struct reading x = {.rules = r};
        struct schema_reader s = {.memory = &memory,
                                  .data = &x,
                                  .null_is_value = true,
                                  .text = document,
                                  .root = r->document};
        read_document(&s, &x);
        why = s.first;
        schema_memory_deinit(&memory);
    }
    if (why.code != 0) {
        rules_unref(r);
        r = NULL;
        if (why.code != -ENOMEM && is_sharding_config(document)) {
            (void)err_set(&why, -EINVAL,
                          "is a ShardingConfig: `manager compile -f` makes rules of it");
        }
        err_set(e, why.code, "%s", why.msg);
    }
    return r;
}

struct rules *rules_parse(const char *text, size_t len, struct err *e)
{
    return parse(text, len, false, e);
}

struct rules *rules_parse_plain(const char *text, size_t len, struct err *e)
{
    return parse(text, len, true, e);
}

struct rules *rules_plain(struct rules *r)
{
    struct buf text = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    struct rules *plain = NULL;
    if (!r->table.plain && r->table.texts > LONG_TEXTS && rules_to_json(r, &text) == 0) {
        plain = rules_parse_plain(buf_cstr(&text), text.len, NULL);
    }
    buf_reset(&text);
    return plain != NULL ? plain : rules_ref(r);
}

struct rules *rules_ref(struct rules *r)
{
    r->refs++;
    return r;
}

struct rules *rules_with_generation(struct rules *r, uint64_t generation, uint64_t voids)
{
    struct rules *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return NULL;
    }
    *copy = *r;
    copy->refs = 1;
    copy->whole = rules_ref(r->whole != NULL ? r->whole : r);
    copy->generation = generation;
    copy->voids = voids;
    return copy;
}

size_t rules_weight(const struct rules *r)
{
    return heap_size(sizeof *r) + json_weight(r->document) + selector_texts_weight(&r->texts) +
           rules_table_weight(&r->table);
}

void rules_count_in(struct rules *r, struct byte_budget *budget)
{
    struct rules *all = r->whole != NULL ? r->whole : r;
    size_t weight = all->share.budget != NULL ? all->share.size : rules_weight(all);
    byte_share_give_back(&all->share);
    byte_share_init(&all->share, NULL);
    if (weight > BYTE_SHARE_FREE) {
        byte_share_init(&all->share, budget);
        byte_share_force(&all->share, weight);
    }
}

void rules_count_once(struct rules *r, struct byte_budget *budget)
{
    if ((r->whole != NULL ? r->whole : r)->share.budget == NULL) {
        rules_count_in(r, budget);
    }
}

size_t rules_counted(const struct rules *r)
{
    const struct byte_share *share = &(r->whole != NULL ? r->whole : r)->share;
    return share->budget == NULL ? 0 : share->size;
}

bool rules_share(const struct rules *a, const struct rules *b)
{
    return (a->whole != NULL ? a->whole : a) == (b->whole != NULL ? b->whole : b);
}

void rules_unref(struct rules *r)
{
    if (r == NULL || --r->refs > 0) {
        return;
    }
    if (r->whole != NULL) {
        rules_unref(r->whole);
        free(r);
        return;
    }
    byte_share_give_back(&r->share);
    rules_table_deinit(&r->table);
    cJSON_Delete(r->document);
    selector_texts_deinit(&r->texts);
    free(r);
}

uint64_t rules_generation(const struct rules *r)
{
    return r->generation;
}

uint64_t rules_voids(const struct rules *r)
{
    return r->voids;
}

bool rules_older_than(const struct rules *r, uint64_t generation)
{
    bool is_void = r->voids != 0 && generation >= r->voids;
    return r->generation < generation && !is_void;
}

const char *rules_checksum(const struct rules *r)
{
    return r->checksum;
}

const char *rules_shard_namespace(const struct rules *r)
{
    return r->shard_namespace;
}

const char *rules_shard_name(const struct rules *r)
{
    return r->shard_name;
}

const char *rules_leader_election(const struct rules *r)
{
    return r->leader_election;
}

const char *rules_leader_election_namespace(const struct rules *r)
{
    return r->leader_election_namespace;
}

const struct rules_labels *rules_labels(const struct rules *r)
{
    return &r->labels;
}

size_t rules_limit_count(const struct rules *r)
{
    return r->limit_count;
}

size_t rules_pattern_count(const struct rules *r)
{
    return r->table.count;
}

void rules_pattern(const struct rules *r, size_t i, struct slice *group, struct slice *resource)
{
    *group = r->table.patterns[i].group;
    *resource = r->table.patterns[i].resource;
}

bool rules_has_pattern(const struct rules *r, struct slice group, struct slice resource)
{
    return rules_table_has(&r->table, group, resource);
}

const struct rules_entry *rules_match(const struct rules *r, struct slice group,
                                      struct slice resource)
{
    return rules_table_match(&r->table, group, resource);
}

const char *rules_version_text(enum rules_version v)
{
    return versions[v];
}

/* Who reads a later version reads those before it. */
enum rules_version rules_version_common(const char *text)
{
    static const char prefix[] = "cmesh/v";
    if (text == NULL || strncmp(text, prefix, sizeof prefix - 1) != 0) {
        return RULES_V1;
    }
    long number = strtol(text + sizeof prefix - 1, NULL, 10);
    if (number <= 1) {
        return RULES_V1;
    }
    return number > RULES_VERSIONS ? RULES_NEWEST : (enum rules_version)(number - 1);
}

enum rules_version rules_version(const struct rules *r)
{
    return r->version;
}

/* ---- writing ---- */

static void write_spec(const cJSON *spec, enum rules_version version, struct buf *out)
{
    if (version == RULES_V1) {
        json_canonical(spec, out);
        return;
    }
    cJSON *shared = shared_selectors_make(spec);
    if (shared == NULL) {
        buf_fail(out, -ENOMEM);
    } else {
        json_canonical(shared, out);
    }
    cJSON_Delete(shared);
}

int rules_to_version(const struct rules *r, enum rules_version version, struct buf *out)
{
    size_t before = out->len;
    buf_printf(out, "{\"apiVersion\":\"%s\",\"checksum\":\"", versions[version]);
    buf_append_str(out, r->checksum);
    buf_printf(out, "\",\"generation\":%llu", (unsigned long long)r->generation);
    buf_append_str(out, ",\"kind\":\"" RULES_KIND "\",\"shard\":{\"name\":\"");
    buf_append_str(out, r->shard_name);
    buf_append_str(out, "\",\"namespace\":\"");
    buf_append_str(out, r->shard_namespace);
    buf_append_str(out, "\"},\"spec\":");
    write_spec(field_get(r->document, "spec"), version, out);
    if (r->voids != 0) {
        buf_printf(out, ",\"voids\":%llu", (unsigned long long)r->voids);
    }
    buf_append_char(out, '}');
    return buf_settle(out, before);
}

int rules_to_json(const struct rules *r, struct buf *out)
{
    return rules_to_version(r, RULES_V1, out);
}
