/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <uv.h>

#include "base/json.h"

/* Upper bounds of the duration histogram, as text and in microseconds. */
static const struct {
    const char *le;
    uint64_t us;
} buckets[METRICS_BUCKETS] = {
    {"0.001", 1000},  {"0.0025", 2500}, {"0.005", 5000}, {"0.01", 10000},
    {"0.025", 25000}, {"0.05", 50000},  {"0.1", 100000}, {"0.25", 250000},
    {"0.5", 500000},  {"1", 1000000},   {"5", 5000000},  {"30", 30000000},
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

void metrics_count_duration(struct metrics *m, uint64_t us)
{
    unsigned i = 0;
    while (i < METRICS_BUCKETS && us > buckets[i].us) {
        i++;
    }
    m->duration[i]++;
    m->duration_sum_us += us;
}

static int head(struct buf *out, const char *name, const char *type, const char *help)
{
    return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int number(struct buf *out, const char *name, const char *type, const char *help,
                  uint64_t value)
{
    int rc = head(out, name, type, help);
    return rc != 0 ? rc : buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static int write_codes(const struct metrics *m, struct buf *out)
{
    int rc = head(out, "cmesh_proxy_requests_total", "counter",
                  "Requests answered, by verb and status code.");
    for (unsigned i = 0; i < m->code_count && rc == 0; i++) {
        rc = buf_printf(out, "cmesh_proxy_requests_total{verb=\"%s\",code=\"%u\"} %" PRIu64 "\n",
                        verb_names[m->codes[i].verb], m->codes[i].code, m->codes[i].count);
    }
    return rc;
}

static int write_durations(const struct metrics *m, struct buf *out)
{
    static const char name[] = "cmesh_proxy_request_duration_seconds";
    uint64_t sum = 0;
    int rc = head(out, name, "histogram",
                  "Time from a request's head to the end of its response, watches and tunnels "
                  "left out.");
    for (unsigned i = 0; i < METRICS_BUCKETS && rc == 0; i++) {
        sum += m->duration[i];
        rc = buf_printf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name, buckets[i].le, sum);
    }
    sum += m->duration[METRICS_BUCKETS];
    return rc != 0 ? rc
                   : buf_printf(out,
                                "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.6f\n%s_count %" PRIu64
                                "\n",
                                name, sum, name, (double)m->duration_sum_us / 1e6, name, sum);
}

static int write_rules(const struct rules *r, struct buf *out)
{
    int rc = number(out, "cmesh_proxy_rules_generation", "gauge",
                    "Generation of the rules in force; 0 without rules.",
                    r == NULL ? 0 : rules_generation(r));
    rc = rc != 0 ? rc
                 : number(out, "cmesh_proxy_rules_limits", "gauge", "Limits in the rules in force.",
                          r == NULL ? 0 : rules_limit_count(r));
    if (rc == 0 && r != NULL) {
        rc = head(out, "cmesh_proxy_rules_info", "gauge", "The shard and checksum of the rules.");
        rc = rc != 0 ? rc
                     : buf_printf(out,
                                  "cmesh_proxy_rules_info{namespace=\"%s\",shard=\"%s\",checksum="
                                  "\"%s\"} 1\n",
                                  rules_shard_namespace(r), rules_shard_name(r), rules_checksum(r));
    }
    return rc;
}

static int write_process(struct buf *out)
{
    size_t rss = 0;
    uv_rusage_t usage;
    int rc = 0;
    if (uv_resident_set_memory(&rss) == 0) {
        rc = number(out, "process_resident_memory_bytes", "gauge", "Resident memory.", rss);
    }
    if (rc == 0 && uv_getrusage(&usage) == 0) {
        double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        rc = head(out, "process_cpu_seconds_total", "counter", "User and system CPU time.");
        rc = rc != 0 ? rc : buf_printf(out, "process_cpu_seconds_total %.6f\n", cpu);
    }
    return rc;
}

int metrics_write(const struct metrics *m, const struct metrics_sources *s, struct buf *out)
{
    const struct {
        const char *name;
        const char *type;
        const char *help;
        uint64_t value;
    } numbers[] = {
        {"cmesh_proxy_ready", "gauge", "1 when rules are in force and credentials usable.",
         s->ready},
        {"cmesh_proxy_limited_requests_total", "counter",
         "Requests that the shard's selector was added to.", m->limited},
        {"cmesh_proxy_rejected_requests_total", "counter",
         "Requests answered by localproxy itself with an error.", m->rejected},
        {"cmesh_proxy_upstream_errors_total", "counter",
         "Requests that failed because the API server could not be reached or broke off.",
         m->upstream_errors},
        {"cmesh_proxy_response_bytes_total", "counter", "Bytes of response bodies passed on.",
         m->response_bytes},
        {"cmesh_proxy_open_watches", "gauge", "Watches open now.", m->open_watches},
        {"cmesh_proxy_open_tunnels", "gauge", "Upgraded connections open now (exec, port-forward).",
         m->tunnels},
        {"cmesh_proxy_client_connections_total", "counter", "Connections accepted.",
         s->server->accepted},
        {"cmesh_proxy_client_connections", "gauge", "Connections of the operator now.",
         s->server->open},
        {"cmesh_proxy_requests_in_flight", "gauge", "Requests being served now.", s->server->busy},
        {"cmesh_proxy_refused_requests_total", "counter",
         "Requests and connections refused before they were understood.", s->server->refused},
        {"cmesh_proxy_upstream_requests_total", "counter", "Requests sent to the API server.",
         s->client->requests},
        {"cmesh_proxy_upstream_dials_total", "counter", "Connections to the API server tried.",
         s->client->dialled},
        {"cmesh_proxy_upstream_dial_failures_total", "counter",
         "Connections to the API server that could not be established.", s->client->failed},
        {"cmesh_proxy_upstream_tls_resumed_total", "counter",
         "TLS sessions that were resumed instead of negotiated anew.", s->client->resumed},
        {"cmesh_proxy_upstream_repeated_total", "counter",
         "Requests sent again because a kept connection turned out to be closed.",
         s->client->repeated},
        {"cmesh_proxy_upstream_connections", "gauge", "Connections to the API server now.",
         s->client->open},
        {"cmesh_proxy_upstream_connections_idle", "gauge", "Of them unused.", s->client->idle},
    };
    int rc = write_codes(m, out);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && rc == 0; i++) {
        rc = number(out, numbers[i].name, numbers[i].type, numbers[i].help, numbers[i].value);
    }
    rc = rc != 0 ? rc : write_durations(m, out);
    rc = rc != 0 ? rc : write_rules(s->rules, out);
    return rc != 0 ? rc : write_process(out);
}
