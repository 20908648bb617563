/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/name.h"
#include "source.h"

static const char description[] =
    "rulesync takes a shard's rules from a mounted ConfigMap, from any file, or from the API "
    "server, checks them fully, keeps the last known good ones on disk, and hands them over to "
    "localproxy until it confirms that it enforces them.\n"
    "Bad rules change nothing. Refused, with what is stored and enforced left as it is: a document "
    "that is not valid or whose checksum does not fit, rules of another shard, a generation older "
    "than the one in use, and other rules under the same generation. The log, /status and the "
    "metrics say where and why: file or ConfigMap, line, field, reason.\n"
    "It begins with what --to holds, so that a restart without the ConfigMap forgets nothing. "
    "localproxy may be started, stopped and restarted at any time: it is asked every 5 seconds "
    "what it enforces and given the rules again if it has older ones. SIGHUP: look again now. "
    "SIGTERM, SIGINT: end.\n"
    "With --once it takes the rules once and ends: an init step. Exit code 1 then means that rules "
    "were refused or missing, could not be stored, or were not confirmed in time.";

static const char examples[] =
    "    rulesync --from=/etc/cmesh --to=/var/lib/cmesh/rules.json \\\n"
    "        --control=/run/cmesh/control.sock --shard=operator-demo/sharding-demo\n"
    "    rulesync --from-configmap=operator-demo/cmesh-rules-demo --context=kind-dev \\\n"
    "        --control=/tmp/control.sock --admin=127.0.0.1:5442\n"
    "    rulesync --once --from=/etc/cmesh --to=/var/lib/cmesh/rules.json\n";

/* NAMESPACE/NAME */
static bool object_ok(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash != NULL && name_check_label(slice_of(text, (size_t)(slash - text))) == NULL &&
           name_check_subdomain(slice_str(slash + 1)) == NULL;
}

static bool given(const char *value)
{
    return value != NULL && value[0] != '\0';
}

/* What cannot be told flag by flag; NULL: all is well. */
static const char *check(const struct rulesync_flags *c)
{
    if (!given(c->from) && !given(c->from_configmap)) {
        return "--from is missing: the folder where the ConfigMap is mounted, or a file "
               "(or --from-configmap)";
    }
    if (given(c->from) && given(c->from_configmap)) {
        return "--from and --from-configmap cannot stand together";
    }
    if (!given(c->to) && !given(c->control)) {
        return "--to or --control is missing: the rules would go nowhere";
    }
    if (given(c->from_configmap) && !object_ok(c->from_configmap)) {
        return "--from-configmap must be NAMESPACE/NAME";
    }
    if (c->shard != NULL && !object_ok(c->shard)) {
        return "--shard must be NAMESPACE/NAME";
    }
    if (c->at_start && !c->once) {
        return "--at-start needs --once";
    }
    if (c->in_cluster && (c->kubeconfig != NULL || c->context != NULL)) {
        return "--in-cluster cannot stand beside --kubeconfig or --context";
    }
    return NULL;
}

static void misuse(const char *msg, const char *detail)
{
    fprintf(stderr, "rulesync: %s%s\nRun \"rulesync --help\" for the flags.\n", msg, detail);
    exit(EXIT_USAGE);
}

void rulesync_flags_parse(struct rulesync_flags *c, int argc, char **argv)
{
    struct flags_common common = {.log_format = LOG_TEXT, .log_level = LOG_INFO};
    *c = (struct rulesync_flags){.admin = "0.0.0.0:5442", .timeout_s = 60};
    const struct flag flags[] = {
        {.name = "from",
         .value = "PATH",
         .help = "The folder where the ConfigMap is mounted (its key is " SOURCE_KEY "), or a "
                 "file. It need not exist yet. Mount the whole ConfigMap: with subPath an update "
                 "never shows up.",
         .type = FLAG_STRING,
         .target = &c->from},
        {.name = "from-configmap",
         .value = "NS/NAME",
         .help = "Follow this ConfigMap at the API server instead, for development outside of a "
                 "pod. Needs get, list and watch on it.",
         .type = FLAG_STRING,
         .target = &c->from_configmap},
        {.name = "to",
         .value = "PATH",
         .help = "The file for the last known good rules; its folder must exist. It is replaced in "
                 "one step: no reader ever sees half of it. Give it to localproxy as --rules.",
         .type = FLAG_STRING,
         .target = &c->to},
        {.name = "control",
         .value = "SOCKET",
         .help = "localproxy's control socket. At least one of --to and --control is needed.",
         .type = FLAG_STRING,
         .target = &c->control},
        {.name = "shard",
         .value = "NS/NAME",
         .help = "Refuse rules of any other shard. Without it those of any shard are taken, as "
                 "long as the ones in use are of the same.",
         .type = FLAG_STRING,
         .target = &c->shard},
        {.name = "once",
         .help = "Take the rules once and end: an init step. Without --control it does not wait "
                 "for localproxy.",
         .type = FLAG_BOOL,
         .target = &c->once},
        {.name = "at-start",
         .help = "With --once, before an operator starts: good rules that are there already will "
                 "do, stored ones or newer ones that localproxy enforces, and a document that is "
                 "missing is waited for.",
         .type = FLAG_BOOL,
         .target = &c->at_start},
        {.name = "timeout",
         .value = "SECONDS",
         .help = "With --once: give up after so long. 0: never.",
         .type = FLAG_UINT,
         .target = &c->timeout_s,
         .max = 86400},
        {.name = "admin",
         .value = "ADDR:PORT",
         .help = "Where /healthz, /readyz, /metrics and /status are served; port 0 picks a free "
                 "one. Not with --once.",
         .type = FLAG_STRING,
         .target = &c->admin},
        {.name = "ready-file",
         .value = "PATH",
         .help = "Written when it runs: JSON that tells where it listens.",
         .type = FLAG_STRING,
         .target = &c->ready_file},
        {.name = "kubeconfig",
         .value = "PATH",
         .help = "With --from-configmap: kubeconfig of the API server. Without it: $KUBECONFIG, "
                 "~/.kube/config, or the pod's service account.",
         .type = FLAG_STRING,
         .target = &c->kubeconfig},
        {.name = "context",
         .value = "NAME",
         .help = "Its context; the current one otherwise.",
         .type = FLAG_STRING,
         .target = &c->context},
        {.name = "in-cluster",
         .help = "With --from-configmap: use the pod's service account, whatever kubeconfig "
                 "there is.",
         .type = FLAG_BOOL,
         .target = &c->in_cluster},
        FLAGS_COMMON(&common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "rulesync",
        .summary = "keep a shard's rules current: check, store, hand over",
        .usage = "--from=PATH [--to=PATH] [--control=SOCKET] [FLAGS]\n"
                 "--from-configmap=NS/NAME [--to=PATH] [--control=SOCKET] [FLAGS]\n"
                 "--once --from=PATH --to=PATH [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &common, argc, argv);
    if (rest < argc) {
        misuse("unexpected argument ", argv[rest]);
    }
    const char *wrong = check(c);
    if (wrong != NULL) {
        misuse(wrong, "");
    }
}
