/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labeller_internal.h - what the files of the labeller share: labeller.c (whose turn it is),
 * labeller_resource.c (one resource), labeller_progress.c (what is complete), labeller_status.c
 * (metrics and status).
 */
#ifndef MANAGER_LABEL_LABELLER_INTERNAL_H
#define MANAGER_LABEL_LABELLER_INTERNAL_H

#include "base/backoff.h"
#include "base/list.h"
#include "base/state_machine.h"
#include "kube/client/reflector.h"
#include "label/labeller.h"
#include "label/object_set.h"
#include "label/patcher.h"
#include "label/relabel_backoff.h"
#include "net/timer.h"

/* Objects that wait to be patched: from HIGH on no more pages are asked for, from LOW on they are
 * again. What comes above MAX all the same is left out, and listed again later. */
enum { LEVEL_LOW = 250, LEVEL_HIGH = 1000, LEVEL_MAX = 4000 };

/*
 *   DUE -- its turn --> LISTING -- all listed --> FOLLOWING
 *                         ^  |                     |
 *                         |  +--- refused again ---+--> RESTING
 *                         +------- after a while ---------+
 *
 * and FOLLOWING -> LISTING, when objects were left out or refused.
 */
enum resource_phase {
    RESOURCE_DUE,
    RESOURCE_LISTING,
    RESOURCE_FOLLOWING,
    RESOURCE_RESTING,
    RESOURCE_PHASES,
};

extern const struct state_machine resource_phases;

/* Of what is labelled already; after CHECK_DONE, DUE again when there is a reason to. */
enum resource_check { CHECK_DUE, CHECK_RUNNING, CHECK_DONE };

/* What has been achieved so far, and told. */
enum labeller_stage {
    LABELLER_RESOLVING, /* until the discovery has been ready */
    LABELLER_LABELLING, /* until each object has its labels */
    LABELLER_CHECKING,  /* until those that were there are verified */
    LABELLER_STEADY,
};

struct resource {
    struct list link; /* in labeller.resources */
    struct labeller *labeller;
    unsigned id;
    bool stale;                    /* while the discovery's resources are compared with these */
    char *name;                    /* "deployments.apps"; and behind it the texts of: */
    struct discovery_resource api; /* what it is at the API server */

    enum resource_phase phase;
    struct reflector *unlabelled; /* LISTING, FOLLOWING */
    size_t pending;               /* objects that wait for their labels, and not by our will */
    bool passed;                  /* once all were seen and none of them waited: label_progress.h */
    bool left_out;                /* objects came that could not be kept */
    bool no_fields;               /* the server cannot select by namespace */
    struct backoff backoff;       /* of attempts after refusals */
    uint64_t again_at;            /* 0: need not */

    enum resource_check check;
    struct reflector *labelled; /* CHECK_RUNNING */

    unsigned refused_in_row; /* since one was not */
    bool told_refusal;
    bool told_backoff;
    unsigned told_foreign;
    uint64_t outcomes[PATCHER_OUTCOMES];
    struct object_set foreign; /* now */
};

struct labeller {
    struct net_loop *loop;
    struct labeller_options options;
    struct patcher *patcher;
    struct relabel_backoff backoff;
    uint64_t pauses;       /* objects that had to wait, counted each time */
    struct list resources; /* namespaces first */
    unsigned next_id;
    enum labeller_stage stage;
    bool held;           /* no pages are asked for */
    bool shared;         /* some namespace is, as far as labeller_recheck was told */
    uint64_t notes_hash; /* of what was told of the configured resources */
    struct net_task turn;
    struct net_timer *wake;     /* for the next again_at, and check_at */
    uint64_t check_at;          /* all is checked again; 0: it is not checked yet */
    struct net_timer *progress; /* set while there is something to do */
    uint64_t began_at;
    bool telling;          /* the timer of the progress is set */
    uint64_t told_changes; /* when progress was told last */
    uint64_t pages;        /* of reflectors that are gone */
    uint64_t watches;
};

/* ---- labeller_resource.c ---- */

/* One more of labeller.resources. */
struct resource *resource_new(struct labeller *l, const char *group, const char *version,
                              const char *plural, bool namespaced);
void resource_free(struct resource *r);
bool resource_is(const struct resource *r, const struct sharding_resource *s);
void resource_set_check(struct resource *r, enum resource_check check);
/* Lists from the beginning, and follows. */
void resource_begin(struct resource *r);
/* Lists what is labelled, once. */
void resource_check(struct resource *r);
/* All that is labelled is to be listed, though it was, or is about to be. */
void resource_recheck(struct resource *r);
/* Somebody takes the labels of an object away, again and again. */
void resource_tell_backoff(struct resource *r, const char *ns, const char *name);
/* What keeps the listing from going on; NULL: nothing. */
const char *resource_error(const struct resource *r);
/* An object was dealt with. */
void resource_take_outcome(struct resource *r, const char *ns, const char *name,
                           enum patcher_outcome outcome, const struct api_error *error);

/* ---- labeller.c ---- */

/* Soon: looks what is to be done next. */
void labeller_go_on(struct labeller *l);
/* An object is to be patched. False: it cannot be kept. */
bool labeller_add(struct labeller *l, struct resource *r, const char *ns, const char *name,
                  const char *version);
/* Each resource was listed, and what comes is seen. */
bool labeller_follows_all(const struct labeller *l);
uint64_t labeller_outcomes(const struct labeller *l, enum patcher_outcome outcome);

/* ---- labeller_progress.c ---- */

/* To be called in each turn: notes which resources are complete now. */
void labeller_note_passes(struct labeller *l);
/* Who listens is told. */
void labeller_tell_progress(struct labeller *l);

#endif
