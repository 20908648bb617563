/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/admission.h"

#include "guard/host.h"
#include "guard/origin.h"

static bool refuse(struct admission_refusal *out, unsigned code, const char *why)
{
    *out = (struct admission_refusal){code, why};
    return false;
}

static bool admit_token(const struct http_head *head, const struct token *token,
                        struct admission_refusal *out)
{
    enum token_verdict verdict = token->text.len > 0 ? token_look(head, token) : TOKEN_RIGHT;
    switch (verdict) {
    case TOKEN_WRONG:
        return refuse(
            out, 401,
            "the token is missing or wrong: use the kubeconfig that kubeconfig-gen writes, with "
            "the same --token-file as localproxy's, or none if it has none");
    case TOKEN_OF_ANOTHER:
        return refuse(
            out, 401,
            "the token is for another cluster than the one that localproxy talks to: start "
            "localproxy with the --context that it was written for, or write it anew with "
            "kubeconfig-gen");
    case TOKEN_RIGHT:
        break;
    }
    return true;
}

/* What whoever has no token must show besides. With TLS a page of another name does not get through
 * the browser's look at the certificate. */
static bool admit_without_token(const struct http_head *head, bool is_tls,
                                const struct localproxy_flags *flags, struct admission_refusal *out)
{
    if (!is_tls && !host_is_accepted(head, &flags->accept_hosts)) {
        return refuse(
            out, 403,
            "the name in Host is neither localhost nor an IP address: a web page may have sent "
            "this request; --accept-host=NAME takes the name, a token (--token-file) any");
    }
    if (origin_is_untold_page(head, &flags->accept_origins)) {
        return refuse(
            out, 415,
            "the request has a body and no Content-Type, and comes from a browser or does not say "
            "from what: a web page may have sent it; say \"Content-Type: application/json\", or "
            "what it is");
    }
    return true;
}

bool admission_look(const struct http_head *head, bool is_tls, const struct token *token,
                    const struct localproxy_flags *flags, struct admission_refusal *out)
{
    if (!admit_token(head, token, out)) {
        return false;
    }
    if (!origin_is_accepted(head, &flags->accept_origins)) {
        return refuse(out, 403,
                      "Origin or Sec-Fetch-Site says that a web page has sent this request; "
                      "--accept-origin=ORIGIN lets the pages of that origin use localproxy");
    }
    return token->text.len > 0 || admit_without_token(head, is_tls, flags, out);
}
