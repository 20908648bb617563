/* SPDX-License-Identifier: Apache-2.0 */
/*
 * servers.h - the addresses of the API server, as flags or the pod's variables tell them.
 */
#ifndef NAT_INIT_SERVERS_H
#define NAT_INIT_SERVERS_H

#include "base/flags.h"
#include "ruleset.h"

/* Adds what the texts HOST:PORT stand for; without any, $KUBERNETES_SERVICE_HOST with
 * $KUBERNETES_SERVICE_PORT. Names are looked up, which blocks. 0, or negative with `e` set. */
MUST_CHECK int servers_find(const struct flag_list *texts, struct ruleset *out, struct err *e);

#endif
