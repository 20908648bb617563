/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap_size.h"
#include "document/reader.h"
#include "kube/name.h"
#include "rules/rules_table.h"
#include "rules/selector_texts.h"
#include "rules/shared_selectors.h"
#include "json/json.h"

#define LONG_TEXTS ((size_t)256 * 1024)
#define FRAME_MAX 1024 /* bytes of what rules_to_version writes around the spec */

static const struct rules_labels default_labels = {
    .namespace = "ctrlmesh.kusionstack.io/namespace",
    .shard_hash = "ctrlmesh.kusionstack.io/sharding-hash",
    .control = "ctrlmesh.kusionstack.io/control",
};

static const char *const versions[RULES_VERSIONS] = {
    [RULES_V1] = RULES_API_VERSION,
    [RULES_V2] = "cmesh/v2",
};

struct rules {
    size_t refs;
    enum rules_version version;  /* in which it was written */
    struct rules *whole;         /* whose all of this is but the generations; NULL: its own */
    cJSON *document;             /* in version 1; what all strings below point into */
    struct selector_texts texts; /* to which the document refers, in canonical form */
    struct shared *shared;       /* of version 2, while it is read; NULL: limits have their own */
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

/* Version 2: limits name their selectors by places in spec.selectors. */
struct shared {
    const char **texts;
    const struct selector_text **known; /* those that a limit has named */
    size_t count;
    size_t bytes; /* that the limits have together, as in version 1 */
};

static enum rules_version read_version(const struct document_reader *s)
{
    const char *got = document_string(s, s->root, "apiVersion", "apiVersion");
    for (enum rules_version v = RULES_V1; v < RULES_VERSIONS; v++) {
        if (strcmp(got, versions[v]) == 0) {
            return v;
        }
    }
    document_fail(s, -EINVAL, document_member(s->root, "apiVersion"), "apiVersion",
                  "Unsupported value: \"%.100s\": supported are \"%s\" to \"%s\"", got,
                  versions[RULES_V1], versions[RULES_NEWEST]);
    return RULES_V1;
}

static void read_generations(const struct document_reader *s, struct rules *r)
{
    const cJSON *voids = document_member(s->root, "voids");
    r->generation = document_generation(
        s, document_required(s, s->root, "generation", "generation"), "generation");
    r->voids = voids == NULL ? 0 : document_generation(s, voids, "voids");
    if (r->voids != 0 && r->voids <= r->generation) {
        document_fail(s, -EINVAL, voids, "voids",
                      "Invalid value: must be larger than the generation");
    }
}

static void read_leader_election(const struct document_reader *s, const cJSON *spec,
                                 struct rules *r)
{
    static const char *const known[] = {"name", "namespace", NULL};
    const char *path = "spec.leaderElection.name";
    const cJSON *item = document_object(s, spec, "leaderElection", "spec.leaderElection", known);
    if (item == NULL) {
        return;
    }
    r->leader_election = document_name(s, item, "name", path, name_check_subdomain);
    if (document_member(item, "namespace") != NULL) {
        r->leader_election_namespace =
            document_name(s, item, "namespace", "spec.leaderElection.namespace", name_check_label);
    }
    /* The shard's own lock is called <name>---<shard>. */
    size_t len = strlen(r->leader_election) + 3 + strlen(r->shard_name);
    if (len > NAME_SUBDOMAIN_MAX) {
        document_fail(
            s, -EINVAL, item, path,
            "Invalid value: with \"---\" and the shard's name it has %zu characters, which is "
            "more than %d",
            len, NAME_SUBDOMAIN_MAX);
    }
}

/* Of no use to list and watch: carried along for those who know the shard by its rules. */
static void read_webhook(const struct document_reader *s, const cJSON *spec)
{
    static const char *const known[] = {"certDir", "port", NULL};
    const cJSON *item = document_object(s, spec, "webhook", "spec.webhook", known);
    const cJSON *dir = document_member(item, "certDir");
    const cJSON *port = document_member(item, "port");
    if (dir != NULL && !cJSON_IsString(dir)) {
        document_wrong_type(s, dir, "spec.webhook.certDir", "a string");
    }
    if (port != NULL &&
        !(cJSON_IsNumber(port) && port->valuedouble >= 1 && port->valuedouble <= 65535 &&
          port->valuedouble == (double)port->valueint)) {
        document_wrong_type(s, port, "spec.webhook.port", "an integer from 1 to 65535");
    }
}

static void read_labels(const struct document_reader *s, const cJSON *spec, struct rules *r)
{
    static const char *const known[] = {"namespace", "shardHash", "control", NULL};
    r->labels = default_labels;
    const char **const targets[] = {&r->labels.namespace, &r->labels.shard_hash,
                                    &r->labels.control};
    const cJSON *labels = document_object(s, spec, "labels", "spec.labels", known);
    for (size_t i = 0; known[i] != NULL; i++) {
        char path[DOCUMENT_PATH_LEN];
        (void)snprintf(path, sizeof path, "spec.labels.%s", known[i]);
        if (document_member(labels, known[i]) != NULL) {
            *targets[i] = document_name(s, labels, known[i], path, name_check_qualified);
        }
    }
}

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

/* The place that the limit names; 0 with an error. */
static size_t shared_place(const struct document_reader *s, const struct shared *all,
                           const cJSON *item, const char *path)
{
    double n = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(n >= 0 && n < (double)all->count) || (double)(size_t)n != n) {
        document_wrong_type(s, item, path, "a place in spec.selectors, from 0");
        return 0;
    }
    return (size_t)n;
}

