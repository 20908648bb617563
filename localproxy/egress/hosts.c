/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/hosts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prometheus.h"
#include "base/url.h"

/* No host has parentheses. */
#define OTHERS "(other)"

struct host {
    struct table_node node;
    uint64_t counts[HOST_RESULTS];
    char name[];
};

void hosts_init(struct hosts *all)
{
    *all = (struct hosts){.others = {0}};
}

void hosts_deinit(struct hosts *all)
{
    struct table_node *n = table_next(&all->by_name, NULL);
    while (n != NULL) {
        struct host *h = LIST_ITEM(n, struct host, node);
        n = table_next(&all->by_name, n);
        table_remove(&all->by_name, &h->node);
        free(h);
    }
    table_deinit(&all->by_name);
}

void hosts_count(struct hosts *all, struct slice host, enum host_result result)
{
    struct host *h = NULL;
    if (host.len > 0 && host.len <= URL_HOST_MAX && memchr(host.ptr, '\0', host.len) == NULL) {
        bool full = result == HOST_REFUSED || all->by_name.count >= HOSTS_MAX;
        h = full ? TABLE_FIND(&all->by_name, host, struct host)
                 : TABLE_PROVIDE(&all->by_name, host, struct host, name);
    }
    uint64_t *counts = h != NULL ? h->counts : all->others;
    counts[result]++;
}

/* As the format has label values; what is no printable ASCII is in no host. */
static void write_label(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            buf_printf(out, "\\%c", c);
        } else {
            buf_printf(out, "%c", c >= 0x20 && c < 0x7f ? c : '?');
        }
    }
}

static void write_counts(struct buf *out, const char *host, const uint64_t counts[HOST_RESULTS])
{
    static const char *const names[] = {
        [HOST_ANSWERED] = "answered", [HOST_REFUSED] = "refused", [HOST_LIMITED] = "limited",
        [HOST_ABORTED] = "aborted",   [HOST_FAILED] = "failed",
    };
    for (unsigned i = 0; i < HOST_RESULTS; i++) {
        if (counts[i] == 0) {
            continue;
        }
        buf_printf(out, "cmesh_proxy_egress_requests_total{host=\"");
        write_label(out, host);
        buf_printf(out, "\",result=\"%s\"} %" PRIu64 "\n", names[i], counts[i]);
    }
}

int hosts_write_metrics(const struct hosts *all, struct buf *out)
{
    prometheus_head(out, "cmesh_proxy_egress_requests_total", "counter",
                    "Requests of the operator to other places than the API server, tunnels "
                    "included, by host and by what became of them.");
    for (struct table_node *n = table_next(&all->by_name, NULL); n != NULL;
         n = table_next(&all->by_name, n)) {
        const struct host *h = LIST_ITEM(n, struct host, node);
        write_counts(out, h->name, h->counts);
    }
    write_counts(out, OTHERS, all->others);
    return buf_error(out);
}
