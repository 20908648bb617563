/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "kube/name.h"
#include "sync.h"

static const char description[] =
    "rulesync takes a shard's rules from a mounted ConfigMap, or from any file, checks them fully "
    "and keeps the last known good ones where localproxy reads them.\n"
    "Refused, with what is stored left as it is: a document that is not valid or whose checksum "
    "does not fit, rules of another shard, a generation older than the stored one, and other rules "
    "under the stored generation.";

static const char examples[] =
    "    rulesync --once --from=/etc/cmesh --to=/var/lib/cmesh/rules.json \\\n"
    "        --shard=operator-demo/sharding-demo\n";

struct arguments {
    struct flags_common common;
    bool once;
    struct sync_options sync;
};

static bool shard_ok(const char *shard)
{
    const char *slash = strchr(shard, '/');
    return slash != NULL && name_check_label(slice_of(shard, (size_t)(slash - shard))) == NULL &&
           name_check_subdomain(slice_str(slash + 1)) == NULL;
}

/* What cannot be told flag by flag; NULL: all is well. */
static const char *check(const struct arguments *a)
{
    if (a->sync.from == NULL || a->sync.from[0] == '\0') {
        return "--from is missing: the folder where the ConfigMap is mounted, or a file";
    }
    if (a->sync.to == NULL || a->sync.to[0] == '\0') {
        return "--to is missing: the file that holds the last known good rules";
    }
    if (a->sync.shard != NULL && !shard_ok(a->sync.shard)) {
        return "--shard must be NAMESPACE/NAME";
    }
    return a->once ? NULL : "this version works once and ends: say so with --once";
}

static void misuse(const char *msg, const char *detail)
{
    fprintf(stderr, "rulesync: %s%s\nRun \"rulesync --help\" for the flags.\n", msg, detail);
    exit(EXIT_USAGE);
}

static void parse(struct arguments *a, int argc, char **argv)
{
    const struct flag flags[] = {
        {.name = "once",
         .help = "Take the rules once and end: an init step. Required in this version.",
         .type = FLAG_BOOL,
         .target = &a->once},
        {.name = "from",
         .value = "PATH",
         .help = "The folder where the ConfigMap is mounted (its key is " SYNC_KEY "), or a file.",
         .type = FLAG_STRING,
         .target = &a->sync.from},
        {.name = "to",
         .value = "PATH",
         .help = "The file for the last known good rules. It is replaced in one step: no reader "
                 "ever sees half of it.",
         .type = FLAG_STRING,
         .target = &a->sync.to},
        {.name = "shard",
         .value = "NS/NAME",
         .help = "Refuse rules of any other shard. Without it those of any shard are taken, as "
                 "long as the stored ones are of the same.",
         .type = FLAG_STRING,
         .target = &a->sync.shard},
        FLAGS_COMMON(&a->common),
        {.name = NULL},
    };
    const struct program program = {
        .name = "rulesync",
        .summary = "check a shard's rules and keep the last known good ones",
        .usage = "--once --from=PATH --to=PATH [FLAGS]",
        .description = description,
        .examples = examples,
        .flags = flags,
    };
    int rest = flags_parse_or_exit(&program, &a->common, argc, argv);
    if (rest < argc) {
        misuse("unexpected argument ", argv[rest]);
    }
    const char *wrong = check(a);
    if (wrong != NULL) {
        misuse(wrong, "");
    }
}

int main(int argc, char **argv)
{
    struct arguments a = {.common = {.log_format = LOG_TEXT, .log_level = LOG_INFO}};
    parse(&a, argc, argv);
    struct sync_outcome outcome = {.rules = NULL};
    struct err e = ERR_INIT;
    if (sync_once(&a.sync, &outcome, &e) != 0) {
        log_error("rules refused", log_str("error", e.msg));
        return EXIT_FAILED;
    }
    const struct rules *r = outcome.rules;
    log_info(outcome.unchanged ? "rules unchanged" : "rules stored",
             log_str("namespace", rules_shard_namespace(r)), log_str("shard", rules_shard_name(r)),
             log_num("generation", (int64_t)rules_generation(r)),
             log_str("checksum", rules_checksum(r)),
             log_num("limits", (int64_t)rules_limit_count(r)), log_str("path", a.sync.to));
    rules_unref(outcome.rules);
    return EXIT_DONE;
}
