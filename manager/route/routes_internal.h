/* SPDX-License-Identifier: Apache-2.0 */
/*
 * routes_internal.h - what the parts of the routes controller share.
 *
 * Glossary: a *target* is a Service that has our ports, or is to have them, or had; the *world* is
 * all that is decided from what there is now, made anew whenever that is other than before.
 */
#ifndef MANAGER_ROUTE_ROUTES_INTERNAL_H
#define MANAGER_ROUTE_ROUTES_INTERNAL_H

#include "base/table.h"
#include "kube/client/informer.h"
#include "object/names.h"
#include "route/entries.h"
#include "route/entries_list.h"
#include "route/partitioner.h"
#include "route/route_plan.h"
#include "route/route_rules.h"
#include "route/route_service.h"
#include "route/routes.h"
#include "route/service_ports.h"

/* So often within so long somebody undoes what was written, and it is let go: */
#define ROUTES_UNDONE_MAX 10
#define ROUTES_UNDONE_MS 600000
#define ROUTES_AGAIN_MS 60000   /* what was forbidden is tried again, */
#define ROUTES_NARROW_MS 1000   /* and an original is narrowed once in so long at most */
#define ROUTES_SETTLED_MS 5000  /* a pod has stood in the Service for so long */
#define ROUTES_RESTLESS_MS 5000 /* edits of shards are over after so long */
#define ROUTES_LINGER_MS 5000   /* a port stays for so long after no entry leads to it */

/* ---- what is remembered from one look to the next ---- */

/* Of one webhook, "KIND/CONFIGURATION/WEBHOOK". */
struct route_track {
    struct table_node node;
    uint64_t entries_since; /* 0: it has none */
    uint64_t widened_since; /* 0: it is narrowed */
    bool narrowed;          /* by us, and it was to stay so */
    bool routable;          /* some of its rules are, as they were looked at last */
    bool used;
    char key[];
};

/* Of one original, "KIND/CONFIGURATION". */
struct route_memory {
    struct table_node node;
    uint64_t undone[ROUTES_UNDONE_MAX]; /* when, the last times; 0: not */
    size_t undone_next;
    bool contested;
    double rested_at; /* generation at which nothing of ours was left; 0: it is not so yet */
    uint64_t narrowed_at;
    char *refused;         /* why the API server does not take its entries; NULL: it does */
    char *refused_version; /* of it */
    bool refused_again;    /* also what it has had */
    bool used;
    char key[];
};

/* Of one shard at one Service, "SERVICE SHARD". */
struct route_admission {
    struct table_node node;
    uint64_t stands_since; /* a pod of it stands in the Service; 0: none does */
    bool admitted;
    bool used;
    char key[];
};

/* Of one port of ours, "SERVICE PORT". */
struct route_port {
    struct table_node node;
    uint64_t unwanted_since; /* 0: it is wanted, or not there */
    bool seen;               /* on the Service of that uid */
    char *uid;
    bool used;
    char key[];
};

/* Rules that a shard is about to publish, by its key. */
struct route_releasing {
    struct table_node node;
    struct rules *to;
    uint64_t until;
    char key[];
};

/* What is said of a shard, by its key. */
struct route_told {
    struct table_node node;
    struct route_report report;
    bool used;
    char key[];
};

/* A write, by its key: "entries/KIND", "original/KIND/NAME", "service/NAMESPACE/NAME". */
struct route_writing {
    struct reconcile run;
    struct routes *routes;
    char *refusal;       /* why the last one failed; NULL: it did not */
    unsigned code;       /* of that, as an HTTP status */
    char *version;       /* over which that was */
    uint64_t idle_until; /* unless the object changes */
    uint64_t moves;      /* of the write that is under way, */
    uint64_t looked_at;  /* and what that is of */
};

/* ---- the world ---- */

struct route_shard {
    const struct shard_cache_config *config;
    const char *key;
    unsigned port; /* of the container */
    bool hold;
    bool takes_part;
    int entry_port; /* by which entries lead to it; 0: none do */
    const struct service_port *service_port;
    bool on_service; /* it is there */
    bool misled;     /* its port leads elsewhere, too */
    bool can_gain;
    size_t pods;                /* that the Service selects, */
    size_t ready;               /* of them, */
    size_t ported;              /* and of these with the port; */
    const struct pod *unported; /* the first one by name without; while the world is made */
    bool confirmed;
    struct rules *wanted;    /* NULL: not known */
    struct rules *published; /* NULL: likewise, or none */
    char *shares_with;
    struct route_verdict admission; /* ROUTE_ROUTED: it is asked, or may be */
};

struct route_target {
    struct route_service *service;
    enum route_service_state state;
    bool asked;                 /* by an original with the label */
    struct route_shard *shards; /* those that take part, by key */
    size_t count;
    bool unread;                   /* the ConfigMap of one of them */
    struct partition_shard *sides; /* the same ones */
    const char *own[2];            /* namespaces */
    struct partition_facts facts;
    struct partitioner *partitioner;
    struct service_port *ports; /* of the shards, and then others */
    size_t port_count;
    struct service_ports plan;
    bool holds;
    int hold_port;          /* that is there; 0: none */
    const char **own_ports; /* by which all pods are asked: names, while it is made */
    size_t own_port_count;
    struct entries_shard *entries;
    const struct route_writing *writing; /* NULL: nothing was written yet */
};

