/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flags.h - localproxy's flags.
 */
#ifndef LOCALPROXY_FLAGS_H
#define LOCALPROXY_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"
#include "program/kube_flags.h"

enum reload_mode { RELOAD_SEAMLESS, RELOAD_CUT };
enum fence_mode { FENCE_ENFORCE, FENCE_AUDIT, FENCE_OFF };
enum no_rules { NO_RULES_BLOCK, NO_RULES_PASSTHROUGH };

/* As flags and /status have it. */
const char *fence_mode_name(int mode);

/* Strings point into argv or the environment; NULL: not given. */
struct localproxy_flags {
    struct flags_common common;
    struct kube_flags kube;
    const char *listen;
    struct flag_list listen_tls; /* as listen_tls.h reads them; none: `listen` has TLS, if any */
    const char *listen_tls_cert;
    const char *listen_tls_key;
    const char *local_tls; /* as program/local_tls.h reads it */
    bool may_lack_tls;     /* nobody has asked for it: if it cannot be had, it is left out */
    const char *admin;
    const char *rules;
    const char *control;
    const char *traffic;       /* NULL: beside `rules` (control/documents.h) */
    const char *pod_labels;    /* as traffic/pod_labels.h reads them; NULL: there are none */
    const char *breaker_state; /* NULL: open breakers do not outlive the process */
    int no_rules;              /* enum no_rules */
    int write_fence;           /* enum fence_mode */
    int read_fence;            /* likewise */
    const char *pod_namespace;
    int reload_mode; /* enum reload_mode */
    uint64_t cut_interval_s;
    uint64_t cut_spread_s;
    int write_bookmarks; /* 0: off */
    const char *state;   /* NULL: what clients have seen does not outlive the process */
    uint64_t resume_doubt_s;
    const char *token_file;          /* as program/local_token.h reads it */
    struct flag_list accept_hosts;   /* beside those of guard/host.h */
    struct flag_list accept_origins; /* beside those of guard/web_page.h */
    const char *user_agent;          /* kube/user_agent.h; NULL: clients have their own */
    struct flag_list api_prefixes;   /* as kube/api_prefix.h reads them */
    bool watch_bypass;
    bool status_lease;
    bool count_load;
    uint64_t rules_lease_s; /* 0: the rules are valid while they are in force */
    const char *ready_file;
    uint64_t shutdown_delay_s; /* 0: none */
    uint64_t shutdown_grace_s;
    int tls_records;             /* enum tls_records_by */
    uint64_t max_connections;    /* 0: what proxy.c takes */
    const char *egress;          /* NULL: there is no listener for requests to other places */
    const char *egress_via;      /* as core/kube/access/proxy.h reads it; NULL: no proxy */
    const char *egress_no_proxy; /* NULL: nothing is excepted from it */
    const char *egress_ca;       /* NULL: the system's authorities */
    uint64_t egress_max_tunnels;
    uint64_t egress_idle_s;
};

/* Those that there are; ends with a NULL name. */
extern const struct flag localproxy_flags_table[];

/* Ends the process on --help, --version and wrong usage. */
void localproxy_flags_parse(struct localproxy_flags *c, int argc, char **argv);

#endif
