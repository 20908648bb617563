/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "control/status.h"
#include "guard/host.h"
#include "guard/web_page.h"
#include "kube/access/proxy.h"
#include "kube/api_prefix.h"
#include "kube/name.h"
#include "kube/user_agent.h"
#include "listen/listen_tls.h"
#include "program/local_tls.h"
#include "program/local_token.h"
#include "program/program.h"
#include "program/tls_flags.h"

#define ADMIN_PORT "5441"

static const char *const no_rules_choices[] = {"block", "passthrough", NULL};
static const char *const reload_mode_choices[] = {"seamless", "cut", NULL};
static const char *const write_bookmarks_choices[] = {"off", "on", NULL};
static const char *const fence_choices[] = {
    [FENCE_ENFORCE] = "enforce", [FENCE_AUDIT] = "audit", [FENCE_OFF] = "off", NULL};

static const char description[] =
    "localproxy stands between an operator and the Kubernetes API server and narrows every list, "
    "watch and deletecollection to the shard's share, by adding the shard's label selector to the "
    "request; it refuses writes to what is not the shard's, and gives each shard its own leader "
    "election lock. Rules can change while it runs. The operator needs no change: kubeconfig-gen "
    "writes the kubeconfig that points it "
    "here.\n"
    "Credentials of the operator's requests are replaced by localproxy's own. Without valid rules "
    "nothing is shown: resource requests are answered with 503 until there are some.";

static const char examples[] =
    "    localproxy --rules=/var/lib/cmesh/rules.json --control=/run/cmesh/control.sock\n"
    "    localproxy --kubeconfig=$HOME/.kube/config --context=kind-dev --rules=rules.json \\\n"
    "        --listen=127.0.0.1:0 --ready-file=/tmp/ready.json\n"
    "    kubeconfig-gen -o fake.kubeconfig; kubectl --kubeconfig fake.kubeconfig get pods -A\n";

static const struct localproxy_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .kube = KUBE_FLAGS_DEFAULTS,
    .listen = "127.0.0.1:5443",
    .no_rules = NO_RULES_BLOCK,
    .reload_mode = RELOAD_SEAMLESS,
    .write_fence = FENCE_ENFORCE,
    .read_fence = FENCE_OFF,
    .write_bookmarks = 1,
    .cut_interval_s = 5,
    .cut_spread_s = 2,
    .resume_doubt_s = 60,
    .shutdown_grace_s = 30,
    .egress_max_tunnels = 2000,
    .egress_idle_s = 3600,
};

