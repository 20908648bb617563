/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prometheus.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

int prometheus_head(struct buf *out, const char *name, const char *type, const char *help)
{
    return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

int prometheus_write(struct buf *out, const struct prometheus_metric *metrics, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct prometheus_metric *m = &metrics[i];
        prometheus_head(out, m->name, m->type, m->help);
        buf_printf(out, "%s %" PRIu64 "\n", m->name, m->value);
    }
    return buf_error(out);
}

int prometheus_seconds(struct buf *out, const char *name, const char *type, const char *help,
                       double value)
{
    prometheus_head(out, name, type, help);
    return buf_printf(out, "%s %.6f\n", name, value);
}

void prometheus_observe(struct prometheus_histogram *h, const struct prometheus_bounds *b,
                        uint64_t value)
{
    size_t i = 0;
    while (i < b->count && value > b->upper[i]) {
        i++;
    }
    h->counts[i]++;
    h->sum += value;
}

int prometheus_histogram(struct buf *out, const char *name, const char *label,
                         const struct prometheus_histogram *h, const struct prometheus_bounds *b)
{
    const char *before_le = label == NULL ? "" : ",";
    const double unit = (double)b->per_second;
    uint64_t count = 0;
    char labels[128] = "";
    if (label == NULL) {
        label = "";
    } else {
        (void)snprintf(labels, sizeof labels, "{%s}", label);
    }
    for (size_t i = 0; i < b->count; i++) {
        count += h->counts[i];
        buf_printf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, label, before_le,
                   (double)b->upper[i] / unit, count);
    }
    count += h->counts[b->count];
    buf_printf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, before_le, count);
    buf_printf(out, "%s_sum%s %.*f\n", name, labels, b->per_second == 1000 ? 3 : 6,
               (double)h->sum / unit);
    return buf_printf(out, "%s_count%s %" PRIu64 "\n", name, labels, count);
}

/* proc(5): the second number of statm is the resident pages. */
static bool resident_bytes(uint64_t *out)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL) {
        return false;
    }
    bool ok = fscanf(f, "%*s %lu", &pages) == 1;
    (void)fclose(f);
    *out = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return ok;
}

int prometheus_process(struct buf *out)
{
    uint64_t resident = 0;
    struct rusage usage;
    if (resident_bytes(&resident)) {
        const struct prometheus_metric memory = {"process_resident_memory_bytes", "gauge",
                                                 "Resident memory size in bytes.", resident};
        prometheus_write(out, &memory, 1);
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        prometheus_seconds(out, "process_cpu_seconds_total", "counter",
                           "Total user and system CPU time spent in seconds.", cpu);
    }
    return buf_error(out);
}
