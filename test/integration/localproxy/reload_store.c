/* SPDX-License-Identifier: Apache-2.0 */
#include "reload_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "query_get.h"
#include "selector_matches.h"

#define PODS "/pods"

/* Beside struct asked. */
struct query {
    struct selector *selector;
    char ns;          /* 0: all */
    unsigned version; /* list: of it; watch: sent up to it */
    unsigned from;    /* list: the first object */
    unsigned limit;
    bool exact;
    bool begun;
    bool initial; /* what there is comes first */
    bool marked;  /* and is followed by a mark */
};

/* ---- what there is ---- */

static void forget_query(struct query *q)
{
    if (q != NULL) {
        selector_free(q->selector);
        q->selector = NULL;
    }
}

static uint64_t draw(struct store *st)
{
    st->random ^= st->random << 13;
    st->random ^= st->random >> 7;
    st->random ^= st->random << 17;
    return st->random;
}

unsigned store_chance(struct store *st, unsigned n)
{
    return (unsigned)((draw(st) >> 11) % n);
}

static void add_version(struct store *st, unsigned object, struct store_version v)
{
    struct store_object *o = &st->objects[object];
    size_t changes = st->version - STORE_FIRST;
    v.version = ++st->version;
    o->history = realloc(o->history, (o->count + 1) * sizeof v);
    st->log = realloc(st->log, (changes + 1) * sizeof st->log[0]);
    assert_non_null(o->history);
    assert_non_null(st->log);
    o->history[o->count++] = v;
    st->log[changes] = object;
}

void store_init(struct store *st, uint64_t seed)
{
    *st = (struct store){.version = STORE_FIRST, .random = seed * 2654435761u + 88172645463325252u};
    for (unsigned i = 0; i < STORE_OBJECTS; i++) {
        (void)snprintf(st->objects[i].name, sizeof st->objects[i].name, "p%u", i);
        st->objects[i].ns = (char)('a' + i % 4);
    }
    for (unsigned i = 0; i < 2 * STORE_OBJECTS; i++) {
        store_change(st);
    }
}

void store_deinit(struct store *st, struct scene *s)
{
    LIST_FOR_EACH(node, &s->asked)
    {
        forget_query(LIST_ITEM(node, struct asked, link)->data);
    }
    for (unsigned i = 0; i < STORE_OBJECTS; i++) {
        free(st->objects[i].history);
    }
    free(st->log);
}

void store_change(struct store *st)
{
    unsigned i = store_chance(st, STORE_OBJECTS);
    const struct store_object *o = &st->objects[i];
    struct store_version v = {.exists = true, .app = 'x', .zone = 0};
    if (o->count > 0) {
        v = o->history[o->count - 1];
    }
    if (!v.exists) {
        v.exists = true;
    } else if (store_chance(st, 6) == 0) {
        v.exists = false;
    }
    if (v.exists && store_chance(st, 2) == 0) {
        v.app = (char)('x' + store_chance(st, 3));
        v.zone = store_chance(st, 3) == 0 ? 0 : (char)('1' + store_chance(st, 5));
    }
    add_version(st, i, v);
}

void store_compact(struct store *st, unsigned kept)
{
    unsigned at = st->version > STORE_FIRST + kept ? st->version - kept : STORE_FIRST;
    st->compacted = at > st->compacted ? at : st->compacted;
    unsigned more = store_chance(st, 3) == 0 ? 0 : store_chance(st, 60);
    unsigned begin = st->compacted > STORE_FIRST + more ? st->compacted - more : STORE_FIRST;
    st->forgotten = begin > st->forgotten ? begin : st->forgotten;
}

bool store_matches(char ns, const struct store_version *v, const struct selector *s)
{
    struct selector_label labels[3] = {
        {SLICE("ns"), slice_of(&ns, 1)},
        {SLICE("app"), slice_of(&v->app, 1)},
        {SLICE("zone"), slice_of(&v->zone, 1)},
    };
    return s == NULL || selector_matches(s, labels, v->zone != 0 ? 3 : 2);
}

/* As it was at that version; NULL: it was not. */
static const struct store_version *at_version(const struct store_object *o, unsigned version)
{
    size_t n = o->count;
    while (n > 0 && o->history[n - 1].version > version) {
        n--;
    }
    return n > 0 && o->history[n - 1].exists ? &o->history[n - 1] : NULL;
}

const struct store_version *store_shows(const struct store *st, unsigned object,
                                        const struct selector *a, const struct selector *b)
{
    const struct store_object *o = &st->objects[object];
    const struct store_version *v = at_version(o, st->version);
    return v != NULL && store_matches(o->ns, v, a) && store_matches(o->ns, v, b) ? v : NULL;
}

/* ---- what is asked ---- */

static bool parameter(const struct asked *a, const char *key, char *out, size_t size)
{
    struct buf text = BUF_INIT(size - 1);
    int found = query_get(slice_str(a->target), key, &text);
    assert_true(found >= 0);
    (void)snprintf(out, size, "%.*s", (int)text.len, (const char *)buf_data(&text));
    buf_reset(&text);
    return found > 0;
}

