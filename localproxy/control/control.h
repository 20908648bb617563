/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the control socket: takes documents and says what is enforced.
 *
 * The server's side of the protocol that core/control/README.md describes; what is done with a
 * document is the business of the handlers for its kind. Several documents may be under way at a
 * time.
 */
#ifndef LOCALPROXY_CONTROL_CONTROL_H
#define LOCALPROXY_CONTROL_CONTROL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "control/state.h"
#include "net/loop.h"

struct control;

/* A document that was handed over and is not answered yet. The fields are the handlers' own; those
 * that call control_done inside of reload need none of them. */
struct control_call {
    struct list link;
    bool changed;
};

struct control_handlers {
    /* Puts a document in force; `text` is valid during the call. 0: control_done follows
     * for `r`, perhaps before return. Negative: refused, `e` says why and it may not be called:
     * -EINVAL and -E2BIG (a bad document, answered with 400), -ESTALE (older, other rules
     * of the generation in force, of another shard: 409), any other (503: may be tried again). */
    int (*reload)(void *data, struct slice text, struct control_call *r, struct err *e);
    /* From now on there is no document: answered with what `describe` says then. Negative: refused,
     * as above. NULL: these cannot be taken away (405). */
    int (*remove)(void *data, struct err *e);
    /* Says what is enforced now: see control_state_set. */
    void (*describe)(void *data, struct control_state *out);
    /* Who hands over documents has asked, and said what keeps it from that: "": nothing. NULL:
     * nobody wants to know. */
    void (*heard)(void *data, const char *trouble);
    /* The peer went away before it was answered, or control_free was called: `r` is gone. May be
     * NULL where reload always calls control_done, or refuses. */
    void (*forget)(void *data, struct control_call *r);
};

/* Listens on a Unix socket of mode 0600 for peers of this process's user and root. NULL with `e`
 * set: see net_listener_new. The handlers are those of rules. */
MUST_CHECK struct control *control_new(struct net_loop *l, const char *path,
                                       const struct control_handlers *h, void *data, struct err *e);

/* Takes documents of that kind, too; without it they are not known (404). Before the loop runs. */
void control_serve(struct control *c, enum control_document d, const struct control_handlers *h,
                   void *data);

/* Answers that the document is in force (200), with the state that `describe` gives; `changed`:
 * it was not before. `r` is gone. */
void control_done(struct control_call *r, bool changed);

/* Closes the socket and removes its file; `forget` is called for what is not answered. NULL is
 * ignored. */
void control_free(struct control *c);

#endif
