/* SPDX-License-Identifier: Apache-2.0 */
#include "route/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/xalloc.h"
#include "crypto/digest.h"
#include "kube/name.h"
#include "json/edit.h"
#include "json/field.h"

/* What an entry is about. Its text is part of what the name of the entry is made of. */
enum entry_kind {
    ENTRY_OTHERS,
    ENTRY_REST_NAMES,
    ENTRY_REST_HASHES,
    ENTRY_NAMES,  /* of a shard */
    ENTRY_HASHES, /* of a shard */
    ENTRY_HELD_NAMES,
    ENTRY_HELD_HASHES,
    ENTRY_KINDS,
};

static const char *const kinds[ENTRY_KINDS] = {
    [ENTRY_OTHERS] = "others",           [ENTRY_REST_NAMES] = "rest-names",
    [ENTRY_REST_HASHES] = "rest-hashes", [ENTRY_NAMES] = "names",
    [ENTRY_HASHES] = "hashes",           [ENTRY_HELD_NAMES] = "held-names",
    [ENTRY_HELD_HASHES] = "held-hashes",
};

/* ---- Services ---- */

static int port_of(const cJSON *service)
{
    enum { HTTPS = 443, PORT_MAX = 65535 };
    const cJSON *port = field_get(service, "port");
    if (port == NULL) {
        return HTTPS;
    }
    return cJSON_IsNumber(port) && port->valuedouble >= 1 && port->valuedouble <= PORT_MAX
               ? (int)port->valuedouble
               : 0;
}

bool entries_service_of(const cJSON *webhook, struct entries_service *out)
{
    const cJSON *service = field_get(field_get(webhook, "clientConfig"), "service");
    *out = (struct entries_service){.namespace = field_text(service, "namespace"),
                                    .name = field_text(service, "name"),
                                    .port = port_of(service)};
    return *out->name != '\0';
}

/* ---- names ---- */

enum { NAME_DIGITS = 8, NAME_TAIL_MAX = NAME_SUBDOMAIN_MAX - NAME_DIGITS - 1 };

/* The API server wants three parts. Where one is left of the webhook's name, it is cut in two. */
static void cut_in_two(char *part)
{
    for (char *at = part + 1; at[0] != '\0' && at[1] != '\0'; at++) {
        if (at[-1] != '-' && at[1] != '-') {
            *at = '.';
            return;
        }
    }
}

static void write_name(const char *hex, const char *name, char out[NAME_SUBDOMAIN_MAX + 1])
{
    size_t len = strlen(name);
    const char *tail = len > NAME_TAIL_MAX ? name + len - NAME_TAIL_MAX : name;
    tail += strspn(tail, ".-");
    (void)snprintf(out, NAME_SUBDOMAIN_MAX + 1, "%.*s.%s", NAME_DIGITS, hex, tail);
    if (tail != name && strchr(tail, '.') == NULL) {
        cut_in_two(out + NAME_DIGITS + 1);
    }
}

static void name_entry(const struct entries_webhook *w, enum entry_kind kind, const char *shard,
                       char out[NAME_SUBDOMAIN_MAX + 1])
{
    char hex[SHA256_HEX_LEN + 1];
    const char *name = field_text(w->webhook, "name");
    const char *const parts[] = {w->configuration, name, kinds[kind], shard};
    struct buf text = BUF_INIT(SIZE_MAX);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        xok(buf_append(&text, parts[i], strlen(parts[i]) + 1));
    }
    sha256_hex(buf_data(&text), text.len, hex);
    buf_reset(&text);
    write_name(hex, name, out);
}

/* ---- what an entry selects ---- */

static bool demands(const cJSON *expression, const char *key, const char *operator)
{
    return strcmp(field_text(expression, "key"), key) == 0 &&
           strcmp(field_text(expression, "operator"), operator) == 0;
}

