/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_account.h - the folder by which a program that believes to be in a pod finds localproxy.
 *
 * What client libraries read of a pod's service account is the API server's authority (ca.crt), a
 * token, and the pod's namespace; its address they have from two variables.
 *
 * https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
 */
#ifndef KUBECONFIG_GEN_SERVICE_ACCOUNT_H
#define KUBECONFIG_GEN_SERVICE_ACCOUNT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"

struct service_account {
    const char *folder; /* made when it is missing */
    struct slice ca;    /* PEM */
    const char *token;
    const char *namespace;
    bool shared; /* others may read it */
};

/* Writes the three files, each in one step, when it has seen that each of them can be: what is in
 * the way of one leaves the others as they were, a disk that is full need not. The folder of a real
 * service account is refused with -EEXIST. 0, or negative with `e` set. */
MUST_CHECK int service_account_write(const struct service_account *a, struct err *e);

/* Appends the variables, one on a line: shells, `env` and container engines read them. 0 or
 * -ENOMEM. */
MUST_CHECK int service_account_variables(const struct url *proxy, struct buf *out);

#endif
