/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/rules_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/xalloc.h"
#include "compile/compile.h"
#include "compile/shards.h"
#include "crypto/digest.h"
#include "inject/inject_options.h"
#include "object/last_editor.h"
#include "object/names.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

#define MANAGED_BY "app.kubernetes.io/managed-by"
#define MANAGER "cmesh"

enum {
    NUMBER_SIZE = 24,
    UID_MAX = 128, /* longer ones the API server does not make, but anybody writes */
};

static const char *const own_managers[] = {RULES_MAP_MANAGER, NULL};

/* What is found besides what the object says itself. */
struct finding {
    char changed[LAST_EDITOR_SIZE];
    char hash[SHA256_HEX_LEN + 1];
};

/* ---- what is read ---- */

static bool is_our_kind(const cJSON *owner, const char *shard)
{
    static const char group[] = COMPILE_GROUP "/";
    return strcmp(field_text(owner, "kind"), COMPILE_KIND) == 0 &&
           strncmp(field_text(owner, "apiVersion"), group, sizeof group - 1) == 0 &&
           strcmp(field_text(owner, "name"), shard) == 0;
}

/* The uid of the ShardingConfig that controls it; "": none does. */
static const char *read_owners(struct rules_map *m, const cJSON *meta, const char *shard)
{
    const cJSON *owner = NULL;
    const char *uid = "";
    cJSON_ArrayForEach(owner, field_get(meta, "ownerReferences"))
    {
        bool controls = cJSON_IsTrue(field_get(owner, "controller"));
        m->owned = true;
        if (controls && is_our_kind(owner, shard)) {
            uid = field_text(owner, "uid");
        } else if (controls) {
            m->foreign_owner = true;
        }
    }
    return uid;
}

static const char *find(const cJSON *map, const char *prefix, const char *name)
{
    char key[NAMES_KEY_SIZE];
    return field_text(map, names_key(prefix, name, key));
}

static void read_metadata(struct rules_map *m, const cJSON *meta, const char *prefix)
{
    char number[NUMBER_SIZE];
    const cJSON *labels = field_get(meta, "labels");
    const cJSON *annotations = field_get(meta, "annotations");
    const char *owner = read_owners(m, meta, m->shard);
    const char *uid = find(annotations, prefix, RULES_MAP_CONFIG);
    uid = strlen(uid) <= UID_MAX ? uid : "";
    owner = strlen(owner) <= UID_MAX ? owner : "";
    m->config_uid = uid[0] != '\0' ? uid : owner;
    (void)snprintf(number, sizeof number, "%" PRIu64, m->generation);
    m->labelled = strcmp(find(labels, prefix, RULES_MAP_LABEL), "true") == 0;
    m->described = strcmp(field_text(labels, MANAGED_BY), MANAGER) == 0 && uid[0] != '\0' &&
                   strcmp(find(annotations, prefix, RULES_MAP_GENERATION), number) == 0;
}

static size_t foreign_size(const cJSON *object)
{
    size_t sum = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, field_map(object, "data"))
    {
        bool ours = strcmp(item->string, RULES_MAP_KEY) == 0 ||
                    strcmp(item->string, RULES_MAP_TRAFFIC) == 0;
        sum += ours || !cJSON_IsString(item) ? 0 : strlen(item->valuestring);
    }
    cJSON_ArrayForEach(item, field_get(object, "binaryData"))
    {
        sum += cJSON_IsString(item) ? strlen(item->valuestring) / 4 * 3 : 0;
    }
    return sum;
}

/* The text of the rules in the oldest version in which they have that many bytes at most, else in
 * the newest: *version. */
static struct buf write_rules(const struct rules *rules, size_t max, enum rules_version *version)
{
    struct buf out = BUF_INIT((size_t)2 * RULES_TEXT_MAX);
    bool fits = false;
    for (enum rules_version v = RULES_V1; !fits && v < RULES_VERSIONS; v++) {
        buf_clear(&out);
        *version = v;
        xok(rules_to_version(rules, v, &out)); /* it has room for any */
        fits = out.len <= max;
    }
    return out;
}

static size_t room_beside(size_t others)
{
    return others < RULES_MAP_MAX ? RULES_MAP_MAX - others : 0;
}

/* Whether the text is what would be written for what it says. */
static bool is_canonical(const struct rules *rules, const char *text, size_t others)
{
    enum rules_version version;
    struct buf again = write_rules(rules, room_beside(others), &version);
    bool same = slice_eq(buf_slice(&again), slice_str(text));
    buf_reset(&again);
    return same;
}

static bool is_of_shard(const struct rules *rules, const char *ns, const char *shard)
{
    return strcmp(rules_shard_namespace(rules), ns) == 0 &&
           strcmp(rules_shard_name(rules), shard) == 0;
}

