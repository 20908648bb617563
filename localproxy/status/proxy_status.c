/* SPDX-License-Identifier: Apache-2.0 */
#include "status/proxy_status.h"

void proxy_status_rules(const struct proxy *p, struct control_proxy_status *out)
{
    const struct rules *r = proxy_rules(p);
    *out = (struct control_proxy_status){.settled = r != NULL && proxy_settled(p)};
    control_state_set(&out->rules, r, proxy_facts(p).rules_since, NULL);
}

void proxy_status_lease(const struct proxy *p, struct control_rules_lease *out)
{
    const struct rules_lease *lease = proxy_facts(p).lease;
    *out = (struct control_rules_lease){.seconds = 0};
    if (lease != NULL) {
        uint64_t left = rules_lease_remaining_ms(lease);
        out->seconds = rules_lease_seconds(lease);
        out->expired = left == 0;
        out->remaining_s = left / 1000;
    }
}

void proxy_status_use(const struct proxy *p, struct bypass_watch *bypass,
                      struct control_proxy_use *out)
{
    const struct proxy_clients *c = proxy_facts(p).clients;
    *out = (struct control_proxy_use){
        .clients_known = true,
        .requests = c->requests,
        .first = c->first,
        .last = c->last,
    };
    if (bypass != NULL) {
        struct bypass_answer a = bypass_watch_ask(bypass);
        out->bypass_known = a.known;
        out->bypass_connections = a.connections;
        out->bypass_error = a.error;
    }
}

void proxy_status_load(const struct proxy *p, cJSON *root)
{
    if (proxy_facts(p).load != NULL) {
        struct control_load counts = bucket_load_counts(proxy_facts(p).load);
        control_load_add(root, &counts);
    }
}
