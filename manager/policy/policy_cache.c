/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "base/xalloc.h"
#include "kube/client/informer.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum {
    READMIT_MS = 30000,  /* until what was too much is listed again */
    PATIENCE_MS = 10000, /* for the first lists */
    MICROSECONDS = 1000000,
    ENTRY_COPIES = 3, /* of its text: beside it what it was read from, about */
};

/* One kind. */
struct source {
    struct policy_cache *cache;
    enum traffic_kind kind;
    struct informer *informer; /* NULL: it is not followed */
    enum policy_served served;
};

/* A namespace with policies, or with some that are not kept. */
struct space {
    struct table_node node;
    struct list policies;
    uint64_t revision;
    size_t bytes;
    bool over[POLICY_KINDS];    /* some of the kind are not kept, */
    bool refused[POLICY_KINDS]; /* also in the list under way */
    char name[];
};

struct entry {
    struct informer_item item; /* its key: "namespace/plural/name" */
    struct policy_object seen; /* points into `text`, `policy` and the key */
    struct list link;          /* of its space */
    struct space *space;
    size_t bytes;
    char *text; /* uid, version, errors, warnings and the rest, each behind the other */
};

struct policy_cache {
    struct net_loop *loop;
    struct policy_cache_options o;
    const struct policy_cache_handlers *handlers;
    void *data;
    char *namespace;
    struct source sources[POLICY_KINDS];
    struct table spaces;
    size_t bytes;
    uint64_t revision; /* given out last */
    uint64_t begun_at;
};

static struct entry *entry_of(struct informer_item *item)
{
    return (struct entry *)(void *)item;
}

static struct space *find_space(const struct policy_cache *c, const char *ns)
{
    return TABLE_FIND(&c->spaces, slice_str(ns), struct space);
}

static struct source *source_of(struct policy_cache *c, const struct entry *e)
{
    return &c->sources[policy_kind(e->seen.policy)];
}

static void tell_known(const struct policy_cache *c)
{
    c->handlers->on_known(c->data);
}

/* ---- namespaces ---- */

static struct space *provide_space(struct policy_cache *c, const char *ns)
{
    struct space *s = xptr(TABLE_PROVIDE(&c->spaces, slice_str(ns), struct space, name));
    if (s->revision == 0) {
        list_init(&s->policies);
        s->revision = ++c->revision;
    }
    return s;
}

static bool is_over(const struct space *s)
{
    return s->over[TRAFFIC_BREAKER] || s->over[TRAFFIC_FAULT_INJECTION];
}

static void leave_space(struct policy_cache *c, struct space *s)
{
    if (list_empty(&s->policies) && !is_over(s)) {
        table_remove(&c->spaces, &s->node);
        free(s);
    }
}

static void change(struct policy_cache *c, struct space *s)
{
    s->revision = ++c->revision;
}

/* ---- policies ---- */

static void free_entry(struct entry *e)
{
    policy_unref(e->seen.policy);
    free(e->text);
    free(e);
}

static void drop(void *data, struct informer_item *item)
{
    (void)data;
    free_entry(entry_of(item));
}

/* What the policy says to pods, and whether it is in the document, is the same. */
static bool says_the_same(const struct policy *a, const struct policy *b)
{
    const struct policy_entry *x = policy_entry(a);
    const struct policy_entry *y = policy_entry(b);
    bool same = policy_valid(a) == policy_valid(b) && policy_disabled(a) == policy_disabled(b) &&
                policy_deleting(a) == policy_deleting(b) &&
                strcmp(policy_uid(a), policy_uid(b)) == 0 &&
                strcmp(policy_spec_hash(a), policy_spec_hash(b)) == 0;
    return same && (x == NULL) == (y == NULL) &&
           (x == NULL || (x->len == y->len && memcmp(x->text, y->text, x->len) == 0));
}

