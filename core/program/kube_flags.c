/* SPDX-License-Identifier: Apache-2.0 */
#include "program/kube_flags.h"

#include <stddef.h>

const char *kube_flags_check(const struct kube_flags *f)
{
    if (f->in_cluster && (f->kubeconfig != NULL || f->context != NULL)) {
        return "--in-cluster cannot be combined with --kubeconfig or --context";
    }
    return NULL;
}

int kube_flags_open(const struct kube_flags *f, struct kube_access *out, struct err *e)
{
    return kube_access_open(f->kubeconfig, f->context, f->in_cluster, out, e);
}
