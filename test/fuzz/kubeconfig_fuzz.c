/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any file is either refused with a message that names it, or loads; then each of its contexts
 * resolves to an access that is fit for use, or is refused in the same way; and the kubeconfig made
 * from it holds names and nothing else.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "check.h"
#include "generate.h"
#include "kube/access/access.h"

static void check_refusal(const struct err *e, const char *path)
{
    CHECK(e->code < 0 && strncmp(e->msg, path, strlen(path)) == 0);
}

static void check_text(const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        CHECK((unsigned char)*text >= 0x20 || *text == '\t');
    }
}

static void check_access(const struct kube_access *a)
{
    CHECK(a->server.host[0] != '\0' && a->server.port != 0 && a->ns != NULL);
    CHECK(!a->server.https || a->server_name != NULL);
    CHECK((a->cert.data == NULL) == (a->key.data == NULL));
    CHECK(a->token == NULL || strpbrk(a->token, " \t\r\n") == NULL);
    for (size_t i = 0; i < a->header_count; i++) {
        CHECK(strpbrk(a->headers[i].name, " :\r\n") == NULL);
        check_text(a->headers[i].value);
    }
}

static void check_fields(const cJSON *object, const char *const *allowed)
{
    const cJSON *field;
    cJSON_ArrayForEach(field, object)
    {
        const char *const *name = allowed;
        while (*name != NULL && strcmp(*name, field->string) != 0) {
            name++;
        }
        CHECK(*name != NULL);
    }
}

static void check_list(const cJSON *root, const char *kind, const char *body,
                       const char *const *allowed)
{
    const char *const outer[] = {"name", body, NULL};
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, kind))
    {
        check_fields(item, outer);
        check_fields(cJSON_GetObjectItemCaseSensitive(item, body), allowed);
    }
}

static void check_generated(const struct buf *text)
{
    struct err e = ERR_INIT;
    cJSON *root = yaml_parse((const char *)buf_data(text), text->len, NULL, &e);
    CHECK(root != NULL);
    check_list(root, "clusters", "cluster",
               (const char *const[]){"server", "insecure-skip-tls-verify", NULL});
    check_list(root, "users", "user", (const char *const[]){NULL});
    check_list(root, "contexts", "context",
               (const char *const[]){"cluster", "user", "namespace", NULL});
    cJSON_Delete(root);
}

static void generate(const struct kubeconfig *kc, const char *context)
{
    static const struct url proxy = {.host = "127.0.0.1", .port = 5443};
    struct generate_options o = {.proxy = &proxy, .context = context};
    struct generate_notes warnings;
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(GENERATE_TEXT_MAX);
    if (generate_from_kubeconfig(kc, &o, &text, &warnings, &e) == 0) {
        check_generated(&text);
    } else {
        CHECK(e.msg[0] != '\0');
    }
    buf_reset(&text);
}

static void check_contexts(const struct kubeconfig *kc, const char *path)
{
    for (size_t i = 0; i < kc->contexts.count; i++) {
        struct err e = ERR_INIT;
        struct kube_access a;
        if (kube_access_resolve(kc, kc->contexts.items[i].name, &a, &e) == 0) {
            check_access(&a);
            kube_access_deinit(&a);
        } else {
            check_refusal(&e, path);
        }
        generate(kc, kc->contexts.items[i].name);
    }
    generate(kc, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    log_init("fuzz", LOG_TEXT, LOG_ERROR);
    /* A relative path of an input may be that of standard input, which must not be waited for. */
    return freopen("/dev/null", "r", stdin) == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    char path[64];
    int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct kubeconfig *kc = kubeconfig_load(path, &e);
    if (kc == NULL) {
        check_refusal(&e, path);
    } else {
        check_contexts(kc, path);
        kubeconfig_free(kc);
    }
    (void)close(fd);
    return 0;
}
