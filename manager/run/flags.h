/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - the flags of the running manager.
 */
#ifndef MANAGER_RUN_FLAGS_H
#define MANAGER_RUN_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"
#include "compile/compile.h"
#include "inject/inject.h"
#include "program/kube_flags.h"

enum native_sidecars { NATIVE_SIDECARS_AUTO, NATIVE_SIDECARS_ON, NATIVE_SIDECARS_OFF };

/* Strings point into argv or the environment; NULL: not given. */
struct manager_flags {
    struct flags_common common;
    struct kube_flags kube;
    int tls_records;             /* enum tls_records_by */
    const char *namespace;       /* of Lease, Secret and Service; NULL: that of the credentials */
    const char *watch_namespace; /* of ShardingConfigs; NULL: all */
    bool leader_elect;
    const char *lease;         /* its name */
    const char *identity;      /* in the Lease; NULL: made up of the host's name */
    uint64_t lease_duration_s; /* how long after its end a leader is missed */
    uint64_t shutdown_delay_s;
    uint64_t shutdown_grace_s;

    const char *admin;
    const char *ready_file;

    const char *webhook; /* "": none */
    const char *webhook_service;
    struct flag_list webhook_hosts;
    const char *webhook_secret;
    const char *webhook_client_ca;   /* NULL: no client certificate is asked for */
    const char *webhook_client_name; /* NULL: any */
    uint64_t certificate_days;

    const char *sharding_resources; /* NULL: sharding_resources_default */
    uint64_t label_qps;             /* 0: nothing is labelled */
    bool label_system_namespaces;
    bool wait_for_labels;
    struct flag_list shareable;
    struct compile_labels labels;
    int label_foreign; /* enum labels_policy */

    uint64_t shards_memory_mib;
    uint64_t root_statefulsets;
    uint64_t probe_interval_s;
    bool probe_any_address;
    uint64_t bypass_wait_s; /* 0: nobody is judged by that */
    int handover;           /* enum handover_mode */
    uint64_t handover_wait_s;
    uint64_t takeover_margin_s;

    struct inject_settings inject;
    int native; /* enum native_sidecars */
    struct flag_list proxy_args;
    const char *proxy_arg_items[FLAG_LIST_MAX + 1]; /* the same, ended by NULL */
    struct flag_list sidecar_env;
    const char *sidecar_env_items[FLAG_LIST_MAX + 1]; /* the same, ended by NULL */
    struct flag_list pull_secrets;
    const char *pull_secret_items[FLAG_LIST_MAX + 1]; /* the same, ended by NULL */
};

/* Ends the process on --help, --version and wrong usage. */
void manager_flags_parse(struct manager_flags *s, int argc, char **argv);

#endif
