/* SPDX-License-Identifier: Apache-2.0 */
/*
 * breaker_file.h - what of the breakers outlives a restart: which are open and until when, and the
 * reset tokens that were seen.
 *
 * The file holds names and times, and is written whole: what does not read as such, or is too
 * large, is as if there was none. A rule that decides in another way than the one that was written
 * has another fingerprint, and begins anew.
 *
 *     {"breakers": [{"key": "guard/6a2c8f0e-…/deletePod", "same": "0123456789abcdef",
 *                    "since": 1764150000000, "until": 1764150060000, "reset": "2026-11-26"}]}
 */
#ifndef LOCALPROXY_TRAFFIC_BREAKER_FILE_H
#define LOCALPROXY_TRAFFIC_BREAKER_FILE_H

#include "base/err.h"
#include "base/slice.h"
#include "traffic/breakers.h"

#define BREAKER_FILE_MAX (1536 * 1024) /* all rules with the longest names and tokens */
#define BREAKER_KEY_MAX 1023

struct breaker_saved {
    size_t count;
    struct breaker_saved_row {
        char *key;
        uint64_t same; /* the fingerprint */
        int64_t since_wall_ms;
        int64_t until_wall_ms;
        char reset[TRAFFIC_TOKEN_MAX + 1];
    } rows[];
};

/* *out is what the caller frees; NULL: there is no file. 0, or negative with `e` set: it cannot be
 * read, or is none. */
MUST_CHECK int breaker_file_read(const char *path, struct breaker_saved **out, struct err *e);
/* The same of its text: 0, -EINVAL or -ENOMEM. */
MUST_CHECK int breaker_file_parse(struct slice text, struct breaker_saved **out, struct err *e);
void breaker_saved_free(struct breaker_saved *s);

/* To the breakers in force, of which nothing has happened to any yet. */
void breaker_file_restore(const struct breaker_saved *s, struct breakers *all,
                          struct breaker_turn *turn);

/* 0, or negative with `e` set. */
MUST_CHECK int breaker_file_write(const char *path, struct breakers *all, struct err *e);
/* Whether one went open since the last breaker_file_write, and stays so for longer than that: a
 * restart would close it. All else may be written later, as the file without it says what comes to
 * the same. */
MUST_CHECK bool breaker_file_lacks(const struct breakers *all, uint64_t now_ms, uint64_t longer_ms);

#endif
