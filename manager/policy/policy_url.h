/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_url.h - a URL of a CircuitBreaker's restRules, as people write it.
 */
#ifndef MANAGER_POLICY_POLICY_URL_H
#define MANAGER_POLICY_POLICY_URL_H

#include <stdbool.h>

struct policy_url {
    bool whole_host; /* it is for all that one may ask of a host: without path, or with the path "/"
                        and a star, and without query */
    bool tunnelled;  /* a tunnel to its port may carry its scheme (traffic/external.h) */
    bool odd_star;   /* the path has a star that is none of the end: it stands for itself */
};

/* What is wrong with it, as "must be ..."; NULL: nothing, and *out says what it is. The proxies
 * take what this takes (traffic/origin_text.h). */
const char *policy_url_read(const char *text, struct policy_url *out);

#endif
