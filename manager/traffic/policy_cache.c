/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic/policy_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "json/edit.h"
#include "json/field.h"
#include "json/json.h"

enum {
    PATH_SIZE = 400,
    AGAIN_MS = 5000,     /* until what could not be kept for want of memory is listed again, */
    READMIT_MS = 30000,  /* and what was too much */
    PATIENCE_MS = 10000, /* for the first lists */
    MICROSECONDS = 1000000,
    REST_MAX = 8 * 1024 * 1024,
    ENTRY_COPIES = 3, /* of its text: beside it what it was read from, about */
};

/* One kind. */
struct source {
    struct policy_cache *cache;
    enum traffic_kind kind;
    struct reflector *reflector; /* NULL: it is not followed */
    enum policy_served served;
    bool synced; /* listed, since it is followed */
    bool lost;   /* something was not kept: it is to be listed again */
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
    struct policy_object seen; /* points into `text`, `policy` and `key` */
    struct table_node node;
    struct list link; /* of its space */
    struct space *space;
    enum traffic_kind kind;
    size_t bytes;
    bool stale; /* not seen yet in the list under way */
    char *text; /* uid, version, errors, warnings and the rest, each behind the other */
    char key[];
};

struct policy_cache {
    struct net_loop *loop;
    struct policy_cache_options o;
    const struct policy_cache_handlers *handlers;
    void *data;
    char *namespace;
    struct source sources[POLICY_KINDS];
    struct table entries;
    struct table spaces;
    size_t bytes;
    size_t counts[POLICY_KINDS];
    uint64_t revision; /* given out last */
    uint64_t begun_at;
    struct net_deadline again;
    bool again_set;
};

static struct entry *entry_of(struct table_node *n)
{
    return LIST_ITEM(n, struct entry, node);
}

static struct space *find_space(const struct policy_cache *c, const char *ns)
{
    struct table_node *n = table_find(&c->spaces, ns);
    return n == NULL ? NULL : LIST_ITEM(n, struct space, node);
}

static struct entry *find_entry(const struct policy_cache *c, const char *key)
{
    struct table_node *n = table_find(&c->entries, key);
    return n == NULL ? NULL : entry_of(n);
}

static void tell(const struct policy_cache *c, const struct entry *e, bool gone, bool same)
{
    if (c->handlers->on_policy != NULL) {
        c->handlers->on_policy(c->data, &e->seen, gone, same);
    }
}

static void tell_known(const struct policy_cache *c)
{
    if (c->handlers->on_known != NULL) {
        c->handlers->on_known(c->data);
    }
}

/* ---- listing again ---- */

static void set_again(struct policy_cache *c, uint64_t ms)
{
    if (c->again_set) {
        return;
    }
    c->again_set = true;
    if (c->o.ops != NULL) {
        c->o.ops->set_deadline(c->o.ops->data, &c->again, ms);
    } else {
        net_deadline_set(c->loop, &c->again, ms);
    }
}

static void lose(struct source *s)
{
    log_error("out of memory; listing this collection again",
              log_str("collection", policy_kind_plural(s->kind)));
    s->lost = true;
    set_again(s->cache, AGAIN_MS);
}

/* ---- namespaces ---- */

