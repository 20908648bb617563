/* SPDX-License-Identifier: Apache-2.0 */
#include "readiness/requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "readiness/grants.h"

static const char metric[] = "cmesh_proxy_resource_requests_total{";

enum { PART_SIZE = 320, RESOURCES_MAX = 1024 };

/* The value of a label; "" when it is not there. */
static void read_label(const char *line, const char *label, char out[PART_SIZE])
{
    char before[32];
    (void)snprintf(before, sizeof before, "%s=\"", label);
    const char *at = strstr(line, before);
    at = at == NULL ? "" : at + strlen(before);
    (void)snprintf(out, PART_SIZE, "%.*s", (int)strcspn(at, "\""), at);
}

/* NULL: there are too many, which no localproxy of ours counts. */
static struct resource_verbs *provide(struct requests_seen *s, const char *group,
                                      const char *plural)
{
    for (size_t i = 0; i < s->count; i++) {
        struct resource_verbs *one = &s->items[i];
        if (strcmp(one->group, group) == 0 && strcmp(one->plural, plural) == 0) {
            return one;
        }
    }
    if (s->count == RESOURCES_MAX) {
        return NULL;
    }
    s->items = xrealloc(s->items, (s->count + 1) * sizeof *s->items);
    s->items[s->count] = (struct resource_verbs){xstrdup(group), xstrdup(plural), 0};
    return &s->items[s->count++];
}

static void add_line(struct requests_seen *s, const char *line)
{
    char verb[PART_SIZE];
    char group[PART_SIZE];
    char resource[PART_SIZE];
    const char *value = strrchr(line, ' ');
    read_label(line, "verb", verb);
    read_label(line, "group", group);
    read_label(line, "resource", resource);
    s->total += value == NULL ? 0 : strtoull(value + 1, NULL, 10);
    resource[strcspn(resource, "/")] = '\0'; /* a subresource is the object's */
    struct resource_verbs *one = resource[0] == '\0' ? NULL : provide(s, group, resource);
    if (one != NULL) {
        one->verbs |= grants_verb(verb);
    }
}

void requests_seen_add(struct requests_seen *s, struct slice metrics)
{
    char *text = xstrndup(metrics.ptr, metrics.len);
    char *rest = text;
    char *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strncmp(line, metric, strlen(metric)) == 0) {
            add_line(s, line);
        }
    }
    s->pods++;
    free(text);
}

unsigned requests_seen_verbs(const struct requests_seen *s, const struct discovery_resource *r)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].group, r->group) == 0 &&
            strcmp(s->items[i].plural, r->plural) == 0) {
            return s->items[i].verbs;
        }
    }
    return 0;
}

void requests_seen_deinit(struct requests_seen *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].group);
        free(s->items[i].plural);
    }
    free(s->items);
    *s = (struct requests_seen){.items = NULL};
}
