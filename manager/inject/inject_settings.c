/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/inject_settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "control/status.h"
#include "inject/inject_environment.h"
#include "kube/name.h"
#include "kube/quantity.h"
#include "net/address.h"
#include "net/own_address.h"
#include "object/names.h"
#include "program/tls_flags.h"

static const char *const no_rules[] = {"block", "passthrough", NULL};
static const char *const fence[] = {"enforce", "audit", "off", NULL};
static const char *const reload_mode[] = {"seamless", "cut", NULL};
static const char *const switches[] = {"off", "on", NULL};
static const char *const protocol[] = {"auto", "http1", NULL};

#define TEXT(flag_name)                                                                            \
    {                                                                                              \
        .name = (flag_name), .type = FLAG_STRING                                                   \
    }
#define NUMBER(flag_name, least, most)                                                             \
    {                                                                                              \
        .name = (flag_name), .type = FLAG_UINT, .min = (least), .max = (most)                      \
    }
#define CHOICE(flag_name, of)                                                                      \
    {                                                                                              \
        .name = (flag_name), .type = FLAG_CHOICE, .choices = (of)                                  \
    }

const struct flag inject_proxy_flags[] = {
    CHOICE("no-rules", no_rules),
    CHOICE("write-fence", fence),
    CHOICE("read-fence", fence),
    {.name = "api-prefix", .type = FLAG_LIST},
    CHOICE("reload-mode", reload_mode),
    CHOICE("write-bookmarks", switches),
    CHOICE("upstream-protocol", protocol),
    NUMBER("cut-interval", 0, 3600),
    NUMBER("cut-spread", 0, 3600),
    TEXT("state"),
    NUMBER("resume-doubt", 0, 86400),
    TEXT("pod-namespace"),
    {.name = "accept-host", .type = FLAG_LIST},
    {.name = "accept-origin", .type = FLAG_LIST},
    {.name = "watch-bypass", .type = FLAG_BOOL},
    {.name = "status-lease", .type = FLAG_BOOL},
    {.name = "count-load", .type = FLAG_BOOL},
    TEXT("ready-file"),
    NUMBER("shutdown-delay", 0, 86400),
    NUMBER("shutdown-grace", 0, 3600),
    CHOICE("tls-records", tls_records_choices),
    NUMBER("max-connections", 1, 1000000),
    TEXT("egress"),
    TEXT("egress-ca"),
    NUMBER("egress-max-tunnels", 1, 1000000),
    NUMBER("egress-idle", 1, 604800),
    CHOICE("log-format", flags_log_formats),
    CHOICE("log-level", flags_log_levels),
    {.name = "allow-core-dumps", .type = FLAG_BOOL},
    {.name = NULL},
};

const char *const inject_own_flags[] = {
    "kubeconfig", "context",         "in-cluster",      "rules",          "control",
    "listen",     "listen-tls",      "listen-tls-cert", "listen-tls-key", "local-tls",
    "token-file", "admin",           "traffic",         "pod-labels",     "breaker-state",
    "egress-via", "egress-no-proxy", "user-agent",      "rules-lease",    NULL,
};

static int check_pull_policy(const char *policy, struct err *e)
{
    static const char *const known[] = {"", "Always", "IfNotPresent", "Never"};
    return policy == NULL || ARRAY_HAS(known, policy)
               ? 0
               : err_set(e, -EINVAL, "--sidecar-pull-policy must be Always, IfNotPresent or Never");
}

static int check_image(const char *flag, const char *image, struct err *e)
{
    return image == NULL || (image[0] != '\0' && strpbrk(image, " \t\r\n") == NULL)
               ? 0
               : err_set(e, -EINVAL, "%s: \"%s\" is not the name of an image", flag, image);
}

static int check_domain(const char *domain, struct err *e)
{
    const char *why = name_check_subdomain(slice_str(domain));
    return why == NULL ? 0 : err_set(e, -EINVAL, "--cluster-domain: \"%.100s\": %s", domain, why);
}

/* `value` stays as it is where the flag was not given. */
static int check_quantity(const char *flag, const char *text, double *value, struct err *e)
{
    int rc = text == NULL ? 0 : quantity_parse(text, value, e);
    if (rc != 0) {
        err_prefix(e, "%s", flag);
    }
    return rc;
}

/* What is requested may not be more than the limit. `flag` is --proxy-cpu, and so on. */
static int check_pair(const char *flag, const char *request, const char *limit, struct err *e)
{
    char limit_flag[64];
    double requested = 0;
    double most = 0;
    (void)snprintf(limit_flag, sizeof limit_flag, "%s-limit", flag);
    if (check_quantity(flag, request, &requested, e) != 0 ||
        check_quantity(limit_flag, limit, &most, e) != 0) {
        return e->code;
    }
    if (limit != NULL && requested > most) {
        return err_set(e, -EINVAL, "%s: %s is more than %s, %s: lower the one or raise the other",
                       flag, request, limit_flag, limit);
    }
    return 0;
}

