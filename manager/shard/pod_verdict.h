/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_verdict.h - what a pod means for whether its shard's rules are enforced.
 */
#ifndef MANAGER_SHARD_POD_VERDICT_H
#define MANAGER_SHARD_POD_VERDICT_H

#include "shard/status.h"

/* From what hinders most to what does not. */
enum pod_verdict {
    VERDICT_NO_SIDECAR,  /* it sees everything */
    VERDICT_BYPASSED,    /* its proxy enforces our rules, and its operator goes around it */
    VERDICT_OVERLAPPING, /* another shard selects it too, and it does not enforce our rules */
    VERDICT_OTHER_RULES, /* it enforces another shard's, or newer ones than are published */
    VERDICT_REFUSED,     /* it says why it does not take ours */
    VERDICT_SILENT,      /* it does not answer */
    VERDICT_WAITING,     /* it has not confirmed yet */
    VERDICT_STARTING,    /* the same, but it is not ready, and there are no rules by which it could
                            show anything */
    VERDICT_CONTESTED,   /* it enforces them, and another shard selects it too */
    VERDICT_ENFORCES,
    VERDICT_GONE, /* not counted: it has ended, or is ending and does not answer any more */
    VERDICTS,
};

#define POD_VERDICT_TEXT_SIZE 800

/* Also why, for people, as far as there is something to say; else "". `shard`: "namespace/name" of
 * the config. */
enum pod_verdict pod_verdict(const struct status_facts *f, const char *shard,
                             const struct status_pod *p, char text[POD_VERDICT_TEXT_SIZE]);

/* For how long, in ms, a pod that has had no client yet may have none until it counts as bypassed;
 * 0: it does not, or does already. */
uint64_t pod_verdict_patience_ms(const struct status_facts *f, const struct status_pod *p);

#endif
