/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "control/state.h"

void control_state_set_traffic(struct control_state *s, const struct traffic *t, int64_t since,
                               const char *reason)
{
    if (t == NULL) {
        control_state_set(s, NULL, 0,
                          reason != NULL && reason[0] != '\0' ? reason
                                                              : "there are no traffic policies");
        return;
    }
    memset(s, 0, sizeof *s);
    s->enforcing = true;
    (void)snprintf(s->shard_namespace, sizeof s->shard_namespace, "%s", traffic_shard_namespace(t));
    (void)snprintf(s->shard_name, sizeof s->shard_name, "%s", traffic_shard_name(t));
    (void)snprintf(s->checksum, sizeof s->checksum, "%s", traffic_checksum(t));
    s->generation = traffic_generation(t);
    s->since = since;
}