static int check_resources(const struct inject_settings *s, struct err *e)
{
    const struct inject_resources *p = &s->proxy;
    const struct inject_resources *o = &s->others;
    if (check_pair("--proxy-cpu", p->cpu_request, p->cpu_limit, e) != 0 ||
        check_pair("--proxy-memory", p->memory_request, p->memory_limit, e) != 0 ||
        check_pair("--rulesync-cpu", o->cpu_request, o->cpu_limit, e) != 0) {
        return e->code;
    }
    return check_pair("--rulesync-memory", o->memory_request, o->memory_limit, e);
}

static int check_pull_secrets(const char *const *names, struct err *e)
{
    for (; names != NULL && *names != NULL; names++) {
        if (name_check_subdomain(slice_str(*names)) != NULL) {
            return err_set(e, -EINVAL, "--sidecar-pull-secret: \"%s\" is not the name of a Secret",
                           *names);
        }
    }
    return 0;
}

static bool is_taken(unsigned port)
{
    static const unsigned ours[] = {SIDECAR_API_PORT, SIDECAR_TLS_PORT, SIDECAR_ADMIN_PORT,
                                    SIDECAR_RULESYNC_PORT};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
        if (port == ours[i]) {
            return true;
        }
    }
    return port == 0;
}

/* The operator is told of it, and who else reaches it would have to show localproxy's token. */
static int check_egress(const char *address, struct err *e)
{
    struct sockaddr_storage parsed;
    if (address[0] == '\0') {
        return 0;
    }
    if (net_address_parse(address, &parsed, e) != 0) {
        err_prefix(e, "--proxy-arg=--egress");
        return e->code;
    }
    const char *port = strrchr(address, ':');
    if (!net_address_is_loopback(&parsed) || is_taken((unsigned)strtoul(port + 1, NULL, 10))) {
        return err_set(e, -EINVAL,
                       "--proxy-arg=--egress: \"%.80s\": must be a loopback address with a port "
                       "that no sidecar has",
                       address);
    }
    return 0;
}

static int check_proxy_arg(const char *argument, struct err *e)
{
    for (const char *const *own = inject_own_flags; *own != NULL; own++) {
        size_t len = strlen(*own);
        if (strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, *own, len) == 0 &&
            (argument[2 + len] == '=' || argument[2 + len] == '\0')) {
            return err_set(e, -EINVAL, "--proxy-arg: --%s is given by the injection itself", *own);
        }
    }
    if (flags_check_argument(inject_proxy_flags, argument, e) != 0) {
        err_prefix(e, "--proxy-arg, a flag of localproxy");
        return e->code;
    }
    static const char egress[] = "--egress=";
    return strncmp(argument, egress, sizeof egress - 1) == 0
               ? check_egress(argument + sizeof egress - 1, e)
               : 0;
}

static int check_rules_lease(const struct inject_settings *s, struct err *e)
{
    uint64_t seconds = s->rules_lease_s;
    if (seconds == 0) {
        return 0;
    }
    if (seconds < CONTROL_RULES_LEASE_MIN_S || seconds > CONTROL_RULES_LEASE_MAX_S) {
        return err_set(e, -EINVAL, "--rules-lease must be 0, or from %d to %d",
                       CONTROL_RULES_LEASE_MIN_S, CONTROL_RULES_LEASE_MAX_S);
    }
    for (const char *const *arg = s->proxy_args; arg != NULL && *arg != NULL; arg++) {
        if (strcmp(*arg, "--status-lease=false") == 0) {
            return err_set(e, -EINVAL, "--rules-lease cannot be combined with --proxy-arg=%s",
                           *arg);
        }
    }
    return 0;
}

int inject_settings_check(const struct inject_settings *s, struct err *e)
{
    if (check_pull_policy(s->pull_policy, e) != 0 ||
        check_image("--sidecar-image", s->image, e) != 0 ||
        check_image("--nat-image", s->nat_image, e) != 0 ||
        check_domain(s->cluster_domain, e) != 0 || check_resources(s, e) != 0 ||
        check_pull_secrets(s->pull_secrets, e) != 0 || inject_environment_check(s->env, e) != 0 ||
        check_rules_lease(s, e) != 0) {
        return e->code;
    }
    for (const char *const *arg = s->proxy_args; arg != NULL && *arg != NULL; arg++) {
        if (check_proxy_arg(*arg, e) != 0) {
            return e->code;
        }
    }
    return 0;
}
