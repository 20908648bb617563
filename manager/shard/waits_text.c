/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/waits_text.h"

#include "base/buf.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

enum { NAMED_MAX = 3, TEXT_MAX = 4096 };

static const char *const reasons[] = {
    [OWNERSHIP_NOT_HEARD_OF] = "not heard of yet",
    [OWNERSHIP_BYPASSED] = "goes around its proxy, and so sees everything",
    [OWNERSHIP_SILENT] = "does not respond",
    [OWNERSHIP_UNSETTLED] = "is still finishing requests under earlier rules",
    [OWNERSHIP_UNCONFIRMED] = "has not confirmed yet that it gave it up",
    [OWNERSHIP_KEEPS] = "keeps its rules until it is gone: restart it",
    [OWNERSHIP_NO_SIDECAR] = "has no sidecar, and so sees everything",
    [OWNERSHIP_NOT_STARTED] = "has no sidecar, and so sees everything once it starts: delete "
                              "it if it never will",
    [OWNERSHIP_UNKNOWN_SIDECAR] = "has the sidecars of a shard that nobody knows",
    [OWNERSHIP_OTHER_LOCK] = "has not confirmed the lock that the shard is to have",
    [OWNERSHIP_STILL_LED] = "its leader by the lock that it had before may not have given up yet",
    [OWNERSHIP_PUBLISHED] = "its ConfigMap still shows it",
    [OWNERSHIP_WANTED] = "its spec selects it too: change one of the specs; or, if they are of "
                         "different operators, set leaderElectionName in both, or the annotation "
                         "shares-with in one",
    [OWNERSHIP_UNREAD] = "its ConfigMap was not read yet",
    [OWNERSHIP_OVER_BUDGET] = "there is no memory for its rules: raise the manager's "
                              "--shards-memory",
    [OWNERSHIP_OTHER_RELEASE] = "its ConfigMap was written by another release, whose sidecars may "
                                "see anything by it",
};

/* When it can be done without the pod, or why not. The time at which the rules of one that renews
 * them would expire is nothing to wait for. */
static void name_lease(struct buf *text, const struct ownership_pod *p,
                       const struct takeover_word *lease)
{
    char at[RFC3339_SIZE];
    bool renews = p->probe != NULL && p->probe->state == PROBE_ANSWERED;
    if (lease->state == TAKEOVER_LATER && !renews && rfc3339_format(lease->expires, at) == 0) {
        (void)buf_printf(text, "; its rules will have expired for certain at %s", at);
    } else if (lease->state == TAKEOVER_FORBIDDEN) {
        (void)buf_append_str(text,
                             "; its rules have expired, but this manager may not patch Leases: "
                             "bind the ClusterRole cmesh-manager-takeover to it");
    } else if (lease->state == TAKEOVER_ASKED) {
        (void)buf_append_str(text, "; its rules have expired, and it is being given up");
    }
}

/* The spec of a shard that may be of another operator: unlike others', that ends by itself. */
static void name_doubtful(struct buf *text, const struct ownership_wait *w)
{
    (void)buf_printf(text,
                     "shard %s (its spec selects it too, with another leaderElectionName: if they "
                     "are of one operator, change one of the specs; if not, this wait ends %d s "
                     "after the last edit, and the annotation shares-with in one spares it)",
                     w->shard->key, OWNERSHIP_DOUBT_MS / 1000);
}

static void name(struct buf *text, const struct ownership_wait *w,
                 const struct takeover_word *lease)
{
    if (w->bare != NULL) {
        const char *failing = w->bare->failing;
        (void)buf_printf(text, "pod %s (%s%s%s)", w->bare->name, reasons[w->reason],
                         failing == NULL ? "" : "; ", failing == NULL ? "" : failing);
        return;
    }
    if (w->doubtful && w->reason == OWNERSHIP_WANTED) {
        name_doubtful(text, w);
        return;
    }
    const char *end = w->shard->root != NULL ? ", which has become a root" : ", which was deleted";
    end = w->shard->exists ? "" : end;
    if (w->pod == NULL) {
        (void)buf_printf(text, "shard %s%s (%s)", w->shard->key, end, reasons[w->reason]);
        return;
    }
    (void)buf_printf(text, "pod %s of shard %s%s (%s", w->pod->pod->name, w->shard->key, end,
                     reasons[w->reason]);
    if (lease != NULL) {
        name_lease(text, w->pod, lease);
    }
    (void)buf_append_str(text, ")");
}

char *waits_text(const struct ownership_plan *plan, const struct takeover_word *leases)
{
    struct buf text = BUF_INIT(TEXT_MAX);
    for (size_t i = 0; i < plan->count && i < NAMED_MAX; i++) {
        (void)buf_append_str(&text, i > 0 ? "; " : "");
        name(&text, &plan->waits[i], leases == NULL ? NULL : &leases[i]);
    }
    if (plan->count > NAMED_MAX) {
        (void)buf_printf(&text, "; and %zu more", plan->count - NAMED_MAX);
    }
    char *out = xptr(buf_take_str(&text)); /* it has room for the longest names */
    buf_reset(&text);
    return out;
}
