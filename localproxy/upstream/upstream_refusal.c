/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream/upstream_refusal.h"

#include <stdio.h>
#include <string.h>

#include "codec/encoding.h"
#include "exchange/headers.h"

enum {
    RESOURCE_SIZE = 256,
    TARGET_SHORT = 1000,    /* nobody refuses it for its length */
    BAD_REQUEST_MIN = 4000, /* who says 400 rather than 414 takes this much */
    PART_MIN = 4,           /* the selector makes it long if it is such a part of it */
};

/* The text of a quoted-string (RFC 9110 section 5.6.4). */
static void quote(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text != '\0' && n + 3 < size; text++) {
        bool escaped = *text == '"' || *text == '\\';
        if (escaped) {
            out[n++] = '\\';
        }
        out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    }
    out[n] = '\0';
}

void upstream_refusal_warning(const struct kube_client *client,
                              char out[UPSTREAM_REFUSAL_WARNING_MAX])
{
    struct credential_text text;
    char subject[CREDENTIAL_SUBJECT_SIZE + 64];
    kube_client_describe(client, &text);
    quote(text.subject, subject, sizeof subject);
    (void)snprintf(
        out, UPSTREAM_REFUSAL_WARNING_MAX,
        "299 - \"cmesh: the API server refused what localproxy shows it, %s; the token of "
        "this client was right\"",
        subject);
}

/* kube-apiserver says 400 by a Status. What is in HTML comes from a load balancer or proxy, some of
 * which answer so to what is too long for them. */
static bool is_too_long(const struct http_head *answer, size_t target_len)
{
    struct slice type = headers_value(answer, SLICE("Content-Type"));
    return answer->status == 414 || answer->status == 431 ||
           (answer->status == 400 && target_len >= BAD_REQUEST_MIN &&
            encoding_of(type) == ENCODING_OTHER);
}

static void report(struct upstream *u, const struct request_attributes *a, size_t target_len,
                   unsigned status)
{
    enum { KB = 1000 };
    char resource[RESOURCE_SIZE];
    struct err e = ERR_INIT;
    (void)snprintf(resource, sizeof resource, "%.*s%s%.*s", (int)a->resource.len, a->resource.ptr,
                   a->group.len > 0 ? "." : "", (int)a->group.len, a->group.ptr);
    err_set(
        &e, 0,
        "%s, or something on the way there, answers %u to requests of %zu kB, which the shard's "
        "selector for %s makes so long",
        kube_client_server(u->client), status, (target_len + KB / 2) / KB, resource);
    const struct health_report r = {
        .cause = HEALTH_LENGTH,
        .subject = resource,
        .message = e.msg,
        .remedy =
            "let the load balancer take longer URLs (many take 8 kB), or make the selector "
            "shorter: NotIn with the namespaces of others, namespaceSelector with a label, or "
            "the sharding hash",
    };
    health_raise(kube_client_health(u->client), &r);
    u->refused_len =
        u->refused_len == 0 || target_len < u->refused_len ? target_len : u->refused_len;
}

void upstream_refusal_judge(struct upstream *u, const struct request_attributes *a,
                            size_t target_len, size_t added, const struct http_head *answer)
{
    bool by_selector = target_len >= TARGET_SHORT && added * PART_MIN >= target_len;
    if (by_selector && is_too_long(answer, target_len)) {
        report(u, a, target_len, answer->status);
    } else if (u->refused_len != 0 && target_len >= u->refused_len && answer->status < 300) {
        upstream_refusal_forget(u);
    }
}

void upstream_refusal_forget(struct upstream *u)
{
    if (u->refused_len != 0) {
        u->refused_len = 0;
        health_clear(kube_client_health(u->client), HEALTH_LENGTH, NULL);
    }
}