/* Whether a text that cannot be read says to be of a version that is not known here. */
static bool is_later(const char *text)
{
    struct err e = ERR_INIT;
    cJSON *root = json_parse(text, strlen(text), &e);
    if (root == NULL && xrc(e.code) != 0) {
        return false;
    }
    const char *says = field_text(root, "apiVersion");
    bool known = strcmp(says, rules_version_text(rules_version_common(says))) == 0;
    bool later = says[0] != '\0' && !known;
    cJSON_Delete(root);
    return later;
}

static void tell_unreadable(const cJSON *object, const char *text, const struct err *e)
{
    if (text[0] != '\0') {
        log_warn("cannot read the rules in a ConfigMap",
                 log_str("namespace", shards_namespace(object)),
                 log_str("configmap", shards_name(object)), log_str("error", e->msg));
    }
}

/* The rules in it, of which the caller holds a reference; NULL: they cannot be read. */
static struct rules *read_rules(struct rules_map *m, const cJSON *object, const char *text)
{
    struct err e = ERR_INIT;
    struct rules *rules = rules_parse_plain(text, strlen(text), &e);
    if (rules == NULL) {
        m->later = xrc(e.code) == -E2BIG || is_later(text); /* the bounds of another release */
        tell_unreadable(object, text, &e);
        return NULL;
    }
    m->intact = is_canonical(rules, text, m->foreign_size) && is_of_shard(rules, m->ns, m->shard);
    m->generation = rules_generation(rules);
    m->voids = rules_voids(rules);
    return rules;
}

static const char *append(char **at, const char *text)
{
    size_t len = strlen(text) + 1;
    char *place = *at;
    memcpy(place, text, len);
    *at += len;
    return place;
}

/* Copies what was found, texts behind it. */
static struct rules_map *copy_map(const struct rules_map *found)
{
    const char *texts[] = {found->ns,         found->name,       found->uid,
                           found->version,    found->checksum,   found->lock,
                           found->config_uid, found->changed_by, found->text_hash};
    size_t size = strlen(found->ns) + strlen(found->shard) + 2;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        size += strlen(texts[i]) + 1;
    }
    struct rules_map *m = xmalloc(sizeof *m + size);
    char *at = (char *)(m + 1);
    *m = *found;
    m->key = at;
    at += sprintf(at, "%s/%s", found->ns, found->shard) + 1;
    m->ns = append(&at, found->ns);
    m->name = append(&at, found->name);
    m->shard = names_shard_of_map(m->name);
    m->uid = append(&at, found->uid);
    m->version = append(&at, found->version);
    m->config_uid = append(&at, found->config_uid);
    m->checksum = append(&at, found->checksum);
    m->lock = append(&at, found->lock);
    m->changed_by = append(&at, found->changed_by);
    m->text_hash = append(&at, found->text_hash);
    return m;
}

/* The text is the one that `known` has read. The version in which it is written depends on what
 * else there is. */
static struct rules *take_known(struct rules_map *m, const struct rules_map *known,
                                const char *text)
{
    m->later = known->later;
    m->given_up = known->given_up;
    m->generation = known->generation;
    m->voids = known->voids;
    m->intact = known->intact;
    if (known->rules == NULL) {
        return NULL;
    }
    if (known->foreign_size != m->foreign_size) {
        m->intact = is_canonical(known->rules, text, m->foreign_size) &&
                    is_of_shard(known->rules, m->ns, m->shard);
    }
    return rules_ref(known->rules);
}

/* Whether it is a document of that shard, as it would be written. */
static bool is_canonical_traffic(const struct traffic *t, const char *text, const char *ns,
                                 const char *shard)
{
    struct buf again = BUF_INIT((size_t)2 * TRAFFIC_TEXT_MAX);
    xok(traffic_to_json(t, &again)); /* it has room for any */
    bool same = slice_eq(buf_slice(&again), slice_str(text)) &&
                strcmp(traffic_shard_namespace(t), ns) == 0 &&
                strcmp(traffic_shard_name(t), shard) == 0;
    buf_reset(&again);
    return same;
}

static void parse_traffic(struct rules_map_traffic *t, const char *text, const char *ns,
                          const char *shard)
{
    struct err e = ERR_INIT;
    struct traffic *parsed = traffic_parse(text, t->size, &e);
    if (parsed == NULL && xrc(e.code) != 0) {
        return; /* it is written anew */
    }
    t->intact = is_canonical_traffic(parsed, text, ns, shard);
    t->generation = traffic_generation(parsed);
    (void)snprintf(t->checksum, sizeof t->checksum, "%s", traffic_checksum(parsed));
    traffic_unref(parsed);
}

