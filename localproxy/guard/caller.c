/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/caller.h"

#include "guard/host.h"
#include "guard/web_page.h"

static bool refuse(struct caller_refusal *out, unsigned code, const char *why)
{
    *out = (struct caller_refusal){code, why};
    return false;
}

static bool admit_token(const struct http_head *head, const struct token *token,
                        struct caller_refusal *out)
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
static bool admit_without_token(const struct caller_demands *a, const struct http_head *head,
                                bool is_tls, struct caller_refusal *out)
{
    if (!is_tls && !host_is_accepted(head, a->hosts)) {
        return refuse(
            out, 403,
            "the name in Host is neither localhost nor an IP address: a web page may have sent "
            "this request; --accept-host=NAME takes the name, a token (--token-file) any");
    }
    if (web_page_is_untold(head, a->origins)) {
        return refuse(
            out, 415,
            "the request has a body and no Content-Type, and comes from a browser or does not say "
            "from what: a web page may have sent it; say \"Content-Type: application/json\", or "
            "what it is");
    }
    return true;
}

bool caller_check(const struct caller_demands *a, const struct http_head *head, bool is_tls,
                  struct caller_refusal *out)
{
    if (!admit_token(head, &a->token, out)) {
        return false;
    }
    if (!web_page_is_accepted(head, a->origins)) {
        return refuse(out, 403,
                      "Origin or Sec-Fetch-Site says that a web page has sent this request; "
                      "--accept-origin=ORIGIN lets the pages of that origin use localproxy");
    }
    return a->token.text.len > 0 || admit_without_token(a, head, is_tls, out);
}
