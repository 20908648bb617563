/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/flags.h"
#include "base/log.h"

static const char *const no_rules_choices[] = {"block", "passthrough", NULL};
static const char *const reload_mode_choices[] = {"seamless", "cut", NULL};
static const char *const write_fence_choices[] = {"enforce", "audit", "off", NULL};

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
    "    kubectl --server=http://127.0.0.1:5443 get pods -A\n";

/* What cannot be told flag by flag. */
static void check(const struct localproxy_flags *c, const struct program *p)
{
    const char *wrong = NULL;
    if (c->in_cluster && (c->kubeconfig != NULL || c->context != NULL)) {
        wrong = "--in-cluster cannot stand beside --kubeconfig or --context";
    } else if ((c->listen_tls_cert == NULL) != (c->listen_tls_key == NULL)) {
        wrong = "--listen-tls-cert and --listen-tls-key go together";
    } else if (c->rules == NULL && c->control == NULL && c->no_rules == NO_RULES_BLOCK) {
        wrong = "--rules and --control are missing; without rules nothing would ever be shown "
                "(--no-rules=passthrough shows everything, for development)";
    }
    if (wrong != NULL) {
        fprintf(stderr, "%s: %s\nRun \"%s --help\" for the flags.\n", p->name, wrong, p->name);
        exit(EXIT_USAGE);
    }
}

