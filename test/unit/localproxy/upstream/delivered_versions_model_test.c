/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store with a history decides who is right. Clients list it, watch it and read single objects
 * through what localproxy remembers, while rules change and localproxy starts again, with the file
 * and without. The store knows what each client has in its cache, and what it should have:
 *
 * - nobody is served a watch from a version at which its cache is not what the rules in force show;
 * - who is certain to be right is served;
 * - who lists again after a refusal, when something has changed, is served.
 *
 * Once with all sequences of a few actions, and with long random ones. CMESH_DEPTH makes the former
 * longer, CMESH_SEED begins the latter with another seed. The same with room for a few points and
 * resources only (CMakeLists.txt), so that they are forgotten all the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "rounds.h"
#include "upstream/delivered_versions_internal.h"

enum {
    OBJECTS = 4,
    LABELS = 3,    /* of an object; 0: it is not there */
    SELECTORS = 3, /* 1, 2, 3: those that show label 1, label 2, all */
    CLIENTS = 6,
    HISTORY = 1024,
    SMALL = DELIVERED_RESOURCES_MAX < 1024,
    RESOURCES = SMALL ? DELIVERED_RESOURCES_MAX + 1 : 1, /* each has every so many objects */
    RESOURCE = 7,
    VIEW = 100,
    VIEWS = 2, /* that clients with a cache look at */
    OF_OBJECTS = 9,
    SELECTOR = 200,
};

/* No doubt ends: what is believed in time is not known. */
#define DOUBT_MS (UINT64_MAX / 2)

struct state {
    uint8_t label[OBJECTS];
};

struct cache {
    struct state shown; /* what it was shown is there, with labels */
    uint64_t version;   /* 0: it has nothing */
};

struct client {
    unsigned resource;
    uint64_t view;
    struct cache has;
    bool watching;
    struct delivered_account *account;
};

struct world {
    struct delivered_versions *r;
    struct state history[HISTORY]; /* by revision */
    uint64_t revision;
    uint64_t changed[OBJECTS];
    uint64_t memory[RESOURCES]; /* of the API server: it does not hear of other resources */
    unsigned selector;
    uint64_t now_ms;
    bool known;                      /* localproxy remembers all that there was */
    bool told;                       /* the API server says where it is */
    uint64_t start;                  /* the revision when what it remembers began */
    uint64_t listed[RESOURCES];      /* the first newest version since then; UINT64_MAX: none */
    bool at_start[RESOURCES][VIEWS]; /* such a list was of `start` */
    uint64_t shown[SELECTORS + 1];   /* the highest version under each, since it is remembered */
    bool unreadable;                 /* some lists are */
    bool unread;                     /* some were */
    struct client clients[CLIENTS];
    unsigned served;
    unsigned refused;
    size_t log_len; /* for a message */
    char log[4096];
};

/* What was last is kept. */
static void note(struct world *w, const char *format, ...)
{
    va_list args;
    if (w->log_len > sizeof w->log - 200) {
        w->log_len -= sizeof w->log / 2;
        memmove(w->log, w->log + sizeof w->log / 2, w->log_len);
    }
    va_start(args, format);
    w->log_len += (size_t)vsnprintf(w->log + w->log_len, 200, format, args);
    va_end(args);
}

/* ---- the store ---- */

static bool shows(unsigned selector, uint8_t label)
{
    return label != 0 && (selector == SELECTORS || selector == label);
}

static struct state seen_by(const struct world *w, unsigned resource, unsigned selector,
                            uint64_t revision)
{
    struct state s = w->history[revision];
    for (size_t i = 0; i < OBJECTS; i++) {
        bool seen = i % RESOURCES == resource && shows(selector, s.label[i]);
        s.label[i] = seen ? s.label[i] : 0;
    }
    return s;
}

/* What the client's cache should be. */
static struct state due(const struct world *w, const struct client *c, uint64_t revision)
{
    return seen_by(w, c->resource, w->selector, revision);
}

/* Another resource changes. */
static void pass(struct world *w)
{
    assert_true(w->revision + 1 < HISTORY);
    w->revision++;
    w->history[w->revision] = w->history[w->revision - 1];
}

static void put(struct world *w, unsigned object, uint8_t label)
{
    pass(w);
    note(w, "object %u has label %u at %lu; ", object, label, (unsigned long)w->revision);
    w->history[w->revision].label[object] = label;
    w->changed[object] = w->revision;
    w->memory[object % RESOURCES] = w->revision;
}

