/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/shared_lock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN = 100 };

static void report(struct shared_lock *s, struct health *h, const struct health_report *r,
                   uint64_t now_ms)
{
    bool lasts = s->subject[0] != '\0' && now_ms - s->met_ms < HEALTH_ASKED_MS;
    if (lasts && strcmp(s->subject, r->subject) != 0) {
        return;
    }
    (void)snprintf(s->subject, sizeof s->subject, "%s", r->subject);
    s->met_ms = now_ms;
    health_raise(h, r);
}

static const char *kind_of(const struct request_info *ri)
{
    if (ri->group.len > 0) {
        return "Lease";
    }
    return slice_eq(ri->resource, SLICE("configmaps")) ? "ConfigMap" : "Endpoints";
}

void shared_lock_elsewhere(struct shared_lock *s, struct health *h, const struct lock_rule *rule,
                           const struct request_info *ri, uint64_t now_ms)
{
    char subject[SHARED_LOCK_SUBJECT_MAX];
    struct err message = ERR_INIT;
    struct err remedy = ERR_INIT;
    int ns_len = (int)ri->namespace.len;
    if (ri->namespace.len > NAME_LABEL_MAX) {
        return; /* there is no such namespace */
    }
    (void)snprintf(subject, sizeof subject, "%s \"%s\" in namespace \"%.*s\"", kind_of(ri),
                   rule->name, ns_len, ri->namespace.ptr);
    err_set(&message, 0,
            "all shards ask for it under the same name, so one of them leads and the others wait: "
            "the shard's lock is in namespace \"%s\"",
            rule->namespace);
    err_set(&remedy, 0,
            "set leaderElectionNamespace: %.*s beside leaderElectionName in the ShardingConfig, or "
            "let the operator keep its lock in namespace %s",
            ns_len, ri->namespace.ptr, rule->namespace);
    const struct health_report r = {
        .cause = HEALTH_LOCK,
        .subject = subject,
        .message = message.msg,
        .remedy = remedy.msg,
    };
    report(s, h, &r, now_ms);
}

/* github.com/nolar/kopf, kopf/_cogs/structs/references.py. */
static const char *peering_kind(const struct request_info *ri)
{
    if (!slice_eq(ri->group, SLICE("kopf.dev")) && !slice_eq(ri->group, SLICE("zalando.org"))) {
        return NULL;
    }
    return slice_eq(ri->resource, SLICE("clusterkopfpeerings")) ? "ClusterKopfPeering"
           : slice_eq(ri->resource, SLICE("kopfpeerings"))      ? "KopfPeering"
                                                                : NULL;
}

static bool is_own(struct slice name, struct slice shard)
{
    if (name.len < shard.len ||
        memcmp(name.ptr + name.len - shard.len, shard.ptr, shard.len) != 0) {
        return false;
    }
    size_t rest = name.len - shard.len;
    return rest == 0 || (rest > 1 && (name.ptr[rest - 1] == '-' || name.ptr[rest - 1] == '.'));
}

int shared_lock_peering(struct shared_lock *s, struct health *h, const char *shard,
                        const struct request_info *ri, uint64_t now_ms, struct err *e)
{
    if (ri->verb != VERB_PATCH && ri->verb != VERB_UPDATE) {
        return 0;
    }
    const char *kind = peering_kind(ri);
    if (kind == NULL || is_own(ri->name, slice_str(shard))) {
        return 0;
    }
    char subject[SHARED_LOCK_SUBJECT_MAX];
    struct err remedy = ERR_INIT;
    int name_len = ri->name.len > NAME_SHOWN ? NAME_SHOWN : (int)ri->name.len;
    int ns_len = ri->namespace.len > NAME_LABEL_MAX ? NAME_LABEL_MAX : (int)ri->namespace.len;
    (void)snprintf(subject, sizeof subject, "%s \"%.*s\"%s%.*s%s", kind, name_len, ri->name.ptr,
                   ns_len > 0 ? " in namespace \"" : "", ns_len, ri->namespace.ptr,
                   ns_len > 0 ? "\"" : "");
    err_set(&remedy, 0,
            "start it with --peering=%.*s-%s, which takes an object of that name, or with "
            "--standalone",
            name_len, ri->name.ptr, shard);
    const struct health_report r = {
        .cause = HEALTH_LOCK,
        .subject = subject,
        .message = "kopf's operators in all shards would pause each other by it, so this one may "
                   "not write there",
        .remedy = remedy.msg,
    };
    report(s, h, &r, now_ms);
    return err_set(e, -EACCES, "%s is not of shard %s alone: %s; %s", subject, shard, r.message,
                   remedy.msg);
}

void shared_lock_forget(struct shared_lock *s, struct health *h)
{
    if (s->subject[0] != '\0') {
        *s = (struct shared_lock){.met_ms = 0};
        health_clear(h, HEALTH_LOCK, NULL);
    }
}