static struct space *provide_space(struct policy_cache *c, const char *ns)
{
    struct space *known = find_space(c, ns);
    struct space *s = known != NULL ? known : calloc(1, sizeof *s + strlen(ns) + 1);
    if (known != NULL || s == NULL) {
        return s;
    }
    memcpy(s->name, ns, strlen(ns) + 1);
    list_init(&s->policies);
    if (table_insert(&c->spaces, &s->node, s->name) != 0) {
        free(s);
        return NULL;
    }
    s->revision = ++c->revision;
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

/* The space stays. */
static void unlink_entry(struct policy_cache *c, struct entry *e)
{
    table_remove(&c->entries, &e->node);
    list_remove(&e->link);
    e->space->bytes -= e->bytes;
    c->bytes -= e->bytes;
    c->counts[e->kind]--;
}

static void drop_entry(struct policy_cache *c, struct entry *e)
{
    struct space *s = e->space;
    unlink_entry(c, e);
    change(c, s);
    tell(c, e, true, false);
    leave_space(c, s); /* whose name has been told */
    free_entry(e);
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

/* "a; b". 0 or -ENOMEM. */
static int join(const struct warnings *w, struct buf *out)
{
    for (size_t i = 0; i < w->count; i++) {
        buf_printf(out, "%s%s", i == 0 ? "" : "; ", w->items[i]);
    }
    if (w->dropped > 0) {
        buf_printf(out, "%s%zu more", w->count == 0 ? "" : "; and ", w->dropped);
    }
    return buf_append_char(out, '\0');
}

/* Its status and finalizers. */
static int write_rest(const cJSON *object, struct buf *out)
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
    rest = edit_result(&ed, rest);
    int rc = rest == NULL ? -ENOMEM : json_canonical(rest, out);
    cJSON_Delete(rest);
    return rc == 0 ? buf_append_char(out, '\0') : rc;
}

static const char *next_text(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

static void set_seen(struct entry *e, char *text, struct policy *policy)
{
    const char *at = text;
    free(e->text);
    policy_unref(e->seen.policy);
    e->text = text;
    e->seen.key = e->key;
    e->seen.ns = e->space->name;
    e->seen.name = strrchr(e->key, '/') + 1;
    e->seen.policy = policy;
    e->seen.uid = next_text(&at);
    e->seen.version = next_text(&at);
    e->seen.errors = next_text(&at);
    e->seen.warnings = next_text(&at);
    e->seen.rest = at;
}

/* What is kept of an object, before anything is changed. */
struct reading {
    struct policy *policy;
    char *text;
    size_t bytes;
};

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
    copy = copy == NULL ? NULL : edit_result(&ed, copy);
    struct policy *p = copy == NULL ? NULL : policy_read(s->kind, copy, &o, found);
    cJSON_Delete(copy);
    return p;
}

static int read_object(const struct source *s, const cJSON *object, struct reading *out)
{
    struct policy_findings found = POLICY_FINDINGS_INIT;
    struct buf text = BUF_INIT(REST_MAX);
    out->policy = read_policy(s, object, &found);
    buf_append(&text, field_meta(object, "uid"), strlen(field_meta(object, "uid")) + 1);
    buf_append(&text, field_meta(object, "resourceVersion"),
               strlen(field_meta(object, "resourceVersion")) + 1);
    int rc = join(&found.errors, &text);
    rc = rc == 0 ? join(&found.warnings, &text) : rc;
    rc = rc == 0 ? write_rest(object, &text) : rc;
    out->text = rc == 0 ? malloc(text.len) : NULL;
    if (out->text != NULL) {
        memcpy(out->text, buf_data(&text), text.len);
    }
    const struct policy_entry *entry = out->policy == NULL ? NULL : policy_entry(out->policy);
    out->bytes = sizeof(struct entry) + text.len + (entry == NULL ? 0 : ENTRY_COPIES * entry->len);
    buf_reset(&text);
    policy_findings_deinit(&found);
    if (out->policy == NULL || out->text == NULL) {
        policy_unref(out->policy);
        free(out->text);
        return -ENOMEM;
    }
    return 0;
}

static struct entry *add_entry(struct policy_cache *c, enum traffic_kind kind, const char *key,
                               struct space *s)
{
    struct entry *e = calloc(1, sizeof *e + strlen(key) + 1);
    if (e == NULL) {
        return NULL;
    }
    memcpy(e->key, key, strlen(key) + 1);
    e->kind = kind;
    e->space = s;
    if (table_insert(&c->entries, &e->node, e->key) != 0) {
        free(e);
        return NULL;
    }
    list_append(&s->policies, &e->link);
    c->counts[kind]++;
    return e;
}

static void count(struct policy_cache *c, struct entry *e, size_t bytes)
{
    e->space->bytes += bytes - e->bytes;
    c->bytes += bytes - e->bytes;
    e->bytes = bytes;
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
    change(c, s);
    while (!list_empty(&s->policies)) {
        struct entry *e = LIST_ITEM(s->policies.next, struct entry, link);
        unlink_entry(c, e);
        tell(c, e, true, false);
        free_entry(e);
    }
    set_again(c, READMIT_MS);
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
static bool is_refused(struct policy_cache *c, struct space *s, enum traffic_kind kind,
                       size_t bytes)
{
    if (!s->over[kind] || !is_full(c, bytes)) {
        return false;
    }
    s->refused[kind] = true;
    set_again(c, READMIT_MS);
    return true;
}

/* ---- what the API server tells ---- */

/* Takes what was read. 0 or -ENOMEM. */
static int keep(struct source *src, struct entry *e, const char *key, struct space *s,
                struct reading *r)
{
    struct policy_cache *c = src->cache;
    bool same = e != NULL && says_the_same(e->seen.policy, r->policy);
    e = e != NULL ? e : add_entry(c, src->kind, key, s);
    if (e == NULL) {
        policy_unref(r->policy);
        free(r->text);
        return -ENOMEM;
    }
    set_seen(e, r->text, r->policy);
    e->stale = false;
    count(c, e, r->bytes);
    if (!same) {
        change(c, s);
    }
    tell(c, e, false, same);
    trim(c);
    return 0;
}

static int put(struct source *src, const char *key, const cJSON *object)
{
    struct policy_cache *c = src->cache;
    struct entry *e = find_entry(c, key);
    struct reading r;
    if (e != NULL && strcmp(e->seen.uid, field_meta(object, "uid")) != 0) {
        drop_entry(c, e); /* replaced by another one of the same name */
        e = NULL;
    }
    if (e != NULL && strcmp(e->seen.version, field_meta(object, "resourceVersion")) == 0) {
        e->stale = false;
        return 0;
    }
    struct space *s = provide_space(c, field_meta(object, "namespace"));
    int rc = s == NULL ? -ENOMEM : read_object(src, object, &r);
    if (rc == 0 && e == NULL && is_refused(c, s, src->kind, r.bytes)) {
        policy_unref(r.policy);
        free(r.text);
        return 0;
    }
    if (rc == 0) {
        rc = keep(src, e, key, s, &r);
    }
    if (rc != 0 && s != NULL) {
        leave_space(c, s);
    }
    return rc;
}

static void on_list(void *data)
{
    const struct source *src = data;
    const struct policy_cache *c = src->cache;
    for (struct table_node *n = NULL; (n = table_next(&c->entries, n)) != NULL;) {
        struct entry *e = entry_of(n);
        e->stale = e->stale || e->kind == src->kind;
    }
    for (struct table_node *n = NULL; (n = table_next(&c->spaces, n)) != NULL;) {
        LIST_ITEM(n, struct space, node)->refused[src->kind] = false;
    }
}

static void on_object(void *data, enum reflector_change what, const cJSON *object)
{
    struct source *src = data;
    char *key = NULL;
    if (asprintf(&key, "%s/%s/%s", field_meta(object, "namespace"), policy_kind_plural(src->kind),
                 field_meta(object, "name")) < 0) {
        lose(src);
        return;
    }
    if (what != REFLECTOR_DELETED) {
        if (put(src, key, object) != 0) {
            lose(src);
        }
    } else {
        struct entry *e = find_entry(src->cache, key);
        if (e != NULL) {
            drop_entry(src->cache, e);
        }
    }
    free(key);
}

static void drop_stale(struct policy_cache *c, enum traffic_kind kind)
{
    struct table_node *next = table_next(&c->entries, NULL);
    while (next != NULL) {
        struct entry *e = entry_of(next);
        next = table_next(&c->entries, next);
        if (e->stale && e->kind == kind) {
            drop_entry(c, e);
        }
    }
}

/* Those of which everything found room in the list. */
static void readmit(struct policy_cache *c, enum traffic_kind kind)
{
    struct table_node *next = table_next(&c->spaces, NULL);
    while (next != NULL) {
        struct space *s = LIST_ITEM(next, struct space, node);
        next = table_next(&c->spaces, next);
        if (s->over[kind] && !s->refused[kind]) {
            s->over[kind] = false;
            change(c, s);
            leave_space(c, s);
        }
    }
}

static void on_synced(void *data)
{
    struct source *src = data;
    if (!src->lost) {
        drop_stale(src->cache, src->kind);
        readmit(src->cache, src->kind);
        src->synced = true;
    }
    tell_known(src->cache);
}

static void on_state(void *data, const char *error, enum log_level level)
{
    const struct source *src = data;
    const char *what = policy_kind_plural(src->kind);
    if (error != NULL) {
        log_at(level, "cannot list or watch; what is published of them stays as it is",
               log_str("collection", what), log_str("error", error));
    } else {
        log_at(level, "watching again", log_str("collection", what));
    }
    tell_known(src->cache);
}

static const struct reflector_handlers handlers = {
    .on_list = on_list, .on_object = on_object, .on_synced = on_synced, .on_state = on_state};

/* Begins, or begins anew; what there is goes on when that fails. */
static int follow(struct source *src)
{
    const struct policy_cache *c = src->cache;
    struct err e = ERR_INIT;
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, POLICY_CACHE_GROUP_PATH "%s%s/%s",
                   c->namespace == NULL ? "" : "/namespaces/",
                   c->namespace == NULL ? "" : c->namespace, policy_kind_plural(src->kind));
    const struct reflector_options o = {.client = c->o.client, .path = path, .ops = c->o.ops};
    struct reflector *fresh = reflector_new(c->loop, &o, &handlers, src, &e);
    if (fresh == NULL) {
        return -ENOMEM;
    }
    reflector_free(src->reflector);
    src->reflector = fresh;
    src->lost = false;
    return 0;
}

static bool has_over(const struct policy_cache *c)
{
    for (struct table_node *n = NULL; (n = table_next(&c->spaces, n)) != NULL;) {
        if (is_over(LIST_ITEM(n, struct space, node))) {
            return true;
        }
    }
    return false;
}

static void on_again(struct net_deadline *d)
{
    struct policy_cache *c = LIST_ITEM(d, struct policy_cache, again);
    bool over = has_over(c);
    c->again_set = false;
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        struct source *src = &c->sources[kind];
        if (src->served == POLICY_SERVED && (src->lost || over) && follow(src) != 0) {
            lose(src);
        }
    }
    if (over) {
        set_again(c, READMIT_MS);
    }
}

