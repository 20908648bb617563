/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "crypto/digest.h"
#include "kube/name.h"
#include "rules/rules_table.h"
#include "json/json.h"

#define PATH_LEN 128
#define GENERATION_MAX 9007199254740991.0 /* what a JSON number holds exactly */

static const struct rules_labels default_labels = {
    .namespace = "ctrlmesh.kusionstack.io/namespace",
    .shard_hash = "ctrlmesh.kusionstack.io/sharding-hash",
    .control = "ctrlmesh.kusionstack.io/control",
};

struct rules {
    size_t refs;
    struct rules *whole; /* whose all of this is but the generation; NULL: its own */
    cJSON *document;     /* what all strings below point into; selectors in canonical form */
    uint64_t generation;
    char checksum[RULES_CHECKSUM_LEN + 1];
    const char *shard_namespace;
    const char *shard_name;
    const char *leader_election;
    struct rules_labels labels;
    size_t limit_count;
    struct selector **selectors; /* of the limits, until they are compiled */
    struct rules_table table;
};

/* The document as it was written, for messages. */
struct source {
    const char *text;
    size_t len;
    const cJSON *root;
    struct err *e; /* never NULL; has the code of each failure */
};

/* "line 7: spec.limits[0].selector: <what>" */
static int __attribute__((format(printf, 5, 6)))
fail(const struct source *s, int code, const cJSON *item, const char *path, const char *fmt, ...)
{
    char what[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    unsigned line = item == NULL ? 0 : json_line(s->text, s->len, s->root, item);
    if (line == 0) {
        return err_set(s->e, code, "%s: %s", path, what);
    }
    return err_set(s->e, code, "line %u: %s: %s", line, path, what);
}

static int out_of_memory(const struct source *s)
{
    return err_memory(s->e);
}

static int wrong_type(const struct source *s, const cJSON *item, const char *path,
                      const char *expected)
{
    return fail(s, -EINVAL, item, path, "Invalid value: must be %s", expected);
}

static int required(const struct source *s, const cJSON *parent, const char *path)
{
    return fail(s, -EINVAL, parent, path, "Required value");
}

static cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* A newer writer may mean something by a field that is unknown here: it must not be half obeyed. */
static int refuse_unknown(const struct source *s, const cJSON *object, const char *path,
                          const char *const *known)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], item->string) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            return fail(s, -EINVAL, item, path, "unknown field \"%.100s\"", item->string);
        }
    }
    return 0;
}

/* A string that must be there. */
static int read_string(const struct source *s, const cJSON *parent, const char *key,
                       const char *path, const char **out)
{
    const cJSON *item = member(parent, key);
    if (item == NULL) {
        return required(s, parent, path);
    }
    if (!cJSON_IsString(item)) {
        return wrong_type(s, item, path, "a string");
    }
    *out = item->valuestring;
    return 0;
}

static int read_name(const struct source *s, const cJSON *parent, const char *key, const char *path,
                     const char *(*check)(struct slice), const char **out)
{
    int rc = read_string(s, parent, key, path, out);
    if (rc != 0) {
        return rc;
    }
    const char *why = check(slice_str(*out));
    return why == NULL ? 0
                       : fail(s, -EINVAL, member(parent, key), path,
                              "Invalid value: \"%.100s\": %s", *out, why);
}

static int read_constant(const struct source *s, const char *key, const char *want)
{
    const char *got;
    int rc = read_string(s, s->root, key, key, &got);
    if (rc != 0 || strcmp(got, want) == 0) {
        return rc;
    }
    return fail(s, -EINVAL, member(s->root, key), key,
                "Unsupported value: \"%.100s\": supported is \"%s\"", got, want);
}

