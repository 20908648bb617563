/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prober.h - asks the proxies in pods which rules they enforce.
 *
 * Each pod's localproxy answers GET /status on its admin port, and rulesync's on another says why
 * rules were not taken. A pod of which a change is expected is asked at once and often, the others
 * now and then. Bounded: so many requests at a time, a few seconds and 256 KiB for each. Fair:
 * however many pods a namespace has, and whatever they answer or do not, those of others are asked
 * in time.
 *
 * A pod may also tell by itself (status_leases.h). It is then expected to, and asked only when that
 * takes longer than usual; and it counts as answering although it cannot be asked.
 */
#ifndef MANAGER_ENFORCEMENT_PROBER_H
#define MANAGER_ENFORCEMENT_PROBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "net/clock.h"
#include "net/loop.h"
#include "rules/rules.h"

struct prober;
struct pod_traffic;
struct control_load;

enum probe_state {
    PROBE_WAITING,  /* not answered yet, ever; `message` says why if it was asked already */
    PROBE_ANSWERED, /* the last time it was asked, or the time before: one miss is no news; or it
                       has told by itself in the last minutes */
    PROBE_SILENT,   /* it did, or should have within 10 s; not any more: `message` says why */
};

#define PROBE_CHECKSUM_SIZE 80
#define PROBE_MESSAGE_SIZE 512
#define PROBE_VERSION_SIZE 32

struct probe_result {
    enum probe_state state;
    bool asked;          /* a question has ended, with or without an answer */
    bool named;          /* an answer has named the pod: all do, from then on */
    bool enforcing;      /* rules are in force, and nothing of earlier ones is under way any more */
    uint64_t generation; /* of these rules, as of the last answer; 0: none are in force */
    char checksum[PROBE_CHECKSUM_SIZE];
    char shard[512];   /* "namespace/name" of these rules; "" if there are none */
    int64_t since_ms;  /* since when they are in force: of the epoch, by the pod's clock, but not
                          later than it was first heard of; 0: unknown */
    unsigned lease_s;  /* it stops by itself so long after it has renewed its Lease last; 0: not */
    bool expired;      /* it says that it has */
    uint64_t required; /* it was given up (takeover.h): it enforces none of an earlier generation
                          any more, and nothing of one is under way, whatever it said; 0: it was
                          not, or has said since that it has these or newer ones */
    char required_checksum[PROBE_CHECKSUM_SIZE];
    bool unused;   /* localproxy says that no client has come to it since it runs */
    int64_t up_ms; /* for how long it does, as it said last; 0: it does not say */
    bool says_why; /* localproxy says why rulesync does not take what is published: `message` */
    bool bypassed; /* it says that others in the pod have connections to the API server */
    enum rules_version reads; /* the newest version of rules that both it and this program read */
    char version[PROBE_VERSION_SIZE]; /* of localproxy; "": it does not say */
    struct pod_traffic *traffic;      /* what it says of traffic policies (policy/pod_traffic.h);
                                         NULL: nothing, for it is too old, or not known yet. Goes
                                         with the next answer, who needs it longer takes a ref */
    struct control_load *load; /* what it has done for each bucket (control/status.h), as it said
                                  last; NULL: it does not count that. Goes with the next answer */
    char message[PROBE_MESSAGE_SIZE]; /* for people: why it is silent, or why rulesync does not take
                                         what is published; "" if nothing is wrong. Of all that is
                                         no sidecar's answer it says the same: the log has more */
};

struct prober_target {
    const char *key;      /* "namespace/name" of the pod */
    const char *uid;      /* another one: another pod, of which nothing is known or expected */
    const char *proxy;    /* ADDR:PORT of localproxy's admin server; copied, as all of these */
    const char *rulesync; /* ADDR:PORT of rulesync's, which is asked why localproxy does not
                             enforce for a second or more what is expected; NULL: it is not asked */
};

/* Of attended pods all together: questions a second, at most; and between two to the same one at
 * least: ms. */
#define PROBER_ATTENDED_PER_S 150
#define PROBER_ATTENDED_MS 1500

struct prober_options {
    uint64_t interval_ms;          /* between two questions in quiet times; 0: 15,000 */
    uint64_t timeout_ms;           /* of a question; 0: 3,000 */
    uint64_t quick_timeout_ms;     /* of one to a pod that was neither slow nor silent the last
                                      time; 0: 1,000 */
    unsigned parallel;             /* questions at a time; 0: 32 */
    bool any_address;              /* ask at whatever address and port a target has; else only where
                                      a sidecar can be (probe_address.h): no other is asked */
    const struct net_clock *clock; /* kept, not copied; NULL: the system's */
    /* What is known of a pod has changed by itself. From the loop, never inside a function of this
     * header; may call any of them. `key` is valid until the pod is forgotten. */
    void (*on_change)(void *data, const char *key);
    /* The same of what it says of traffic policies. NULL: nobody wants to know. */
    void (*on_traffic)(void *data, const char *key);
    void *data;
};

struct prober_stats {
    uint64_t asked;  /* requests: to either sidecar */
    uint64_t failed; /* of them without an answer that makes sense, for whatever reason */
    unsigned targets;
    unsigned attended;
    unsigned telling;        /* of them, that tell by themselves */
    unsigned other_versions; /* of them, whose proxies are of another one than this program */
};

MUST_CHECK struct prober *prober_new(struct net_loop *l, const struct prober_options *o);

/* Asks this pod from now on; again with other addresses when it is known. 0; -EINVAL (an address:
 * no IP and port): then all is as before. */
MUST_CHECK int prober_watch(struct prober *p, const struct prober_target *t);
void prober_forget(struct prober *p, const char *key);

/* The pod is expected to enforce this generation before long: asks now, and every 100 ms at first,
 * ever more rarely until it does, or until the usual interval is reached. Said again of the same
 * generation it does nothing. 0: nothing is expected any more. */
void prober_expect(struct prober *p, const char *key, uint64_t generation);

/* Whether the pod is *attended*: its state may change at any time, and is to be known soon. It is
 * asked every PROBER_ATTENDED_MS, or more rarely if that would be too much for all of them; but not
 * one that does not answer. */
void prober_attend(struct prober *p, const char *key, bool attended);
bool prober_attends(const struct prober *p, const char *key);
/* The traffic document with this checksum ("": none) is expected to be in force there before long:
 * asks as prober_expect does. Said again of the same it does nothing. */
void prober_expect_traffic(struct prober *p, const char *key, const char *checksum);

/* What the pod has told by itself: a document as its localproxy's /status. What cannot be read, is
 * of another pod, or is older than what it has answered since, is nothing. */
void prober_told(struct prober *p, const char *key, struct slice document);

/* The pod with that uid certainly enforces no rules before these of its shard any more, as long as
 * it says that it stops by itself. */
void prober_require(struct prober *p, const char *key, const char *uid, uint64_t generation,
                    const char *checksum);

/* NULL: the pod is not watched. Valid until the loop runs on. */
const struct probe_result *prober_result(const struct prober *p, const char *key);
const struct prober_stats *prober_stats(const struct prober *p);

/* At once; NULL is ignored. */
void prober_free(struct prober *p);

#endif