/* What no selector may have goes, too: the API server would refuse all entries for it. */
static void leave_out_narrowing(cJSON *selector, const char *control)
{
    cJSON *list = cJSON_GetObjectItemCaseSensitive(selector, "matchExpressions");
    cJSON *next = cJSON_IsArray(list) ? list->child : NULL;
    while (next != NULL) {
        cJSON *item = next;
        next = next->next;
        if (demands(item, control, "DoesNotExist")) {
            cJSON_Delete(cJSON_DetachItemViaPointer(list, item));
        }
    }
    if (!cJSON_IsArray(list) || list->child == NULL) {
        cJSON_DeleteItemFromObjectCaseSensitive(selector, "matchExpressions");
    }
}

static cJSON *add_demand(struct edit *ed, cJSON *selector, const char *key, const char *operator)
{
    cJSON *item = edit_append_object(ed, edit_array(ed, selector, "matchExpressions"));
    edit_string(ed, item, "key", key);
    edit_string(ed, item, "operator", operator);
    return item;
}

/* The original's own selector without what narrows it, and namespaces with control labels. What
 * tells the class follows. */
static cJSON *begin_selector(struct edit *ed, const struct entries_webhook *w)
{
    const char *control = w->keys->key[LABELS_CONTROL];
    const cJSON *own = field_get(w->webhook, "namespaceSelector");
    cJSON *selector = xptr(cJSON_IsObject(own) ? cJSON_Duplicate(own, true) : cJSON_CreateObject());
    leave_out_narrowing(selector, control);
    (void)add_demand(ed, selector, control, "Exists");
    return selector;
}

/* Its list of values, which are to be added. */
static cJSON *add_expression(struct edit *ed, cJSON *selector, const char *key,
                             const char *operator)
{
    return edit_array(ed, add_demand(ed, selector, key, operator), "values");
}

/* ---- who is to be asked ---- */

/* A namespace, its owner, and the owner of its hash. */
struct owned_name {
    const char *name;
    int owner;
    int of_hash;
};

/* Of a webhook: what all its entries are made of. */
struct making {
    const struct entries_webhook *w;
    const struct route_rules *rules;
    cJSON *entries;
    struct edit ed;
    int hashes[SHARDING_HASH_SIZE]; /* owners */
    struct owned_name *names;
    size_t name_count;
};

/* What leads nowhere yet is for any pod. */
static int owner_in_force(const struct entries_webhook *w, int owner)
{
    bool served =
        owner == PARTITION_HELD ? w->hold_port != 0 : owner >= 0 && w->shards[owner].port != 0;
    return served ? owner : PARTITION_REST;
}

static void find_owners(struct making *m, const struct partition *p)
{
    m->names = xcalloc(p->count + 1, sizeof *m->names);
    m->name_count = p->count;
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE; hash++) {
        m->hashes[hash] = owner_in_force(m->w, p->hashes[hash]);
    }
    for (size_t i = 0; i < p->count; i++) {
        const char *name = p->names[i].name;
        m->names[i] = (struct owned_name){.name = name,
                                          .owner = owner_in_force(m->w, p->names[i].owner),
                                          .of_hash = m->hashes[sharding_hash(name)]};
    }
}

/* The hashes that it has, or those that it does not have. */
static bool select_hashes(struct making *m, int owner, cJSON *selector)
{
    bool rest = owner == PARTITION_REST;
    const char *key = m->w->keys->key[LABELS_SHARD_HASH];
    cJSON *values = NULL;
    for (size_t hash = 0; hash < SHARDING_HASH_SIZE; hash++) {
        if ((m->hashes[hash] == owner) != rest) {
            values = values != NULL ? values
                                    : add_expression(&m->ed, selector, key, rest ? "NotIn" : "In");
            edit_append_format(&m->ed, values, "%zu", hash);
        }
    }
    return rest || values != NULL;
}