static int read_shard(const struct source *s, struct rules *r)
{
    const cJSON *shard = member(s->root, "shard");
    if (shard == NULL) {
        return required(s, s->root, "shard");
    }
    if (!cJSON_IsObject(shard)) {
        return wrong_type(s, shard, "shard", "an object");
    }
    if (read_name(s, shard, "namespace", "shard.namespace", name_check_label,
                  &r->shard_namespace) != 0 ||
        read_name(s, shard, "name", "shard.name", name_check_subdomain, &r->shard_name) != 0) {
        return s->e->code;
    }
    return 0;
}

static int read_generation(const struct source *s, struct rules *r)
{
    const cJSON *item = member(s->root, "generation");
    if (item == NULL) {
        return required(s, s->root, "generation");
    }
    double n = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(n >= 1 && n <= GENERATION_MAX) || (double)(uint64_t)n != n) {
        return wrong_type(s, item, "generation", "an integer of at least 1");
    }
    r->generation = (uint64_t)n;
    return 0;
}

static int read_leader_election(const struct source *s, const cJSON *spec, struct rules *r)
{
    static const char *const known[] = {"name", NULL};
    const char *path = "spec.leaderElection";
    const cJSON *item = member(spec, "leaderElection");
    if (item == NULL) {
        return 0;
    }
    if (!cJSON_IsObject(item)) {
        return wrong_type(s, item, path, "an object");
    }
    int rc = refuse_unknown(s, item, path, known);
    if (rc == 0) {
        rc = read_name(s, item, "name", "spec.leaderElection.name", name_check_subdomain,
                       &r->leader_election);
    }
    if (rc != 0) {
        return rc;
    }
    /* The shard's own lock is called <name>---<shard>. */
    size_t len = strlen(r->leader_election) + 3 + strlen(r->shard_name);
    return len <= NAME_SUBDOMAIN_MAX
               ? 0
               : fail(s, -EINVAL, item, "spec.leaderElection.name",
                      "Invalid value: with \"---\" and the shard's name it has %zu characters, "
                      "which is more than %d",
                      len, NAME_SUBDOMAIN_MAX);
}

/* Of no use to list and watch: carried along for those who know the shard by its rules. */
static int read_webhook(const struct source *s, const cJSON *spec)
{
    static const char *const known[] = {"certDir", "port", NULL};
    const cJSON *item = member(spec, "webhook");
    if (item == NULL) {
        return 0;
    }
    if (!cJSON_IsObject(item)) {
        return wrong_type(s, item, "spec.webhook", "an object");
    }
    int rc = refuse_unknown(s, item, "spec.webhook", known);
    const cJSON *dir = member(item, "certDir");
    if (rc == 0 && dir != NULL && !cJSON_IsString(dir)) {
        rc = wrong_type(s, dir, "spec.webhook.certDir", "a string");
    }
    const cJSON *port = member(item, "port");
    if (rc == 0 && port != NULL &&
        !(cJSON_IsNumber(port) && port->valuedouble >= 1 && port->valuedouble <= 65535 &&
          port->valuedouble == (double)port->valueint)) {
        rc = wrong_type(s, port, "spec.webhook.port", "an integer from 1 to 65535");
    }
    return rc;
}

static int read_labels(const struct source *s, const cJSON *spec, struct rules *r)
{
    static const char *const known[] = {"namespace", "shardHash", "control", NULL};
    r->labels = default_labels;
    const char **const targets[] = {&r->labels.namespace, &r->labels.shard_hash,
                                    &r->labels.control};
    const cJSON *labels = member(spec, "labels");
    if (labels == NULL) {
        return 0;
    }
    if (!cJSON_IsObject(labels)) {
        return wrong_type(s, labels, "spec.labels", "an object");
    }
    int rc = refuse_unknown(s, labels, "spec.labels", known);
    for (size_t i = 0; known[i] != NULL && rc == 0; i++) {
        char path[PATH_LEN];
        (void)snprintf(path, sizeof path, "spec.labels.%s", known[i]);
        if (member(labels, known[i]) != NULL) {
            rc = read_name(s, labels, known[i], path, name_check_qualified, targets[i]);
        }
    }
    return rc;
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
    return name_check_subdomain(resource);
}