/* "a; b". */
static void join(const struct warnings *w, struct buf *out)
{
    for (size_t i = 0; i < w->count; i++) {
        buf_printf(out, "%s%s", i == 0 ? "" : "; ", w->items[i]);
    }
    if (w->dropped > 0) {
        buf_printf(out, "; and %zu more", w->dropped);
    }
    buf_append_char(out, '\0');
}

/* Its status and finalizers. */
static void write_rest(const cJSON *object, struct buf *out)
{
    struct edit ed = {.rc = 0};
    cJSON *rest = cJSON_CreateObject();
    const cJSON *status = field_map(object, "status");
    const cJSON *finalizers = field_get(field_get(object, "metadata"), "finalizers");
    if (status != NULL) {
        edit_set(&ed, rest, "status", cJSON_Duplicate(status, true));
    }
    if (finalizers != NULL) {
        edit_set(&ed, edit_object(&ed, rest, "metadata"), "finalizers",
                 cJSON_Duplicate(finalizers, true));
    }
    json_canonical(rest, out);
    buf_append_char(out, '\0');
    cJSON_Delete(rest);
}

static const char *next_text(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

static void set_seen(struct entry *e, const char *ns)
{
    const char *at = e->text;
    e->seen.key = e->item.node.key;
    e->seen.ns = ns;
    e->seen.name = strrchr(e->seen.key, '/') + 1;
    e->seen.uid = next_text(&at);
    e->seen.version = next_text(&at);
    e->seen.errors = next_text(&at);
    e->seen.warnings = next_text(&at);
    e->seen.rest = at;
}

/* Objects of lists need not say what they are. The caller unrefs. */
static struct policy *read_policy(const struct source *s, const cJSON *object,
                                  struct policy_findings *found)
{
    const struct policy_options o = {.zones = s->cache->o.zones,
                                     .now = net_clock_wall(s->cache->o.clock) / MICROSECONDS};
    if (field_get(object, "kind") != NULL) {
        return policy_read(s->kind, object, &o, found);
    }
    struct edit ed = {.rc = 0};
    cJSON *copy = cJSON_Duplicate(object, true);
    edit_string(&ed, copy, "apiVersion", POLICY_API_VERSION);
    edit_string(&ed, copy, "kind", policy_kind_name(s->kind));
    struct policy *p = policy_read(s->kind, copy, &o, found);
    cJSON_Delete(copy);
    return p;
}

/* Its `text`, and how much that and the rest take. */
static void write_text(struct entry *e, const cJSON *object, const struct policy_findings *found)
{
    struct buf text = BUF_INIT(SIZE_MAX / 2); /* no more than the object, which is there */
    const char *uid = field_meta(object, "uid");
    const char *version = field_meta(object, "resourceVersion");
    buf_append(&text, uid, strlen(uid) + 1);
    buf_append(&text, version, strlen(version) + 1);
    join(&found->errors, &text);
    join(&found->warnings, &text);
    write_rest(object, &text);
    xok(buf_error(&text));
    e->text = xmalloc(text.len);
    memcpy(e->text, buf_data(&text), text.len);
    const struct policy_entry *entry = policy_entry(e->seen.policy);
    e->bytes = sizeof *e + text.len + (entry == NULL ? 0 : ENTRY_COPIES * entry->len);
    buf_reset(&text);
}

static struct entry *make_entry(const struct source *s, const char *key, const cJSON *object,
                                struct space *space)
{
    struct policy_findings found = POLICY_FINDINGS_INIT;
    struct entry *e = informer_item_new(sizeof *e, key);
    e->space = space;
    e->seen.policy = read_policy(s, object, &found);
    write_text(e, object, &found);
    policy_findings_deinit(&found);
    set_seen(e, space->name);
    return e;
}

/* In the place of `old`, or behind all others of its namespace. */
static void link_entry(struct policy_cache *c, struct entry *e, struct entry *old)
{
    list_append(old != NULL ? &old->link : &e->space->policies, &e->link);
    e->space->bytes += e->bytes;
    c->bytes += e->bytes;
}

static void unlink_entry(struct policy_cache *c, struct entry *e)
{
    list_remove(&e->link);
    e->space->bytes -= e->bytes;
    c->bytes -= e->bytes;
}

/* ---- what is too much ---- */

static void give_up(struct policy_cache *c, struct space *s)
{
    log_warn("too many traffic policies; those of a namespace are not followed, and what is "
             "published there stays as it is",
             log_str("namespace", s->name), log_num("bytes", (int64_t)s->bytes));
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        s->over[kind] = c->sources[kind].served == POLICY_SERVED;
        s->refused[kind] = s->over[kind];
    }
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        if (c->sources[kind].informer != NULL) {
            informer_list_again(c->sources[kind].informer, READMIT_MS);
        }
    }
    while (!list_empty(&s->policies)) {
        struct entry *e = LIST_ITEM(s->policies.next, struct entry, link);
        informer_remove(source_of(c, e)->informer, &e->item);
    }
}