void localproxy_flags_parse(struct localproxy_flags *c, int argc, char **argv)
{
    struct flags_common common = {.log_format = LOG_TEXT, .log_level = LOG_INFO};
    *c = (struct localproxy_flags){
        .listen = "127.0.0.1:5443",
        .admin = "0.0.0.0:5441",
        .no_rules = NO_RULES_BLOCK,
        .reload_mode = RELOAD_SEAMLESS,
        .write_fence = WRITE_FENCE_ENFORCE,
        .cut_interval_s = 5,
        .cut_spread_s = 2,
        .resume_doubt_s = 60,
        .shutdown_grace_s = 30,
        .max_connections = 10000,
    };
    const struct flag flags[] = {
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "Kubeconfig of the real API server. Without it: $KUBECONFIG, ~/.kube/config, or "
                 "the pod's service account.",
         .type = FLAG_STRING,
         .target = &c->kubeconfig},
        {.name = "context",
         .value = "NAME",
         .help = "Context of the kubeconfig to use instead of its current one.",
         .type = FLAG_STRING,
         .target = &c->context},
        {.name = "in-cluster",
         .help = "Use the pod's service account. Its token is read again when the file changes.",
         .type = FLAG_BOOL,
         .target = &c->in_cluster},
        {.name = "rules",
         .value = "PATH",
         .help =
             "Rules document (JSON) of the shard, read at the start. If it is missing or wrong, "
             "localproxy runs, is not ready, and says why on /status, in the log, and in its "
             "answers.",
         .type = FLAG_STRING,
         .target = &c->rules},
        {.name = "control",
         .value = "PATH",
         .help = "Unix socket on which rulesync hands over new rules while localproxy runs. Only "
                 "processes of the same user, and root, may use it. --rules is then what is "
                 "enforced from the start: the last known good rules.",
         .type = FLAG_STRING,
         .target = &c->control},
        {.name = "no-rules",
         .value = "MODE",
         .help = "What happens to resource requests while there are no valid rules: block answers "
                 "503; passthrough lets everything through unfiltered, for development only.",
         .type = FLAG_CHOICE,
         .target = &c->no_rules,
         .choices = no_rules_choices},
        {.name = "write-fence",
         .value = "MODE",
         .help = "What happens to writes (create, update, patch, delete) of limited resources in "
                 "namespaces that are not the shard's: enforce answers 403; audit lets them "
                 "through, counts and logs them; off lets them through. What the shard has just "
                 "lost by a change of its rules is refused in every mode.",
         .type = FLAG_CHOICE,
         .target = &c->write_fence,
         .choices = write_fence_choices},
        {.name = "reload-mode",
         .value = "MODE",
         .help = "What happens to an open watch when a change of the rules concerns it. seamless "
                 "writes what was gained and lost into the stream and goes on: the client neither "
                 "lists again nor waits. cut ends the watch such that the client lists again, "
                 "which seamless does as well where there is no other way (for tables, say, or "
                 "when the API server has forgotten the version where the client is).",
         .type = FLAG_CHOICE,
         .target = &c->reload_mode,
         .choices = reload_mode_choices},
        {.name = "cut-interval",
         .value = "SECONDS",
         .help = "A client whose watches are ended again and again waits longer each time before "
                 "it lists. So when its last one was ended less than this long ago, the next is "
                 "only silenced at first, and ended when the time is over.",
         .type = FLAG_UINT,
         .target = &c->cut_interval_s,
         .max = 3600},
        {.name = "cut-spread",
         .value = "SECONDS",
         .help = "When a change of the rules concerns many watches, they are silenced at once and "
                 "ended spread over this time, so that not all list at the same moment.",
         .type = FLAG_UINT,
         .target = &c->cut_spread_s,
         .max = 3600},
        {.name = "state",
         .value = "PATH",
         .help = "Remember in this file what clients have seen, beyond a restart, even by a crash: "
                 "then those whose view is the same go on as if nothing had been, and the others "
                 "are told to list again. It holds no objects, only versions and hashes, takes "
                 "600 kB, and is made when missing. In a pod: in an emptyDir.",
         .type = FLAG_STRING,
         .target = &c->state},
        {.name = "resume-doubt",
         .value = "SECONDS",
         .help = "A watch that goes on from a version that localproxy has not given out itself may "
                 "come from a client that saw other rules, before a restart without --state "
                 "perhaps. It is answered with 410, so that the client lists again, for this long "
                 "after it first asked; then it is believed. 0: it is told so once.",
         .type = FLAG_UINT,
         .target = &c->resume_doubt_s,
         .max = 86400},
        {.name = "pod-namespace",
         .value = "NAMESPACE",
         .help = "Where the operator's leader election lock lives; the rules may give each shard "
                 "a lock of its own. Without it: $POD_NAMESPACE, the service account's namespace, "
                 "or the shard's.",
         .type = FLAG_STRING,
         .target = &c->pod_namespace},
        {.name = "listen",
         .value = "ADDR:PORT",
         .help = "Where the operator connects. Port 0 picks a free one.",
         .type = FLAG_STRING,
         .target = &c->listen},
        {.name = "listen-tls-cert",
         .value = "PATH",
         .help = "Certificate chain (PEM) to serve the operator over TLS.",
         .type = FLAG_STRING,
         .target = &c->listen_tls_cert},
        {.name = "listen-tls-key",
         .value = "PATH",
         .help = "Private key (PEM) of that certificate.",
         .type = FLAG_STRING,
         .target = &c->listen_tls_key},
        {.name = "token-file",
         .value = "PATH",
         .help = "Demand this token of every request, as bearer token or as the password of Basic "
                 "authentication, so that other processes on the host cannot borrow the "
                 "operator's identity. kubeconfig-gen --token-file writes the same one into the "
                 "kubeconfig.",
         .type = FLAG_STRING,
         .target = &c->token_file},
        {.name = "admin",
         .value = "ADDR:PORT",
         .help = "Where /healthz, /readyz, /metrics and /status are served. Port 0 picks a free "
                 "one.",
         .type = FLAG_STRING,
         .target = &c->admin},
        {.name = "ready-file",
         .value = "PATH",
         .help = "Once listening, write the bound addresses there as JSON.",
         .type = FLAG_STRING,
         .target = &c->ready_file},
        {.name = "shutdown-delay",
         .value = "SECONDS",
         .help = "After SIGTERM or SIGINT: go on as before until the operator, which was told to "
                 "end at the same time, has closed its connections; this long at most.",
         .type = FLAG_UINT,
         .target = &c->shutdown_delay_s,
         .max = 86400},
        {.name = "shutdown-grace",
         .value = "SECONDS",
         .help = "After SIGTERM or SIGINT, and the delay: how long requests in flight may take. "
                 "Watches are ended cleanly at once. A second signal ends at once.",
         .type = FLAG_UINT,
         .target = &c->shutdown_grace_s,
         .max = 3600},
        {.name = "max-connections",
         .value = "COUNT",
         .help = "Connections of the operator that are served at a time; more are closed.",
         .type = FLAG_UINT,
         .target = &c->max_connections,
         .min = 1,
         .max = 1000000},
        FLAGS_COMMON(&common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "localproxy",
        .summary = "show an operator its shard of a Kubernetes API server",
        .usage = "--rules=PATH [--control=PATH] [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &common, argc, argv);
    if (rest < argc) {
        fprintf(stderr,
                "localproxy: unexpected argument \"%s\"\n"
                "Run \"localproxy --help\" for the flags.\n",
                argv[rest]);
        exit(EXIT_USAGE);
    }
    check(c, &program);
}