static void look_at_traffic(struct rules_map *m, const cJSON *object, const struct rules_map *known)
{
    const cJSON *item = field_get(field_get(object, "data"), RULES_MAP_TRAFFIC);
    const char *text = cJSON_IsString(item) ? item->valuestring : "";
    m->traffic = (struct rules_map_traffic){.present = item != NULL};
    if (item == NULL) {
        return;
    }
    m->traffic.size = strlen(text);
    m->traffic.text_hash = keyed_hash(0, slice_str(text));
    if (known != NULL && !known->unread && known->traffic.present &&
        known->traffic.size == m->traffic.size &&
        known->traffic.text_hash == m->traffic.text_hash) {
        m->traffic = known->traffic;
        return;
    }
    parse_traffic(&m->traffic, text, m->ns, m->shard);
}

/* The rules in it, of which the caller holds a reference; NULL: none that can be read, or nobody
 * has looked: m->unread. */
static struct rules *look_at_text(struct rules_map *m, const cJSON *object,
                                  const struct rules_map *known, bool wanted, struct finding *f)
{
    const char *text = field_text(field_get(object, "data"), RULES_MAP_KEY);
    bool read = known != NULL && !known->unread;
    m->unread = !wanted && !read;
    if (m->unread) {
        return NULL;
    }
    m->foreign_size = foreign_size(object);
    m->rules_size = strlen(text);
    sha256_hex(text, strlen(text), f->hash);
    if (read && strcmp(known->text_hash, f->hash) == 0) {
        return take_known(m, known, text);
    }
    m->unread = !wanted;
    if (m->unread) {
        f->hash[0] = '\0';
        return NULL;
    }
    return read_rules(m, object, text);
}

static void say_what_is_in_it(struct rules_map *m, const struct rules_map *known)
{
    const char *lock = m->rules == NULL ? NULL : rules_leader_election(m->rules);
    bool kept = m->rules == NULL && m->given_up > 0;
    m->checksum = m->rules != NULL ? rules_checksum(m->rules) : kept ? known->checksum : "";
    m->lock = lock != NULL ? lock : kept ? known->lock : "";
}

struct rules_map *rules_map_look(const cJSON *object, const char *prefix,
                                 const struct rules_map *known, bool wanted)
{
    const cJSON *meta = field_get(object, "metadata");
    const char *name = shards_name(object);
    struct finding f = {.changed = ""};
    struct rules_map found = {
        .ns = shards_namespace(object),
        .name = name,
        .shard = names_shard_of_map(name),
        .uid = field_text(meta, "uid"),
        .version = field_text(meta, "resourceVersion"),
        .changed_by = f.changed,
        .text_hash = f.hash,
    };
    if (found.shard == NULL) {
        return NULL;
    }
    found.rules = look_at_text(&found, object, known, wanted, &f);
    say_what_is_in_it(&found, known);
    read_metadata(&found, meta, prefix);
    if (!found.unread) {
        look_at_traffic(&found, object, known);
        last_editor_find(meta, own_managers, f.changed);
    }
    return copy_map(&found);
}

struct rules_map *rules_map_new(const cJSON *object, const char *prefix)
{
    return rules_map_look(object, prefix, NULL, true);
}

void rules_map_free(struct rules_map *m)
{
    if (m != NULL) {
        rules_unref(m->rules);
        free(m);
    }
}

void rules_map_give_up(struct rules_map *m)
{
    if (m->rules != NULL) {
        m->given_up = rules_weight(m->rules);
        m->later = true;
        rules_unref(m->rules);
        m->rules = NULL;
    }
}

void rules_map_forget(struct rules_map *m)
{
    rules_unref(m->rules);
    m->rules = NULL;
    m->given_up = 0;
    m->later = false;
    m->unread = true;
    m->text_hash = "";
}

void rules_map_share(struct rules_map *m, struct rules *like)
{
    bool known = m->rules != NULL || m->given_up > 0;
    if (!known || (m->rules != NULL && rules_share(m->rules, like)) ||
        strcmp(m->checksum, rules_checksum(like)) != 0) {
        return;
    }
    struct rules *shared = xptr(rules_with_generation(like, m->generation, m->voids));
    rules_unref(m->rules);
    m->rules = shared;
    m->later = m->later && m->given_up == 0;
    m->given_up = 0;
}

bool rules_map_ours(const struct rules_map *m)
{
    return !m->foreign_owner && (m->labelled || m->config_uid[0] != '\0');
}

bool rules_map_claims(const struct rules_map *m)
{
    return m->config_uid[0] != '\0';
}

bool rules_map_right(const struct rules_map *m, const char *config_uid, uint64_t generation,
                     const char *checksum)
{
    return m->intact && m->labelled && m->described && !m->owned &&
           strcmp(m->config_uid, config_uid) == 0 && m->generation == generation &&
           strcmp(m->checksum, checksum) == 0;
}

