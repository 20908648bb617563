/* SPDX-License-Identifier: Apache-2.0 */
/*
 * same_cluster.h - whether what a kubeconfig says of two clusters leads to the same one.
 */
#ifndef KUBECONFIG_GEN_SAME_CLUSTER_H
#define KUBECONFIG_GEN_SAME_CLUSTER_H

#include "base/err.h"
#include "kube/access/kubeconfig.h"

/* 1: it does; 0: it does not, or that cannot be told; -ENOMEM. Both need the same server, however
 * its URL is spelt, the same authority, as a file or by content, and the same way there. An address
 * alone does not tell where it is this machine's: the end of a tunnel is the same for all that are
 * reached through it. */
MUST_CHECK int same_cluster(const struct kubeconfig_entry *a, const struct kubeconfig_entry *b);

#endif
