/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policies.h - the traffic policies in force, and what they do to requests.
 *
 * A document is in force from one moment to the next, and what it does not change goes on: open
 * breakers, tokens, counts. Which of its policies are for this pod follows from the pod's labels.
 * Without a document, or one for this pod, a request costs a look at two flags.
 */
#ifndef LOCALPROXY_TRAFFIC_POLICIES_H
#define LOCALPROXY_TRAFFIC_POLICIES_H

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "control/status.h"
#include "net/clock.h"
#include "net/loop.h"
#include "traffic/breakers.h"
#include "traffic/external.h"
#include "traffic/fault.h"
#include "traffic/passage.h"

struct policies;

struct policies_options {
    const struct net_clock *clock; /* NULL: the system's */
    const char *breaker_state;     /* a file in which open breakers outlive a restart; NULL: none */
    const char *pod_labels;        /* pod_labels.h; NULL: the pod has none */
    uint64_t seed;                 /* of chance; 0: by the system's */
};

/* Nothing is in force. Reads the files; a state that makes no sense is logged, and as if there was
 * none. NULL with `e` set: -ENOMEM, or the state cannot be written. */
MUST_CHECK struct policies *policies_new(struct net_loop *l, const struct policies_options *o,
                                         struct err *e);
/* No ticket may be out, and nothing that was drawn. NULL is ignored. */
void policies_free(struct policies *p);

/* Calls back when a breaker changed, or what is in force; nothing of this header may be called
 * inside. */
typedef void (*policies_changed_cb)(void *data);
void policies_on_changed(struct policies *p, policies_changed_cb cb, void *data);
/* The same, when other faults are in force than before; so many may listen, each with data of its
 * own. */
enum { POLICIES_FAULT_LISTENERS = 2 };
void policies_on_faults(struct policies *p, policies_changed_cb cb, void *data);
void policies_forget_faults(struct policies *p, const void *data);
/* The same, when other rules that allow and forbid may be in force: with another document, and when
 * the pod's labels change. Of this header policies_allow_external and policies_name_address may be
 * called inside. */
void policies_on_intercepts(struct policies *p, policies_changed_cb cb, void *data);

/* Puts a document in force (a reference is taken); NULL: none is from now on. 0; -ENOMEM: all is as
 * it was. */
MUST_CHECK int policies_set(struct policies *p, struct traffic *document);
/* Why the last document was refused; NULL or "": it was not. */
void policies_explain(struct policies *p, const char *why);
/* What keeps who hands over documents from that, in UTF-8, up to so many bytes; "": nothing. */
enum { POLICIES_TROUBLE_MAX = 768 };
void policies_hear(struct policies *p, const char *trouble);

/* NULL: none. */
const struct traffic *policies_document(const struct policies *p);
/* Seconds since 1970. */
int64_t policies_since(const struct policies *p);

/* ---- a request ---- */

/* Whether any rule of those that select this pod is there. */
bool policies_have_faults(const struct policies *p);
bool policies_have_breakers(const struct policies *p);

/* Draws its faults; to be given back by fault_drawn_release. */
void policies_draw(struct policies *p, const struct traffic_request *r, struct fault_drawn *out);

/* Whether breakers let it through; the passage has the ticket then. If not, the message is appended
 * to `why`, and *retry_after is seconds, or 0. */
MUST_CHECK bool policies_admit(struct policies *p, const struct traffic_request *r,
                               struct passage *passage, struct buf *why, unsigned *retry_after);

/* ---- a request to another place than the API server ---- */

/* Whether any rule of those that select this pod is about such requests. Without one none of the
 * following need be called. */
bool policies_have_external(const struct policies *p);

/* Whether it is allowed. If not, the message is appended to `why`, and the rule has one refusal
 * more. */
MUST_CHECK bool policies_allow_external(struct policies *p, const struct traffic_external *r,
                                        struct buf *why);
/* As traffic_names_address: whether a rule lets it go to an address that is never reached
 * otherwise.
 */
bool policies_name_address(const struct policies *p, struct slice address, unsigned port);
/* As policies_draw and policies_admit, and with the same states. */
void policies_draw_external(struct policies *p, const struct traffic_external *r,
                            struct fault_drawn *out);
MUST_CHECK bool policies_admit_external(struct policies *p, const struct traffic_external *r,
                                        struct passage *passage, struct buf *why,
                                        unsigned *retry_after);

/* ---- what they say ---- */

struct policies_view {
    size_t rules; /* at most so many */
    size_t bytes; /* in so many, as compact JSON */
    bool rough;   /* of counts only whether there are any */
};

/* Adds the member "traffic" (control/status.h). What there is no memory for is left out. */
void policies_describe(struct policies *p, const struct policies_view *view, cJSON *root);
/* Bytes of metrics. Beyond that further rules are left out, as beyond CONTROL_TRAFFIC_RULES_MAX. */
#define POLICIES_METRICS_MAX (224 * 1024)

/* Appends metrics (base/prometheus.h). `delayed`: requests that wait now; `skipped`: that did not,
 * being too many. */
int policies_write_metrics(struct policies *p, size_t delayed, uint64_t skipped, struct buf *out);

#endif