/* ---- what is written ---- */

char *rules_map_name(const char *shard)
{
    return xasprintf("%s%s", RULES_MAP_PREFIX, shard);
}

static void add_metadata(struct edit *ed, cJSON *meta, const struct rules *rules,
                         const char *prefix, const char *config_uid)
{
    char key[NAMES_KEY_SIZE];
    char number[NUMBER_SIZE];
    cJSON *labels = edit_object(ed, meta, "labels");
    cJSON *annotations = edit_object(ed, meta, "annotations");
    (void)snprintf(number, sizeof number, "%" PRIu64, rules_generation(rules));
    edit_string(ed, labels, MANAGED_BY, MANAGER);
    edit_string(ed, labels, names_key(prefix, RULES_MAP_LABEL, key), "true");
    edit_string(ed, annotations, names_key(prefix, RULES_MAP_GENERATION, key), number);
    edit_string(ed, annotations, names_key(prefix, RULES_MAP_CONFIG, key), config_uid);
}

static void add_identity(struct edit *ed, cJSON *object, cJSON *meta, const struct rules_map *old,
                         const struct rules *rules)
{
    if (old != NULL) {
        edit_string(ed, meta, "uid", old->uid);
        edit_string(ed, meta, "resourceVersion", old->version);
        return;
    }
    char *name = rules_map_name(rules_shard_name(rules));
    edit_string(ed, object, "apiVersion", "v1");
    edit_string(ed, object, "kind", "ConfigMap");
    edit_string(ed, meta, "name", name);
    edit_string(ed, meta, "namespace", rules_shard_namespace(rules));
    free(name);
}

static int check_size(size_t len, size_t others, struct err *e)
{
    if (len + others <= RULES_MAP_MAX) {
        return 0;
    }
    if (len <= RULES_MAP_MAX) {
        return err_set(e, -E2BIG,
                       "the rules have %zu bytes, and other keys of the ConfigMap %zu: a ConfigMap "
                       "holds %zu. Remove the other keys",
                       len, others, RULES_MAP_MAX);
    }
    return err_set(e, -E2BIG,
                   "the rules have %zu bytes, and a ConfigMap holds %zu: select namespaces by "
                   "the hash label instead of by their names, or spread them over more shards",
                   len, RULES_MAP_MAX);
}

cJSON *rules_map_make(const struct rules_map *old, const struct rules *rules, const char *prefix,
                      const char *config_uid, enum rules_version *version, struct err *e)
{
    size_t others = old == NULL ? 0 : old->foreign_size;
    struct buf text = write_rules(rules, room_beside(others), version);
    struct edit ed = {.rc = 0};
    if (check_size(text.len, others, e) != 0) {
        buf_reset(&text);
        return NULL;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON *meta = edit_object(&ed, object, "metadata");
    add_identity(&ed, object, meta, old, rules);
    add_metadata(&ed, meta, rules, prefix, config_uid);
    if (old != NULL && old->owned) {
        edit_set(&ed, meta, "ownerReferences", cJSON_CreateNull());
    }
    edit_string(&ed, edit_object(&ed, object, "data"), RULES_MAP_KEY, xptr(buf_cstr(&text)));
    buf_reset(&text);
    return xptr(edit_result(&ed, object));
}

/* ---- the traffic document ---- */

static size_t room_after(const struct rules_map *m, size_t rules)
{
    return room_beside((m == NULL ? 0 : m->foreign_size) + rules);
}

size_t rules_map_room_in(const struct rules_map *old, const cJSON *made)
{
    return room_after(old, strlen(field_text(field_get(made, "data"), RULES_MAP_KEY)));
}

size_t rules_map_room(const struct rules_map *m)
{
    return room_after(m, m->rules_size);
}

static void set_traffic(struct edit *ed, cJSON *object, const struct rules_map *old,
                        const char *text)
{
    cJSON *data = edit_object(ed, object, "data");
    if (text != NULL) {
        edit_string(ed, data, RULES_MAP_TRAFFIC, text);
    } else if (old != NULL) {
        edit_set(ed, data, RULES_MAP_TRAFFIC, cJSON_CreateNull());
    }
}

void rules_map_add_traffic(cJSON *made, const struct rules_map *old, const char *text)
{
    struct edit ed = {.rc = 0};
    set_traffic(&ed, made, old, text);
}

cJSON *rules_map_make_traffic(const struct rules_map *old, const char *text)
{
    struct edit ed = {.rc = 0};
    cJSON *patch = cJSON_CreateObject();
    add_identity(&ed, patch, edit_object(&ed, patch, "metadata"), old, NULL);
    set_traffic(&ed, patch, old, text);
    return xptr(edit_result(&ed, patch));
}
