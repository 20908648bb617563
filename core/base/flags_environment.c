/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/flags_internal.h"
#include "base/log.h"
#include "base/spelling.h"

#define PREFIX "CMESH_"

enum { NAME_MAX_LEN = FLAGS_ENV_NAME_SIZE - 1 };

/* The flags of all programs, which may share an environment: what one of them does not know is not
 * wrong where another one does. test/unit/settings_test.sh compares. */
static const char *const settings[] = {
    "accept-host",
    "accept-origin",
    "admin",
    "all-contexts",
    "all-resources",
    "allow-core-dumps",
    "api-prefix",
    "at-start",
    "breaker-state",
    "bypass-wait",
    "certificate-days",
    "children",
    "cluster-domain",
    "configmap",
    "context",
    "control",
    "count-load",
    "cut-interval",
    "cut-spread",
    "diff",
    "dry-run",
    "egress",
    "egress-ca",
    "egress-idle",
    "egress-max-tunnels",
    "egress-no-proxy",
    "egress-via",
    "except-user",
    "filename",
    "from",
    "from-configmap",
    "generation",
    "handover",
    "handover-wait",
    "identity",
    "in-cluster",
    "keep-service-account",
    "kubeconfig",
    "label-control",
    "label-foreign",
    "label-namespace",
    "label-prefix",
    "label-qps",
    "label-shard-hash",
    "label-system-namespaces",
    "leader-elect",
    "lease",
    "lease-duration",
    "listen",
    "listen-tls",
    "listen-tls-cert",
    "listen-tls-key",
    "local-tls",
    "log-format",
    "log-level",
    "manager-namespace",
    "max-connections",
    "namespace",
    "namespaces",
    "nat-image",
    "native-sidecars",
    "no-rules",
    "once",
    "output",
    "pod-labels",
    "pod-namespace",
    "print",
    "probe-any-address",
    "probe-interval",
    "proxy",
    "proxy-arg",
    "proxy-ca",
    "proxy-cpu",
    "proxy-cpu-limit",
    "proxy-memory",
    "proxy-memory-limit",
    "read-fence",
    "ready-file",
    "reload-mode",
    "remove",
    "resume-doubt",
    "root-statefulsets",
    "rules",
    "rules-lease",
    "rulesync-cpu",
    "rulesync-cpu-limit",
    "rulesync-memory",
    "rulesync-memory-limit",
    "server",
    "service-account",
    "shard",
    "sharding-resources",
    "shards-memory",
    "shareable-namespaces",
    "shared",
    "shutdown-delay",
    "shutdown-grace",
    "sidecar-env",
    "sidecar-image",
    "sidecar-pull-policy",
    "sidecar-pull-secret",
    "sidecar-user",
    "state",
    "status-lease",
    "strict",
    "takeover-margin",
    "timeout",
    "tls-records",
    "to",
    "to-port",
    "token-file",
    "traffic",
    "upstream-protocol",
    "user-agent",
    "wait-for-labels",
    "watch-bypass",
    "watch-namespace",
    "webhook",
    "webhook-client-ca",
    "webhook-client-name",
    "webhook-host",
    "webhook-secret",
    "webhook-service",
    "write-bookmarks",
    "write-fence",
};

static bool is_setting(const char *name)
{
    char known[FLAGS_ENV_NAME_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        flags_env_name(settings[i], known);
        if (strcmp(known, name) == 0) {
            return true;
        }
    }
    return false;
}

/* What Kubernetes sets for a Service that is called cmesh-something:
 * https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables */
static bool is_of_service(const char *name, const char *value)
{
    const char *port = strstr(name, "_PORT");
    return strstr(name, "_SERVICE_HOST") != NULL || strstr(name, "_SERVICE_PORT") != NULL ||
           (port != NULL && strstr(value, "://") != NULL) ||
           (port != NULL && port[5] == '_' && port[6] >= '0' && port[6] <= '9');
}

/* The program's setting that is most like it; "": none is much like it. */
static void find_meant(const struct command *c, const char *name, char out[FLAGS_ENV_NAME_SIZE])
{
    char flag[FLAGS_ENV_NAME_SIZE];
    size_t i = 0;
    for (const char *p = name + strlen(PREFIX); *p != '\0'; p++) {
        flag[i++] = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
    }
    flag[i] = '\0';
    const char *meant = flags_meant(c->flags, flag, SPELLING_NEAR);
    out[0] = '\0';
    if (meant != NULL) {
        flags_env_name(meant, out);
    }
}

static void warn_of(const struct command *c, const char *name)
{
    char meant[FLAGS_ENV_NAME_SIZE];
    find_meant(c, name, meant);
    if (meant[0] != '\0') {
        log_warn("an environment variable is not a setting and is ignored",
                 log_str("variable", name), log_str("meant", meant));
    } else {
        log_warn("an environment variable is not a setting and is ignored",
                 log_str("variable", name));
    }
}

void flags_warn_of_environment(const struct command *c)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        char name[FLAGS_ENV_NAME_SIZE];
        size_t len = strcspn(*entry, "=");
        if (len > NAME_MAX_LEN || strncmp(*entry, PREFIX, strlen(PREFIX)) != 0) {
            continue;
        }
        memcpy(name, *entry, len);
        name[len] = '\0';
        if (!is_setting(name) && !is_of_service(name, *entry + len)) {
            warn_of(c, name);
        }
    }
}