static const struct selector_text *compile_selector(const struct document_reader *s,
                                                    struct rules *r, const cJSON *item,
                                                    const char *text, const char *path)
{
    struct err inner = ERR_INIT;
    struct selector *selector = selector_parse(slice_str(text), &inner);
    if (selector == NULL) {
        document_fail(s, inner.code, item, path, "Invalid value: \"%.100s\": %s", text, inner.msg);
        return NULL;
    }
    if (selector_is_everything(selector)) {
        document_fail(s, -EINVAL, item, path,
                      "Required value: an empty selector would limit nothing");
        selector_free(selector);
        return NULL;
    }
    const struct selector_text *known = selector_texts_add(&r->texts, text, selector);
    if (known == NULL) {
        err_memory(s->e);
    } else if (r->texts.requirements > RULES_REQUIREMENTS_MAX) {
        document_fail(s, -E2BIG, item, path, "the selectors have more than %d requirements",
                      RULES_REQUIREMENTS_MAX);
    }
    return known;
}

/* NULL with an error. */
static const struct selector_text *obtain_text(const struct document_reader *s, struct rules *r,
                                               const cJSON *item, const char *text,
                                               const char *path)
{
    const struct selector_text *known = selector_texts_find(&r->texts, text);
    return known != NULL ? known : compile_selector(s, r, item, text, path);
}

/* Of the limit itself; NULL with an error. */
static const struct selector_text *own_text(const struct document_reader *s, struct rules *r,
                                            const cJSON *item, const char *path)
{
    if (!cJSON_IsString(item)) {
        document_wrong_type(s, item, path, "a string");
        return NULL;
    }
    return obtain_text(s, r, item, item->valuestring, path);
}

/* What stands at the place that the limit names, looked for once; NULL with an error. */
static const struct selector_text *shared_text(const struct document_reader *s, struct rules *r,
                                               const cJSON *item, const char *path)
{
    struct shared *all = r->shared;
    size_t place = shared_place(s, all, item, path);
    if (s->e->code != 0) {
        return NULL;
    }
    if (all->known[place] == NULL) {
        all->known[place] = obtain_text(s, r, item, all->texts[place], path);
    }
    if (all->known[place] == NULL) {
        return NULL;
    }
    all->bytes += all->known[place]->length;
    if (all->bytes > RULES_TEXT_MAX) {
        document_fail(s, -E2BIG, item, path, "the selectors of all limits have more than %d bytes",
                      RULES_TEXT_MAX);
        return NULL;
    }
    return all->known[place];
}