/* ---- which kinds there are ---- */

static void end_source(struct source *src)
{
    reflector_free(src->reflector);
    src->reflector = NULL;
    src->synced = false;
    src->lost = false;
}

/* The API server has no such kind any more, so no such policies. */
static void forget_kind(struct policy_cache *c, enum traffic_kind kind)
{
    on_list(&c->sources[kind]);
    drop_stale(c, kind);
    readmit(c, kind);
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
        if (follow(src) != 0) {
            lose(src);
        }
    } else if (served == POLICY_ABSENT) {
        end_source(src);
        forget_kind(c, kind);
    }
    tell_known(c);
}

static bool knows_kind(const struct source *src)
{
    return src->served == POLICY_ABSENT || (src->served == POLICY_SERVED && src->synced);
}

bool policy_cache_knows(const struct policy_cache *c, const char *ns)
{
    const struct space *s = find_space(c, ns);
    return knows_kind(&c->sources[0]) && knows_kind(&c->sources[1]) && (s == NULL || !is_over(s));
}

static bool is_awaited(const struct source *src)
{
    bool kept = src->reflector != NULL && reflector_error(src->reflector) != NULL;
    return !knows_kind(src) && src->served != POLICY_UNKNOWN && !kept;
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

const struct policy_object *policy_cache_find(const struct policy_cache *c, const char *key)
{
    const struct entry *e = find_entry(c, key);
    return e == NULL ? NULL : &e->seen;
}

const struct policy_object *policy_cache_next(const struct policy_cache *c,
                                              const struct policy_object *o)
{
    const struct table_node *before = o == NULL ? NULL : &LIST_ITEM(o, struct entry, seen)->node;
    struct table_node *n = table_next(&c->entries, before);
    return n == NULL ? NULL : &entry_of(n)->seen;
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
    return c->counts[kind];
}

const char *policy_cache_error(const struct policy_cache *c)
{
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        const struct reflector *r = c->sources[kind].reflector;
        if (r != NULL && reflector_error(r) != NULL) {
            return reflector_error(r);
        }
    }
    return NULL;
}

