/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access/credential_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "json/json.h"

enum { TOKEN_MAX = 64 * 1024, SOON_S = 7 * 24 * 3600, PART_OF_LIFE = 10 };

/* ---- tokens ---- */

/* The part between the dots, as base64 has it. 0, or a code. */
static int decode_claims(struct slice token, struct buf *out)
{
    struct buf text = BUF_INIT(TOKEN_MAX);
    const char *end = token.ptr + token.len;
    const char *first = memchr(token.ptr, '.', token.len);
    const char *second = first == NULL ? NULL : memchr(first + 1, '.', (size_t)(end - first - 1));
    if (second == NULL) {
        return -EINVAL;
    }
    text.secret = true;
    for (const char *p = first + 1; p < second; p++) {
        buf_append_char(&text, *p == '-' ? '+' : *p == '_' ? '/' : *p);
    }
    while (buf_error(&text) == 0 && text.len % 4 != 0) {
        buf_append_char(&text, '=');
    }
    int rc = buf_error(&text);
    if (rc == 0) {
        rc = base64_decode(buf_slice(&text), out);
    }
    buf_reset(&text);
    return rc;
}

static int64_t time_of(const cJSON *claims, const char *key)
{
    const double beyond = 253402300800; /* the year 10000 */
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(claims, key);
    bool sane = cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < beyond;
    return sane ? (int64_t)item->valuedouble : 0;
}

struct validity validity_of_token(struct slice token)
{
    struct validity v = {0, 0};
    struct buf text = BUF_INIT(TOKEN_MAX);
    text.secret = true;
    if (token.len > 0 && token.len <= TOKEN_MAX && decode_claims(token, &text) == 0) {
        cJSON *claims = json_parse((const char *)buf_data(&text), text.len, NULL);
        int64_t issued = time_of(claims, "iat");
        v.from = issued != 0 ? issued : time_of(claims, "nbf");
        v.until = time_of(claims, "exp");
        secret_json_delete(claims);
    }
    buf_reset(&text);
    return v.until != 0 ? v : (struct validity){0, 0};
}

/* ---- certificates ---- */

struct validity validity_of_certificate(struct slice pem)
{
    struct validity v = {0, 0};
    struct err e = ERR_INIT;
    struct certificate *c = pem.len > 0 ? certificate_read(pem, NULL, &e) : NULL;
    if (c != NULL) {
        v = (struct validity){certificate_not_before(c), certificate_not_after(c)};
        certificate_free(c);
    }
    return v;
}

bool validity_ends_soon(const struct validity *v, int64_t now)
{
    int64_t part = (v->until - v->from) / PART_OF_LIFE;
    int64_t soon = part > 0 && part < SOON_S ? part : SOON_S;
    return v->until != 0 && v->until - now < soon;
}

/* ---- whose they are ---- */

/* ` of user "blue" in /etc/kubeconfig`. */
static void name_user(const struct kube_access *a, char *out, size_t size)
{
    const char *in = a->file != NULL && a->file[0] != '\0' ? " in " : "";
    (void)snprintf(out, size, " of user \"%.100s\"%s%.160s", a->user != NULL ? a->user : "", in,
                   a->file != NULL ? a->file : "");
}

static bool is_in_cluster(const struct kube_access *a)
{
    return a->context == NULL || a->context[0] == '\0';
}

static void describe_token_file(const struct kube_access *a, struct credential_text *out)
{
    (void)snprintf(out->subject, sizeof out->subject, "the token in the file %.250s",
                   a->token_file);
    (void)snprintf(
        out->remedy, sizeof out->remedy, "%s",
        is_in_cluster(a)
            ? "delete the pod, so that it gets a new token: the API server refuses those "
              "of a service account or pod that was deleted, also if it was created anew"
            : "write a valid token of this cluster into that file; it is read again by "
              "itself");
}

static void describe_header(const struct kube_access *a, struct credential_text *out)
{
    char user[300];
    name_user(a, user, sizeof user);
    if (a->exec != NULL) {
        (void)snprintf(out->subject, sizeof out->subject,
                       "the credential%.190s of the plugin %.80s", user, a->exec->command);
        (void)snprintf(out->remedy, sizeof out->remedy,
                       "run %.80s by hand and log in with it as its documentation says; it is run "
                       "again by itself",
                       a->exec->command);
        return;
    }
    const char *what = a->username != NULL || a->password != NULL ? "password" : "token";
    (void)snprintf(out->subject, sizeof out->subject, "the %s%s", what, user);
    (void)snprintf(out->remedy, sizeof out->remedy,
                   "write a valid %s of this cluster into the kubeconfig and restart this program",
                   what);
}

static void describe_certificate(const struct kube_access *a, struct credential_text *out)
{
    bool by_plugin = a->cert.name == NULL;
    bool in_file = a->cert.path != NULL && a->key.path != NULL;
    (void)snprintf(out->subject, sizeof out->subject, "the client certificate %.250s",
                   by_plugin ? "of the credential plugin" : a->cert.name);
    (void)snprintf(out->remedy, sizeof out->remedy, "%s",
                   in_file
                       ? "renew the certificate with an authority that this cluster trusts; its "
                         "files are read again by themselves"
                       : "renew the certificate with an authority that this cluster trusts, and "
                         "restart this program");
}

static void describe_nothing(const struct kube_access *a, struct credential_text *out)
{
    char user[300];
    out->none = true;
    name_user(a, user, sizeof user);
    (void)snprintf(out->subject, sizeof out->subject, "no credentials: none%s", user);
    (void)snprintf(out->remedy, sizeof out->remedy,
                   "give the user a token, a client certificate or a plugin, and restart this "
                   "program");
}

void credential_text(const struct kube_access *a, const char *authorization, struct slice cert,
                     struct credential_text *out)
{
    const char *bearer = "Bearer ";
    *out = (struct credential_text){.subject = ""};
    bool header = authorization != NULL && authorization[0] != '\0';
    if (!header && cert.len > 0) {
        describe_certificate(a, out);
        out->valid = validity_of_certificate(cert);
        return;
    }
    if (!header && a->exec == NULL) {
        describe_nothing(a, out);
        return;
    }
    if (a->token_file != NULL) {
        describe_token_file(a, out);
    } else {
        describe_header(a, out);
    }
    if (header && strncmp(authorization, bearer, strlen(bearer)) == 0) {
        out->valid = validity_of_token(slice_str(authorization + strlen(bearer)));
    }
}