/* It refers to the canonical text from now on, which all limits with it share. */
static void refer(cJSON *item, const struct selector_text *text)
{
    cJSON_free(item->valuestring);
    item->type = cJSON_String | cJSON_IsReference;
    item->valuestring = text->canonical;
}

/* Its place among the selectors. */
static uint32_t read_selector(const struct document_reader *s, struct rules *r, const cJSON *limit,
                              const char *limit_path)
{
    char path[DOCUMENT_PATH_LEN];
    (void)snprintf(path, sizeof path, "%s.selector", limit_path);
    cJSON *item = document_required(s, limit, "selector", path);
    if (s->e->code != 0) {
        return 0;
    }
    const struct selector_text *text =
        r->shared != NULL ? shared_text(s, r, item, path) : own_text(s, r, item, path);
    if (s->e->code != 0) {
        return 0;
    }
    refer(item, text);
    return text->place;
}

static void add_pattern(const struct document_reader *s, const cJSON *limit, const char *path,
                        struct rules *r, struct slice group, struct slice resource, uint32_t place)
{
    if (++r->pair_count > RULES_PAIRS_MAX) {
        document_fail(s, -E2BIG, limit, path, "groups and resources are paired more than %d times",
                      RULES_PAIRS_MAX);
        return;
    }
    int rc = rules_table_add(&r->table, group, resource, place);
    if (rc == -E2BIG) {
        document_fail(s, rc, limit, path, "more than %d pairs of group and resource",
                      RULES_PATTERNS_MAX);
    } else if (rc != 0) {
        err_memory(s->e);
    }
}

static void read_limit(const struct document_reader *s, const cJSON *limit, struct rules *r,
                       size_t index)
{
    static const char *const known[] = {"apiGroups", "resources", "selector", NULL};
    char path[64];
    (void)snprintf(path, sizeof path, "spec.limits[%zu]", index);
    if (!document_check_object(s, limit, path, known)) {
        return;
    }
    const cJSON *groups = document_list(s, limit, path, "apiGroups", RULES_LIST_MAX, check_group);
    const cJSON *resources =
        document_list(s, limit, path, "resources", RULES_LIST_MAX, check_resource);
    uint32_t place = s->e->code != 0 ? 0 : read_selector(s, r, limit, path);
    if (s->e->code != 0) {
        return;
    }
    for (const cJSON *g = groups->child; g != NULL && s->e->code == 0; g = g->next) {
        for (const cJSON *res = resources->child; res != NULL && s->e->code == 0; res = res->next) {
            add_pattern(s, limit, path, r, slice_str(g->valuestring), slice_str(res->valuestring),
                        place);
        }
    }
}

static void read_limits(const struct document_reader *s, const cJSON *spec, struct rules *r)
{
    const cJSON *limits = document_member(spec, "limits");
    if (limits == NULL) {
        document_fail(s, -EINVAL, spec, "spec.limits",
                      "Required value: write [] if the shard has no limits");
        return;
    }
    size_t count = (size_t)cJSON_GetArraySize(limits);
    if (!cJSON_IsArray(limits)) {
        document_wrong_type(s, limits, "spec.limits", "an array");
    } else if (count > RULES_LIMITS_MAX) {
        document_fail(s, -E2BIG, limits, "spec.limits", "Too many: must have at most %d entries",
                      RULES_LIMITS_MAX);
    }
    if (s->e->code != 0) {
        return;
    }
    r->limit_count = count;
    size_t i = 0;
    for (const cJSON *limit = limits->child; limit != NULL && s->e->code == 0;
         limit = limit->next) {
        read_limit(s, limit, r, i++);
    }
    if (s->e->code == 0) {
        struct err inner = ERR_INIT;
        const struct selector *const *selectors = (const struct selector *const *)r->texts.compiled;
        int rc = rules_table_compile(&r->table, selectors, &inner);
        if (rc != 0) {
            document_fail(s, rc, limits, "spec.limits", "%s", inner.msg);
        }
    }
}

