/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic_document.h - traffic documents of shard ns/shard, from their spec.
 */
#ifndef TEST_SUPPORT_TRAFFIC_DOCUMENT_H
#define TEST_SUPPORT_TRAFFIC_DOCUMENT_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "traffic/traffic.h"

/* The text; the caller frees. */
static inline char *traffic_document_text(unsigned generation, const char *spec)
{
    char *text = NULL;
    if (asprintf(&text,
                 "{\"apiVersion\":\"cmesh/v1\",\"kind\":\"ShardTraffic\",\"shard\":{\"namespace\":"
                 "\"ns\",\"name\":\"shard\"},\"generation\":%u,\"spec\":%s}",
                 generation, spec) < 0) {
        abort();
    }
    return text;
}

static inline struct traffic *traffic_document(unsigned generation, const char *spec)
{
    struct err e = ERR_INIT;
    char *text = traffic_document_text(generation, spec);
    struct traffic *t = traffic_parse(text, strlen(text), &e);
    free(text);
    if (t == NULL) {
        (void)fprintf(stderr, "%s: %s\n", spec, e.msg);
        abort();
    }
    return t;
}

#define TRAFFIC_ROW(resource, verb)                                                                \
    "{\"apiGroups\":[\"\"],\"resources\":[\"" resource "\"],\"verbs\":[\"" verb                    \
    "\"],\"namespaces\":[\"*\"]}"
#define TRAFFIC_RESOURCES(resource, verb) "\"resourceRules\":[" TRAFFIC_ROW(resource, verb) "]"
#define TRAFFIC_EVERYTHING                                                                         \
    "\"resourceRules\":[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"verbs\":[\"*\"],"           \
    "\"namespaces\":[\"*\"]}]"

/* A breaker of policy `name` with rules; a rule, of what is behind its resources. */
#define TRAFFIC_BREAKER(name, rules)                                                               \
    "{\"name\":\"" name "\",\"uid\":\"uid-" name                                                   \
    "\",\"spec\":{\"selector\":{},\"rateLimitings\":[" rules "]}}"
#define TRAFFIC_LIMITING(name, resources, rest) "{\"name\":\"" name "\"," resources "," rest "}"
#define TRAFFIC_BUCKET(burst, limit, ms)                                                           \
    "\"bucket\":{\"burst\":" #burst ",\"limit\":" #limit ",\"interval\":\"" #ms "ms\"}"
#define TRAFFIC_LIMITER(burst, limit, ms)                                                          \
    "\"triggerPolicy\":\"LimiterOnly\"," TRAFFIC_BUCKET(burst, limit, ms)
#define TRAFFIC_WINDOW(ms)                                                                         \
    "\"recoverPolicy\":{\"type\":\"SleepingWindow\",\"sleepingWindowSize\":\"" #ms "ms\"}"
#define TRAFFIC_MANUALLY "\"recoverPolicy\":{\"type\":\"Manual\"}"
#define TRAFFIC_NORMALLY(burst, limit, ms, recover)                                                \
    "\"triggerPolicy\":\"Normal\"," TRAFFIC_BUCKET(burst, limit, ms) "," recover

/* A fault injection likewise; `match` is what stands in that. */
#define TRAFFIC_FAULTS(name, rules)                                                                \
    "{\"name\":\"" name "\",\"uid\":\"uid-" name                                                   \
    "\",\"spec\":{\"selector\":{},\"httpFault\":[" rules "]}}"
#define TRAFFIC_FAULT(name, match, rest) "{\"name\":\"" name "\",\"match\":{" match "}," rest "}"
#define TRAFFIC_MATCH(resource, verb) "\"resources\":[" TRAFFIC_ROW(resource, verb) "]"
#define TRAFFIC_DELAY(ms, percent)                                                                 \
    "\"delay\":{\"fixedDelay\":\"" #ms "ms\",\"percent\":\"" #percent "\"}"
#define TRAFFIC_ABORT(code, percent)                                                               \
    "\"abort\":{\"httpStatus\":" #code ",\"percent\":\"" #percent "\"}"

#define TRAFFIC_SPEC(breakers, faults) "{\"breakers\":[" breakers "],\"faults\":[" faults "]}"

#endif