const struct flag localproxy_flags_table[] = {
    FLAGS_KUBE(struct localproxy_flags, kube, NULL),
    {.name = "rules",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, rules),
     .help = "Rules document (JSON) of the shard, read at the start, and again on SIGHUP. If it is "
             "missing or wrong, localproxy runs, is not ready, and says why on /status, in the "
             "log, and in its answers."},
    {.name = "control",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, control),
     .help = "Unix socket on which rulesync hands over new rules while localproxy runs. Only "
             "processes of the same user, and root, may use it. --rules is then what is "
             "enforced from the start: the last known good rules."},
    {.name = "traffic",
     .value = "PATH",
     .default_text = "traffic.json beside --rules",
     FLAG_STRING_AT(struct localproxy_flags, traffic),
     .help = "Traffic document (JSON) of the shard: circuit breakers and fault injections for the "
             "operator's requests. Read at the start, and again on SIGHUP; later ones come over "
             "--control. If it is missing there are none; if it is wrong, those in force stay, and "
             "/status and the log say why."},
    {.name = "pod-labels",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, pod_labels),
     .help = "The pod's labels, as a downward API volume has metadata.labels: a traffic policy is "
             "for the pods that its selector selects. Followed as it changes. Without it the pod "
             "has no labels."},
    {.name = "breaker-state",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, breaker_state),
     .help = "Remember in this file which circuit breakers are open, beyond a restart. It is made "
             "when missing, and written when one opens or closes. In a pod: in an emptyDir."},
    {.name = "no-rules",
     .value = "MODE",
     .choices = no_rules_choices,
     FLAG_CHOICE_AT(struct localproxy_flags, no_rules),
     .help = "What happens to resource requests while there are no valid rules: block answers "
             "503; passthrough lets everything through unfiltered, for development only."},
    {.name = "write-fence",
     .value = "MODE",
     .choices = fence_choices,
     FLAG_CHOICE_AT(struct localproxy_flags, write_fence),
     .help = "What happens to writes (create, update, patch, delete) of limited resources in "
             "namespaces that are not the shard's: enforce answers 403; audit lets them "
             "through, counts and logs them; off lets them through. What the shard has just "
             "lost by a change of its rules is refused in every mode."},
    {.name = "read-fence",
     .value = "MODE",
     .choices = fence_choices,
     FLAG_CHOICE_AT(struct localproxy_flags, read_fence),
     .help = "What happens to reads of one object by its name, and of its subresources, of limited "
             "resources in namespaces that are not the shard's: enforce answers 403; audit lets "
             "them through, counts and logs them; off lets them through."},
    {.name = "api-prefix",
     .value = "PATH",
     FLAG_LIST_AT(struct localproxy_flags, api_prefixes),
     .help = "A path behind which the API server of another cluster is reached through this one, "
             "such as /apis/cluster.example/v1/clusterextensions/*/proxy, where * stands for any "
             "one segment; may be repeated. What is behind it is read, and limited, like a request "
             "to that API server. Requests through gateways that are not named are answered with "
             "403."},
    {.name = "user-agent",
     .value = "TEXT",
     .default_text = "as the operator calls itself",
     FLAG_STRING_AT(struct localproxy_flags, user_agent),
     .help = "User-Agent of the operator's requests at the API server, in place of its own; a text "
             "that ends in / is put before its own. So that audit logs and metrics tell the shards "
             "of an operator apart."},
    {.name = "reload-mode",
     .value = "MODE",
     .choices = reload_mode_choices,
     FLAG_CHOICE_AT(struct localproxy_flags, reload_mode),
     .help = "What happens to an open watch when a change of the rules concerns it. seamless "
             "writes what was gained and lost into the stream and goes on: the client neither "
             "lists again nor waits. cut ends the watch such that the client lists again, "
             "which seamless does as well where there is no other way (for tables, say, or "
             "when the API server has forgotten the version where the client is)."},
    {.name = "cut-interval",
     .value = "SECONDS",
     .max = 3600,
     FLAG_UINT_AT(struct localproxy_flags, cut_interval_s),
     .help = "A client whose watches are ended again and again waits longer each time before "
             "it lists. So when its last one was ended less than this long ago, the next is "
             "only silenced at first, and ended when the time is over."},
    {.name = "cut-spread",
     .value = "SECONDS",
     .max = 3600,
     FLAG_UINT_AT(struct localproxy_flags, cut_spread_s),
     .help = "When a change of the rules concerns many watches, they are silenced at once and "
             "ended spread over this time, so that not all list at the same moment."},
    {.name = "write-bookmarks",
     .value = "MODE",
     .choices = write_bookmarks_choices,
     FLAG_CHOICE_AT(struct localproxy_flags, write_bookmarks),
     .help =
         "on: when the operator writes an object that its own watch does not select, localproxy "
         "asks the API server by two short watches how far the watch is, and writes a bookmark "
         "into it. A client that waits for its own write goes on then. off: it "
         "waits for the API server's next bookmark, up to a minute. Not with "
         "--reload-mode=cut."},
    {.name = "state",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, state),
     .help = "Remember in this file what clients have seen, beyond a restart, even by a crash: "
             "then those whose view is the same go on as if nothing had been, and the others "
             "are told to list again. It also tells whether writes that were sent may still be "
             "executed; without it they may, for 95 s after each start. It holds no objects, only "
             "versions, times and hashes, has always the same size, and is made when missing. In a "
             "pod: in an emptyDir."},
    {.name = "resume-doubt",
     .value = "SECONDS",
     .max = 86400,
     FLAG_UINT_AT(struct localproxy_flags, resume_doubt_s),
     .help =
         "A watch that goes on from a version that localproxy has not given out itself may "
         "come from a client that saw other rules, before a restart without --state "
         "perhaps. It is answered with 410, so that the client lists again, for this long "
         "after it first asked; then it is believed. Versions that are younger than "
         "localproxy are believed at once. So without --state it asks the API server where it is "
         "when rules come into force, and for this long lists for their newest version. 0: a "
         "client is told so once, and nothing is asked."},
    {.name = "pod-namespace",
     .value = "NAMESPACE",
     FLAG_STRING_AT(struct localproxy_flags, pod_namespace),
     .help = "Where the operator's leader election lock lives; the rules may give each shard "
             "a lock of its own. Without it: $POD_NAMESPACE, the service account's namespace, "
             "or the shard's."},
    {.name = "listen",
     .value = "ADDR:PORT",
     FLAG_STRING_AT(struct localproxy_flags, listen),
     .help =
         "Where the operator connects: with TLS of --local-tls, or without. Port 0 picks a free "
         "one."},
    {.name = "listen-tls",
     .value = "ADDR:PORT",
     FLAG_LIST_AT(struct localproxy_flags, listen_tls),
     .help = "A further address, with TLS alone; may be repeated. localhost:PORT is both 127.0.0.1 "
             "and ::1. For clients that take their configuration from a pod's service account "
             "(kubeconfig-gen --service-account). With --listen-tls-cert --listen is plain then."},
    {.name = "listen-tls-cert",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, listen_tls_cert),
     .help = "Certificate chain (PEM) to serve the operator over TLS, on --listen unless there is "
             "--listen-tls. It and the key are read "
             "again when they changed; open connections go on."},
    {.name = "listen-tls-key",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, listen_tls_key),
     .help = "Private key (PEM) of that certificate."},
    {.name = "local-tls",
     .value = "auto|PATH|off",
     .default_text = LOCAL_TLS_DEFAULT,
     FLAG_STRING_AT(struct localproxy_flags, local_tls),
     .excludes = "listen-tls-cert",
     .help =
         "Serve TLS with a certificate of an authority of the user's own, by which kubeconfig-gen, "
         "with the same flag or none, lets clients verify it, so that they send the token to no "
         "other program. It is in the folder of the token (auto: the user's own; PATH: another "
         "one), and made when it is missing. Without the flag TLS is left out, with a warning, "
         "where the authority cannot be made or read. off, and without a token: no TLS."},
    {.name = "token-file",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, token_file),
     .default_text = LOCAL_TOKEN_DEFAULT,
     .help = "Ask every request for the token of this file, as bearer token or as the password of "
             "Basic authentication, so that other users, containers and web pages cannot borrow "
             "localproxy's rights. kubeconfig-gen, with the same --token-file or none, writes it "
             "into the kubeconfig. Without the flag the file is made when it is missing. Read "
             "again when it changed; the old token is refused from then on. off: ask for none."},
    {.name = "accept-host",
     .value = "NAME",
     FLAG_LIST_AT(struct localproxy_flags, accept_hosts),
     .help = "A further name by which clients reach localproxy; may be repeated. Without TLS, and "
             "with --token-file=off, requests with another name in Host than localhost or an IP "
             "address are answered with 403, as they may come from a web page."},
    {.name = "accept-origin",
     .value = "ORIGIN",
     FLAG_LIST_AT(struct localproxy_flags, accept_origins),
     .help = "A web page's origin (http://HOST:PORT, as browsers tell it) whose scripts may send "
             "requests here; may be repeated; * takes all. Requests of other pages are answered "
             "with 403, whatever token they have."},
    {.name = "admin",
     .value = "ADDR:PORT",
     .default_text = PROGRAM_ADMIN_TEXT(ADMIN_PORT),
     FLAG_STRING_AT(struct localproxy_flags, admin),
     .help = "Where /healthz, /readyz, /metrics and /status are served. Port 0 picks a free "
             "one."},
    {.name = "watch-bypass",
     FLAG_BOOL_AT(struct localproxy_flags, watch_bypass),
     .help = "Look, when /status is asked for, which established connections of this "
             "network namespace go to the API server and are not localproxy's: an operator that "
             "has them bypasses it. For a pod with a network of its own, where nobody else has "
             "a reason to talk to the API server."},
    {.name = "count-load",
     FLAG_BOOL_AT(struct localproxy_flags, count_load),
     .help = "Count requests, events of watches, and objects in lists by the sharding hash of "
             "their namespace, for /metrics and /status, by which the manager can balance "
             "automatic shards. Lists are read for it to their end, those in gzip by inflating "
             "them."},
    {.name = "status-lease",
     FLAG_BOOL_AT(struct localproxy_flags, status_lease),
     .help = "In a pod: tell what /status says of the rules by a Lease, too, so that the manager "
             "knows at once, and although it may not reach the pod. It is cmesh-$POD_NAME in "
             "the pod's namespace, and needs get, create and update on leases there, as a leader "
             "election does; $POD_NAME, $POD_UID and $POD_NAMESPACE are to be set from the pod's "
             "fields. Where it cannot be written the manager asks."},
    {.name = "rules-lease",
     .value = "SECONDS",
     .max = CONTROL_RULES_LEASE_MAX_S,
     FLAG_UINT_AT(struct localproxy_flags, rules_lease_s),
     .needs = "status-lease",
     .help =
         "Enforce the rules only for so long (10 to 3600) after the Lease of --status-lease was "
         "renewed last: then nothing is shown and nothing is written until it can be renewed, "
         "so that a pod that nobody reaches certainly works on nothing, and a manager can give "
         "its share to others. 0: the rules are valid for as long as they are in force."},
    {.name = "ready-file",
     .value = "PATH",
     FLAG_STRING_AT(struct localproxy_flags, ready_file),
     .help = "Once listening, write the bound addresses there as JSON."},
    {.name = "shutdown-delay",
     .value = "SECONDS",
     .max = 86400,
     FLAG_UINT_AT(struct localproxy_flags, shutdown_delay_s),
     .help = "After SIGTERM or SIGINT: go on as before until the operator, which was told to "
             "end at the same time, has closed its connections; this long at most."},
    {.name = "shutdown-grace",
     .value = "SECONDS",
     .max = 3600,
     FLAG_UINT_AT(struct localproxy_flags, shutdown_grace_s),
     .help = "After SIGTERM or SIGINT, and the delay: how long requests in flight may take. "
             "Watches are ended cleanly at once. A second signal ends at once."},
    FLAGS_TLS(struct localproxy_flags, tls_records),
    {.name = "max-connections",
     .value = "COUNT",
     .min = 1,
     .max = 1000000,
     FLAG_UINT_AT(struct localproxy_flags, max_connections),
     .default_text = "5000, or 2000 with TLS on one of the addresses",
     .help = "Connections of the operator that are served at a time; more are closed. One takes up "
             "to 20 KiB, over TLS 40 KiB, beside 64 MiB for large requests and "
             "responses of all of them."},
    {.name = "egress",
     .value = "ADDR:PORT",
     FLAG_STRING_AT(struct localproxy_flags, egress),
     .help = "Serve an HTTP proxy there for the operator's requests to other places than the API "
             "server: what its HTTP_PROXY and HTTPS_PROXY name. Rules of traffic policies for such "
             "requests are in force there, and nowhere else: it is no firewall. An address that is "
             "not a loopback one needs --token-file, whose token is the proxy's password then."},
    {.name = "egress-via",
     .value = "URL",
     FLAG_STRING_AT(struct localproxy_flags, egress_via),
     .help = "The HTTP proxy through which the pod reaches other places, as "
             "http://[USER:PASSWORD@]HOST[:PORT]: what --egress sends goes through it."},
    {.name = "egress-no-proxy",
     .value = "LIST",
     FLAG_STRING_AT(struct localproxy_flags, egress_no_proxy),
     .help = "Hosts that are reached without --egress-via, as the variable NO_PROXY has them."},
    {.name = "egress-ca",
     .value = "PATH",
     .default_text = "those of the system",
     FLAG_STRING_AT(struct localproxy_flags, egress_ca),
     .help = "Authorities (PEM) by which --egress verifies servers with which it speaks TLS "
             "itself. Read at the start."},
    {.name = "egress-max-tunnels",
     .value = "COUNT",
     .min = 1,
     .max = 1000000,
     FLAG_UINT_AT(struct localproxy_flags, egress_max_tunnels),
     .help = "Tunnels (CONNECT) through --egress at a time; more are answered with 503."},
    {.name = "egress-idle",
     .value = "SECONDS",
     .min = 1,
     .max = 604800,
     FLAG_UINT_AT(struct localproxy_flags, egress_idle_s),
     .help = "A tunnel or a request through --egress in which nothing moves for so long is "
             "ended."},
    FLAGS_COMMON(struct localproxy_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "localproxy",
    .summary = "show an operator its shard of a Kubernetes API server",
    .usage = "--rules=PATH [--control=PATH] [FLAGS]",
    .description = description,
    .examples = examples,
    .see_also = "kubeconfig-gen(1), manager(1), rulesync(1)",
    .flags = localproxy_flags_table,
};

