/* SPDX-License-Identifier: Apache-2.0 */
#include "reflector_fixture.h"

#include <stdio.h>

#include "alloc_sweep.h"

enum { PATIENCE_TURNS = 2000, TURN_MS = 2, PAUSE_MAX_MS = 30000 };

static void serve(struct scripted_api *a, struct api_request *q)
{
    struct fixture *f = a->data;
    f->asked = q;
    if (f->on_request != NULL) {
        f->on_request(f);
    }
}

/* ---- the user ---- */

static void note(struct fixture *f, const char *text)
{
    long paused = alloc_sweep_pause();
    assert_int_equal(buf_append_str(&f->log, text), 0);
    assert_int_equal(buf_append_char(&f->log, ' '), 0);
    alloc_sweep_resume(paused);
}

static void follow_whim(struct fixture *f, enum user_whim whim)
{
    if (f->whim == whim) {
        reflector_free(f->reflector);
        reflector_free(NULL);
        f->reflector = NULL;
    }
}

/* As far as all has been told. */
static void expect_version(const struct fixture *f, const char *version)
{
    if (f->reflector != NULL) {
        assert_string_equal(reflector_version(f->reflector), version);
    }
}

static void on_list(void *data)
{
    note(data, "list");
    expect_version(data, "");
    follow_whim(data, USER_FREES_ON_LIST);
}

static void on_object(void *data, enum reflector_change change, const cJSON *object)
{
    static const char *const marks[] = {
        [REFLECTOR_LISTED] = "+",
        [REFLECTOR_ADDED] = "A:",
        [REFLECTOR_MODIFIED] = "M:",
        [REFLECTOR_DELETED] = "D:",
    };
    const cJSON *metadata = cJSON_GetObjectItem(object, "metadata");
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "resourceVersion"));
    char text[256];
    (void)snprintf(text, sizeof text, "%s%s@%s", marks[change],
                   cJSON_GetStringValue(cJSON_GetObjectItem(metadata, "name")),
                   version == NULL ? "" : version);
    note(data, text);
    expect_version(data, change == REFLECTOR_LISTED ? "" : version);
    follow_whim(data, USER_FREES_ON_OBJECT);
}

static void on_synced(void *data)
{
    note(data, "synced");
    follow_whim(data, USER_FREES_ON_SYNCED);
}

static void on_state(void *data, const char *error, enum log_level level)
{
    (void)level;
    struct fixture *f = data;
    char text[ERR_MSG_MAX + 16];
    (void)snprintf(text, sizeof text, "error(%s)", error == NULL ? "" : error);
    note(f, error == NULL ? "fine" : text);
    if (f->reflector != NULL) {
        const char *told = reflector_error(f->reflector);
        assert_true(error == NULL ? told == NULL : strcmp(told, error) == 0);
    }
    follow_whim(f, USER_FREES_ON_STATE);
}

static void on_starved(void *data)
{
    struct fixture *f = data;
    f->starved++;
}

static const struct reflector_handlers handlers = {
    .on_list = on_list,
    .on_object = on_object,
    .on_synced = on_synced,
    .on_state = on_state,
    .on_starved = on_starved,
};

/* ---- the clock ---- */

static void set_deadline(void *data, struct net_deadline *d, uint64_t ms)
{
    struct fixture *f = data;
    f->deadline_ms = ms;
    list_remove(&d->link);
    list_append(&f->deadlines, &d->link);
    f->deadline = d;
    if (f->running && ms <= PAUSE_MAX_MS) {
        net_task_queue(f->api.loop, &f->passing);
    }
}

static void fire(struct fixture *f)
{
    struct net_deadline *d = f->deadline;
    list_remove(&d->link);
    d->cb(d);
}

static void on_passing(struct net_task *t)
{
    struct fixture *f = LIST_ITEM(t, struct fixture, passing);
    if (!list_empty(&f->deadlines) && f->deadline_ms <= PAUSE_MAX_MS) {
        fire(f);
    }
}

static uint32_t take_random(void *data)
{
    struct fixture *f = data;
    return f->random;
}

void fixture_expect_deadline(struct fixture *f, uint64_t from, uint64_t to)
{
    for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
        if (!list_empty(&f->deadlines) && f->deadline_ms >= from && f->deadline_ms <= to) {
            return;
        }
        run_for(f->api.loop, TURN_MS);
    }
    fail_msg("expected a pause of %lu to %lu ms, %s %lu", (unsigned long)from, (unsigned long)to,
             list_empty(&f->deadlines) ? "there is none, the last one was" : "got",
             (unsigned long)f->deadline_ms);
}

