/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_trust.h - whose client certificates the webhooks ask for: the authorities in a file, which
 * is read again when it changes, and the common name that a certificate must bear.
 *
 * An API server shows a certificate when its AdmissionConfiguration names one (kubeConfigFile).
 */
#ifndef MANAGER_WEBHOOK_CLIENT_TRUST_H
#define MANAGER_WEBHOOK_CLIENT_TRUST_H

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "net/loop.h"

struct client_trust;

struct client_trust_options {
    const char *path;              /* PEM; must outlive the trust, as must the name */
    const char *name;              /* NULL: any */
    uint64_t check_ms;             /* how often the file is looked at; 0: 10 s */
    void (*on_change)(void *data); /* from the loop: other authorities are in force; may be NULL */
    void *data;
};

/* NULL with `e` set: the file cannot be read, or holds no certificate. Later that is logged, and
 * what was read last stays. */
MUST_CHECK struct client_trust *
client_trust_new(struct net_loop *l, const struct client_trust_options *o, struct err *e);
/* PEM, until the next on_change. Of NULL: nothing, as is the name. */
struct slice client_trust_ca(const struct client_trust *t);
const char *client_trust_name(const struct client_trust *t);
/* NULL is ignored. */
void client_trust_free(struct client_trust *t);

#endif
