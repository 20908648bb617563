/* SPDX-License-Identifier: Apache-2.0 */
#include "program/kube_flags.h"

#include <errno.h>

const char *const kube_flags_protocols[] = {
    [UPSTREAM_AUTO] = "auto", [UPSTREAM_HTTP1] = "http1", NULL};

int kube_flags_check(const struct kube_flags *f, struct err *e)
{
    if (f->in_cluster && (f->kubeconfig != NULL || f->context != NULL)) {
        return err_set(e, -EINVAL,
                       "--in-cluster cannot be combined with --kubeconfig or --context");
    }
    return 0;
}

int kube_flags_open(const struct kube_flags *f, struct kube_access *out, struct err *e)
{
    int rc = kube_access_open(f->kubeconfig, f->context, f->in_cluster, out, e);
    if (rc != 0 && f->kubeconfig != NULL) {
        err_prefix(e, "--kubeconfig");
    }
    return rc;
}
