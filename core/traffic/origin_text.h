/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin_text.h - how rules of a traffic document name servers other than the API server: hosts,
 * URLs and methods.
 *
 * Each function returns NULL for a good text, else what is wrong with it, as a static string.
 */
#ifndef CORE_TRAFFIC_ORIGIN_TEXT_H
#define CORE_TRAFFIC_ORIGIN_TEXT_H

#include <stdbool.h>

#include "base/slice.h"
#include "base/url.h"
#include "traffic/plain_path.h"

#define ORIGIN_METHOD_MAX 32 /* characters of a method */

struct origin_host {
    char host[URL_HOST_MAX + 1]; /* in lower case, without a dot at the end; IPv6 as inet_ntop(3)
                                    writes it, without brackets, and what carries an IPv4 address
                                    as that (net_address_carried) */
    unsigned port;               /* 0: none is named */
};

/* `host`, `host:port`, `[IPv6]`, `[IPv6]:port`, or an IPv6 address alone. */
const char *origin_host_read(struct slice text, struct origin_host *out);

struct origin_url {
    bool https;
    bool below_host;        /* the host was written behind a star and a dot: any below it */
    struct origin_host at;  /* the port is never 0 */
    bool below_path;        /* all below the path, which ends with "/"; without a path all */
    struct plain_path path; /* whole */
    bool has_query;
    struct slice query; /* behind "?", a view into the text */
};

/* `http[s]://host[:port][/path][?query]`; the host may begin with a star and a dot, the path end
 * with a slash and a star. */
const char *origin_url_read(struct slice text, struct origin_url *out);

/* A method in upper case, or a star for any. */
const char *origin_method_check(struct slice text);

#endif