/* Names that have an entry of their own, though their hash is that of the owner. */
static void leave_out_names(struct making *m, int owner, cJSON *selector)
{
    const char *key = m->w->keys->key[LABELS_NAMESPACE];
    cJSON *values = NULL;
    for (size_t i = 0; i < m->name_count; i++) {
        if (owner == PARTITION_REST || m->names[i].of_hash == owner) {
            values = values != NULL ? values : add_expression(&m->ed, selector, key, "NotIn");
            edit_append_string(&m->ed, values, m->names[i].name);
        }
    }
}

static bool select_names(struct making *m, int owner, cJSON *selector)
{
    const char *key = m->w->keys->key[LABELS_NAMESPACE];
    cJSON *values = NULL;
    for (size_t i = 0; i < m->name_count; i++) {
        if (m->names[i].owner == owner) {
            values = values != NULL ? values : add_expression(&m->ed, selector, key, "In");
            edit_append_string(&m->ed, values, m->names[i].name);
        }
    }
    return values != NULL;
}

/* ---- entries ---- */

/* Which port of which Service: for the rest and others, the original's. */
static void lead_to(struct making *m, cJSON *entry, int port)
{
    cJSON *service = edit_object(&m->ed, edit_object(&m->ed, entry, "clientConfig"), "service");
    if (m->w->service != NULL) {
        edit_string(&m->ed, service, "name", m->w->service);
    }
    edit_number(&m->ed, service, "port", port);
}

static void add_entry(struct making *m, const char *name, const cJSON *rules, cJSON *selector,
                      int port)
{
    cJSON *entry = xptr(cJSON_Duplicate(m->w->webhook, true));
    edit_string(&m->ed, entry, "name", name);
    edit_set(&m->ed, entry, "rules", cJSON_Duplicate(rules, true));
    edit_set(&m->ed, entry, "namespaceSelector", selector);
    leave_out_narrowing(cJSON_GetObjectItemCaseSensitive(entry, "objectSelector"),
                        m->w->keys->key[LABELS_CONTROL]); /* some owners copy it there */
    if (port != 0) {
        lead_to(m, entry, port);
    }
    edit_append(&m->ed, m->entries, entry);
}

static void add_others(struct making *m)
{
    char name[NAME_SUBDOMAIN_MAX + 1];
    if (m->rules->others != NULL) {
        name_entry(m->w, ENTRY_OTHERS, "", name);
        add_entry(m, name, m->rules->others, begin_selector(&m->ed, m->w), 0);
    }
}

static const char *key_of(const struct entries_webhook *w, int owner)
{
    return owner >= 0 ? w->shards[owner].key : "";
}

static int port_of_owner(const struct entries_webhook *w, int owner)
{
    return owner >= 0 ? w->shards[owner].port : owner == PARTITION_HELD ? w->hold_port : 0;
}

static void add_names(struct making *m, int owner, enum entry_kind kind)
{
    char name[NAME_SUBDOMAIN_MAX + 1];
    cJSON *selector = begin_selector(&m->ed, m->w);
    if (!select_names(m, owner, selector)) {
        cJSON_Delete(selector);
        return;
    }
    name_entry(m->w, kind, key_of(m->w, owner), name);
    add_entry(m, name, m->rules->routed, selector, port_of_owner(m->w, owner));
}

static void add_hashes(struct making *m, int owner, enum entry_kind kind)
{
    char name[NAME_SUBDOMAIN_MAX + 1];
    cJSON *selector = begin_selector(&m->ed, m->w);
    if (!select_hashes(m, owner, selector)) {
        cJSON_Delete(selector);
        return;
    }
    leave_out_names(m, owner, selector);
    name_entry(m->w, kind, key_of(m->w, owner), name);
    add_entry(m, name, m->rules->routed, selector, port_of_owner(m->w, owner));
}

