/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caller.h - whether the API server may hear of a request at all: it has the token, if one is
 * asked for, and does not come from a web page.
 */
#ifndef LOCALPROXY_GUARD_CALLER_H
#define LOCALPROXY_GUARD_CALLER_H

#include <stdbool.h>

#include "base/flags.h"
#include "guard/token.h"
#include "http/message.h"

struct caller_demands {
    struct token token;
    const struct flag_list *hosts;   /* that are accepted beside those of guard/host.h */
    const struct flag_list *origins; /* and beside those of guard/web_page.h */
};

struct caller_refusal {
    unsigned code;
    const char *why;
};

/* `is_tls`: it came over TLS. False: *out says with what it is refused. */
bool caller_check(const struct caller_demands *a, const struct http_head *head, bool is_tls,
                  struct caller_refusal *out);

#endif