/* ---- localproxy, as forward.c and request.c use what it remembers ---- */

static struct delivered_key key_of(const struct world *w, unsigned resource, uint64_t view)
{
    return (struct delivered_key){RESOURCE + resource, VIEW + view, SELECTOR + w->selector};
}

static void note_shown(struct world *w, uint64_t version)
{
    uint64_t *highest = &w->shown[w->selector];
    *highest = version > *highest ? version : *highest;
}

/* Of two that take turns: millions of half megabytes would take too long. Whatever is used of the
 * pools is written before. */
static struct delivered_versions *process_new(bool known)
{
    static struct delivered_versions memory[2];
    static unsigned next;
    struct delivered_versions *r = &memory[next++ % 2];
    memset(r, 0, offsetof(struct delivered_versions, resource_pool));
    delivered_init(r, DOUBT_MS);
    r->all_known = known;
    return r;
}

static void list(struct world *w, struct client *c, bool from_memory)
{
    const struct delivered_key key = key_of(w, c->resource, c->view);
    bool newest = !from_memory || delivered_list_newest(w->r, &key);
    uint64_t version = newest ? w->revision : w->memory[c->resource];
    uint64_t *listed = &w->listed[c->resource];
    note(w, "%ld lists %s at %lu; ", (long)(c - w->clients), newest ? "newest" : "memory",
         (unsigned long)version);
    if (newest) {
        delivered_newest(w->r, &key, version);
        *listed = version < *listed ? version : *listed;
        w->at_start[c->resource][c->view] |= version == w->start;
    }
    delivered_give_list(w->r, &key, version, newest);
    note_shown(w, version);
    c->has = (struct cache){due(w, c, version), version};
}

/* The client can read it all, localproxy its version not. */
static void list_unreadable(struct world *w, struct client *c)
{
    const struct delivered_key key = key_of(w, c->resource, c->view);
    note(w, "%ld lists something unreadable at %lu; ", (long)(c - w->clients),
         (unsigned long)w->revision);
    delivered_give(w->r, &key, DELIVERED_ANY);
    w->unread = true;
    c->has = (struct cache){due(w, c, w->revision), w->revision};
}

static bool ask_to_watch(struct world *w, unsigned resource, uint64_t view, uint64_t version)
{
    const struct delivered_key key = key_of(w, resource, view);
    if (!w->known && w->told && version > w->start && delivered_is_doubted(w->r, &key, version)) {
        delivered_started(w->r, key.resource, w->start);
    }
    bool served = delivered_watch(w->r, &key, version);
    note(w, served ? "served; " : "refused; ");
    w->served += served;
    w->refused += !served;
    return served;
}

static struct delivered_account *open_account(struct world *w, unsigned resource, uint64_t view,
                                              uint64_t version)
{
    const struct delivered_key key = key_of(w, resource, view);
    struct delivered_account *a = delivered_account_open(w->r, &key, version);
    assert_non_null(a);
    note_shown(w, version); /* its client knows that nothing has happened since */
    return a;
}

/* ---- who is right ---- */

/* As docs/localproxy.md has it: without the file, of those who have listed at the version at which
 * localproxy started, before or since, nobody knows who is who if nothing has changed in between.
 */
static bool cannot_be_told(const struct world *w, const struct client *c)
{
    return !w->known && c->has.version == w->start && w->at_start[c->resource][c->view];
}

static void expect_right(const struct world *w, const struct client *c)
{
    const struct state right = due(w, c, c->has.version);
    if (memcmp(&right, &c->has.shown, sizeof right) != 0 && !cannot_be_told(w, c)) {
        (void)fprintf(stderr, "%.*s\n", (int)w->log_len, w->log);
        fail_msg("client %ld is served from %lu with a stale cache", (long)(c - w->clients),
                 (unsigned long)c->has.version);
    }
}

/* Of what was forgotten, under which selector is so too. */
static uint64_t shown_by_others(const struct world *w)
{
    uint64_t highest = 0;
    for (unsigned s = 1; s <= SELECTORS; s++) {
        bool other = s != w->selector || SMALL;
        highest = other && w->shown[s] > highest ? w->shown[s] : highest;
    }
    return highest;
}

