/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_request.h - what traffic policies look at of a request.
 */
#ifndef LOCALPROXY_TRAFFIC_TRAFFIC_REQUEST_H
#define LOCALPROXY_TRAFFIC_TRAFFIC_REQUEST_H

#include "kube/request_info.h"
#include "traffic/match.h"

/* Of a resource request; `is_lock`: it is to the operator's leader election lock. Views into `ri`.
 *
 * An operator that must not renew its lock is no leader any more, and a webhook that cannot ask who
 * somebody is refuses everybody: such requests meet only rules that name them. */
void traffic_request_of(const struct request_info *ri, bool is_lock, struct traffic_request *out);

#endif