static struct space *largest(const struct policy_cache *c)
{
    struct space *found = NULL;
    for (struct table_node *n = NULL; (n = table_next(&c->spaces, n)) != NULL;) {
        struct space *s = LIST_ITEM(n, struct space, node);
        found = found == NULL || s->bytes > found->bytes ? s : found;
    }
    return found;
}

static bool is_full(const struct policy_cache *c, size_t more)
{
    return c->o.memory != 0 && c->bytes + more > c->o.memory;
}

static void trim(struct policy_cache *c)
{
    while (is_full(c, 0) && c->bytes > 0) {
        give_up(c, largest(c));
    }
}

/* Of a namespace that has given way nothing is taken for which there is no room. */
static bool is_refused(const struct source *src, struct space *s, size_t bytes)
{
    if (!s->over[src->kind] || !is_full(src->cache, bytes)) {
        return false;
    }
    s->refused[src->kind] = true;
    informer_list_again(src->informer, READMIT_MS);
    return true;
}

/* ---- what the API server tells ---- */

static char *key_of(void *data, const cJSON *object)
{
    const struct source *src = data;
    return xasprintf("%s/%s/%s", field_meta(object, "namespace"), policy_kind_plural(src->kind),
                     field_meta(object, "name"));
}

static bool keep(void *data, const char *key, const cJSON *object, struct informer_item **item)
{
    const struct source *src = data;
    struct policy_cache *c = src->cache;
    const struct entry *old = entry_of(*item);
    if (old != NULL && strcmp(old->seen.uid, field_meta(object, "uid")) == 0 &&
        strcmp(old->seen.version, field_meta(object, "resourceVersion")) == 0) {
        return false;
    }
    struct space *s = provide_space(c, field_meta(object, "namespace"));
    struct entry *e = make_entry(src, key, object, s);
    if (old == NULL && is_refused(src, s, e->bytes)) {
        free_entry(e);
        return false;
    }
    *item = &e->item;
    return true;
}

static void on_gone(struct policy_cache *c, const struct entry *e)
{
    change(c, e->space);
    c->handlers->on_policy(c->data, &e->seen, true, false);
}

static void on_kept(struct policy_cache *c, const struct entry *e, bool same)
{
    if (!same) {
        change(c, e->space);
    }
    c->handlers->on_policy(c->data, &e->seen, false, same);
    trim(c);
}

static void on_change(void *data, struct informer_item *before, struct informer_item *after)
{
    struct policy_cache *c = ((struct source *)data)->cache;
    struct entry *old = entry_of(before);
    struct entry *e = entry_of(after);
    if (e != NULL) {
        link_entry(c, e, old);
    }
    if (old != NULL) {
        unlink_entry(c, old);
    }
    /* Also when it was replaced by another one of the same name. */
    if (old != NULL && (e == NULL || strcmp(old->seen.uid, e->seen.uid) != 0)) {
        on_gone(c, old);
    }
    if (e != NULL) {
        on_kept(c, e, old != NULL && says_the_same(old->seen.policy, e->seen.policy));
    } else {
        leave_space(c, old->space); /* whose name has been told */
    }
}