/* Whether nobody can have the version from before what is remembered. */
static bool is_younger(const struct world *w, unsigned resource, uint64_t version)
{
    bool remembered = !SMALL; /* the list, by which alone it can be known */
    return w->known || (w->told && version > w->start) ||
           (remembered && version > w->listed[resource]);
}

/* Whatever could not be read may be a reason. */
static void expect_reason(const struct world *w, unsigned resource, uint64_t version)
{
    if (!w->unread && version > shown_by_others(w) && is_younger(w, resource, version)) {
        (void)fprintf(stderr, "%.*s\n", (int)w->log_len, w->log);
        fail_msg("a watch from %lu is refused for no reason", (unsigned long)version);
    }
}

/* ---- what clients do ---- */

static void begin_watch(struct world *w, struct client *c)
{
    note(w, "%ld watches %lu: ", (long)(c - w->clients), (unsigned long)c->has.version);
    if (!ask_to_watch(w, c->resource, c->view, c->has.version)) {
        expect_reason(w, c->resource, c->has.version);
        c->has.version = 0;
        return;
    }
    expect_right(w, c);
    c->watching = true;
    c->account = open_account(w, c->resource, c->view, c->has.version);
}

/* It is told of all events but the last `late` revisions. */
static void follow(struct world *w, struct client *c, uint64_t late)
{
    struct delivered_account *a = c->account;
    for (uint64_t at = c->has.version + 1; at + late <= w->revision; at++) {
        struct state before = due(w, c, at - 1);
        struct state after = due(w, c, at);
        if (memcmp(&before, &after, sizeof after) != 0) {
            delivered_saw(w->r, &a->key, at);
            note_shown(w, at);
            a->delivered.from = at < a->delivered.from ? at : a->delivered.from;
            a->delivered.to = at > a->delivered.to ? at : a->delivered.to;
            c->has.version = at;
            c->has.shown = after;
        }
    }
}

/* It may have read less than was sent. */
static void end_watch(struct world *w, struct client *c, uint64_t unread)
{
    const struct delivered_range sent = c->account->delivered;
    note(w, "%ld ends; ", (long)(c - w->clients));
    delivered_account_close(w->r, c->account, 0);
    c->watching = false;
    c->has.version = sent.to - sent.from > unread ? sent.to - unread : sent.from;
    c->has.shown = due(w, c, c->has.version);
}

/* One without a cache, from the version of an object that it has read or written. It looks at
 * nothing that others look at, whose points it would take. */
static void watch_object(struct world *w, unsigned object)
{
    uint64_t version = w->changed[object];
    unsigned resource = object % RESOURCES;
    note(w, "from object %u at %lu: ", object, (unsigned long)version);
    if (version == 0) {
        return; /* it never was there */
    }
    if (ask_to_watch(w, resource, OF_OBJECTS, version)) {
        delivered_account_close(w->r, open_account(w, resource, OF_OBJECTS, version), 0);
    } else {
        expect_reason(w, resource, version);
    }
}

/* Once more, if need be. */
static void get_there(struct world *w, struct client *c)
{
    for (unsigned i = 0; i < 3 && !c->watching; i++) {
        pass(w);
        list(w, c, true);
        begin_watch(w, c);
    }
    if (!c->watching) {
        (void)fprintf(stderr, "%.*s\n", (int)w->log_len, w->log);
        fail_msg("client %ld lists in vain", (long)(c - w->clients));
    }
}

static void all_get_there(struct world *w)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        get_there(w, &w->clients[i]);
    }
}

/* ---- what happens to localproxy ---- */

/* Open watches are told to list again. Some clients (bits) lose their connection before they have
 * read it, and go on. */
static void change_rules(struct world *w, unsigned selector, uint64_t unread)
{
    note(w, "rules %u, not read by %lx; ", selector, (unsigned long)unread);
    w->selector = selector;
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &w->clients[i];
        if (c->watching) {
            delivered_account_close(w->r, c->account, w->now_ms);
            c->watching = false;
            c->has.version = (unread >> i & 1) != 0 ? c->has.version : 0;
        }
    }
}

/* So long that who comes back has done so: lists need not be of the newest version any more. */
static void let_time_pass(struct world *w)
{
    note(w, "time passes; ");
    w->now_ms += 1000000;
    delivered_clock(w->r, w->now_ms);
}