void entries_make(const struct entries_webhook *w, const struct route_rules *rules,
                  const struct partition *p, cJSON *entries)
{
    struct making m = {.w = w, .rules = rules, .entries = entries};
    add_others(&m);
    if (p != NULL && rules->routed != NULL) {
        find_owners(&m, p);
        add_names(&m, PARTITION_REST, ENTRY_REST_NAMES);
        add_hashes(&m, PARTITION_REST, ENTRY_REST_HASHES);
        add_names(&m, PARTITION_HELD, ENTRY_HELD_NAMES);
        add_hashes(&m, PARTITION_HELD, ENTRY_HELD_HASHES);
        for (size_t i = 0; i < w->shard_count; i++) {
            add_names(&m, (int)i, ENTRY_NAMES);
            add_hashes(&m, (int)i, ENTRY_HASHES);
        }
    }
    free(m.names);
    xok(m.ed.rc);
}

/* ---- reading ---- */

/* The entries of one webhook, by the end of their names. */
struct reading {
    const struct entries_webhook *w;
    const cJSON **entries;
    size_t count;
    struct partition *out;
    struct partition_name *names;
    size_t name_count;
    bool found;
    int *ports;
};

bool entries_is_ours(const cJSON *entry, const char *control)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(field_get(entry, "namespaceSelector"), "matchExpressions"))
    {
        if (demands(item, control, "Exists")) {
            return true;
        }
    }
    return false;
}

/* By the end of its name. `named`: as any entry of the webhook. */
static bool may_be_of(const cJSON *entry, const char *named, const struct labels_keys *keys)
{
    const char *name = field_text(entry, "name");
    return strlen(name) > NAME_DIGITS && strcmp(name + NAME_DIGITS, named + NAME_DIGITS) == 0 &&
           entries_is_ours(entry, keys->key[LABELS_CONTROL]);
}

bool entries_may_have(const struct labels_keys *keys, const cJSON *entries, const cJSON *webhook)
{
    char named[NAME_SUBDOMAIN_MAX + 1];
    const cJSON *item = entries == NULL ? NULL : entries->child;
    write_name("00000000", field_text(webhook, "name"), named);
    while (item != NULL && !may_be_of(item, named, keys)) {
        item = item->next;
    }
    return item != NULL;
}

/* Those that may be of it. */
static void find_entries(struct reading *r, const cJSON *entries)
{
    char name[NAME_SUBDOMAIN_MAX + 1];
    const cJSON *item;
    name_entry(r->w, ENTRY_OTHERS, "", name);
    r->entries = xmalloc(((size_t)cJSON_GetArraySize(entries) + 1) * sizeof(cJSON *));
    cJSON_ArrayForEach(item, entries)
    {
        if (may_be_of(item, name, r->w->keys)) {
            r->entries[r->count++] = item;
        }
    }
}

static const cJSON *find_entry(struct reading *r, enum entry_kind kind, const char *shard)
{
    char name[NAME_SUBDOMAIN_MAX + 1];
    name_entry(r->w, kind, shard, name);
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(field_text(r->entries[i], "name"), name) == 0) {
            r->found = true;
            return r->entries[i];
        }
    }
    return NULL;
}

/* The values of that demand behind the last one for the control label; NULL: there is none. */
static const cJSON *values_of(const cJSON *entry, const struct labels_keys *k,
                              enum labels_label label, const char *operator)
{
    const cJSON *found = NULL;
    const cJSON *item;
    cJSON_ArrayForEach(item, field_get(field_get(entry, "namespaceSelector"), "matchExpressions"))
    {
        if (demands(item, k->key[LABELS_CONTROL], "Exists")) {
            found = NULL;
        } else if (demands(item, k->key[label], operator)) {
            found = field_get(item, "values");
        }
    }
    return found;
}

static void read_names(struct reading *r, const cJSON *entry, const char *operator, int owner)
{
    const cJSON *values = values_of(entry, r->w->keys, LABELS_NAMESPACE, operator);
    const cJSON *item;
    size_t more = (size_t)cJSON_GetArraySize(values) + 1;
    r->names = xrealloc(r->names, (r->name_count + more) * sizeof *r->names);
    cJSON_ArrayForEach(item, values)
    {
        if (cJSON_IsString(item)) {
            r->names[r->name_count++] =
                (struct partition_name){.name = item->valuestring, .owner = owner};
        }
    }
}