static void on_list(void *data)
{
    const struct source *src = data;
    const struct policy_cache *c = src->cache;
    for (struct table_node *n = NULL; (n = table_next(&c->spaces, n)) != NULL;) {
        LIST_ITEM(n, struct space, node)->refused[src->kind] = false;
    }
}

/* Those of which everything found room in the list. True: there are others. */
static bool readmit(struct policy_cache *c, enum traffic_kind kind)
{
    bool others = false;
    struct table_node *next = table_next(&c->spaces, NULL);
    while (next != NULL) {
        struct space *s = LIST_ITEM(next, struct space, node);
        next = table_next(&c->spaces, next);
        if (s->over[kind] && !s->refused[kind]) {
            s->over[kind] = false;
            change(c, s);
            leave_space(c, s);
        } else if (s->over[kind]) {
            others = true;
        }
    }
    return others;
}

static void on_synced(void *data, bool first)
{
    const struct source *src = data;
    (void)first;
    if (readmit(src->cache, src->kind)) {
        informer_list_again(src->informer, READMIT_MS);
    }
    tell_known(src->cache);
}

static void on_state(void *data, const char *error)
{
    (void)error;
    tell_known(((struct source *)data)->cache);
}

#define KIND(plural)                                                                               \
    {                                                                                              \
        .path = POLICY_CACHE_GROUP_PATH "/" plural, .key = key_of, .keep = keep, .drop = drop,     \
        .on_change = on_change, .on_list = on_list, .on_synced = on_synced, .on_state = on_state   \
    }

static const struct informer_kind kinds[POLICY_KINDS] = {
    [TRAFFIC_BREAKER] = KIND("circuitbreakers"),
    [TRAFFIC_FAULT_INJECTION] = KIND("faultinjections"),
};

static void follow(struct source *src)
{
    struct policy_cache *c = src->cache;
    const struct informer_options o = {.client = c->o.client,
                                       .namespace = c->namespace,
                                       .effect = "what is published of them stays as it is",
                                       .ops = c->o.ops};
    src->informer = informer_new(c->loop, &kinds[src->kind], &o, src);
}

/* ---- which kinds there are ---- */

/* The API server has no such kind any more, so no such policies. */
static void end_source(struct source *src)
{
    struct informer *f = src->informer;
    for (struct informer_item *i; f != NULL && (i = informer_next(f, NULL)) != NULL;) {
        informer_remove(f, i);
    }
    informer_free(f);
    src->informer = NULL;
    on_list(src);
    (void)readmit(src->cache, src->kind);
}

void policy_cache_serve(struct policy_cache *c, enum traffic_kind kind, enum policy_served served)
{
    struct source *src = &c->sources[kind];
    bool known = src->served == POLICY_SERVED || src->served == POLICY_ABSENT;
    if (src->served == served || (known && served == POLICY_UNKNOWN)) {
        return;
    }
    src->served = served;
    if (served == POLICY_SERVED) {
        log_info("following traffic policies", log_str("collection", policy_kind_plural(kind)));
        follow(src);
    } else if (served == POLICY_ABSENT) {
        end_source(src);
    }
    tell_known(c);
}

static bool knows_kind(const struct source *src)
{
    return src->served == POLICY_ABSENT ||
           (src->informer != NULL && informer_synced(src->informer));
}

bool policy_cache_knows(const struct policy_cache *c, const char *ns)
{
    const struct space *s = find_space(c, ns);
    return knows_kind(&c->sources[0]) && knows_kind(&c->sources[1]) && (s == NULL || !is_over(s));
}

/* What keeps it from following; NULL: nothing. */
static const char *source_error(const struct source *src)
{
    return src->informer == NULL ? NULL : reflector_error(informer_reflector(src->informer));
}