const char *fence_mode_name(int mode)
{
    return fence_choices[mode];
}

static int check_hosts(const struct flag_list *hosts, struct err *e)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (!host_is_name(hosts->items[i])) {
            return err_set(e, -EINVAL,
                           "--accept-host: \"%s\" is not a host name; it has no port and no scheme",
                           hosts->items[i]);
        }
    }
    return 0;
}

static int check_origins(const struct flag_list *origins, struct err *e)
{
    for (size_t i = 0; i < origins->count; i++) {
        if (!web_page_is_origin(origins->items[i])) {
            return err_set(e, -EINVAL,
                           "--accept-origin: \"%s\" is not an origin: http://HOST:PORT, without a "
                           "path",
                           origins->items[i]);
        }
    }
    return 0;
}

static int check_api_prefixes(const struct flag_list *prefixes, struct err *e)
{
    for (size_t i = 0; i < prefixes->count; i++) {
        if (api_prefix_check(prefixes->items[i], e) != 0) {
            err_prefix(e, "--api-prefix=%.200s", prefixes->items[i]);
            return e->code;
        }
    }
    return 0;
}

static int check_user_agent(const char *text, struct err *e)
{
    const char *why = text == NULL || text[0] == '\0' ? NULL : user_agent_check(slice_str(text));
    return why == NULL ? 0 : err_set(e, -EINVAL, "--user-agent: %s", why);
}

