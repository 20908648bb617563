/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - wiring: read the real kubeconfig, make the new one, or what takes its place in a pod,
 * write it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/secret.h"
#include "flags.h"
#include "generate.h"
#include "kube/access/access.h"
#include "kube/name.h"
#include "program/local_tls.h"
#include "program/local_token.h"
#include "service_account.h"

/* Over one of the files that were read: the real credentials would be gone. */
static int refuse_overwriting(const struct kubeconfig_gen_flags *c, const struct kubeconfig *kc,
                              struct err *e)
{
    struct stat out;
    if (strcmp(c->output, "-") == 0 || stat(c->output, &out) != 0) {
        return 0;
    }
    for (size_t i = 0; i < kc->file_count; i++) {
        struct stat in;
        if (stat(kc->files[i].path, &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino) {
            return err_set(e, -EEXIST,
                           "--output: %s is the kubeconfig that is read; its credentials would be "
                           "lost",
                           c->output);
        }
    }
    return 0;
}

static void warn_of_contexts(const struct kubeconfig_gen_flags *c,
                             const struct generate_notes *notes, const struct kubeconfig *kc)
{
    if (notes->other != NULL && c->all_contexts) {
        log_warn("the contexts belong to several clusters, but all will reach the one that "
                 "localproxy talks to",
                 log_str("one", notes->one), log_str("other", notes->other));
    } else if (notes->other != NULL) {
        log_warn("contexts of other clusters were left out, or of what may be one: localproxy "
                 "talks to one (choose another with --context, here and of localproxy; "
                 "--all-contexts keeps them)",
                 log_str("kept", notes->one), log_str("leftOut", notes->other),
                 log_num("count", (int64_t)notes->others));
    }
    if (notes->no_current) {
        log_warn("the kubeconfig has no current context, so the new one has none; choose one with "
                 "--context, or set it with kubectl config use-context",
                 log_str("path", kc->files[0].path),
                 log_str("currentContext", kc->current_context));
    }
}

/* ---- where the real credentials are ---- */

struct source {
    struct kubeconfig *kc; /* NULL: a pod's service account */
    char *pod_namespace;   /* of that; NULL: it is not needed */
};

/* Whether the service account is meant: no kubeconfig was found, nor named. */
static bool is_in_pod(const struct kubeconfig_gen_flags *c, const struct err *e)
{
    return e->code == -ENOENT && c->kube.kubeconfig == NULL && c->kube.context == NULL &&
           getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

/* Whether the source has to be there, to take names or a namespace from. */
static bool is_needed(const struct kubeconfig_gen_flags *c)
{
    return c->output != NULL || c->namespace == NULL;
}

static int check_kubeconfig(const struct kubeconfig_gen_flags *c, const struct kubeconfig *kc,
                            struct err *e)
{
    const struct generate_options o = {
        .proxy = &c->proxy_url, .context = c->kube.context, .all_contexts = c->all_contexts};
    struct generate_notes ignored;
    if (c->output == NULL) {
        bool named = c->namespace == NULL || c->kube.context != NULL;
        return named && kubeconfig_context(kc, c->kube.context, e) == NULL ? e->code : 0;
    }
    int rc = refuse_overwriting(c, kc, e);
    return rc == 0 ? generate_from_kubeconfig(kc, &o, NULL, &ignored, e) : rc;
}

/* Nothing is made before this is known to be right. */
static int open_source(const struct kubeconfig_gen_flags *c, struct source *s, struct err *e)
{
    struct err why = ERR_INIT;
    bool in_pod = c->kube.in_cluster;
    *s = (struct source){.kc = NULL};
    if (!in_pod) {
        s->kc = kubeconfig_load(c->kube.kubeconfig, &why);
        in_pod = s->kc == NULL && is_in_pod(c, &why);
    }
    if (s->kc != NULL) {
        return check_kubeconfig(c, s->kc, e);
    }
    if (in_pod) {
        return is_needed(c) ? kube_service_account_namespace(NULL, &s->pod_namespace, e) : 0;
    }
    if (why.code == -ENOENT && !is_needed(c)) {
        return 0;
    }
    *e = why;
    if (c->kube.kubeconfig != NULL) {
        err_prefix(e, "--kubeconfig");
    } else if (c->output == NULL) {
        err_prefix(e, "--namespace is not given, and there is no context to take it from");
    }
    return e->code;
}

static void source_deinit(struct source *s)
{
    kubeconfig_free(s->kc);
    free(s->pod_namespace);
}

/* What kubeconfig-gen has written leads to localproxy, and so would what is made of it. */
static int refuse_own_work(const struct kubeconfig_gen_flags *c, const struct kubeconfig *kc,
                           const char *token, struct err *e)
{
    const struct kubeconfig_entry *context = kubeconfig_find(
        &kc->contexts, c->kube.context != NULL ? c->kube.context : kc->current_context);
    struct err ignored = ERR_INIT;
    const struct kubeconfig_entry *user =
        context == NULL ? NULL : kubeconfig_referred(kc, context, "user", &ignored);
    const char *given = user == NULL ? NULL : kubeconfig_string(user, "token", &ignored);
    if (given == NULL || !local_token_matches(slice_str(given), slice_str(token))) {
        return 0;
    }
    return err_set(e, -EINVAL,
                   "%s: kubeconfig-gen wrote this kubeconfig for the operator; give the real one "
                   "by --kubeconfig or KUBECONFIG",
                   user->file->path);
}

static int wrap_configmap(const struct kubeconfig_gen_flags *c, struct buf *text, struct err *e)
{
    if (c->configmap == NULL) {
        return 0;
    }
    struct buf manifest = BUF_INIT(GENERATE_TEXT_MAX);
    const char *kubeconfig = buf_cstr(text);
    int rc = kubeconfig == NULL ? err_memory(e)
                                : generate_configmap(c->configmap, kubeconfig, &manifest, e);
    buf_reset(text);
    *text = manifest;
    return rc;
}

static int write_stdout(const struct buf *text, struct err *e)
{
    if (fwrite(buf_data(text), 1, text->len, stdout) != text->len || fflush(stdout) != 0) {
        return err_set(e, -errno, "cannot write to standard output: %s", strerror(errno));
    }
    return 0;
}

static int write_out(const struct kubeconfig_gen_flags *c, const struct buf *text, struct err *e)
{
    if (strcmp(c->output, "-") != 0) {
        mode_t mode = c->shared ? 0644 : 0600;
        int rc = file_write_atomic(c->output, buf_data(text), text->len, mode, e);
        if (rc == 0) {
            log_info("written", log_str("path", c->output), log_str("proxy", c->proxy));
        } else {
            err_prefix(e, "--output");
        }
        return rc;
    }
    return write_stdout(text, e);
}

static void tell_made(const char *path)
{
    log_info("created a token for localproxy", log_str("path", path));
}

/* What both ways to localproxy are made of. */
struct secrets {
    struct kube_pem ca;
    char *token_path; /* NULL: there is no token */
    char *token;
};

static int load_token(const struct kubeconfig_gen_flags *c, struct secrets *s, struct err *e)
{
    bool made_own;
    bool made = false;
    if (local_token_path(c->token_file, &s->token_path, &made_own, e) != 0 ||
        s->token_path == NULL) {
        return e->code;
    }
    s->token = local_token_load(s->token_path, &made, e);
    if (s->token == NULL) {
        err_prefix(e, "--token-file");
    } else if (made || made_own) {
        tell_made(s->token_path);
    }
    return e->code;
}

static int load_proxy_ca(const struct kubeconfig_gen_flags *c, struct kube_pem *out, struct err *e)
{
    int rc = c->proxy_ca == NULL ? 0 : kube_pem_read(c->proxy_ca, out, e);
    if (rc == 0 && out->data != NULL && strstr(out->data, "-----BEGIN CERTIFICATE") == NULL) {
        rc = err_set(e, -EINVAL, "%s: contains no PEM certificate", c->proxy_ca);
    }
    if (rc == 0 && out->data != NULL && strstr(out->data, "PRIVATE KEY") != NULL) {
        rc = err_set(e, -EINVAL, "%s: contains a private key, which must not be copied",
                     c->proxy_ca);
    }
    if (rc != 0) {
        err_prefix(e, "--proxy-ca");
    }
    return rc;
}

/* Of --local-tls. */
static int load_local_ca(const struct kubeconfig_gen_flags *c, struct secrets *s, struct err *e)
{
    struct kube_pem *out = &s->ca;
    struct certificate_pair authority;
    char *folder;
    bool made;
    if (local_tls_folder(c->local_tls, s->token_path, &folder, e) != 0 || folder == NULL) {
        return e->code;
    }
    int rc = local_tls_authority(folder, (int64_t)time(NULL), &authority, &made, e);
    if (rc == 0) {
        out->data = authority.cert;
        out->len = strlen(authority.cert);
        authority.cert = NULL;
        certificate_pair_deinit(&authority);
    }
    if (rc == 0 && made) {
        log_info("made an authority for localproxy", log_str("path", folder));
    }
    free(folder);
    return rc;
}

/* What nobody has asked for is left out where it cannot be had. */
static int load_authority(struct kubeconfig_gen_flags *c, struct secrets *s, struct err *e)
{
    int rc = load_local_ca(c, s, e);
    if (rc == 0 || !c->may_lack_tls) {
        return rc;
    }
    log_warn("the kubeconfig is for plain HTTP: there is no authority for TLS (--local-tls=PATH "
             "names another folder for it, here and to localproxy)",
             log_str("error", e->msg));
    err_clear(e);
    kubeconfig_gen_flags_go_plain(c);
    return 0;
}

/* ---- the kubeconfig ---- */

/* What is written, whole. */
static int make_text(const struct kubeconfig_gen_flags *c, const struct source *source,
                     const struct generate_options *o, struct buf *text, struct err *e)
{
    struct generate_notes notes;
    int rc = source->kc == NULL ? generate_in_cluster(source->pod_namespace, o, text, e)
                                : generate_from_kubeconfig(source->kc, o, text, &notes, e);
    if (rc == 0 && source->kc != NULL) {
        warn_of_contexts(c, &notes, source->kc);
    }
    return rc == 0 ? wrap_configmap(c, text, e) : rc;
}

/* By the URL clients send it that send no token over plain HTTP. */
static void warn_of_url(const struct kubeconfig_gen_flags *c, const char *token)
{
    if (token != NULL && !c->proxy_url.https) {
        log_warn("over plain HTTP the token is in the server's URL: aiohttp (kopf) and the "
                 "JavaScript client 2.0 refuse that, and kubectl names a folder of its cache after "
                 "it; --proxy=https://... is for all clients",
                 log_str("proxy", c->proxy));
    }
}

static int write_kubeconfig(const struct kubeconfig_gen_flags *c, const struct source *source,
                            const struct secrets *s, struct err *e)
{
    struct buf text = BUF_INIT(GENERATE_TEXT_MAX);
    const struct generate_options o = {
        .proxy = &c->proxy_url,
        .proxy_ca = c->proxy_url.https ? slice_of(s->ca.data, s->ca.len) : SLICE(""),
        .token = s->token,
        .context = c->kube.context,
        .all_contexts = c->all_contexts,
    };
    int rc = make_text(c, source, &o, &text, e);
    if (rc == 0) {
        rc = write_out(c, &text, e);
    }
    if (rc == 0) {
        warn_of_url(c, s->token);
    }
    secret_buf_reset(&text);
    return rc;
}

/* ---- the service account ---- */

/* Of the context that is written, or the current one. */
static int namespace_of_context(const struct kubeconfig *kc, const char *context, char **out,
                                struct err *e)
{
    const struct kubeconfig_entry *entry = kubeconfig_context(kc, context, e);
    const char *ns = entry == NULL ? NULL : kubeconfig_string(entry, "namespace", e);
    if (e->code != 0) {
        return e->code;
    }
    if (ns != NULL && name_check_label(slice_str(ns)) != NULL) {
        kubeconfig_fail(entry, "namespace", e, "is not the name of a namespace");
        return e->code;
    }
    *out = strdup(ns == NULL ? "default" : ns);
    return *out == NULL ? err_memory(e) : 0;
}

/* What depends on where localproxy goes: whether a kubeconfig tells it, or the pod. */
struct place {
    char *ns;
    char *token;
};

static void place_deinit(struct place *p)
{
    free(p->ns);
    secret_free(p->token);
}

static int find_place(const struct kubeconfig_gen_flags *c, const struct source *source,
                      const char *token, struct place *out, struct err *e)
{
    const char *ns = c->namespace != NULL ? c->namespace : source->pod_namespace;
    *out = (struct place){.ns = NULL};
    out->token =
        source->kc == NULL ? strdup(token) : generate_token(source->kc, c->kube.context, token);
    if (out->token == NULL) {
        return err_memory(e);
    }
    if (ns == NULL) {
        return namespace_of_context(source->kc, c->kube.context, &out->ns, e);
    }
    out->ns = strdup(ns);
    return out->ns == NULL ? err_memory(e) : 0;
}

static int print_variables(const struct kubeconfig_gen_flags *c, struct err *e)
{
    struct buf text = BUF_INIT(4096);
    int rc = service_account_variables(&c->proxy_url, &text);
    rc = rc == 0 ? write_stdout(&text, e) : err_memory(e);
    buf_reset(&text);
    return rc;
}

static int write_service_account(const struct kubeconfig_gen_flags *c, const struct source *source,
                                 const struct secrets *s, struct err *e)
{
    struct place place;
    int rc = find_place(c, source, s->token, &place, e);
    if (rc == 0) {
        const struct service_account a = {
            .folder = c->service_account,
            .ca = slice_of(s->ca.data, s->ca.len),
            .token = place.token,
            .namespace = place.ns,
            .shared = c->shared,
        };
        rc = service_account_write(&a, e);
    }
    place_deinit(&place);
    if (rc != 0) {
        err_prefix(e, "--service-account");
        return rc;
    }
    log_info("written", log_str("path", c->service_account));
    return c->output == NULL ? print_variables(c, e) : 0;
}

static int load_secrets(struct kubeconfig_gen_flags *c, const struct source *source,
                        struct secrets *s, struct err *e)
{
    int rc = load_proxy_ca(c, &s->ca, e);
    if (rc == 0) {
        rc = load_token(c, s, e);
    }
    if (rc == 0) {
        rc = load_authority(c, s, e);
    }
    if (rc == 0 && s->token != NULL && source->kc != NULL) {
        rc = refuse_own_work(c, source->kc, s->token, e);
    }
    return rc;
}

static int write_all(struct kubeconfig_gen_flags *c, const struct source *source, struct err *e)
{
    struct secrets s = {.token = NULL};
    int rc = load_secrets(c, source, &s, e);
    if (rc == 0 && c->output != NULL) {
        rc = write_kubeconfig(c, source, &s, e);
    }
    if (rc == 0 && c->service_account != NULL) {
        rc = write_service_account(c, source, &s, e);
    }
    free(s.token_path);
    secret_free(s.token);
    kube_pem_deinit(&s.ca);
    return rc;
}

int main(int argc, char **argv)
{
    struct kubeconfig_gen_flags c;
    struct source source;
    struct err e = ERR_INIT;
    kubeconfig_gen_flags_parse(&c, argc, argv);
    int rc = open_source(&c, &source, &e);
    if (rc == 0) {
        rc = write_all(&c, &source, &e);
    }
    source_deinit(&source);
    if (rc != 0) {
        log_error(c.service_account == NULL ? "no kubeconfig was written" : "not all was written",
                  log_str("error", e.msg));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}
