/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access_exec.h - the `exec` field of a kubeconfig's user.
 *
 * https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
#ifndef CORE_KUBE_ACCESS_ACCESS_EXEC_H
#define CORE_KUBE_ACCESS_ACCESS_EXEC_H

#include "base/err.h"
#include "kube/access/access.h"
#include "kube/access/kubeconfig.h"

/* NULL when the user has no plugin, and on error. Errors stay in `e` (kubeconfig.h). The caller
 * frees. */
struct kube_exec *kube_exec_read(const struct kubeconfig_entry *user, struct err *e);

/* Takes what the cluster's extensions hold for plugins, if the plugin wants it. */
void kube_exec_add_cluster(struct kube_exec *exec, const struct kubeconfig_entry *cluster,
                           struct err *e);

void kube_exec_free(struct kube_exec *exec);

#endif
