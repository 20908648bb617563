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

#define TRAFFIC_RESOURCES(resource, verb)                                                          \
    "\"resources\":[{\"apiGroups\":[\"\"],\"resources\":[\"" resource "\"],\"verbs\":[\"" verb     \
    "\"],\"namespaces\":[\"*\"]}]"
#define TRAFFIC_EVERYTHING                                                                         \
    "\"resources\":[{\"apiGroups\":[\"*\"],\"resources\":[\"*\"],\"verbs\":[\"*\"],"               \
    "\"namespaces\":[\"*\"]}]"

/* A breaker of policy `name` with rules; a rule, of what is behind its resources. */
#define TRAFFIC_BREAKER(name, rules)                                                               \
    "{\"name\":\"" name "\",\"uid\":\"uid-" name "\",\"pods\":\"\",\"limitings\":[" rules "]}"
#define TRAFFIC_LIMITING(name, resources, rest) "{\"name\":\"" name "\"," resources "," rest "}"
#define TRAFFIC_BUCKET(burst, limit, ms)                                                           \
    "\"bucket\":{\"burst\":" #burst ",\"limit\":" #limit ",\"intervalMs\":" #ms "}"
#define TRAFFIC_LIMITER(burst, limit, ms)                                                          \
    "\"trigger\":\"LimiterOnly\"," TRAFFIC_BUCKET(burst, limit, ms)
#define TRAFFIC_WINDOW(ms) "\"recover\":{\"type\":\"SleepingWindow\",\"windowMs\":" #ms "}"
#define TRAFFIC_MANUALLY "\"recover\":{\"type\":\"Manual\"}"
#define TRAFFIC_NORMALLY(burst, limit, ms, recover)                                                \
    "\"trigger\":\"Normal\"," TRAFFIC_BUCKET(burst, limit, ms) "," recover

/* A fault injection likewise. */
#define TRAFFIC_FAULTS(name, rules)                                                                \
    "{\"name\":\"" name "\",\"uid\":\"uid-" name "\",\"pods\":\"\",\"rules\":[" rules "]}"
#define TRAFFIC_DELAY(ms, part) "\"delay\":{\"ms\":" #ms ",\"ppm\":" #part "}"
#define TRAFFIC_ABORT(code, part) "\"abort\":{\"status\":" #code ",\"ppm\":" #part "}"

#define TRAFFIC_SPEC(breakers, faults) "{\"breakers\":[" breakers "],\"faults\":[" faults "]}"

#endif
