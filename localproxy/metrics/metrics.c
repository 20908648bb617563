/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/metrics.h"

#include <inttypes.h>

#include "base/array.h"

/* In microseconds. */
static const struct prometheus_bounds bounds = {
    .per_second = 1000000,
    .count = 12,
    .upper = {1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 5000000,
              30000000},
};

static const char *const verb_names[] = {
    [VERB_OTHER] = "other", [VERB_GET] = "get",       [VERB_LIST] = "list",
    [VERB_WATCH] = "watch", [VERB_CREATE] = "create", [VERB_UPDATE] = "update",
    [VERB_PATCH] = "patch", [VERB_DELETE] = "delete", [VERB_DELETECOLLECTION] = "deletecollection",
    [VERB_PROXY] = "proxy",
};

void metrics_count_code(struct metrics *m, enum request_verb verb, unsigned code)
{
    for (unsigned i = 0; i < m->code_count; i++) {
        if (m->codes[i].verb == verb && m->codes[i].code == code) {
            m->codes[i].count++;
            return;
        }
    }
    if (m->code_count == METRICS_CODES) {
        m->codes[METRICS_CODES - 1].count++;
        return;
    }
    m->codes[m->code_count++] = (struct metrics_code){.verb = verb, .code = code, .count = 1};
}

void metrics_count_duration(struct prometheus_histogram *h, uint64_t us)
{
    prometheus_observe(h, &bounds, us);
}

const char *metrics_fallback_name(enum fallback why)
{
    static const char *const names[] = {
        [FALLBACK_VERSION] = "version",
        [FALLBACK_FORM] = "form",
        [FALLBACK_SELECTOR] = "selector",
        [FALLBACK_EXPIRED] = "expired",
        [FALLBACK_SIZE] = "size",
        [FALLBACK_UPSTREAM] = "upstream",
        [FALLBACK_SUPERSEDED] = "superseded",
        [FALLBACK_REOPEN] = "reopen",
    };
    return names[why];
}

static void write_histogram(const struct prometheus_histogram *h, const char *name,
                            const char *help, struct buf *out)
{
    prometheus_head(out, name, "histogram", help);
    prometheus_histogram(out, name, NULL, h, &bounds);
}

static void write_rules(const struct rules *r, struct buf *out)
{
    const struct prometheus_metric numbers[] = {
        {"cmesh_proxy_rules_generation", "gauge",
         "Generation of the rules in force; 0 without rules.", r == NULL ? 0 : rules_generation(r)},
        {"cmesh_proxy_rules_limits", "gauge", "Limits in the rules in force.",
         r == NULL ? 0 : rules_limit_count(r)},
    };
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
    if (r != NULL) {
        prometheus_head(out, "cmesh_proxy_rules_info", "gauge",
                        "Shard and checksum of the rules that localproxy enforces; always 1.");
        buf_printf(out,
                   "cmesh_proxy_rules_info{namespace=\"%s\",shard=\"%s\",checksum="
                   "\"%s\"} 1\n",
                   rules_shard_namespace(r), rules_shard_name(r), rules_checksum(r));
    }
}

