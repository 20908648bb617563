/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate.h - the kubeconfig that leads to localproxy, as text.
 *
 * What goes into it is listed, what stays out is not: names, default namespaces and the current
 * context are copied, nothing else, so that no credential can slip through a field unknown here.
 */
#ifndef KUBECONFIG_GEN_GENERATE_H
#define KUBECONFIG_GEN_GENERATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"
#include "kube/access/kubeconfig.h"

#define GENERATE_TEXT_MAX ((size_t)64 << 20)

struct generate_options {
    const struct url *proxy;
    struct slice proxy_ca; /* PEM; empty: none */
    const char *token;     /* that localproxy demands, in any cluster; NULL: none */
    const char *context;   /* NULL: those of the current context's cluster */
    bool all_contexts;     /* with it NULL: those of other clusters as well */
};

/* What the user should be told about. Strings belong to the kubeconfig. */
struct generate_notes {
    size_t contexts; /* written */
    bool no_current; /* no current context, or one that is not there: none is written */
    /* A context of the cluster that localproxy talks to, and the first one of another cluster, of
     * which there are so many; NULL and 0: there is one cluster only. */
    const char *one;
    const char *other;
    size_t others;
};

/* Appends the text to `out`, which NULL only checks. Fails where the context, or the current one,
 * names a cluster or user that is not there, and where contexts are of several clusters and nothing
 * says which one it is. */
MUST_CHECK int generate_from_kubeconfig(const struct kubeconfig *kc,
                                        const struct generate_options *o, struct buf *out,
                                        struct generate_notes *notes, struct err *e);

/* The token for a localproxy that talks to the cluster of that context, NULL: of the current one;
 * without such a cluster for any. The caller frees with secret_free. NULL without memory. */
MUST_CHECK char *generate_token(const struct kubeconfig *kc, const char *context,
                                const char *token);

/* For a pod: one context "in-cluster" with the default namespace `ns`. */
MUST_CHECK int generate_in_cluster(const char *ns, const struct generate_options *o,
                                   struct buf *out, struct err *e);

/* Appends the manifest of a ConfigMap "NS/NAME" with `text` under the key kubeconfig. */
MUST_CHECK int generate_configmap(const char *ns_and_name, const char *text, struct buf *out,
                                  struct err *e);

#endif