static void read_hashes(struct reading *r, const cJSON *entry, int owner)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, values_of(entry, r->w->keys, LABELS_SHARD_HASH, "In"))
    {
        if (cJSON_IsString(item) && sharding_is_hash(slice_str(item->valuestring))) {
            r->out->hashes[strtoul(item->valuestring, NULL, 10)] = owner;
        }
    }
}

/* One that leads to a Service that is not to be asked any more says nothing of an owner. */
static const cJSON *find_owned(struct reading *r, enum entry_kind kind, int owner)
{
    struct entries_service own;
    struct entries_service has;
    const cJSON *entry = find_entry(r, kind, key_of(r->w, owner));
    bool same = entry != NULL && entries_service_of(r->w->webhook, &own) &&
                entries_service_of(entry, &has) && strcmp(own.namespace, has.namespace) == 0 &&
                strcmp(r->w->service != NULL ? r->w->service : own.name, has.name) == 0;
    if (same && r->ports != NULL && owner >= 0) {
        r->ports[owner] = has.port;
    }
    return same ? entry : NULL;
}

static void read_owner(struct reading *r, int owner, enum entry_kind names, enum entry_kind hashes)
{
    int as = owner >= 0 && r->w->shards[owner].port == 0 ? PARTITION_REST : owner;
    read_names(r, find_owned(r, names, owner), "In", as);
    read_hashes(r, find_owned(r, hashes, owner), as);
}

bool entries_read(const struct entries_webhook *w, const cJSON *entries, struct partition *present,
                  int *ports)
{
    struct reading r = {.w = w, .out = present, .ports = ports};
    partition_init(present);
    for (size_t i = 0; ports != NULL && i < w->shard_count; i++) {
        ports[i] = 0;
    }
    find_entries(&r, entries);
    (void)find_entry(&r, ENTRY_OTHERS, "");
    const cJSON *rest = find_entry(&r, ENTRY_REST_HASHES, "");
    read_names(&r, find_entry(&r, ENTRY_REST_NAMES, ""), "In", PARTITION_REST);
    read_owner(&r, PARTITION_HELD, ENTRY_HELD_NAMES, ENTRY_HELD_HASHES);
    for (size_t i = 0; i < w->shard_count; i++) {
        read_owner(&r, (int)i, ENTRY_NAMES, ENTRY_HASHES);
    }
    /* All names; those that are left have a shard that is gone, and not the owner of their hash. */
    read_names(&r, rest, "NotIn", PARTITION_REST);
    partition_set_names(present, r.names, r.name_count);
    free(r.names);
    free(r.entries);
    return r.found;
}

/* ---- keeping ---- */

static bool is_kept(struct reading *r, const cJSON *entry)
{
    bool kept = false;
    for (enum entry_kind kind = 0; kind < ENTRY_KINDS && !kept; kind++) {
        kept = find_entry(r, kind, "") == entry;
    }
    for (size_t i = 0; i < r->w->shard_count && !kept; i++) {
        kept = find_entry(r, ENTRY_NAMES, r->w->shards[i].key) == entry ||
               find_entry(r, ENTRY_HASHES, r->w->shards[i].key) == entry;
    }
    return kept;
}

void entries_keep(const struct entries_webhook *w, const cJSON *entries, cJSON *kept)
{
    struct reading r = {.w = w};
    find_entries(&r, entries);
    for (size_t i = 0; i < r.count; i++) {
        if (is_kept(&r, r.entries[i])) {
            (void)cJSON_AddItemToArray(kept, xptr(cJSON_Duplicate(r.entries[i], true)));
        }
    }
    free(r.entries);
}
