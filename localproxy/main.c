/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - wiring: flags, the parts, a clean end.
 *
 *     running -- signal --> lingering -- no client left, delay over --> draining
 *     draining -- drained, grace over --> stopped
 *
 * Drained are both listeners, if there are two. Without a delay it does not linger. A second signal
 * stops it at once (program/program.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/flags.h"
#include "base/log.h"
#include "bypass/bypass_watch.h"
#include "control/documents.h"
#include "control/reload.h"
#include "crypto/tls.h"
#include "egress/egress.h"
#include "flags.h"
#include "listen/listen_tls.h"
#include "listen/listener_secrets.h"
#include "lock/lock.h"
#include "net/address.h"
#include "net/own_address.h"
#include "net/timer.h"
#include "program/local_tls.h"
#include "program/local_token.h"
#include "program/program.h"
#include "request/proxy.h"
#include "status/admin.h"
#include "status/status_lease.h"
#include "traffic/policies.h"
#include "upstream/upstream.h"

/* While it lingers: how often clients are counted, and how long there must have been none. An
 * operator that is about to give its lease back may have closed all connections for a moment. */
enum { LINGER_LOOK_MS = 200, LINGER_ALONE_MS = 2000 };

struct app {
    struct program program;
    struct localproxy_flags flags;
    struct kube_access access;
    struct upstream *upstream;
    struct health health; /* of all clients of API servers */
    struct metrics metrics;
    char *token_path; /* NULL: no token is asked for */
    char *tls_folder; /* NULL: there is no authority of the user's own */
    struct listener_secrets *secrets;
    char *pod_namespace;
    struct policies *policies;
    struct proxy *proxy;
    struct egress *egress; /* NULL: there is no way to other places */
    struct documents *documents;
    struct reload *reload;
    struct bypass_watch *bypass; /* NULL: that is not watched */
    struct kube_access home;     /* of the cluster in which the pod is, if that is another access */
    struct kube_client *home_client;
    struct rules_lease *rules_lease; /* NULL: rules are valid while they are in force */
    struct status_lease *lease;      /* NULL: none is written */
    struct admin *admin;
    struct net_timer *linger; /* until clients are counted again */
    struct net_timer *grace;
    uint64_t signal_at;
    uint64_t client_at; /* while it lingers: when there was one last */
    bool proxy_drained;
    bool egress_drained;
};

/* ---- the end ---- */

/* Of both listeners. */
static unsigned requests_in_flight(const struct app *a)
{
    return proxy_facts(a->proxy).server->busy + (a->egress != NULL ? egress_busy(a->egress) : 0);
}

static unsigned open_connections(const struct app *a)
{
    return proxy_facts(a->proxy).server->open +
           (a->egress != NULL ? egress_connections(a->egress) : 0);
}

static void on_grace_over(void *data)
{
    struct app *a = data;
    log_warn("the grace period is over, aborting requests in flight",
             log_num("requests", requests_in_flight(a)));
    program_stop(&a->program, EXIT_DONE);
}

static void stop_if_drained(struct app *a)
{
    if (a->proxy_drained && (a->egress == NULL || a->egress_drained)) {
        log_info("all requests completed");
        program_stop(&a->program, EXIT_DONE);
    }
}

static void on_proxy_drained(void *data)
{
    struct app *a = data;
    a->proxy_drained = true;
    stop_if_drained(a);
}

static void on_egress_drained(void *data)
{
    struct app *a = data;
    a->egress_drained = true;
    stop_if_drained(a);
}

static void drain(struct app *a)
{
    log_info("draining: open requests are finished; a second signal ends them at once",
             log_num("requests", requests_in_flight(a)),
             log_num("watches", (int64_t)a->metrics.open_watches),
             log_num("seconds", (int64_t)a->flags.shutdown_grace_s));
    net_timer_set(a->grace, a->flags.shutdown_grace_s * 1000);
    proxy_drain(a->proxy);
    if (a->egress != NULL) {
        egress_drain(a->egress);
    }
}

static void on_linger(void *data)
{
    struct app *a = data;
    uint64_t now = net_loop_now(a->program.loop);
    if (open_connections(a) > 0) {
        a->client_at = now;
    }
    if (now - a->client_at >= LINGER_ALONE_MS ||
        now - a->signal_at >= a->flags.shutdown_delay_s * 1000) {
        drain(a);
    } else {
        net_timer_set(a->linger, LINGER_LOOK_MS);
    }
}

static void linger(struct app *a)
{
    log_info("still serving until the operator closes its connections",
             log_num("connections", open_connections(a)),
             log_num("seconds", (int64_t)a->flags.shutdown_delay_s));
    a->signal_at = net_loop_now(a->program.loop);
    a->client_at = a->signal_at;
    net_timer_set(a->linger, LINGER_LOOK_MS);
}

static void on_shutdown(void *data)
{
    struct app *a = data;
    if (a->flags.shutdown_delay_s > 0) {
        linger(a);
    } else {
        drain(a);
    }
}

/* ---- the beginning ---- */

static int open_secrets(struct app *a, struct err *e)
{
    bool made;
    const char *tls = a->flags.listen_tls_cert != NULL ? "off" : a->flags.local_tls;
    int rc = local_token_path(a->flags.token_file, &a->token_path, &made, e);
    if (made) {
        log_info("created a token, which kubeconfig-gen writes into kubeconfigs",
                 log_str("path", a->token_path));
    }
    a->flags.token_file = a->token_path;
    a->flags.may_lack_tls = tls == NULL && a->flags.listen_tls.count == 0;
    if (rc != 0 || local_tls_folder(tls, a->token_path, &a->tls_folder, e) != 0) {
        return e->code;
    }
    a->flags.local_tls = a->tls_folder;
    a->secrets = listener_secrets_new(a->program.loop, &a->flags, 0, e);
    if (a->secrets == NULL) {
        return e->code;
    }
    listener_secrets_report_to(a->secrets, &a->health);
    return 0;
}

static int open_policies(struct app *a, struct err *e)
{
    const struct policies_options o = {
        .breaker_state = a->flags.breaker_state,
        .pod_labels = a->flags.pod_labels,
    };
    a->policies = policies_new(a->program.loop, &o, e);
    return a->policies == NULL ? e->code : 0;
}

static int open_proxy(struct app *a, struct err *e)
{
    struct proxy_options o = {
        .flags = &a->flags,
        .upstream = a->upstream,
        .server = &a->access.server,
        .metrics = &a->metrics,
        .secrets = a->secrets,
        .policies = a->policies,
        .lease = a->rules_lease,
        .on_drained = on_proxy_drained,
        .data = a,
    };
    int rc = lock_pod_namespace(a->flags.pod_namespace, getenv("POD_NAMESPACE"), NULL,
                                &a->pod_namespace, e);
    if (rc != 0) {
        return rc;
    }
    o.pod_namespace = a->pod_namespace;
    a->proxy = proxy_new(a->program.loop, &o, e);
    return a->proxy == NULL ? e->code : 0;
}

static int open_egress(struct app *a, struct err *e)
{
    struct egress_options o = {
        .flags = &a->flags,
        .server = &a->access.server,
        .secrets = a->secrets,
        .policies = a->policies,
        .on_drained = on_egress_drained,
        .data = a,
    };
    size_t n = 0;
    if (a->flags.egress == NULL) {
        return 0;
    }
    for (size_t i = 0; n < REACH_OWN_MAX - 1 && proxy_address_at(a->proxy, i)[0] != '\0'; i++) {
        o.own[n++] = proxy_address_at(a->proxy, i);
    }
    a->egress = egress_new(a->program.loop, &o, e);
    return a->egress == NULL ? e->code : 0;
}

/* Whoever reaches the address has the credentials of the API server; tunnels that take all
 * descriptors leave none for who comes to it. */
static void warn_of_risks(const struct app *a)
{
    uint64_t limit = program_file_limit();
    if (a->flags.token_file == NULL) {
        log_warn("no token is asked for: every program and user that reaches this address has "
                 "localproxy's rights at the API server (--token-file=off)",
                 log_str("listen", proxy_address(a->proxy)));
    }
    if (a->egress != NULL && egress_streams_max(&a->flags) > limit) {
        log_warn("tunnels could take all open files, and then the operator does not reach the API "
                 "server: raise the limit of open files, or lower --egress-max-tunnels",
                 log_num("limit", (int64_t)limit),
                 log_num("needed", egress_streams_max(&a->flags)));
    }
}

static int open_bypass(struct app *a, struct err *e)
{
    const struct bypass_watch_options o = {
        .server = &a->access.server,
        .through_proxy = a->access.proxy.url != NULL,
        .own = {proxy_address(a->proxy), a->flags.admin, proxy_address_at(a->proxy, 1)},
    };
    if (!a->flags.watch_bypass) {
        return 0;
    }
    a->bypass = bypass_watch_new(a->program.loop, &o, e);
    return a->bypass == NULL ? e->code : 0;
}

/* ---- the Lease ---- */

enum {
    UNSETTLED_MS = 250, /* until rules are told that are not settled: mostly they are by then */
    TRAFFIC_MS = 1000,  /* until it is told that a breaker opened or closed */
};

static void on_rules_changed(void *data)
{
    struct app *a = data;
    status_lease_look(a->lease, proxy_settled(a->proxy) ? 0 : UNSETTLED_MS);
}

static void on_traffic_changed(void *data)
{
    struct app *a = data;
    status_lease_look(a->lease, TRAFFIC_MS);
}

/* The manager learns by Leases what this pod enforces; nothing else here is on its own account. */
static const char *granted_by(const struct request_info *ri)
{
    (void)ri;
    return "bind the ClusterRole cmesh-sidecar to the pod's service account: kubectl create "
           "rolebinding cmesh-sidecar -n NAMESPACE --clusterrole=cmesh-sidecar "
           "--serviceaccount=NAMESPACE:NAME";
}

static int open_home(struct app *a, const struct kube_access *access, struct kube_client **out,
                     struct err *e)
{
    const struct kube_client_options o = {
        .access = access,
        .max_idle = 1,
        .http1_only = a->flags.kube.protocol == UPSTREAM_HTTP1,
        .health = &a->health,
        .granted_by = granted_by,
    };
    a->home_client = kube_client_new(a->program.loop, &o, e);
    *out = a->home_client;
    return *out == NULL ? e->code : 0;
}

/* The manager is in the cluster in which the pod is, wherever a kubeconfig leads. *out stays NULL
 * in a pod without a service account. A Lease on which the rules depend has a client of its own: it
 * is written while they are not valid, and waits for no request of the operator. */
static int find_home(struct app *a, struct kube_client **out, struct err *e)
{
    struct err why = ERR_INIT;
    bool in_cluster = a->access.context[0] == '\0';
    bool same = in_cluster || getenv("KUBERNETES_SERVICE_HOST") == NULL;
    *out = same ? a->upstream->client : NULL;
    if (same) {
        return a->rules_lease == NULL ? 0 : open_home(a, &a->access, out, e);
    }
    if (kube_access_in_cluster(NULL, &a->home, &why) == 0) {
        return open_home(a, &a->home, out, e);
    }
    if (a->rules_lease != NULL) {
        return err_set(e, why.code,
                       "--rules-lease: there is no service account by which to write "
                       "the Lease: %s",
                       why.msg);
    }
    log_warn("--status-lease: there is no service account by which to write it",
             log_str("error", why.msg));
    return 0;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static int open_lease(struct app *a, struct err *e)
{
    struct status_lease_options o = {
        .proxy = a->proxy,
        .reload = a->reload,
        .metrics = &a->metrics,
        .bypass = a->bypass,
        .policies = a->policies,
        .egress = a->egress,
        .lease = a->rules_lease,
        .namespace = a->pod_namespace,
        .pod = variable("POD_NAME"),
        .uid = variable("POD_UID"),
    };
    if (!a->flags.status_lease) {
        return 0;
    }
    if (o.namespace == NULL || o.pod[0] == '\0' || o.uid[0] == '\0') {
        return err_set(e, -EINVAL,
                       "--status-lease: POD_NAME, POD_UID or POD_NAMESPACE is not set: set them "
                       "from metadata.name, metadata.uid and metadata.namespace of the pod");
    }
    if (find_home(a, &o.client, e) != 0 || o.client == NULL) {
        return e->code;
    }
    a->lease = status_lease_new(a->program.loop, &o, e);
    if (a->lease == NULL) {
        return e->code;
    }
    reload_on_changed(a->reload, on_rules_changed, a);
    policies_on_changed(a->policies, on_traffic_changed, a);
    return 0;
}

static int open_admin(struct app *a, struct err *e)
{
    struct admin_options o = {
        .flags = &a->flags,
        .proxy = a->proxy,
        .metrics = &a->metrics,
        .bypass = a->bypass,
        .policies = a->policies,
        .egress = a->egress,
        .reload = a->reload,
        .lease = a->lease,
        .pod = {variable("POD_NAME"), variable("POD_UID")},
    };
    a->admin = admin_new(a->program.loop, &o, e);
    if (a->admin == NULL) {
        return e->code;
    }
    if (a->egress != NULL) {
        egress_add_own(a->egress, admin_address(a->admin));
    }
    return 0;
}

static int write_ready_file(const struct app *a, struct err *e)
{
    const struct program_address addresses[] = {
        {"listen", proxy_address(a->proxy)},
        {"listenTLS", proxy_address_at(a->proxy, 1)},
        {"egress", a->egress != NULL ? egress_address(a->egress) : ""},
        {"admin", admin_address(a->admin)},
    };
    return program_write_ready_file(a->flags.ready_file, addresses, ARRAY_LEN(addresses), e);
}

static int check_ready_file(struct app *a, struct err *e)
{
    return program_check_ready_file(a->flags.ready_file, e);
}

static int open_timers(struct app *a, struct err *e)
{
    a->linger = net_timer_new(a->program.loop, on_linger, a);
    a->grace = net_timer_new(a->program.loop, on_grace_over, a);
    return a->linger == NULL || a->grace == NULL ? err_memory(e) : 0;
}

/* With the kubeconfig that was written for the operator, or in its place, each request would come
 * back and be sent again, until there are no connections left. */
static int refuse_itself_at(const struct app *a, const char *flag, const char *address,
                            struct err *e)
{
    const struct url *server = &a->access.server;
    struct sockaddr_storage listen;
    char at[URL_HOST_PORT_SIZE];
    int rc = net_address_parse(address, &listen, e);
    if (rc != 0 || !net_address_leads_to(server->host, server->port, &listen)) {
        return rc;
    }
    url_host_port(server, at);
    return err_set(e, -ELOOP,
                   "the API server of the %s, http%s://%s, is this localproxy itself (%s=%s). "
                   "kubeconfig-gen may have written that for the operator: give the real one by "
                   "--kubeconfig or KUBECONFIG",
                   a->access.context[0] == '\0' ? "service account" : "kubeconfig",
                   server->https ? "s" : "", at, flag, address);
}

static int refuse_itself(const struct app *a, struct err *e)
{
    int rc = refuse_itself_at(a, "--listen", a->flags.listen, e);
    for (size_t i = 0; i < a->flags.listen_tls.count && rc == 0; i++) {
        struct listen_tls t;
        rc = listen_tls_parse(a->flags.listen_tls.items[i], &t, e);
        for (size_t k = 0; k < t.count && rc == 0; k++) {
            rc = refuse_itself_at(a, "--listen-tls", t.addresses[k], e);
        }
    }
    return rc == 0 && a->flags.egress != NULL ? refuse_itself_at(a, "--egress", a->flags.egress, e)
                                              : rc;
}

/* It may be another localproxy's address, or one that has another port now. */
static int refuse_own_token(struct app *a, struct err *e)
{
    const char *token = a->access.token;
    if (token == NULL ||
        !local_token_matches(slice_str(token), listener_secrets_token(a->secrets))) {
        return 0;
    }
    return err_set(e, -ELOOP,
                   "users[%s].token is localproxy's own: kubeconfig-gen wrote this kubeconfig for "
                   "the operator. Give the real one by --kubeconfig or KUBECONFIG",
                   a->access.user);
}

static int open_rules_lease(struct app *a, struct err *e)
{
    if (a->flags.rules_lease_s == 0) {
        return 0;
    }
    a->rules_lease = rules_lease_new(a->program.loop, a->flags.rules_lease_s, NULL, e);
    return a->rules_lease == NULL ? e->code : 0;
}

/* Right before a request goes to the API server: that may be long after it was let through, if the
 * process was stopped while a connection was opened. Whose rules are not valid is told elsewhere.
 */
static bool may_send(void *data)
{
    const struct app *a = data;
    return rules_lease_remaining_ms(a->rules_lease) > 0;
}

/* What the kernel could not deliver before the rules cease to be valid it must not deliver long
 * after that: a manager waits for a quarter of the lease longer (manager/shard/takeover.h). */
static unsigned user_timeout_ms(const struct app *a)
{
    enum { USUAL_MS = 30000, PART_MS = 1000 / 4 };
    uint64_t ms = a->flags.rules_lease_s * PART_MS;
    return ms == 0 ? 0 : ms < USUAL_MS ? (unsigned)ms : USUAL_MS;
}

static int open_upstream(struct app *a, struct err *e)
{
    if (kube_flags_open(&a->flags.kube, &a->access, e) != 0 || refuse_itself(a, e) != 0) {
        return e->code;
    }
    const struct upstream_options o = {
        .name = UPSTREAM_HOME,
        .client =
            {
                .access = &a->access,
                .max_idle = 256,
                .user_timeout_ms = user_timeout_ms(a),
                .http1_only = a->flags.kube.protocol == UPSTREAM_HTTP1,
                .may_send = a->rules_lease != NULL ? may_send : NULL,
                .may_data = a,
                .health = &a->health,
                .granted_by = granted_by,
            },
        .state = a->flags.state,
        .doubt_ms = a->flags.resume_doubt_s * 1000,
    };
    a->upstream = upstream_new(a->program.loop, &o, e);
    return a->upstream == NULL ? e->code : 0;
}

/* Traffic policies after the rules, whose shard they must be of. */
static int open_documents(struct app *a, struct err *e)
{
    a->reload = reload_new(a->program.loop, &a->flags, a->proxy, &a->metrics, e);
    if (a->reload == NULL) {
        return e->code;
    }
    a->documents = documents_new(&a->flags, a->proxy, a->policies, e);
    if (a->documents == NULL) {
        return e->code;
    }
    reload_serve_traffic(a->reload, a->documents);
    return 0;
}

static int open_all(void *data, struct err *e)
{
    static int (*const steps[])(struct app *, struct err *) = {
        check_ready_file, open_timers,   open_rules_lease, open_upstream, open_secrets,
        refuse_own_token, open_policies, open_proxy,       open_egress,   open_documents,
        open_bypass,      open_lease,    open_admin,
    };
    struct app *a = data;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int rc = steps[i](a, e);
        if (rc != 0) {
            return rc;
        }
    }
    log_info("listening", log_str("listen", proxy_address(a->proxy)),
             log_str("admin", admin_address(a->admin)), log_str("upstream", a->upstream->name),
             log_str("server", kube_client_server(a->upstream->client)));
    if (a->flags.listen_tls.count > 0) {
        log_info("listening for TLS", log_str("listenTLS", proxy_address_at(a->proxy, 1)));
    }
    if (a->egress != NULL) {
        log_info("listening for external requests", log_str("egress", egress_address(a->egress)));
    }
    warn_of_risks(a);
    return write_ready_file(a, e);
}

static void close_all(void *data)
{
    struct app *a = data;
    admin_free(a->admin);
    status_lease_free(a->lease);
    bypass_watch_free(a->bypass);
    reload_free(a->reload);
    documents_free(a->documents);
    egress_free(a->egress);
    proxy_free(a->proxy);
    policies_free(a->policies);
    listener_secrets_free(a->secrets);
    if (a->home_client != NULL) {
        kube_client_close(a->home_client, NULL, NULL);
    }
    upstream_free(a->upstream);
    rules_lease_free(a->rules_lease);
    net_timer_free(a->linger);
    net_timer_free(a->grace);
}

static void on_reload(void *data)
{
    struct app *a = data;
    reload_read_again(a->reload);
    documents_read_again(a->documents);
}

static const struct program_ops ops = {
    .open = open_all,
    .on_shutdown = on_shutdown,
    .on_reload = on_reload,
    .close = close_all,
};

int main(int argc, char **argv)
{
    struct app a = {.proxy = NULL};
    health_init(&a.health, NULL);
    localproxy_flags_parse(&a.flags, argc, argv);
    tls_use_records((enum tls_records_by)a.flags.tls_records);
    program_raise_file_limit();
    if (a.flags.egress != NULL) {
        net_loop_set_threads(EGRESS_THREADS);
    }
    int code = program_run(&a.program, &ops, &a);
    kube_access_deinit(&a.access);
    kube_access_deinit(&a.home);
    health_deinit(&a.health);
    free(a.pod_namespace);
    free(a.token_path);
    free(a.tls_folder);
    return code;
}
