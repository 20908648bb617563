/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission.h - whether the API server may hear of a request at all: it has the token, if one is
 * asked for, and does not come from a web page.
 */
#ifndef LOCALPROXY_GUARD_ADMISSION_H
#define LOCALPROXY_GUARD_ADMISSION_H

#include <stdbool.h>

#include "flags.h"
#include "guard/token.h"
#include "http/message.h"

struct admission_refusal {
    unsigned code;
    const char *why;
};

/* `is_tls`: it came over TLS. False: *out says with what it is refused. */
bool admission_look(const struct http_head *head, bool is_tls, const struct token *token,
                    const struct localproxy_flags *flags, struct admission_refusal *out);

#endif