/* One entry of apiGroups or resources: a string that is in order and stands there once. */
static int check_item(const struct source *s, const cJSON *list, const cJSON *item,
                      const char *path, const char *(*check)(struct slice))
{
    if (!cJSON_IsString(item)) {
        return wrong_type(s, item, path, "a string");
    }
    const char *why = check(slice_str(item->valuestring));
    if (why != NULL) {
        return fail(s, -EINVAL, item, path, "Invalid value: \"%.100s\": %s", item->valuestring,
                    why);
    }
    for (const cJSON *other = list->child; other != item; other = other->next) {
        if (strcmp(other->valuestring, item->valuestring) == 0) {
            return fail(s, -EINVAL, item, path, "Duplicate value: \"%.100s\"", item->valuestring);
        }
    }
    return 0;
}

static int check_list(const struct source *s, const cJSON *limit, const char *limit_path,
                      const char *key, const char *(*check)(struct slice))
{
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s.%s", limit_path, key);
    const cJSON *list = member(limit, key);
    if (list == NULL) {
        return required(s, limit, path);
    }
    if (!cJSON_IsArray(list)) {
        return wrong_type(s, list, path, "an array");
    }
    if (list->child == NULL) {
        return fail(s, -EINVAL, list, path, "Required value: must have at least one entry");
    }
    size_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (i == RULES_LIST_MAX) {
            return fail(s, -E2BIG, list, path, "Too many: must have at most %d entries",
                        RULES_LIST_MAX);
        }
        char item_path[PATH_LEN];
        (void)snprintf(item_path, sizeof item_path, "%.100s[%zu]", path, i++);
        int rc = check_item(s, list, item, item_path, check);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Puts the canonical text of the selector into the document. */
static int canonicalize(const struct source *s, cJSON *item, const struct selector *selector)
{
    struct buf text = BUF_INIT(SELECTOR_TEXT_MAX);
    int rc = selector_print(selector, &text);
    const char *str = rc == 0 ? buf_cstr(&text) : NULL;
    rc = str != NULL && cJSON_SetValuestring(item, str) != NULL ? 0 : out_of_memory(s);
    buf_reset(&text);
    return rc;
}

static int read_selector(const struct source *s, const cJSON *limit, const char *limit_path,
                         struct selector **out)
{
    char path[PATH_LEN];
    (void)snprintf(path, sizeof path, "%s.selector", limit_path);
    const char *text;
    int rc = read_string(s, limit, "selector", path, &text);
    if (rc != 0) {
        return rc;
    }
    cJSON *item = member(limit, "selector");
    struct err inner = ERR_INIT;
    *out = selector_parse(slice_str(text), &inner);
    if (*out == NULL) {
        return fail(s, inner.code, item, path, "Invalid value: \"%.100s\": %s", text, inner.msg);
    }
    if (selector_is_everything(*out)) {
        return fail(s, -EINVAL, item, path,
                    "Required value: an empty selector would limit nothing");
    }
    return canonicalize(s, item, *out);
}

static int add_patterns(const struct source *s, const cJSON *limit, const char *path,
                        struct rules *r, size_t index)
{
    const cJSON *group;
    const cJSON *resource;
    cJSON_ArrayForEach(group, member(limit, "apiGroups"))
    {
        cJSON_ArrayForEach(resource, member(limit, "resources"))
        {
            int rc = rules_table_add(&r->table, slice_str(group->valuestring),
                                     slice_str(resource->valuestring), (uint32_t)index);
            if (rc == -E2BIG) {
                return fail(s, rc, limit, path, "more than %d pairs of group and resource",
                            RULES_PATTERNS_MAX);
            }
            if (rc != 0) {
                return out_of_memory(s);
            }
        }
    }
    return 0;
}

static int read_limit(const struct source *s, const cJSON *limit, struct rules *r, size_t index)
{
    static const char *const known[] = {"apiGroups", "resources", "selector", NULL};
    char path[64];
    (void)snprintf(path, sizeof path, "spec.limits[%zu]", index);
    if (!cJSON_IsObject(limit)) {
        return wrong_type(s, limit, path, "an object");
    }
    if (refuse_unknown(s, limit, path, known) != 0 ||
        check_list(s, limit, path, "apiGroups", check_group) != 0 ||
        check_list(s, limit, path, "resources", check_resource) != 0 ||
        read_selector(s, limit, path, &r->selectors[index]) != 0) {
        return s->e->code;
    }
    return add_patterns(s, limit, path, r, index);
}

static int read_limits(const struct source *s, const cJSON *spec, struct rules *r)
{
    const cJSON *limits = member(spec, "limits");
    if (limits == NULL) {
        return fail(s, -EINVAL, spec, "spec.limits",
                    "Required value: write [] if the shard has no limits");
    }
    if (!cJSON_IsArray(limits)) {
        return wrong_type(s, limits, "spec.limits", "an array");
    }
    size_t count = (size_t)cJSON_GetArraySize(limits);
    if (count > RULES_LIMITS_MAX) {
        return fail(s, -E2BIG, limits, "spec.limits", "Too many: must have at most %d entries",
                    RULES_LIMITS_MAX);
    }
    r->limit_count = count;
    r->selectors = calloc(count + 1, sizeof(struct selector *));
    if (r->selectors == NULL) {
        return out_of_memory(s);
    }
    size_t i = 0;
    const cJSON *limit;
    cJSON_ArrayForEach(limit, limits)
    {
        int rc = read_limit(s, limit, r, i++);
        if (rc != 0) {
            return rc;
        }
    }
    struct err inner = ERR_INIT;
    int rc = rules_table_compile(&r->table, (const struct selector *const *)r->selectors, &inner);
    return rc == 0 ? 0 : fail(s, rc, limits, "spec.limits", "%s", inner.msg);
}

static int read_spec(const struct source *s, struct rules *r)
{
    static const char *const known[] = {"leaderElection", "limits", "labels", "webhook", NULL};
    const cJSON *spec = member(s->root, "spec");
    if (spec == NULL) {
        return required(s, s->root, "spec");
    }
    if (!cJSON_IsObject(spec)) {
        return wrong_type(s, spec, "spec", "an object");
    }
    if (refuse_unknown(s, spec, "spec", known) != 0 || read_leader_election(s, spec, r) != 0 ||
        read_webhook(s, spec) != 0 || read_labels(s, spec, r) != 0) {
        return s->e->code;
    }
    return read_limits(s, spec, r);
}

static bool checksum_shape(const char *text)
{
    return strlen(text) == RULES_CHECKSUM_LEN && strncmp(text, "sha256:", 7) == 0 &&
           strspn(text + 7, "0123456789abcdef") == SHA256_HEX_LEN;
}

/* Computes the checksum, after the selectors were put into canonical form, and compares. */
static int read_checksum(const struct source *s, struct rules *r)
{
    struct buf text = BUF_INIT((size_t)4 * RULES_TEXT_MAX);
    int rc = json_canonical(member(s->root, "spec"), &text);
    if (rc != 0) {
        buf_reset(&text);
        return rc == -ENOMEM ? out_of_memory(s)
                             : err_set(s->e, rc, "spec: cannot be put into canonical form");
    }
    memcpy(r->checksum, "sha256:", 7);
    sha256_hex(buf_data(&text), text.len, r->checksum + 7);
    buf_reset(&text);
    const cJSON *item = member(s->root, "checksum");
    if (item == NULL) {
        return 0;
    }
    if (!cJSON_IsString(item) || !checksum_shape(item->valuestring)) {
        return wrong_type(s, item, "checksum", "\"sha256:\" and 64 lower case hex digits");
    }
    return strcmp(item->valuestring, r->checksum) == 0
               ? 0
               : fail(s, -EINVAL, item, "checksum",
                      "Invalid value: the spec has %s: it was changed after it was written, or "
                      "damaged",
                      r->checksum);
}

static int read_document(const struct source *s, struct rules *r)
{
    if (!cJSON_IsObject(s->root)) {
        return err_set(s->e, -EINVAL, "the document must be a JSON object");
    }
    if (read_constant(s, "apiVersion", RULES_API_VERSION) != 0 ||
        read_constant(s, "kind", RULES_KIND) != 0 || read_shard(s, r) != 0 ||
        read_generation(s, r) != 0 || read_spec(s, r) != 0) {
        return s->e->code;
    }
    return read_checksum(s, r);
}

static void free_selectors(struct rules *r)
{
    for (size_t i = 0; r->selectors != NULL && i < r->limit_count; i++) {
        selector_free(r->selectors[i]);
    }
    free(r->selectors);
    r->selectors = NULL;
}

/* Without the byte order mark that editors of some systems write (RFC 8259 section 8.1). */
static struct slice without_mark(struct slice text)
{
    static const struct slice mark = {.ptr = "\xef\xbb\xbf", .len = 3};
    bool marked = text.len >= mark.len && memcmp(text.ptr, mark.ptr, mark.len) == 0;
    return marked ? slice_of(text.ptr + mark.len, text.len - mark.len) : text;
}

struct rules *rules_parse(const char *text, size_t len, struct err *e)
{
    struct err ignored;
    e = e == NULL ? &ignored : e;
    if (len > RULES_TEXT_MAX) {
        (void)err_set(e, -E2BIG, "the document has more than %d bytes", RULES_TEXT_MAX);
        return NULL;
    }
    struct rules *r = calloc(1, sizeof *r);
    if (r == NULL) {
        (void)err_memory(e);
        return NULL;
    }
    r->refs = 1;
    rules_table_init(&r->table);
    struct slice document = without_mark(slice_of(text, len));
    r->document = json_parse(document.ptr, document.len, e);
    struct source s = {.text = document.ptr, .len = document.len, .root = r->document, .e = e};
    if (r->document == NULL || read_document(&s, r) != 0) {
        rules_unref(r);
        return NULL;
    }
    free_selectors(r);
    return r;
}

struct rules *rules_ref(struct rules *r)
{
    r->refs++;
    return r;
}

struct rules *rules_with_generation(struct rules *r, uint64_t generation)
{
    struct rules *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return NULL;
    }
    *copy = *r;
    copy->refs = 1;
    copy->whole = rules_ref(r->whole != NULL ? r->whole : r);
    copy->generation = generation;
    return copy;
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
    free_selectors(r);
    rules_table_deinit(&r->table);
    cJSON_Delete(r->document);
    free(r);
}

uint64_t rules_generation(const struct rules *r)
{
    return r->generation;
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

const struct rules_entry *rules_match(const struct rules *r, struct slice group,
                                      struct slice resource)
{
    return rules_table_match(&r->table, group, resource);
}

int rules_to_json(const struct rules *r, struct buf *out)
{
    size_t before = out->len;
    buf_append_str(out, "{\"apiVersion\":\"" RULES_API_VERSION "\",\"checksum\":\"");
    buf_append_str(out, r->checksum);
    buf_printf(out, "\",\"generation\":%llu", (unsigned long long)r->generation);
    buf_append_str(out, ",\"kind\":\"" RULES_KIND "\",\"shard\":{\"name\":\"");
    buf_append_str(out, r->shard_name);
    buf_append_str(out, "\",\"namespace\":\"");
    buf_append_str(out, r->shard_namespace);
    buf_append_str(out, "\"},\"spec\":");
    json_canonical(member(r->document, "spec"), out);
    buf_append_char(out, '}');
    return buf_settle(out, before);
}