void fixture_pass(struct fixture *f, uint64_t from, uint64_t to)
{
    fixture_expect_deadline(f, from, to);
    fire(f);
}

/* ---- expectations ---- */

static bool is_open(const struct api_request *q)
{
    return q != NULL && q->x != NULL && !q->begun;
}

void fixture_expect_request(struct fixture *f, const char *target)
{
    for (int turn = 0; turn < PATIENCE_TURNS && !is_open(f->asked); turn++) {
        run_for(f->api.loop, TURN_MS);
    }
    assert_true(is_open(f->asked));
    assert_string_equal(f->asked->target, target);
}

static const char *log_text(struct fixture *f)
{
    const char *text = buf_cstr(&f->log);
    return text == NULL ? "" : text;
}

void fixture_expect_log(struct fixture *f, const char *expected)
{
    for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
        if (strcmp(log_text(f), expected) == 0) {
            buf_clear(&f->log);
            return;
        }
        run_for(f->api.loop, TURN_MS);
    }
    assert_string_equal(log_text(f), expected);
}

void fixture_expect_error(struct fixture *f, const char *text)
{
    for (int turn = 0; turn < PATIENCE_TURNS; turn++) {
        const char *last = strstr(log_text(f), "error(");
        if (last != NULL && strstr(last, text) != NULL) {
            buf_clear(&f->log);
            return;
        }
        run_for(f->api.loop, TURN_MS);
    }
    fail_msg("expected an error with \"%s\", got \"%s\"", text, log_text(f));
}

/* ---- life ---- */

bool fixture_open(struct fixture *f, struct net_loop *l)
{
    list_init(&f->deadlines);
    buf_init(&f->log, SIZE_MAX);
    f->ops = (struct reflector_ops){set_deadline, take_random, f};
    net_task_init(&f->passing, on_passing);
    f->api.serve = serve;
    f->api.data = f;
    return api_open(&f->api, l);
}

void fixture_close(struct fixture *f)
{
    reflector_free(f->reflector);
    api_close(&f->api);
    net_task_cancel(&f->passing);
    assert_true(list_empty(&f->deadlines));
    buf_reset(&f->log);
}

bool fixture_start(struct fixture *f, struct reflector_options *o)
{
    o->client = f->api.client;
    o->ops = &f->ops;
    f->reflector = reflector_new(f->api.loop, o, &handlers, f, NULL);
    return f->reflector != NULL;
}

void fixture_start_plain(struct fixture *f)
{
    struct reflector_options o = {.path = "/p"};
    assert_true(fixture_start(f, &o));
}

/* ---- texts ---- */

enum { TEXTS = 8, TEXT_SIZE = 4096 };

/* Not inlined: gcc would take two texts, one made of the other, for parts of one object. */
static __attribute__((noinline)) char *next_text(void)
{
    static char texts[TEXTS][TEXT_SIZE];
    static unsigned next;
    return texts[next++ % TEXTS];
}

const char *fixture_object(const char *name, const char *version)
{
    char *text = next_text();
    (void)snprintf(text, TEXT_SIZE, "{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%s\"}}",
                   name, version);
    return text;
}

const char *fixture_list(const char *version, const char *token, const char *const *objects)
{
    char *text = next_text();
    int len = snprintf(text, TEXT_SIZE,
                       "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{"
                       "\"resourceVersion\":\"%s\",\"continue\":\"%s\"},\"items\":[",
                       version, token == NULL ? "" : token);
    for (size_t i = 0; objects != NULL && objects[i] != NULL; i++) {
        len += snprintf(text + len, TEXT_SIZE - (size_t)len, "%s%s", i == 0 ? "" : ",", objects[i]);
        assert_true(len < TEXT_SIZE);
    }
    len += snprintf(text + len, TEXT_SIZE - (size_t)len, "]}\n");
    assert_true(len < TEXT_SIZE);
    return text;
}

const char *fixture_event(const char *type, const char *name, const char *version)
{
    char *text = next_text();
    (void)snprintf(text, TEXT_SIZE, "{\"type\":\"%s\",\"object\":%s}\n", type,
                   fixture_object(name, version));
    return text;
}