struct route_config;

struct route_webhook {
    struct route_config *config;
    const cJSON *webhook;
    const char *name;
    struct entries_service service; /* if it has one */
    struct route_target *own;       /* where the original leads to; NULL: to no Service */
    struct route_target *target;    /* with our ports; NULL likewise */
    struct route_track *track;
    bool narrowed;
    bool ours;
    bool has_entries;
    bool stays;   /* as it is, for not all is known that it takes to decide */
    bool refused; /* what it is to have, by the API server: what it has stays */
    struct entries_webhook make;
    struct partition present;
    bool decided; /* next */
    struct partition next;
    struct route_rules rules;
    struct route_verdict verdict; /* why it is not routable; ROUTE_ROUTED: it is; at the end what is
                                     said of it */
    struct route_plan plan;
};

struct route_config {
    const struct original *original;
    const char *name;
    struct route_memory *memory;
    bool asked; /* it has the label, this alone, and is not contested */
    struct route_webhook *webhooks;
    size_t count;
    cJSON *entries; /* array: those of all its webhooks, */
    cJSON *least;   /* and what it must have of them if they do not fit */
    bool has_entries;
    bool narrow; /* there is something to do */
    bool widen;
    struct entries_claim *claim;
};

struct route_world {
    struct route_config *configs; /* by kind and name */
    size_t config_count;
    struct route_target *targets;
    size_t target_count;
    struct entries_claim *claims;
    cJSON *webhooks[ORIGINALS_KINDS]; /* what the routes objects are to have */
    char *services;                   /* and one of them as ROUTE_SERVICES; "": none */
    char *contests[ORIGINALS_KINDS];  /* as ROUTE_CONTESTS; "": none */
    bool differs[ORIGINALS_KINDS];    /* from what they have */
    uint64_t moves[ORIGINALS_KINDS];
    bool known; /* what it takes to decide */
    uint64_t again_ms;
};

/* The routes object of a kind. */
struct route_object {
    struct routes *routes;
    struct informer *informer;
    cJSON *object; /* NULL: it is not there, or not known */
    bool known;    /* once it was, and `seen` says */
    uint64_t seen; /* hash of our entries in it, */
    uint64_t sent; /* and of those that were sent last */
    bool edited;   /* by somebody else, since the last look */
};

struct routes {
    struct net_loop *loop;
    struct routes_options o;
    const struct net_clock *clock;
    char service_key[NAMES_KEY_SIZE];
    char services_key[NAMES_KEY_SIZE];
    char contests_key[NAMES_KEY_SIZE];
    char shares_with[NAMES_KEY_SIZE];
    struct shard_cache_listener listener;
    struct route_object objects[ORIGINALS_KINDS];
    struct table services;   /* struct route_service */
    struct table tracks;     /* struct route_track */
    struct table memories;   /* struct route_memory */
    struct table admissions; /* struct route_admission */
    struct table ports;      /* struct route_port */
    struct table releasing;  /* struct route_releasing */
    struct table told;       /* struct route_told */
    struct reconciler *writes;
    struct net_timer *timer;
    uint64_t began_at;
    uint64_t looked_at;
    uint64_t cost_ms; /* of the last look */
    bool dirty;
    bool looking;
    bool recalled;             /* what the last leader has noted */
    bool told_once;            /* what is said of shards */
    struct route_world *world; /* NULL: nothing was looked at yet */
};

uint64_t routes_now(const struct routes *r);
/* All is looked at anew, soon. */
void routes_dirty(struct routes *r);
/* The same at once, if it is to be. */
void routes_refresh(struct routes *r);

/* ---- routes_world.c ---- */

/* Decides from what there is. The caller frees. */
MUST_CHECK struct route_world *route_world_new(struct routes *r);
/* NULL is ignored. */
void route_world_free(struct route_world *w);
/* NULL: there is none. */
struct route_config *route_world_find(const struct route_world *w, enum originals_kind kind,
                                      const char *name);
struct route_target *route_world_target(const struct route_world *w, const char *service);

/* ---- routes_report.c ---- */

/* What is said of each shard. */
void routes_tell(struct routes *r);

/* ---- routes_memory.c ---- */

struct route_track *routes_track(struct routes *r, enum originals_kind kind, const char *name,
                                 const char *webhook);
struct route_memory *routes_memory(struct routes *r, enum originals_kind kind, const char *name);
struct route_admission *routes_admission(struct routes *r, const char *service, const char *shard);
struct route_port *routes_port(struct routes *r, const char *service, const char *port);
/* What was not asked for since the last sweep is forgotten. */
void routes_sweep(struct routes *r);
void routes_forget(struct routes *r);
/* Somebody has undone what was written for that original. */
void routes_undone(struct routes *r, struct route_memory *m);
/* As ROUTE_CONTESTS; the caller frees. */
char *routes_contests(const struct route_world *w, enum originals_kind kind);
/* What the routes object has as that; "": nothing. */
const char *routes_noted_contests(const struct routes *r, enum originals_kind kind);

#endif
