/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod.h - what the manager keeps of a pod: little, for there may be many.
 */
#ifndef MANAGER_CACHE_POD_H
#define MANAGER_CACHE_POD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "kube/selector.h"
#include "object/names.h"
#include "object/pod_place.h"

struct pod_label {
    const char *key;
    const char *value;
};

struct pod {
    const char *key; /* "namespace/name" */
    const char *ns;
    const char *name;
    const char *uid;
    char *version;                  /* resourceVersion: pod_take_version */
    const char *ip;                 /* ""; it has none yet */
    const char *account;            /* its service account */
    const char *owner;              /* uid of its controller; "": none */
    const char *injected;           /* the shard whose sidecars were put into it; "": nobody says */
    const char *shard;              /* "namespace/name" of that one; "" */
    const struct pod_label *labels; /* sorted by key; none of a pod with too many for an injection
                                       (inject/inject_bounds.h) */
    size_t label_count;
    uint64_t generation;    /* of its annotation; 0: none, or no number of a generation */
    uint64_t traffic;       /* the same of the traffic document's */
    uint16_t proxy_port;    /* localproxy's admin server; 0: there is no such sidecar */
    uint16_t sync_port;     /* rulesync's */
    bool ready;             /* its condition Ready */
    bool webhook_port;      /* it has the port for webhooks of its shard (object/route_names.h) */
    bool allow_bypass;      /* its annotation says so */
    int64_t ready_since;    /* seconds since 1970; 0: it is not ready, or that is not known */
    int64_t unready_since;  /* since when it is not, its creation at the latest; 0: it is ready, or
                               that is not known */
    const char *failing;    /* why a container of it does not start: one of some words that tell of
                               something wrong, as "CrashLoopBackOff"; NULL: none of them. Static */
    struct pod_place place; /* in its shard, of a Deployment */
    bool told;              /* it has that annotation, whatever stands there */
    bool ending;            /* it is being deleted, or is Succeeded or Failed and not over */
    bool over;              /* Succeeded or Failed, and no container of it is said to run */
    bool let_go;            /* somebody says that nothing of it need be waited for */
};

/* The keys of the annotations that are read: whole, with the prefix. */
struct pod_keys {
    const char *generation;
    const char *traffic;
    const char *injected;
    const char *allow_bypass;
    const char *let_go;
    const char *place;
};

/* Memory of which the first `head` bytes are the caller's, and zero; the pod is behind them.
 * free() frees it. */
MUST_CHECK void *pod_new(size_t head, const cJSON *object, const struct pod_keys *keys);

/* Whether both say the same, but for the version. */
bool pod_same(const struct pod *a, const struct pod *b);
/* It is of this version now. False: it has no room for that. */
MUST_CHECK bool pod_take_version(struct pod *p, const char *version);

bool pod_selected(const struct pod *p, const struct selector *s);
/* NULL: it has no such label. */
const char *pod_label(const struct pod *p, const char *key);

#define POD_ADDRESS_SIZE 80
/* "ADDR:PORT", "[ADDR]:PORT" for IPv6; "" without an address or port. */
void pod_address(const struct pod *p, uint16_t port, char out[POD_ADDRESS_SIZE]);

#endif
