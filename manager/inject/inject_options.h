/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_options.h - what labels and annotations of a pod say about its injection.
 *
 * Each may be given as a label or an annotation; the annotation wins. Names stand below the prefix
 * of the installation; those of KusionStack's controller mesh have the same meaning here.
 */
#ifndef MANAGER_INJECT_INJECT_OPTIONS_H
#define MANAGER_INJECT_INJECT_OPTIONS_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "inject/inject.h"
#include "inject/inject_index.h"
#include "object/names.h"

/* What becomes of the operator's requests to other places than the API server. */
enum inject_egress_way {
    EGRESS_UNSAID,
    EGRESS_OFF,
    EGRESS_LISTEN, /* localproxy listens for them, and no variable leads there */
    EGRESS_PROXY,  /* variables lead there, where the pod has no proxy of its own */
    EGRESS_CHAIN,  /* and in place of the pod's own proxy, which localproxy uses then */
};

/* Strings point into the pod, but for the copy; NULL: not given. */
struct inject_options {
    const char *prefix;
    const char *injected;          /* sharding-config-injected: the shard */
    bool keep_args;                /* disable-fake-kubeconfig-arg */
    bool keep_env;                 /* disable-fake-kubeconfig-env */
    bool add_args;                 /* --kubeconfig is given to who has none */
    bool keep_account;             /* keep-service-account */
    bool said_account;             /* it was given */
    bool by_name;                  /* lead-by-name */
    bool nat;                      /* enable-iptables */
    bool count_load;               /* count-load, by the pod or its shard */
    enum inject_egress_way egress; /* egress; EGRESS_UNSAID until inject_egress_settle at most */
    const char *egress_address;    /* ADDR:PORT, where localproxy listens then */
    unsigned egress_port;          /* 0: nowhere */
    unsigned rules_lease_s;        /* rules-lease; 0: none */
    const char *account_path;      /* service-account-path: another place of the folder */
    const char *containers;        /* operator-containers: names, separated by commas */
    char *named_text;              /* a copy, which `named` has the names from */
    struct inject_index named;     /* these */
    const char *default_container; /* kubectl.kubernetes.io/default-container */
    const char *kubeconfig_volume; /* VOLUME or VOLUME/FILE with the real kubeconfig */
    const char *log_path;          /* a folder that all containers share */
    const char *user_agent;        /* user-agent: kube/user_agent.h */
    const char *env_sync;          /* NAME or NAME=VALUE, separated by commas: for localproxy */
    cJSON *env_inject;             /* [{"name": …, "env": [{"key": …, "value": …}]}] */
    cJSON *resources;              /* proxy-resource: those of localproxy */
};

/* 0, then inject_options_deinit is due; or -EINVAL with the annotation's name. */
MUST_CHECK int inject_options_init(struct inject_options *o, const struct inject_settings *settings,
                                   const cJSON *pod, struct err *e);
void inject_options_deinit(struct inject_options *o);

/* Says what is wrong with one of them. Returns -EINVAL. */
int inject_options_invalid(const struct inject_options *o, const char *name, struct err *e,
                           const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Whether `name` stands in a list that is separated by commas; blanks do not count. */
bool inject_options_lists(const char *list, const char *name);

#endif
