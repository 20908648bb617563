/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_account.h - the folder of the service account, by which clients in a pod find the API
 * server unless they are told otherwise.
 *
 * The operator's containers get one that leads to localproxy: they have no credential of the
 * cluster then, and whatever they talk to goes through localproxy.
 */
#ifndef MANAGER_INJECT_INJECT_ACCOUNT_H
#define MANAGER_INJECT_INJECT_ACCOUNT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject_access.h"
#include "inject/inject_options.h"
#include "object/warnings.h"
#include "json/edit.h"

#define INJECT_ACCOUNT_VOLUME "cmesh-service-account"
/* Why an operator that keeps the pod's folder cannot be led by addresses or names. */
#define INJECT_ACCOUNT_KEPT                                                                        \
    "an operator that keeps the pod's service account does not trust localproxy's "                \
    "certificate; " SIDECAR_KEEP_ACCOUNT                                                           \
    ": \"false\" lets it be led, also one with a kubeconfig of its own, "                          \
    "if that is of the same cluster"
/* What is said of the containers that only the name of the way, which follows, concerns. */
#define INJECT_ACCOUNT_OTHERS                                                                      \
    "spec: containers that are not the operator's fail at the API server: they do not trust "      \
    "localproxy, to which all of the pod comes with "
#define INJECT_ACCOUNT_DIR INJECT_ETC_DIR "/service-account" /* where it is made */

/* Whether a mount at that path would be the folder that every pod has, by whatever name. */
bool inject_account_is_folder(const char *path);

/* Lets the operator keep the pod's folder where it has a kubeconfig of its own and nothing else was
 * said: localproxy speaks to that one's cluster, which need not be the pod's. */
void inject_account_settle(struct inject_options *o, const struct inject_access *a,
                           struct warnings *warnings);

/* Looks at what the operator's containers have mounted below the folder, which would be hidden.
 * 0, or -EINVAL with the field. */
MUST_CHECK int inject_account_check(const struct inject_options *o, const cJSON *spec,
                                    struct err *e);

/* Gives the folder to a container of the operator's, in place of the one it has, and the variables
 * that go with it. */
void inject_account_lead(struct edit *ed, const struct inject_options *o, cJSON *container);

/* Tokens for the API server that the operator's containers keep. */
void inject_account_note_tokens(const struct inject_options *o, const cJSON *spec,
                                struct warnings *warnings);

#endif
