/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload_store.h - a small API server for pods, played to the requests of a scene: lists as of now
 * or of an exact version, pages, watches, compaction; and failures by chance.
 *
 * An object's labels are ns (its namespace, never another), app and zone, which may be missing.
 */
#ifndef TEST_INTEGRATION_RELOAD_STORE_H
#define TEST_INTEGRATION_RELOAD_STORE_H

#include "kube/selector.h"
#include "reload_scene.h"

enum { STORE_OBJECTS = 24, STORE_FIRST = 100 };

struct store_version {
    unsigned version;
    bool exists;
    char app;
    char zone; /* 0: it has no such label */
};

struct store_object {
    char name[8];
    char ns;
    struct store_version *history;
    size_t count;
};

struct store {
    struct store_object objects[STORE_OBJECTS];
    unsigned *log; /* the object that version STORE_FIRST + 1 + i changed */
    unsigned version;
    unsigned compacted; /* before it nothing can be listed */
    unsigned forgotten; /* and before this one no watch begins: it is no later */
    uint64_t random;
    bool calm; /* nothing fails */
    /* A write came. True: it may be made. */
    bool (*may_write)(void *data, char ns);
    void *data;
    unsigned writes;
};

void store_init(struct store *st, uint64_t seed);
/* Before scene_close. */
void store_deinit(struct store *st, struct scene *s);

/* Of 0 to n-1. */
unsigned store_chance(struct store *st, unsigned n);

/* Creates, changes or deletes some object. */
void store_change(struct store *st);
/* Forgets the past, but for the newest `kept` versions; watches may know more. */
void store_compact(struct store *st, unsigned kept);

/* Does something for each request that is open: answers it, a piece of it, or breaks it off. */
void store_turn(struct store *st, struct scene *s);
/* Whether no write waits for its answer that may not be made. */
bool store_writes_allowed(const struct store *st, struct scene *s);

/* The object's newest version that both match; NULL: there is none. NULL matches everything. */
const struct store_version *store_shows(const struct store *st, unsigned object,
                                        const struct selector *a, const struct selector *b);

/* Whether an object of namespace `ns` with the labels of a version matches. */
bool store_matches(char ns, const struct store_version *v, const struct selector *s);

#endif