int metrics_write(const struct metrics *m, const struct metrics_sources *s, struct buf *out)
{
    const struct prometheus_metric numbers[] = {
        {"cmesh_proxy_ready", "gauge",
         "1 while localproxy has valid rules and credentials for the API server, 0 otherwise.",
         s->ready},
        {"cmesh_proxy_limited_requests_total", "counter",
         "Requests to which the shard's label selector was added.", m->limited},
        {"cmesh_proxy_rejected_requests_total", "counter",
         "Requests that localproxy refused: answered itself with an error.", m->refused},
        {"cmesh_proxy_response_bytes_total", "counter",
         "Bytes of response bodies passed on to the operator.", m->response_bytes},
        {"cmesh_proxy_open_watches", "gauge", "Open watches of the operator.", m->open_watches},
        {"cmesh_proxy_reloads_total", "counter",
         "Times that localproxy replaced the rules in force with new ones.", m->reloads},
        {"cmesh_proxy_reloads_refused_total", "counter",
         "Rules received on the control socket and refused: invalid, older, or of another shard.",
         m->reloads_refused},
        {"cmesh_proxy_transitions_total", "counter",
         "Watches migrated to changed rules without a new list by the client.", m->migrated},
        {"cmesh_proxy_spliced_events_total", "counter",
         "Events that localproxy wrote into watches to migrate them to changed rules.",
         m->spliced_events},
        {"cmesh_proxy_watches_cut_total", "counter",
         "Watches ended with 410 Expired because their rules changed.", m->watches_cut},
        {"cmesh_proxy_watches_silenced_total", "counter",
         "Open watches that were shown no events for a while before they were ended with 410 "
         "Expired because their rules changed.",
         m->watches_silenced},
        {"cmesh_proxy_requests_repeated_total", "counter",
         "Lists and watches asked again because the rules changed before they were answered.",
         m->requests_repeated},
        {"cmesh_proxy_lists_broken_off_total", "counter",
         "Lists aborted because the rules changed while they were being sent.",
         m->lists_broken_off},
        {"cmesh_proxy_resumes_refused_total", "counter",
         "Watches and list pages answered with 410 Expired because they continued from a version "
         "delivered under other rules.",
         m->resumes_refused},
        {"cmesh_proxy_writes_fenced_total", "counter",
         "Writes refused because their namespace does not belong to the shard.", m->writes_fenced},
        {"cmesh_proxy_writes_audited_total", "counter",
         "Writes to namespaces of other shards that were let through (--write-fence=audit).",
         m->writes_audited},
        {"cmesh_proxy_reads_fenced_total", "counter",
         "Reads by name refused because their namespace does not belong to the shard "
         "(--read-fence=enforce).",
         m->reads_fenced},
        {"cmesh_proxy_reads_audited_total", "counter",
         "Reads by name in namespaces of other shards that were let through (--read-fence=audit).",
         m->reads_audited},
        {"cmesh_proxy_open_tunnels", "gauge", "Open upgraded connections (exec, port-forward).",
         m->tunnels},
        {"cmesh_proxy_status_lease_writes_total", "counter",
         "Times that the Lease with the status was written (--status-lease).", m->lease_written},
        {"cmesh_proxy_status_lease_failures_total", "counter",
         "Attempts to write the Lease with the status that failed.", m->lease_failed},
        {"cmesh_proxy_rules_lease_expired_total", "counter",
         "Times that the rules ceased to be valid because the Lease was not renewed in time "
         "(--rules-lease).",
         s->lease_expirations},
        {"cmesh_proxy_client_connections_total", "counter",
         "Connections accepted from the operator.", s->server->accepted},
        {"cmesh_proxy_client_tls_failures_total", "counter",
         "Connections that an error of TLS ended before they asked anything.",
         s->server->tls_failed},
        {"cmesh_proxy_client_connections", "gauge", "Open connections from the operator.",
         s->server->open},
        {"cmesh_proxy_requests_in_flight", "gauge", "Requests of the operator in flight.",
         s->server->busy},
        {"cmesh_proxy_refused_requests_total", "counter",
         "Malformed requests and connections over the limit that were refused.",
         s->server->refused},
        {"cmesh_proxy_request_memory_bytes", "gauge",
         "Memory of large requests of the operator that are not passed on or not answered yet.",
         s->memory.request_bytes},
        {"cmesh_proxy_request_memory_refused_total", "counter",
         "Requests refused with 429 or 503 because too many large ones were being handled.",
         s->memory.requests_refused},
        {"cmesh_proxy_unread_memory_bytes", "gauge",
         "Memory of responses that clients are slow to read, and of requests that the API server "
         "is.",
         s->memory.unread_bytes},
        {"cmesh_proxy_unread_connections_closed_total", "counter",
         "Connections and answers ended because too much was kept that clients or the API server "
         "did not read.",
         s->memory.given_up},
        {"cmesh_proxy_watch_memory_bytes", "gauge",
         "Memory of events that are not complete yet, and of lists for watches that migrate.",
         s->memory.watch_bytes},
    };
    prometheus_head(out, "cmesh_proxy_requests_total", "counter",
                    "Requests of the operator answered, by verb and status code.");
    for (unsigned i = 0; i < m->code_count; i++) {
        buf_printf(out, "cmesh_proxy_requests_total{verb=\"%s\",code=\"%u\"} %" PRIu64 "\n",
                   verb_names[m->codes[i].verb], m->codes[i].code, m->codes[i].count);
    }
    prometheus_write(out, numbers, ARRAY_LEN(numbers));
    prometheus_head(out, "cmesh_proxy_fallbacks_total", "counter",
                    "Watches that could not be migrated to new rules, by reason.");
    for (unsigned i = 0; i < FALLBACKS; i++) {
        buf_printf(out, "cmesh_proxy_fallbacks_total{reason=\"%s\"} %" PRIu64 "\n",
                   metrics_fallback_name(i), m->fallbacks[i]);
    }
    static const char *const probed[] = {[WRITE_PROBED_WRITTEN] = "written",
                                         [WRITE_PROBED_OVERTAKEN] = "overtaken",
                                         [WRITE_PROBED_FAILED] = "failed"};
    prometheus_head(out, "cmesh_proxy_write_probes_total", "counter",
                    "Times that localproxy asked whether a watch has everything up to a version "
                    "that the operator wrote outside of it, by result: written (a bookmark), "
                    "overtaken (by an event of the API server), failed.");
    for (unsigned i = 0; i < WRITE_PROBED; i++) {
        buf_printf(out, "cmesh_proxy_write_probes_total{result=\"%s\"} %" PRIu64 "\n", probed[i],
                   m->write_probes[i]);
    }
    prometheus_seconds(
        out, "cmesh_proxy_reload_duration_seconds", "gauge",
        "Event loop time in seconds that applying the last change of the rules took.",
        (double)m->reload_us / 1e6);
    prometheus_seconds(out, "cmesh_proxy_rules_lease_remaining_seconds", "gauge",
                       "How much longer the rules are valid unless the Lease is renewed "
                       "(--rules-lease); 0 after that, and without such a lease.",
                       (double)s->lease_remaining_ms / 1e3);
    write_histogram(
        &m->duration, "cmesh_proxy_request_duration_seconds",
        "Time from a request's head to the end of its response, excluding watches and tunnels.",
        out);
    write_histogram(
        &m->migration, "cmesh_proxy_transition_duration_seconds",
        "Time from a change of the rules to the last event that migrates an open watch to them.",
        out);
    write_rules(s->rules, out);
    return buf_error(out);
}