/* It may end at any moment, and watches are cut. */
static void restart(struct world *w, bool with_file)
{
    struct delivered_versions *new = process_new(false);
    note(w, "restarts %s the file; ", with_file ? "with" : "without");
    if (with_file) {
        assert_true(delivered_take_over(new, w->r));
    } else {
        w->known = false;
        w->start = w->revision;
        memset(w->listed, 0xff, sizeof w->listed);
        memset(w->at_start, 0, sizeof w->at_start);
        memset(w->shown, 0, sizeof w->shown);
        w->unread = false;
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        w->clients[i].watching = false;
    }
    w->r = new;
    delivered_clock(w->r, w->now_ms);
}

/* ---- the beginning ---- */

static void begin(struct world *w, bool known, bool told)
{
    memset(w, 0, offsetof(struct world, history));
    memset(&w->revision, 0, sizeof *w - offsetof(struct world, revision));
    memset(&w->history[0], 0, sizeof w->history[0]);
    w->selector = 1;
    w->known = known;
    w->told = told;
    put(w, 0, 1);
    put(w, 1, 2);
    put(w, 2, 1);
    pass(w);
    w->now_ms = 1000;
    w->r = process_new(known);
    delivered_clock(w->r, w->now_ms);
    w->start = w->revision;
    memset(w->listed, 0xff, sizeof w->listed);
    for (size_t i = 0; i < CLIENTS; i++) {
        w->clients[i].view = i % VIEWS;
        w->clients[i].resource = (unsigned)i / 3 % RESOURCES;
    }
}

/*
 * All sequences of what two clients that look alike, and a third one with an object, can do.
 */

static bool change_an_object(struct world *w)
{
    put(w, 0, 3 - w->history[w->revision].label[0]);
    return true;
}

static bool change_something_else(struct world *w)
{
    pass(w);
    return true;
}

static bool list_unless_it_watches(struct world *w, struct client *c, bool from_memory)
{
    if (!c->watching) {
        list(w, c, from_memory);
    }
    return !c->watching;
}

static bool list_first(struct world *w)
{
    return list_unless_it_watches(w, &w->clients[0], false);
}

static bool list_first_from_memory(struct world *w)
{
    return list_unless_it_watches(w, &w->clients[0], true);
}

static bool list_second(struct world *w)
{
    return list_unless_it_watches(w, &w->clients[2], false);
}

static bool list_second_from_memory(struct world *w)
{
    return list_unless_it_watches(w, &w->clients[2], true);
}

static bool watch_or_end(struct world *w, struct client *c)
{
    if (c->watching) {
        follow(w, c, 0);
        end_watch(w, c, 0);
    } else if (c->has.version != 0) {
        begin_watch(w, c);
    } else {
        return false;
    }
    return true;
}

static bool watch_first(struct world *w)
{
    return watch_or_end(w, &w->clients[0]);
}

static bool watch_second(struct world *w)
{
    return watch_or_end(w, &w->clients[2]);
}

static bool watch_from_an_object(struct world *w)
{
    watch_object(w, 0);
    return true;
}

static bool change_to_other_rules(struct world *w)
{
    change_rules(w, 3 - w->selector, 0);
    return true;
}

static bool change_to_other_rules_unread(struct world *w)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        if (w->clients[i].watching) {
            change_rules(w, 3 - w->selector, UINT64_MAX);
            return true;
        }
    }
    return false;
}

static bool wait_for_those_who_come_back(struct world *w)
{
    let_time_pass(w);
    return true;
}

static bool restart_with_file(struct world *w)
{
    restart(w, true);
    return true;
}

static bool restart_without_file(struct world *w)
{
    restart(w, false);
    return true;
}

/* Nothing of which the others above look at. */
static struct delivered_key key_of_others(const struct world *w, uint64_t number)
{
    return (struct delivered_key){RESOURCE + RESOURCES + number, VIEW + number,
                                  SELECTOR + w->selector};
}

static bool others_take_the_points(struct world *w)
{
    note(w, "all points are pushed out; ");
    for (uint64_t i = 0; i < DELIVERED_POINTS_MAX; i++) {
        delivered_give_page(w->r, &(struct delivered_key){RESOURCE, i, SELECTOR}, 1);
    }
    return true;
}

