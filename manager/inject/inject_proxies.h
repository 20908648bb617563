/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_proxies.h - the variables by which a container is told of a proxy, in both spellings.
 */
#ifndef MANAGER_INJECT_INJECT_PROXIES_H
#define MANAGER_INJECT_INJECT_PROXIES_H

#include <stdbool.h>

#include <cjson/cJSON.h>

enum { PROXIES_HTTP, PROXIES_HTTPS, PROXIES_ALL, PROXIES_EXCEPT, PROXIES_KINDS };
/* In upper and in lower case. */
enum { PROXIES_SPELLINGS = 2 };

/* "HTTP_PROXY", "http_proxy", and so on; PROXIES_EXCEPT is "NO_PROXY". */
extern const char *const inject_proxies_names[PROXIES_KINDS][PROXIES_SPELLINGS];

/* Of several variables with a name the last one, which counts; NULL: there is none. */
struct inject_proxies {
    cJSON *variables[PROXIES_KINDS][PROXIES_SPELLINGS];
};

void inject_proxies_find(struct inject_proxies *p, const cJSON *container);

/* Whether it is there and not empty. */
bool inject_proxies_says(const cJSON *variable);
/* Whether one of that kind says something. */
bool inject_proxies_has(const struct inject_proxies *p, int kind);

/* Whether it may have variables of such names by envFrom, which only the kubelet sees. */
bool inject_proxies_may_be_told(const cJSON *container);

/* Whether it names localproxy, "http://127.0.0.1:15002" mostly: also by the name localhost, without
 * the scheme, or with a slash at the end. */
bool inject_proxies_is_ours(const cJSON *variable, const char *ours);

/* Which proxies a container is told of. */
enum inject_proxies_whose {
    PROXIES_NONE,
    PROXIES_OURS,    /* `ours` alone */
    PROXIES_OTHER,   /* another one */
    PROXIES_UNKNOWN, /* envFrom may tell it of one, and nothing says `ours` */
};
enum inject_proxies_whose inject_proxies_whose(const struct inject_proxies *p,
                                               const cJSON *container, const char *ours);

#endif