static int check_listen_tls(const struct localproxy_flags *c, struct err *e)
{
    bool local = local_tls_is_asked(c->local_tls) ||
                 (c->local_tls == NULL && !local_token_is_off(c->token_file));
    if (c->listen_tls.count > 0 && c->listen_tls_cert == NULL && !local) {
        return err_set(e, -EINVAL,
                       "--listen-tls needs a certificate: --local-tls=auto, or --listen-tls-cert");
    }
    for (size_t i = 0; i < c->listen_tls.count; i++) {
        struct listen_tls ignored;
        if (listen_tls_parse(c->listen_tls.items[i], &ignored, e) != 0) {
            err_prefix(e, "--listen-tls");
            return e->code;
        }
    }
    return 0;
}

static int check_egress(const struct localproxy_flags *c, struct err *e)
{
    struct kube_proxy via;
    if (c->egress != NULL && program_check_address("--egress", c->egress, e) != 0) {
        return e->code;
    }
    if (c->egress_via == NULL || c->egress_via[0] == '\0') {
        return 0;
    }
    if (kube_proxy_parse(c->egress_via, &via, e) != 0) {
        err_prefix(e, "--egress-via");
        return e->code;
    }
    kube_proxy_deinit(&via);
    return 0;
}

/* What cannot be told flag by flag. */
static int check(const struct localproxy_flags *c, struct err *e)
{
    if ((c->listen_tls_cert == NULL) != (c->listen_tls_key == NULL)) {
        return err_set(e, -EINVAL, "--listen-tls-cert and --listen-tls-key must be given together");
    }
    if (c->local_tls != NULL && c->listen_tls_cert != NULL) {
        return err_set(e, -EINVAL, "--local-tls and --listen-tls-cert cannot be combined");
    }
    if (c->rules == NULL && c->control == NULL && c->no_rules == NO_RULES_BLOCK) {
        return err_set(e, -EINVAL,
                       "--rules and --control are missing; without rules nothing would ever be "
                       "shown (--no-rules=passthrough shows everything, for development)");
    }
    if (c->rules_lease_s != 0 && c->rules_lease_s < CONTROL_RULES_LEASE_MIN_S) {
        return err_set(e, -EINVAL, "--rules-lease must be 0, or from %d to %d",
                       CONTROL_RULES_LEASE_MIN_S, CONTROL_RULES_LEASE_MAX_S);
    }
    if (c->pod_namespace != NULL && c->pod_namespace[0] != '\0' &&
        name_check_label(slice_str(c->pod_namespace)) != NULL) {
        return err_set(e, -EINVAL, "--pod-namespace must be the name of a namespace");
    }
    if (program_check_address("--listen", c->listen, e) != 0 || check_listen_tls(c, e) != 0 ||
        program_check_address("--admin", c->admin, e) != 0 || check_egress(c, e) != 0 ||
        program_check_socket("--control", c->control, e) != 0 ||
        check_hosts(&c->accept_hosts, e) != 0 || check_origins(&c->accept_origins, e) != 0 ||
        check_api_prefixes(&c->api_prefixes, e) != 0 || check_user_agent(c->user_agent, e) != 0) {
        return e->code;
    }
    return kube_flags_check(&c->kube, e);
}

void localproxy_flags_parse(struct localproxy_flags *c, int argc, char **argv)
{
    struct err e = ERR_INIT;
    *c = defaults;
    (void)flags_parse_or_exit(&command, c, &c->common, argc, argv);
    c->admin = c->admin != NULL ? c->admin : PROGRAM_ADMIN(ADMIN_PORT);
    if (check(c, &e) != 0) {
        flags_misuse(&command, "%s", e.msg);
    }
}
