/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - all that is needed to reach one API server as somebody.
 *
 * Made from a context of a kubeconfig or from a pod's service account. Files that the kubeconfig
 * names are read here, but for the token file; kube/access/credentials.h follows those that change.
 */
#ifndef CORE_KUBE_ACCESS_ACCESS_H
#define CORE_KUBE_ACCESS_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/url.h"
#include "kube/access/kubeconfig.h"
#include "kube/access/proxy.h"

/* Where a pod finds its service account. */
#define KUBE_SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* The user in the URLs of localproxy that kubeconfig-gen writes where there is no TLS. */
#define KUBE_LOCALPROXY_USER "cmesh"

/* PEM text. */
struct kube_pem {
    char *data; /* NULL: not given */
    size_t len;
    char *name; /* where it came from, for messages: a path, or "config: users[me].…-data" */
    char *path; /* the file; NULL when it stood in the kubeconfig itself */
};

/* Reads a file whole; an empty one is an error. The names in `out` are the path. */
MUST_CHECK int kube_pem_read(const char *path, struct kube_pem *out, struct err *e);
/* Overwrites the memory. */
void kube_pem_deinit(struct kube_pem *pem);

/* The text of a token file without the white space around it, cut in place. */
char *kube_token_trim(char *text);
/* Whether a header can carry it: printable ASCII without white space. */
bool kube_token_ok(const char *token);

struct kube_pair {
    char *name;
    char *value;
};

/* A credential plugin (client.authentication.k8s.io/v1 and v1beta1). */
struct kube_exec {
    char *command; /* resolved against the kubeconfig's folder if it holds a slash */
    char **args;   /* NULL-terminated, without the command; NULL: none */
    struct kube_pair *env;
    size_t env_count;
    char *api_version;
    char *install_hint;   /* NULL: none */
    char *cluster_config; /* JSON of the cluster's extension for plugins; NULL: none */
    bool provide_cluster_info;
};

struct kube_access {
    char *context; /* names, for messages; "" in a cluster */
    char *cluster;
    char *user;
    char *file; /* the kubeconfig that has the user; NULL or "": none has */
    char *ns;   /* default namespace; never NULL */

    struct url server;
    struct kube_proxy proxy; /* on the way there */
    char *server_name;       /* name or IP that the certificate must bear; NULL for http */
    bool insecure;
    struct kube_pem ca;   /* not given: the system's roots */
    struct kube_pem cert; /* client certificate and key: both or none */
    struct kube_pem key;

    char *token;
    char *token_file; /* wins over `token` once it was read */
    char *username;
    char *password;
    struct kube_exec *exec; /* NULL: none */

    struct kube_pair *headers; /* Impersonate-* to send with each request, ready for the wire */
    size_t header_count;
};

/* Fills `out` from the context (NULL: the current one). Refused with file, line, field and what to
 * do: what is missing or contradictory, auth-provider, plugins that need a terminal, proxies that
 * are not supported. Without proxy-url the environment names the proxy (kube/access/proxy.h). On
 * error `out` needs no deinit. */
MUST_CHECK int kube_access_resolve(const struct kubeconfig *kc, const char *context,
                                   struct kube_access *out, struct err *e);

/* The pod's service account: KUBERNETES_SERVICE_HOST and _PORT, token, ca.crt and namespace from
 * `dir` (NULL: KUBE_SERVICE_ACCOUNT_DIR), and a proxy from the environment, as client-go has it.
 * -ENOENT when this is no pod. */
MUST_CHECK int kube_access_in_cluster(const char *dir, struct kube_access *out, struct err *e);

/* The namespace of the pod's service account, which the caller frees; "default" where the mount
 * leaves it out. -ENOENT when this is no pod. */
MUST_CHECK int kube_service_account_namespace(const char *dir, char **out, struct err *e);

/* What the flags --kubeconfig, --context and --in-cluster mean for every program: the service
 * account if asked for, or if nothing names a kubeconfig, none is found and this is a pod. */
MUST_CHECK int kube_access_open(const char *kubeconfig, const char *context, bool in_cluster,
                                struct kube_access *out, struct err *e);

/* Overwrites and frees what it holds. */
void kube_access_deinit(struct kube_access *a);

#endif
