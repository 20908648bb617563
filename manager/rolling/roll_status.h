/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roll_status.h - how far a roll has come, as an annotation of the StatefulSet, or Deployment, says
 * it to people and to the next leader:
 *
 *     2/6 shard=demo-1-normal pod=op-3 state=Waiting: it is not Ready
 *
 * Anybody may write annotations: what cannot be read says nothing.
 */
#ifndef MANAGER_ROLLING_ROLL_STATUS_H
#define MANAGER_ROLLING_ROLL_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kube/name.h"
#include "rolling/roll.h"

#define ROLL_STATUS_MESSAGE_SIZE 400
#define ROLL_STATUS_SIZE 1024
#define ROLL_STATUS_LABEL_SIZE 64
#define ROLL_STUCK_SIZE 1024

enum roll_state {
    ROLL_STATE_NONE,     /* nothing is said */
    ROLL_STATE_REFUSED,  /* it cannot be rolled by shard */
    ROLL_STATE_WAITING,  /* nothing is evicted for now, */
    ROLL_STATE_BLOCKED,  /* because the API server does not evict the pod, */
    ROLL_STATE_STUCK,    /* or because that takes too long */
    ROLL_STATE_EVICTING, /* the pod is evicted, or was just now */
    ROLL_STATE_PAUSED,   /* the label was taken away */
    ROLL_STATE_RESUMED,  /* of a Deployment: its controller makes the next pod */
    ROLL_STATE_DONE,
    ROLL_STATES,
};

struct roll_status {
    size_t done; /* pods that run the new revision, of */
    size_t total;
    char shard[NAME_SUBDOMAIN_MAX + 1]; /* "": none */
    char pod[NAME_SUBDOMAIN_MAX + 1];   /* its name; "": none */
    enum roll_state state;
    char message[ROLL_STATUS_MESSAGE_SIZE]; /* "": none; not read */
};

/* "Waiting" and so on. */
const char *roll_state_text(enum roll_state state);

void roll_status_print(const struct roll_status *s, char out[ROLL_STATUS_SIZE]);
/* The text of the Event about a roll that is stuck in that step. */
void roll_stuck_print(const struct roll_status *s, const struct roll_step *step,
                      char out[ROLL_STUCK_SIZE]);
/* "Waiting-2-of-6": the value of a label. */
void roll_status_label(const struct roll_status *s, char out[ROLL_STATUS_LABEL_SIZE]);
/* All but the message. Of what cannot be read nothing is said. */
void roll_status_parse(const char *text, struct roll_status *out);

#endif
