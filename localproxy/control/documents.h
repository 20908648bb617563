/* SPDX-License-Identifier: Apache-2.0 */
/*
 * documents.h - where traffic documents come from: a file at the start and on SIGHUP, the control
 * socket from then on (control/reload.h).
 *
 * Documents have no order: one that is valid, and of the shard whose rules are in force, is in
 * force from then on; of another one those in force stay, and the trouble is told.
 */
#ifndef LOCALPROXY_CONTROL_DOCUMENTS_H
#define LOCALPROXY_CONTROL_DOCUMENTS_H

#include "control/control.h"
#include "flags.h"
#include "request/proxy.h"
#include "traffic/policies.h"

/* Where there is no --traffic: beside the rules. */
#define DOCUMENTS_FILE "traffic.json"

struct documents;

/* Reads the file. That it is missing means that there are no policies; that it is wrong is logged
 * and told by the policies, but no failure. NULL with `e` set. */
MUST_CHECK struct documents *documents_new(const struct localproxy_flags *flags,
                                           const struct proxy *proxy, struct policies *policies,
                                           struct err *e);
/* Reads it again, on SIGHUP. */
void documents_read_again(struct documents *d);

/* For the control socket, with the documents as data. */
extern const struct control_handlers documents_handlers;

/* NULL is ignored. */
void documents_free(struct documents *d);

#endif