/* ---- life ---- */

struct policy_cache *policy_cache_new(struct net_loop *l, const struct policy_cache_options *o,
                                      const struct policy_cache_handlers *h, void *data,
                                      struct err *e)
{
    struct policy_cache *c = calloc(1, sizeof *c);
    char *ns = o->namespace == NULL ? NULL : strdup(o->namespace);
    if (c == NULL || (ns == NULL && o->namespace != NULL)) {
        free(c);
        free(ns);
        (void)err_memory(e);
        return NULL;
    }
    c->loop = l;
    c->o = *o;
    c->o.clock = o->clock != NULL ? o->clock : &net_clock_system;
    c->namespace = ns;
    c->handlers = h;
    c->data = data;
    c->revision = 1;
    c->begun_at = net_clock_now(c->o.clock);
    net_deadline_init(&c->again, on_again);
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
    net_deadline_clear(&c->again);
    for (size_t kind = 0; kind < POLICY_KINDS; kind++) {
        reflector_free(c->sources[kind].reflector);
    }
    for (struct table_node *n = NULL; (n = table_next(&c->entries, NULL)) != NULL;) {
        struct entry *e = entry_of(n);
        unlink_entry(c, e);
        free_entry(e);
    }
    for (struct table_node *n = NULL; (n = table_next(&c->spaces, NULL)) != NULL;) {
        table_remove(&c->spaces, n);
        free(LIST_ITEM(n, struct space, node));
    }
    table_deinit(&c->entries);
    table_deinit(&c->spaces);
    free(c->namespace);
    free(c);
}