static bool others_take_the_resources(struct world *w)
{
    note(w, "all resources are forgotten; ");
    for (uint64_t i = 0; i < DELIVERED_RESOURCES_MAX; i++) {
        const struct delivered_key key = key_of_others(w, i);
        delivered_saw(w->r, &key, 1);
    }
    return true;
}

static bool (*const actions[])(struct world *w) = {
    change_an_object,
    change_something_else,
    list_first,
    list_first_from_memory,
    list_second,
    list_second_from_memory,
    watch_first,
    watch_second,
    watch_from_an_object,
    change_to_other_rules,
    change_to_other_rules_unread,
    wait_for_those_who_come_back,
    restart_with_file,
    restart_without_file,
    change_to_other_rules_unread,
    wait_for_those_who_come_back,
    others_take_the_points,
    others_take_the_resources,
};

enum { ACTIONS = SMALL ? ARRAY_LEN(actions) : ARRAY_LEN(actions) - 2 };

/* Returns how many of them it stands for: those that begin with an action that cannot be. */
static uint64_t play(struct world *w, uint64_t sequence, uint64_t sequences)
{
    while (sequences > 1) {
        sequences /= ACTIONS;
        if (!actions[sequence / sequences % ACTIONS](w)) {
            return sequences;
        }
    }
    return 1;
}

static void play_all(uint64_t sequences, bool known, bool told)
{
    static struct world w;
    for (uint64_t sequence = 0; sequence < sequences;) {
        begin(&w, known, told);
        sequence += play(&w, sequence, sequences);
        all_get_there(&w);
    }
}

static void all_short_sequences(void **state)
{
    uint64_t sequences = 1;
    (void)state;
    for (uint64_t depth = rounds_number("CMESH_DEPTH", SMALL ? 4 : rounds(4, 5)); depth > 0;
         depth--) {
        sequences *= ACTIONS;
    }
    play_all(sequences, true, true);
    play_all(sequences, false, true);
    play_all(sequences, false, false);
}

/*
 * Long ones by chance, of more clients, selectors and views.
 */

static uint64_t below(uint64_t *seed, uint64_t n)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (*seed >> 11) % n;
}

static void act(struct world *w, uint64_t *seed, struct client *c)
{
    if (c->watching && below(seed, 2) == 0) {
        follow(w, c, below(seed, 3));
    } else if (c->watching) {
        follow(w, c, below(seed, 3));
        end_watch(w, c, below(seed, 2) == 0 ? 0 : below(seed, 4));
    } else if (w->unreadable && below(seed, 16) == 0) {
        list_unreadable(w, c);
    } else if (c->has.version == 0 || below(seed, 8) == 0) {
        list(w, c, below(seed, 2) == 0);
    } else {
        begin_watch(w, c);
    }
}

static void step(struct world *w, uint64_t *seed)
{
    uint64_t dice = below(seed, 64);
    if (dice == 0) {
        restart(w, below(seed, 2) == 0);
    } else if (dice < 4) {
        change_rules(w, 1 + (unsigned)below(seed, SELECTORS), below(seed, 2) * below(seed, 64));
    } else if (dice == 4) {
        let_time_pass(w);
    } else if (dice < 12) {
        put(w, (unsigned)below(seed, OBJECTS), (uint8_t)below(seed, LABELS));
    } else if (dice < 16) {
        pass(w);
    } else if (dice < 22) {
        watch_object(w, (unsigned)below(seed, OBJECTS));
    } else {
        act(w, seed, &w->clients[below(seed, CLIENTS)]);
    }
}

static void long_random_ones(void **state)
{
    static struct world w;
    uint64_t first = rounds_number("CMESH_SEED", 1);
    uint64_t served = 0;
    uint64_t refused = 0;
    (void)state;
    for (uint64_t i = first; i < first + 600; i++) {
        uint64_t seed = i * 2654435761u + 88172645463325252u;
        begin(&w, i % 2 == 0, i % 4 != 3);
        w.unreadable = i % 3 == 0;
        note(&w, "seed %lu: ", (unsigned long)i);
        for (int n = 0; n < 1000; n++) {
            step(&w, &seed);
        }
        all_get_there(&w);
        served += w.served;
        refused += w.refused;
    }
    assert_true(served > 50000);
    assert_true(refused > 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_short_sequences),
        cmocka_unit_test(long_random_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