static unsigned number(const struct asked *a, const char *key)
{
    char text[32];
    return parameter(a, key, text, sizeof text) ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static void read_query(const struct asked *a, struct query *q)
{
    char text[8192];
    struct err e = ERR_INIT;
    const char *ns = strstr(a->target, "/namespaces/");
    q->ns = ns != NULL ? ns[sizeof "/namespaces/" - 1] : '\0';
    if (parameter(a, "labelSelector", text, sizeof text)) {
        q->selector = selector_parse(slice_str(text), &e);
        assert_non_null(q->selector);
    }
    q->version = number(a, "resourceVersion");
    q->limit = number(a, "limit");
    q->exact =
        parameter(a, "resourceVersionMatch", text, sizeof text) && strcmp(text, "Exact") == 0;
    q->marked = parameter(a, "sendInitialEvents", text, sizeof text);
    if (parameter(a, "continue", text, sizeof text) && text[0] != '\0') {
        assert_int_equal(sscanf(text, "%u.%u", &q->version, &q->from), 2);
        q->exact = true;
    }
}

/* ---- objects on the wire ---- */

static void put_object(struct buf *out, const struct store_object *o, const struct store_version *v,
                       unsigned version, bool typed)
{
    char zone[16] = "";
    if (v->zone != 0) {
        (void)snprintf(zone, sizeof zone, ",\"zone\":\"%c\"", v->zone);
    }
    assert_int_equal(buf_printf(out,
                                "{%s\"metadata\":{\"name\":\"%s\",\"namespace\":\"%c\","
                                "\"resourceVersion\":\"%u\",\"labels\":{\"ns\":\"%c\",\"app\":"
                                "\"%c\"%s}}}",
                                typed ? "\"kind\":\"Pod\",\"apiVersion\":\"v1\"," : "", o->name,
                                o->ns, version, o->ns, v->app, zone),
                     0);
}

static void put_event(struct buf *out, const char *type, const struct store_object *o,
                      const struct store_version *v, unsigned version)
{
    assert_int_equal(buf_printf(out, "{\"type\":\"%s\",\"object\":", type), 0);
    put_object(out, o, v, version, true);
    assert_int_equal(buf_append_str(out, "}\n"), 0);
}

static void put_bookmark(struct buf *out, unsigned version, bool end)
{
    assert_int_equal(
        buf_printf(out,
                   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\","
                   "\"metadata\":{\"resourceVersion\":\"%u\"%s}}}\n",
                   version, end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : ""),
        0);
}

static const char gone[] = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
                           "\"Failure\",\"message\":\"too old\",\"reason\":\"Expired\","
                           "\"code\":410}";

/* ---- lists ---- */

static void put_list(const struct store *st, const struct query *q, struct buf *out)
{
    struct buf items = BUF_INIT(SIZE_MAX / 2);
    unsigned shown = 0;
    unsigned i = q->from;
    for (; i < STORE_OBJECTS && (q->limit == 0 || shown < q->limit); i++) {
        const struct store_object *o = &st->objects[i];
        const struct store_version *v = at_version(o, q->version);
        if (v != NULL && (q->ns == '\0' || q->ns == o->ns) &&
            store_matches(o->ns, v, q->selector)) {
            assert_int_equal(buf_append_str(&items, shown++ > 0 ? "," : ""), 0);
            put_object(&items, o, v, v->version, false);
        }
    }
    char token[32] = "";
    if (i < STORE_OBJECTS) {
        (void)snprintf(token, sizeof token, "%u.%u", q->version, i);
    }
    assert_int_equal(buf_printf(out,
                                "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
                                "\"resourceVersion\":\"%u\",\"continue\":\"%s\"},\"items\":[",
                                q->version, token),
                     0);
    assert_int_equal(buf_append(out, buf_data(&items), items.len), 0);
    assert_int_equal(buf_append_str(out, "]}"), 0);
    buf_reset(&items);
}

static void answer_list(struct store *st, struct asked *a, struct query *q)
{
    struct buf body = BUF_INIT(SIZE_MAX / 2);
    if (q->exact && q->version < st->compacted) {
        asked_answer(a, 410, gone);
        return;
    }
    q->version = q->exact ? q->version : st->version;
    put_list(st, q, &body);
    asked_answer(a, 200, buf_cstr(&body));
    buf_reset(&body);
}

/* ---- watches ---- */

static void put_what_is_there(const struct store *st, struct query *q, struct buf *out)
{
    q->version = st->version;
    for (unsigned i = 0; i < STORE_OBJECTS; i++) {
        const struct store_object *o = &st->objects[i];
        const struct store_version *v = at_version(o, q->version);
        if (v != NULL && (q->ns == '\0' || q->ns == o->ns) &&
            store_matches(o->ns, v, q->selector)) {
            put_event(out, "ADDED", o, v, v->version);
        }
    }
    if (q->marked) {
        put_bookmark(out, q->version, true);
    }
}

static void put_change(const struct store *st, const struct query *q, unsigned version,
                       struct buf *out)
{
    const struct store_object *o = &st->objects[st->log[version - STORE_FIRST - 1]];
    const struct store_version *before = at_version(o, version - 1);
    const struct store_version *now = at_version(o, version);
    bool was = before != NULL && store_matches(o->ns, before, q->selector);
    bool is = now != NULL && store_matches(o->ns, now, q->selector);
    if (q->ns != '\0' && q->ns != o->ns) {
        return;
    }
    if (is) {
        put_event(out, was ? "MODIFIED" : "ADDED", o, now, version);
    } else if (was) {
        put_event(out, "DELETED", o, before, version);
    }
}

static void begin_watch(struct store *st, struct asked *a, struct query *q)
{
    q->begun = true;
    asked_begin(a, NULL);
    q->initial = q->version == 0 || q->marked;
    if (!q->initial && q->version < st->forgotten) {
        asked_send(a, "{\"type\":\"ERROR\",\"object\":");
        asked_send(a, gone);
        asked_send(a, "}\n");
        asked_end(a);
    }
}

/* Whatever is chosen, cut into two pieces somewhere. */
static void send_some(struct store *st, struct asked *a, struct buf *text)
{
    if (text->len == 0) {
        return;
    }
    const char *bytes = (const char *)buf_data(text);
    size_t first = store_chance(st, (unsigned)text->len);
    asked_send_bytes(a, slice_of(bytes, first));
    asked_send_bytes(a, slice_of(bytes + first, text->len - first));
}

static void go_on(struct store *st, struct asked *a, struct query *q)
{
    struct buf text = BUF_INIT(SIZE_MAX / 2);
    if (q->initial) {
        q->initial = false;
        put_what_is_there(st, q, &text);
    }
    for (unsigned n = st->calm ? 1000 : store_chance(st, 6); n > 0 && q->version < st->version;
         n--) {
        put_change(st, q, ++q->version, &text);
    }
    if (q->version == st->version && store_chance(st, 8) == 0 &&
        strstr(a->target, "allowWatchBookmarks=true") != NULL) {
        put_bookmark(&text, q->version, false);
    }
    send_some(st, a, &text);
    buf_reset(&text);
}

static void turn_watch(struct store *st, struct asked *a, struct query *q)
{
    if (!st->calm && store_chance(st, 300) == 0) {
        asked_cut(a);
    } else if (!st->calm && q->begun && store_chance(st, 200) == 0) {
        asked_end(a);
    } else if (!st->calm && !q->begun && store_chance(st, 100) == 0) {
        asked_answer(a, 500, "{}");
    } else if (!q->begun) {
        begin_watch(st, a, q);
    } else {
        go_on(st, a, q);
    }
}

/* ---- any request ---- */

static bool is_over(const struct asked *a)
{
    return a->x == NULL || a->answered;
}

static void turn_write(struct store *st, struct asked *a, const struct query *q)
{
    (void)q;
    st->writes++;
    asked_answer(a, 200, "{}");
}

static void turn_list(struct store *st, struct asked *a, struct query *q)
{
    if (!st->calm && store_chance(st, 60) == 0) {
        asked_answer(a, 500, "{}");
    } else if (!st->calm && store_chance(st, 100) == 0) {
        asked_cut(a);
    } else {
        answer_list(st, a, q);
    }
}

static void turn(struct store *st, struct asked *a)
{
    struct query *q = a->data;
    if (strcmp(a->method, "GET") != 0) {
        turn_write(st, a, q);
    } else if (strstr(a->target, "watch=1") != NULL) {
        turn_watch(st, a, q);
    } else {
        turn_list(st, a, q);
    }
}

static void take(struct store *st, struct asked *a)
{
    struct query *q = calloc(1, sizeof *q);
    assert_non_null(q);
    a->data = q;
    a->seen = true;
    read_query(a, q);
    if (strcmp(a->method, "GET") != 0 && !st->may_write(st->data, q->ns)) {
        fail_msg("a write came that may not be made: %s", a->target);
    }
}

void store_turn(struct store *st, struct scene *s)
{
    LIST_FOR_EACH(node, &s->asked)
    {
        struct asked *a = LIST_ITEM(node, struct asked, link);
        if (!a->seen) {
            take(st, a);
        } else if (!is_over(a) && (st->calm || store_chance(st, 4) == 0)) {
            turn(st, a);
        }
        if (a->x == NULL) {
            forget_query(a->data);
        }
    }
    scene_forget(s);
}

bool store_writes_allowed(const struct store *st, struct scene *s)
{
    LIST_FOR_EACH(node, &s->asked)
    {
        const struct asked *a = LIST_ITEM(node, struct asked, link);
        const struct query *q = a->data;
        if (strcmp(a->method, "GET") != 0 && !is_over(a) && q != NULL &&
            !st->may_write(st->data, q->ns)) {
            return false;
        }
    }
    return true;
}
