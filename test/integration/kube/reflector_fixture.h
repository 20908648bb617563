/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reflector_fixture.h - what a reflector has around it in tests: a scripted API server on a real
 * socket, a user that writes down what it is told, and a clock that the test moves.
 *
 *     fixture_start(f, &options);                   the reflector's first request comes
 *     fixture_expect_request(f, "/p?limit=500");
 *     api_answer(f->asked, 200, NULL, "{...}");        it is answered
 *     fixture_expect_log(f, "list +a@1 synced ");   what the user has seen since the last look
 */
#ifndef TEST_INTEGRATION_REFLECTOR_FIXTURE_H
#define TEST_INTEGRATION_REFLECTOR_FIXTURE_H

#include "kube/client/reflector.h"
#include "scripted_api.h"

/* What the user does when it is called. */
enum user_whim {
    USER_NOTES,         /* writes it down */
    USER_FREES_ON_LIST, /* and frees the reflector in that handler */
    USER_FREES_ON_OBJECT,
    USER_FREES_ON_SYNCED,
    USER_FREES_ON_STATE,
};

struct fixture {
    struct scripted_api api;
    struct reflector *reflector;

    /* the server's side */
    struct api_request *asked;             /* the last one; NULL: none ever came */
    void (*on_request)(struct fixture *f); /* answers by itself; NULL: the test does */
    bool lost;                             /* of on_request: a version was given up */

    /* the user's side */
    struct buf log;
    enum user_whim whim;
    unsigned starved; /* how often that was said */

    /* the clock */
    struct list deadlines; /* the one that was set, until it fires or is cleared */
    struct net_deadline *deadline;
    uint64_t deadline_ms; /* what it was set to last */
    uint32_t random;
    bool running; /* what is set to up to 30 s fires at once by itself */
    struct net_task passing;
    struct reflector_ops ops;
};

/* A server and a client of it, without reflector. False: out of memory. */
bool fixture_open(struct fixture *f, struct net_loop *l);
/* Closes all that is open. */
void fixture_close(struct fixture *f);
/* Fills client and ops into `o`, which must have a path. */
bool fixture_start(struct fixture *f, struct reflector_options *o);
/* One collection, "/p", without more. */
void fixture_start_plain(struct fixture *f);

/* Waits for the next request, which must have that target: it is `asked`. */
void fixture_expect_request(struct fixture *f, const char *target);
/* Waits until the user has seen exactly that since the last call:
 *   "list ", "+NAME@VERSION " listed, "A:NAME@VERSION ", "M:...", "D:...", "synced ",
 *   "error(TEXT) " with all of the text, "fine " when it is over. */
void fixture_expect_log(struct fixture *f, const char *expected);
/* As above; the last entry is an error, of which `text` is a part. */
void fixture_expect_error(struct fixture *f, const char *text);

/* Fires what was set; it must have been set to within [from, to] milliseconds. */
void fixture_pass(struct fixture *f, uint64_t from, uint64_t to);
/* Waits until something is set to within these. */
void fixture_expect_deadline(struct fixture *f, uint64_t from, uint64_t to);

/* An object, a list of such (ends with NULL; token NULL: the last page), an event: texts in turns
 * of some static memory. */
const char *fixture_object(const char *name, const char *version);
const char *fixture_list(const char *version, const char *token, const char *const *objects);
const char *fixture_event(const char *type, const char *name, const char *version);

#endif
