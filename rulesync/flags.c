/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "kube/name.h"
#include "program/program.h"
#include "source.h"

#define ADMIN_PORT "5442"

static const char description[] =
    "rulesync takes a shard's rules from a mounted ConfigMap, from any file, or from the API "
    "server, checks them fully, keeps the last known good ones on disk, and hands them over to "
    "localproxy until it confirms that it enforces them.\n"
    "Bad rules change nothing. Refused, with what is stored and enforced left as it is: a document "
    "that is not valid or whose checksum does not fit, rules of another shard, a generation older "
    "than the one in use, and other rules under the same generation. The log, /status and the "
    "metrics say where and why: file or ConfigMap, line, field, reason.\n"
    "Traffic policies, the key " SOURCE_TRAFFIC_KEY " beside " SOURCE_KEY ", go the same way apart "
    "from the rules. They have no order, and no such key means that there are none. A single file "
    "has rules alone. Bad ones, and a localproxy that is too old for them, are told but are no "
    "failure.\n"
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
    "        --control=/tmp/control.sock\n"
    "    rulesync --once --from=/etc/cmesh --to=/var/lib/cmesh/rules.json\n";

static const struct rulesync_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .kube = KUBE_FLAGS_DEFAULTS,
    .timeout_s = 60,
};

static const struct flag table[] = {
    {.name = "from",
     .value = "PATH",
     FLAG_STRING_AT(struct rulesync_flags, from),
     .help = "The folder where the ConfigMap is mounted (its keys are " SOURCE_KEY
             " and " SOURCE_TRAFFIC_KEY "), or a file with rules. It need not exist yet. Mount the "
             "whole ConfigMap: with subPath an update "
             "never shows up."},
    {.name = "from-configmap",
     .value = "NS/NAME",
     FLAG_STRING_AT(struct rulesync_flags, from_configmap),
     .help = "Follow this ConfigMap at the API server instead, for development outside of a "
             "pod. Needs get, list and watch on it."},
    {.name = "to",
     .value = "PATH",
     FLAG_STRING_AT(struct rulesync_flags, to),
     .help = "The file for the last known good rules; its folder must exist. It is replaced in "
             "one step: no reader ever sees half of it. Give it to localproxy as --rules. Traffic "
             "policies are kept beside it, in " SOURCE_TRAFFIC_KEY "."},
    {.name = "control",
     .value = "SOCKET",
     FLAG_STRING_AT(struct rulesync_flags, control),
     .help = "localproxy's control socket. At least one of --to and --control is needed."},
    {.name = "shard",
     .value = "NS/NAME",
     FLAG_STRING_AT(struct rulesync_flags, shard),
     .help = "Refuse rules of any other shard. Without it those of any shard are taken, as "
             "long as the ones in use are of the same."},
    {.name = "once",
     FLAG_BOOL_AT(struct rulesync_flags, once),
     .help = "Take the rules once and end: an init step. Without --control it does not wait "
             "for localproxy."},
    {.name = "at-start",
     FLAG_BOOL_AT(struct rulesync_flags, at_start),
     .needs = "once",
     .help = "Before an operator starts: good rules that are there already will do, stored ones "
             "or newer ones that localproxy enforces, and a document that is missing is waited "
             "for."},
    {.name = "timeout",
     .value = "SECONDS",
     .max = 86400,
     FLAG_UINT_AT(struct rulesync_flags, timeout_s),
     .needs = "once",
     .help = "Give up after so long. 0: never."},
    {.name = "admin",
     .value = "ADDR:PORT",
     .default_text = PROGRAM_ADMIN_TEXT(ADMIN_PORT),
     FLAG_STRING_AT(struct rulesync_flags, admin),
     .excludes = "once",
     .help = "Where /healthz, /readyz, /metrics and /status are served; port 0 picks a free "
             "one."},
    {.name = "ready-file",
     .value = "PATH",
     FLAG_STRING_AT(struct rulesync_flags, ready_file),
     .excludes = "once",
     .help = "Written when it runs: JSON that tells where it listens."},
    FLAGS_KUBE(struct rulesync_flags, kube, "from-configmap"),
    FLAGS_COMMON(struct rulesync_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "rulesync",
    .summary = "keep a shard's rules current: check, store, hand over",
    .usage = "--from=PATH [--to=PATH] [--control=SOCKET] [FLAGS]\n"
             "--from-configmap=NS/NAME [--to=PATH] [--control=SOCKET] [FLAGS]\n"
             "--once --from=PATH --to=PATH [FLAGS]",
    .description = description,
    .examples = examples,
    .see_also = "localproxy(1), manager(1)",
    .flags = table,
};

/* NAMESPACE/NAME */
static bool object_ok(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash != NULL && name_check_label(slice_of(text, (size_t)(slash - text))) == NULL &&
           name_check_subdomain(slice_str(slash + 1)) == NULL;
}

/* Traffic policies are kept beside it under that name. */
static bool is_traffic_copy(const char *to)
{
    const char *slash = strrchr(to, '/');
    return strcmp(slash != NULL ? slash + 1 : to, SOURCE_TRAFFIC_KEY) == 0;
}

static bool given(const char *value)
{
    return value != NULL && value[0] != '\0';
}

/* What cannot be told flag by flag. */
static int check(const struct rulesync_flags *c, struct err *e)
{
    if (!given(c->from) && !given(c->from_configmap)) {
        return err_set(e, -EINVAL,
                       "--from is missing: the folder where the ConfigMap is mounted, or a file "
                       "(or --from-configmap)");
    }
    if (given(c->from) && given(c->from_configmap)) {
        return err_set(e, -EINVAL, "--from and --from-configmap cannot be combined");
    }
    if (!given(c->to) && !given(c->control)) {
        return err_set(e, -EINVAL, "--to or --control is missing: the rules would go nowhere");
    }
    if (given(c->to) && is_traffic_copy(c->to)) {
        return err_set(e, -EINVAL,
                       "--to must have another name than " SOURCE_TRAFFIC_KEY
                       ": traffic policies are kept there");
    }
    if (given(c->from_configmap) && !object_ok(c->from_configmap)) {
        return err_set(e, -EINVAL, "--from-configmap must be NAMESPACE/NAME");
    }
    if (c->shard != NULL && !object_ok(c->shard)) {
        return err_set(e, -EINVAL, "--shard must be NAMESPACE/NAME");
    }
    if (program_check_address("--admin", c->admin, e) != 0 ||
        program_check_socket("--control", given(c->control) ? c->control : NULL, e) != 0) {
        return e->code;
    }
    return kube_flags_check(&c->kube, e);
}

void rulesync_flags_parse(struct rulesync_flags *c, int argc, char **argv)
{
    struct err e = ERR_INIT;
    *c = defaults;
    (void)flags_parse_or_exit(&command, c, &c->common, argc, argv);
    c->admin = c->admin != NULL ? c->admin : PROGRAM_ADMIN(ADMIN_PORT);
    if (check(c, &e) != 0) {
        flags_misuse(&command, "%s", e.msg);
    }
    if (c->at_start && !c->once) { /* on the command line that is refused */
        log_warn("CMESH_AT_START is ignored without --once");
    }
}