static bool is_awaited(const struct source *src)
{
    return !knows_kind(src) && src->served != POLICY_UNKNOWN && source_error(src) == NULL;
}

uint64_t policy_cache_waits_ms(const struct policy_cache *c)
{
    bool waits = is_awaited(&c->sources[0]) || is_awaited(&c->sources[1]);
    uint64_t passed = net_clock_now(c->o.clock) - c->begun_at;
    return waits && passed < PATIENCE_MS ? PATIENCE_MS - passed : 0;
}

/* ---- asking ---- */

uint64_t policy_cache_revision(const struct policy_cache *c, const char *ns)
{
    const struct space *s = find_space(c, ns);
    return s == NULL ? 1 : s->revision;
}

/* The first of that kind or of a later one; NULL: there is none. */
static const struct policy_object *next_of(const struct policy_cache *c, size_t kind,
                                           const struct entry *e)
{
    struct informer_item *item = NULL;
    for (; kind < POLICY_KINDS && item == NULL; kind++, e = NULL) {
        const struct informer *f = c->sources[kind].informer;
        item = f == NULL ? NULL : informer_next(f, e == NULL ? NULL : &e->item);
    }
    return item == NULL ? NULL : &entry_of(item)->seen;
}

const struct policy_object *policy_cache_find(const struct policy_cache *c, const char *key)
{
    struct informer_item *item = NULL;
    for (size_t kind = 0; kind < POLICY_KINDS && item == NULL; kind++) {
        const struct informer *f = c->sources[kind].informer;
        item = f == NULL ? NULL : informer_find(f, key);
    }
    return item == NULL ? NULL : &entry_of(item)->seen;
}

const struct policy_object *policy_cache_next(const struct policy_cache *c,
                                              const struct policy_object *o)
{
    return o == NULL ? next_of(c, 0, NULL)
                     : next_of(c, policy_kind(o->policy), LIST_ITEM(o, struct entry, seen));
}

const struct policy_object *policy_cache_next_in(const struct policy_cache *c, const char *ns,
                                                 const struct policy_object *o)
{
    const struct space *s = find_space(c, ns);
    if (s == NULL) {
        return NULL;
    }
    const struct list *next =
        o == NULL ? s->policies.next : LIST_ITEM(o, struct entry, seen)->link.next;
    return next == &s->policies ? NULL : &LIST_ITEM(next, struct entry, link)->seen;
}

size_t policy_cache_count(const struct policy_cache *c, enum traffic_kind kind)
{
    const struct informer *f = c->sources[kind].informer;
    return f == NULL ? 0 : informer_size(f);
}

const char *policy_cache_error(const struct policy_cache *c)
{
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        if (source_error(&c->sources[kind]) != NULL) {
            return source_error(&c->sources[kind]);
        }
    }
    return NULL;
}

/* ---- life ---- */

struct policy_cache *policy_cache_new(struct net_loop *l, const struct policy_cache_options *o,
                                      const struct policy_cache_handlers *h, void *data)
{
    struct policy_cache *c = xcalloc(1, sizeof *c);
    c->loop = l;
    c->o = *o;
    c->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    c->namespace = o->namespace == NULL ? NULL : xstrdup(o->namespace);
    c->handlers = h;
    c->data = data;
    c->revision = 1;
    c->begun_at = net_clock_now(c->o.clock);
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        c->sources[kind] = (struct source){.cache = c, .kind = (enum traffic_kind)kind};
    }
    return c;
}

void policy_cache_free(struct policy_cache *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        informer_free(c->sources[kind].informer);
    }
    for (struct table_node *n = NULL; (n = table_next(&c->spaces, NULL)) != NULL;) {
        table_remove(&c->spaces, n);
        free(LIST_ITEM(n, struct space, node));
    }
    table_deinit(&c->spaces);
    free(c->namespace);
    free(c);
}
