/* SPDX-License-Identifier: Apache-2.0 */
/*
 * external.h - which rules of a traffic document a request to another place than the API server
 * meets: whether it is allowed at all, and which limitings and faults it meets.
 *
 * Nothing here allocates. Regular expressions have bounds of steps and memory (pattern.h), and one
 * budget of steps for all in each function below; where one is reached the request is refused, or,
 * of a fault, not met.
 *
 * Hosts are compared without regard to case and without a dot at their end, by expressions too.
 * Paths are compared in the form of plain_path.h, those of rules and those of requests, so that
 * "/a/../b", "//b" and "/%62" are "/b"; queries as they are written. Methods are compared without
 * regard to case but where a Whitelist rule allows one.
 *
 * In a tunnel nobody sees paths, methods and headers, nor whether it is TLS. What is allowed must
 * be allowed for all that a tunnel may carry, and what is forbidden for any of it: see each
 * function.
 */
#ifndef CORE_TRAFFIC_EXTERNAL_H
#define CORE_TRAFFIC_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "http/message.h"
#include "traffic/match.h"
#include "traffic/traffic.h"

/* Room for the longest host with its port, "[...]:65535". */
#define TRAFFIC_HOST_MAX 263

struct traffic_external {
    bool tunnel;         /* CONNECT */
    bool https;          /* not of tunnels */
    struct slice host;   /* in lower case, without a dot at the end; IPv6 without brackets. "": it
                            is not known, and forbidden if there is any intercept */
    unsigned port;       /* 1 to 65535 */
    struct slice path;   /* from "/" up to the query, as written; "": "/"; of tunnels "" */
    struct slice query;  /* behind "?"; "": none */
    struct slice method; /* of tunnels "CONNECT" */
    const struct http_header *headers; /* of tunnels none */
    size_t header_count;
};

/* How often an expression of the document was exhausted since it was parsed. */
uint64_t traffic_patterns_exhausted(const struct traffic *t);

enum traffic_verdict {
    TRAFFIC_ALLOWED,           /* no rule forbids it */
    TRAFFIC_ALLOWED_BY_RULE,   /* a Whitelist rule names it */
    TRAFFIC_FORBIDDEN,         /* a Blacklist rule names it */
    TRAFFIC_NOT_LISTED,        /* there are Whitelist rules, and none names it */
    TRAFFIC_METHOD_NOT_LISTED, /* the same, and one names the host, but not for the method */
    TRAFFIC_PATTERN_EXHAUSTED  /* an expression took too long: forbidden */
};

struct traffic_judgement {
    enum traffic_verdict verdict;
    const struct traffic_intercept *by; /* the first rule that decides, or was asked last; of
                                           TRAFFIC_NOT_LISTED the first Whitelist; NULL: none */
};

/* All rules are asked, and the answer does not depend on their order: one Blacklist rule that names
 * the request forbids it; else one Whitelist rule that names it allows it; else it is forbidden if
 * there is any Whitelist rule.
 *
 * A rule names it by the host as written, "host" where the port is the scheme's own and "host:port"
 * always (IPv6 in brackets): Normal contents are equal to one of these without regard to case,
 * Regexp contents match somewhere in one of them. An IPv4 address that is written in IPv6 is named
 * as the former (net_address_carried), and matches as either. And by the method, where `*` is any.
 * The port of a tunnel is a scheme's own if it is 80 or 443. Of a tunnel a Blacklist rule is met
 * whatever its methods are, and a Whitelist rule only with `*` or `CONNECT`. */
struct traffic_judgement traffic_judge(const struct traffic *t, const struct traffic_active *a,
                                       const struct traffic_external *r);

/* Whether a Whitelist rule names this address, written as a host ("127.0.0.1", "::1"), with that
 * port, whatever its methods, and no Blacklist rule does: what is never reached otherwise may be
 * then. */
bool traffic_names_address(const struct traffic *t, const struct traffic_active *a,
                           struct slice address, unsigned port);

/* Limitings by their urls: the most specific one decides, for all limitings that have it. First
 * those equal to the whole URL, with its query and then without; then those that end with "/" and a
 * star, which are for all below that "/", by the longest path; with each a method by name before
 * `*`. A URL without a path is as if it ended with "/" and a star. A host "*.example.com" is any
 * host below example.com, at any depth, and less specific than the host itself, whatever its path;
 * so is one with fewer labels than another. The scheme's own port is left out.
 *
 * A tunnel meets those that hold for all that it may carry: without path, or with the path "/" and
 * a star, and with the method `*` or `CONNECT`; of https:// where its port is not 80, of http://
 * where it is not 443, and of both where it is neither. */
void traffic_find_url_limitings(const struct traffic *t, const struct traffic_active *a,
                                const struct traffic_external *r, struct traffic_found *out);

/* Faults by their http matches: all that are met. Host, path, method and headers must all match,
 * those which the match names; host as with traffic_judge. An expression for a path is searched in
 * its plain form, and does not match one of more than PLAIN_PATH_MAX bytes. Of a header one line of
 * the request has its name, and its value, if one is named, to the letter. A tunnel meets those
 * that name neither path nor headers, with the method `*` or `CONNECT` or none. */
void traffic_find_http_faults(const struct traffic *t, const struct traffic_active *a,
                              const struct traffic_external *r, struct traffic_found *out);

#endif