static void read_selectors(const struct document_reader *s, const cJSON *spec, struct shared *out)
{
    const cJSON *list = document_required(s, spec, "selectors", "spec.selectors");
    const cJSON *item = NULL;
    if (list != NULL && !cJSON_IsArray(list)) {
        document_wrong_type(s, list, "spec.selectors", "an array");
    }
    if (s->e->code != 0) {
        return;
    }
    size_t count = (size_t)cJSON_GetArraySize(list);
    out->texts = calloc(count + 1, sizeof *out->texts);
    out->known = calloc(count + 1, sizeof *out->known);
    if (out->texts == NULL || out->known == NULL) {
        err_memory(s->e);
        return;
    }
    cJSON_ArrayForEach(item, list)
    {
        out->texts[out->count++] = cJSON_GetStringValue(item);
        if (!cJSON_IsString(item)) {
            document_wrong_type(s, item, "spec.selectors", "an array of strings");
            return;
        }
    }
}

/* Leaves the spec as it would be in version 1. */
static void read_shared_limits(const struct document_reader *s, cJSON *spec, struct rules *r)
{
    struct shared shared = {.count = 0};
    read_selectors(s, spec, &shared);
    if (s->e->code == 0) {
        r->shared = &shared;
        read_limits(s, spec, r);
        r->shared = NULL;
    }
    free(shared.texts);
    free(shared.known);
    cJSON_DeleteItemFromObjectCaseSensitive(spec, "selectors");
}

static void read_spec(const struct document_reader *s, struct rules *r)
{
    static const char *const known[RULES_VERSIONS][6] = {
        [RULES_V1] = {"leaderElection", "limits", "labels", "webhook", NULL},
        [RULES_V2] = {"leaderElection", "limits", "labels", "webhook", "selectors", NULL},
    };
    (void)document_required(s, s->root, "spec", "spec");
    cJSON *spec = document_member(s->root, "spec");
    (void)document_object(s, s->root, "spec", "spec", known[r->version]);
    read_leader_election(s, spec, r);
    read_webhook(s, spec);
    read_labels(s, spec, r);
    if (r->version == RULES_V1) {
        read_limits(s, spec, r);
    } else {
        read_shared_limits(s, spec, r);
    }
}

static void read_document(const struct document_reader *s, struct rules *r)
{
    /* However short it was written: programs write version 1, and read no more of it. */
    char too_long[64];
    (void)snprintf(too_long, sizeof too_long, "the rules have more than %d bytes in version 1",
                   RULES_TEXT_MAX);
    if (!cJSON_IsObject(s->root)) {
        err_set(s->e, -EINVAL, "the document must be a JSON object");
        return;
    }
    r->version = read_version(s);
    document_constant(s, "kind", RULES_KIND);
    document_shard(s, &r->shard_namespace, &r->shard_name);
    read_generations(s, r);
    read_spec(s, r);
    if (s->e->code == 0) {
        document_checksum(s, RULES_TEXT_MAX - FRAME_MAX, "spec.limits", too_long, r->checksum);
    }
}

/* Whether somebody took what rules are made of for rules; in YAML or JSON. */
static bool is_sharding_config(struct slice text)
{
    static const char key[] = "kind";
    static const char kind[] = "ShardingConfig";
    if (text.len == 0) {
        return false; /* there may be no pointer */
    }
    const char *end = text.ptr + text.len;
    const char *at = text.ptr;
    while (at < end && (at = memmem(at, (size_t)(end - at), key, sizeof key - 1)) != NULL) {
        for (at += sizeof key - 1; at < end && memchr("\"': \t", *at, 5) != NULL; at++) {
        }
        if ((size_t)(end - at) >= sizeof kind - 1 && memcmp(at, kind, sizeof kind - 1) == 0) {
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
        const struct document_reader s = {
            .text = document.ptr, .len = document.len, .root = r->document, .e = &why};
        read_document(&s, r);
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
    write_spec(document_member(r->document, "spec"), version, out);
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
