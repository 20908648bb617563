/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_agent.h - the name by which clients show up at the API server: in its audit log, in metrics
 * of requests, and where priority and fairness tells them apart by who looks.
 *
 * A text that ends in `/` stands before the client's own name, any other one in place of it.
 */
#ifndef CORE_KUBE_USER_AGENT_H
#define CORE_KUBE_USER_AGENT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define USER_AGENT_MAX 256 /* bytes of such a text */

/* NULL for a text that can be the value of the header (RFC 9110, section 5.5, ASCII alone), else
 * what is wrong with it, as a static string. */
const char *user_agent_check(struct slice text);

/* Appends what a client that calls itself `own` (empty: nothing) is called by that text: "a/b/1"
 * for "a/" and "b/1", and "a" for "a/" where there is no own name, or none of use: too long for
 * `out`. 0, -ENOBUFS (text alone is) or -ENOMEM. */
MUST_CHECK int user_agent_write(struct slice text, struct slice own, struct buf *out);

#endif
