/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/route_files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/file.h"
#include "base/flags.h"
#include "commands/compile_command.h"
#include "temp_dir.h"
#include "yaml/yaml.h"
#include "json/field.h"

#define PREFIX "ctrlmesh.kusionstack.io/"

struct fixture {
    struct temp_dir dir;
    char input[256];
    char output[256];
    const char *files[1];
    struct compile_command command;
    struct buf errors; /* what the last run wrote to standard error */
    cJSON *objects;    /* the webhook configurations that it wrote; NULL: none */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    temp_dir_init(&f->dir);
    log_init("manager", LOG_TEXT, LOG_INFO);
    buf_init(&f->errors, 65536);
    f->files[0] = temp_dir_path(&f->dir, "in.yaml", f->input);
    f->command = (struct compile_command){
        .files = f->files,
        .file_count = 1,
        .output = temp_dir_path(&f->dir, "out", f->output),
        .options = {.namespace = "default",
                    .generation = 1,
                    .labels = {.namespace = "namespace",
                               .shard_hash = "sharding-hash",
                               .control = "control"}},
    };
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    temp_dir_deinit(&f->dir);
    buf_reset(&f->errors);
    cJSON_Delete(f->objects);
    free(f);
    return 0;
}

static void read_objects(struct fixture *f)
{
    char path[256];
    struct err e = ERR_INIT;
    struct buf text = BUF_INIT(1000000);
    cJSON_Delete(f->objects);
    f->objects = NULL;
    if (file_read(temp_dir_path(&f->dir, "out/_webhooks.json", path), &text, &e) == 0) {
        f->objects = cJSON_CreateArray();
        for (const char *at = buf_cstr(&text); *at != '\0';) {
            cJSON_AddItemToArray(f->objects, cJSON_ParseWithOpts(at, &at, false));
            at += strspn(at, "\n");
        }
    }
    buf_reset(&text);
}

static int run(struct fixture *f, const char *text)
{
    char path[256];
    struct err e = ERR_INIT;
    temp_dir_write(&f->dir, "in.yaml", text, 0644);
    temp_dir_write(&f->dir, "errors", "", 0644);
    int saved = dup(STDERR_FILENO);
    int fd = open(temp_dir_path(&f->dir, "errors", path), O_WRONLY | O_TRUNC);
    assert_true(saved >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    int code = compile_command_run(&f->command);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)close(fd);
    buf_clear(&f->errors);
    assert_int_equal(file_read(path, &f->errors, &e), 0);
    read_objects(f);
    return code;
}

static void expect_words(struct fixture *f, const char *words)
{
    if (strstr(buf_cstr(&f->errors), words) == NULL) {
        fail_msg("wanted \"%s\" in:\n%s", words, buf_cstr(&f->errors));
    }
}

/* ---- what there is ---- */

#define SHARD(name, webhook, label, values)                                                        \
    "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"                                               \
    "kind: ShardingConfig\n"                                                                       \
    "metadata: {name: " name ", namespace: ops}\n"                                                 \
    "spec:\n"                                                                                      \
    "  selector: {matchLabels: {app: op, shard: " name "}}\n" webhook "  limits:\n"                \
    "  - relateResources: [{apiGroups: [''], resources: [pods]}]\n"                                \
    "    selector: {matchExpressions: [{key: " PREFIX label ", operator: In, values: " values      \
    "}]}\n---\n"
#define PORT "  webhook: {port: 9443}\n"
#define SHARDS SHARD("a", PORT, "namespace", "[x, z]") SHARD("b", PORT, "sharding-hash", "['1']")

#define CONFIGURATION(kind, name)                                                                  \
    "apiVersion: admissionregistration.k8s.io/v1\n"                                                \
    "kind: " kind "WebhookConfiguration\n"                                                         \
    "metadata: {name: " name ", labels: {" PREFIX "route: 'true'}}\n"                              \
    "webhooks:\n"
#define WEBHOOK(name, groups, resources)                                                           \
    "- name: " name ".example.com\n"                                                               \
    "  clientConfig: {service: {namespace: ops, name: op, path: /v}}\n"                            \
    "  rules: [{operations: ['*'], apiGroups: [" groups                                            \
    "], apiVersions: ['*'], resources: [" resources "]}]\n"
#define PODS CONFIGURATION("Validating", "op") WEBHOOK("pods.op", "''", "pods")
#define SERVICE(selector, ports)                                                                   \
    "---\napiVersion: v1\nkind: Service\nmetadata: {name: op, namespace: ops}\n"                   \
    "spec: {selector: " selector ", ports: [" ports "]}\n"

static const cJSON *object_at(const struct fixture *f, int place, const char *kind,
                              const char *name)
{
    const cJSON *object = cJSON_GetArrayItem(f->objects, place);
    assert_string_equal(field_text(object, "kind"), kind);
    assert_string_equal(field_meta(object, "name"), name);
    return object;
}

/* The ports of the entries, in their order; 443 where none is written. */
static void expect_ports(const cJSON *routes, const char *want)
{
    char text[256] = "";
    size_t len = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, field_get(routes, "webhooks"))
    {
        const cJSON *service = field_get(field_get(entry, "clientConfig"), "service");
        const cJSON *port = field_get(service, "port");
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", len == 0 ? "" : " ",
                                port == NULL ? 443 : port->valueint);
    }
    assert_string_equal(text, want);
}

static bool is_narrowed(const cJSON *configuration, int webhook)
{
    const cJSON *list = field_get(configuration, "webhooks");
    char *text = cJSON_PrintUnformatted(cJSON_GetArrayItem(list, webhook));
    bool narrowed = strstr(text, "\"DoesNotExist\"") != NULL;
    cJSON_free(text);
    return narrowed;
}

/* ---- tests ---- */

static void entries_and_the_narrowed_original(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS PODS), EXIT_DONE);
    assert_int_equal(f->errors.len, 0);
    assert_int_equal(cJSON_GetArraySize(f->objects), 2);
    expect_ports(object_at(f, 0, "ValidatingWebhookConfiguration", "cmesh-routes"),
                 "443 20443 20444");
    const cJSON *original = object_at(f, 1, "ValidatingWebhookConfiguration", "op");
    assert_true(is_narrowed(original, 0));
    assert_null(field_get(field_get(original, "metadata"), "annotations"));
}

static void without_the_label_all_is_as_before(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS "apiVersion: admissionregistration.k8s.io/v1\n"
                                   "kind: ValidatingWebhookConfiguration\n"
                                   "metadata: {name: op}\n" SERVICE("{app: op}", "{port: 443}")),
                     EXIT_DONE);
    assert_null(f->objects);
    expect_words(f, "note: skipped: kind ValidatingWebhookConfiguration, not a ShardingConfig");
    expect_words(f, "note: skipped: kind Service, not a ShardingConfig");
    expect_words(f, "warning: spec.webhook: has no effect until");
}

static void what_is_there_from_an_earlier_run_goes(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS PODS), EXIT_DONE);
    assert_non_null(f->objects);
    assert_int_equal(run(f, SHARDS), EXIT_DONE);
    assert_null(f->objects);
}

static void each_kind_has_an_object(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        run(f, SHARDS CONFIGURATION("Mutating", "m") WEBHOOK("pods.op", "''", "pods") "---\n" PODS),
        EXIT_DONE);
    assert_int_equal(cJSON_GetArraySize(f->objects), 4);
    (void)object_at(f, 0, "ValidatingWebhookConfiguration", "cmesh-routes");
    (void)object_at(f, 1, "MutatingWebhookConfiguration", "cmesh-routes");
    (void)object_at(f, 2, "MutatingWebhookConfiguration", "m");
    (void)object_at(f, 3, "ValidatingWebhookConfiguration", "op");
}

static void what_cannot_be_routed_is_told(void **state)
{
    static const struct {
        const char *text;
        const char *words;
        const char *ports;
    } cases[] = {
        {SHARDS PODS WEBHOOK("jobs.op", "batch", "jobs"),
         "in.yaml:28: warning: webhooks[1] of jobs.op.example.com cannot be routed: SeenByAll: no "
         "limit of shard ops/a names jobs.batch, so it sees all of them",
         "443 20443 20444"},
        {SHARDS CONFIGURATION("Validating", "op") "- name: s.op.example.com\n"
                                                  "  clientConfig: {service: {namespace: ops, "
                                                  "name: op}}\n"
                                                  "  rules:\n"
                                                  "  - {apiGroups: [''], resources: [pods]}\n"
                                                  "  - {apiGroups: [''], resources: [events]}\n",
         "in.yaml:28: warning: webhooks[0].rules: some of s.op.example.com cannot be routed: "
         "SeenByAll: no limit of shard ops/a names events",
         "443 443 20443 20444"},
        {SHARDS CONFIGURATION("Validating", "op") "- name: u.op.example.com\n"
                                                  "  clientConfig: {url: 'https://h/'}\n"
                                                  "  rules: [{apiGroups: [''], resources: "
                                                  "[pods]}]\n",
         "in.yaml:25: warning: webhooks[0] of u.op.example.com cannot be routed: ByURL: ", ""},
        {SHARD("a", "", "namespace", "[x]") PODS,
         "cannot be routed: NoPods: no shard of namespace ops has spec.webhook.port", ""},
        {SHARDS PODS SERVICE("{app: other}", "{name: w, port: 443}"),
         "cannot be routed: NoPods: no shard of namespace ops has spec.webhook.port and may be "
         "selected by the Service",
         ""},
        {SHARDS PODS SERVICE("{}", "{name: w, port: 443}"), "cannot be routed: NoPods: ", ""},
        {SHARDS PODS SERVICE("{app: op}", "{port: 443}"),
         "cannot be routed: PortUnnamed: the only port of Service op has no name", ""},
        {SHARDS PODS SERVICE("{app: op}", "{name: w, port: 443, targetPort: 8443}"),
         "cannot be routed: OtherPort: port 443 of Service op leads to another port than 9443", ""},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(run(f, cases[i].text), EXIT_DONE);
        expect_words(f, cases[i].words);
        expect_ports(f->objects->child, cases[i].ports);
        assert_int_equal(cJSON_GetArraySize(f->objects), *cases[i].ports == '\0' ? 1 : 2);
    }
}

static void only_what_is_routed_is_narrowed(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS PODS WEBHOOK("jobs.op", "batch", "jobs")), EXIT_DONE);
    const cJSON *original = object_at(f, 1, "ValidatingWebhookConfiguration", "op");
    assert_true(is_narrowed(original, 0));
    assert_false(is_narrowed(original, 1));
}

/* Nobody is to be unasked. */
static void what_its_owner_narrowed_has_an_entry(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS CONFIGURATION("Validating", "op") WEBHOOK(
                                "jobs.op", "batch",
                                "jobs") "  namespaceSelector: {matchExpressions: [{key: " PREFIX
                                        "control, operator: DoesNotExist}]}\n"),
                     EXIT_DONE);
    expect_ports(f->objects->child, "443");
    f->command.strict = true;
    assert_int_equal(run(f, SHARDS PODS WEBHOOK("jobs.op", "batch", "jobs")), EXIT_FAILED);
}

static void ports_of_the_service_are_kept(void **state)
{
    struct fixture *f = *state;
    /* printf ops/b | sha256sum */
    assert_int_equal(run(f, SHARDS PODS SERVICE(
                                "{app: op}", "{name: w, port: 443, targetPort: 9443}, {name: "
                                             "other, port: 20443}, {name: wh-38919e58, port: 7}")),
                     EXIT_DONE);
    assert_int_equal(f->errors.len, 0);
    expect_ports(f->objects->child, "443 20444 7");
}

static void another_service_has_the_ports(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS CONFIGURATION("Validating", "op, annotations: {" PREFIX
                                                               "route-service: routes}")
                                WEBHOOK("pods.op", "''", "pods")),
                     EXIT_DONE);
    char *text = cJSON_PrintUnformatted(f->objects->child);
    assert_non_null(
        strstr(text, "\"name\":\"routes\",\"namespace\":\"ops\",\"path\":\"/v\",\"port\":20443"));
    cJSON_free(text);
}

static void a_shard_that_holds(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARD("a", "  webhook: {port: 9443, duringHandover: Hold}\n",
                                  "namespace", "[x]") PODS),
                     EXIT_DONE);
    expect_ports(f->objects->child, "443 20443"); /* nothing moves */
}

/* As the manager does it: where the shards themselves are, any pod is asked. */
static void the_namespace_of_the_shards_is_not_routed(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARD("a", PORT, "namespace", "[ops, x]") PODS), EXIT_DONE);
    expect_ports(f->objects->child, "443 20443");
    char *text = cJSON_PrintUnformatted(f->objects->child);
    assert_non_null(strstr(text, "\"operator\":\"In\",\"values\":[\"x\"]"));
    cJSON_free(text);
}

static void shards_that_namespaces_do_not_tell_apart(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "apiVersion: ctrlmesh.kusionstack.io/v1alpha1\n"
                               "kind: ShardingConfig\n"
                               "metadata: {name: c, namespace: ops%s}\n"
                               "spec:\n"
                               "  selector: {matchLabels: {app: op, shard: c}}\n" PORT "  limits:\n"
                               "  - relateResources: [{apiGroups: [''], resources: [pods]}]\n"
                               "    selector: {matchLabels: {app: c}}\n---\n%s";
    char input[4096];
    (void)snprintf(input, sizeof input, text, "", SHARDS PODS);
    assert_int_equal(run(f, input), EXIT_DONE);
    expect_words(
        f,
        "cannot be routed: NotByNamespace: shards ops/b and ops/c both see namespaces of hash 1, ");
    (void)snprintf(input, sizeof input, text, ", annotations: {" PREFIX "shares-with: '*'}",
                   SHARDS PODS);
    assert_int_equal(run(f, input), EXIT_DONE);
    assert_int_equal(cJSON_GetArraySize(f->objects), 2);
}

static void what_is_no_configuration_is_an_error(void **state)
{
    static const struct {
        const char *webhook;
        const char *words;
    } cases[] = {
        {"- {clientConfig: {}}\n", "in.yaml:25: webhooks[0].name: Invalid value"},
        {"- x\n", "webhooks[0].name: Invalid value"},
        {"- {name: w}\n", "webhooks[0].clientConfig: Invalid value"},
        {"- {name: w, clientConfig: {}, rules: x}\n", "webhooks[0].rules: Invalid value"},
        {"- {name: w, clientConfig: {}, namespaceSelector: x}\n",
         "webhooks[0].namespaceSelector: Invalid value"},
        {"- {name: w, clientConfig: {}, namespaceSelector: {matchExpressions: {}}}\n",
         "webhooks[0].namespaceSelector: Invalid value"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[4096];
        (void)snprintf(text, sizeof text, "%s%s", SHARDS CONFIGURATION("Validating", "op"),
                       cases[i].webhook);
        assert_int_equal(run(f, text), EXIT_FAILED);
        expect_words(f, cases[i].words);
        assert_null(f->objects);
    }
}

static void lists_are_taken(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        run(f, SHARDS
            "apiVersion: v1\nkind: List\nitems:\n"
            "- {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, "
            "metadata: {name: op, labels: {" PREFIX "route: 'true'}}, webhooks: [{name: w.op.io, "
            "clientConfig: {service: {namespace: ops, name: op}}, rules: [{apiGroups: [''], "
            "resources: [pods]}]}]}\n"),
        EXIT_DONE);
    assert_int_equal(cJSON_GetArraySize(f->objects), 2);
}

/* What -o wrote is read again by --diff. */
static void a_folder_with_webhooks_can_be_compared(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, SHARDS PODS), EXIT_DONE);
    f->command.output = "-";
    f->command.diff = f->output;
    assert_int_equal(run(f, SHARDS PODS), COMPILE_SAME);
    assert_int_equal(f->errors.len, 0);
}

static void more_entries_than_there_may_be(void **state)
{
    struct fixture *f = *state;
    struct buf text = BUF_INIT(1000000);
    (void)buf_append_str(&text, SHARDS PODS "---\n" CONFIGURATION("Validating", "too-many"));
    for (int i = 0; i < 50; i++) {
        (void)buf_printf(&text,
                         "- {name: w%d.op.io, clientConfig: {service: {namespace: ops, name: op}}, "
                         "rules: [{apiGroups: [''], resources: [pods]}]}\n",
                         i);
    }
    assert_int_equal(run(f, buf_cstr(&text)), EXIT_DONE);
    expect_words(f, "warning: webhooks: cannot be routed: TooMany: more than 150 entries");
    assert_int_equal(cJSON_GetArraySize(f->objects), 2);
    (void)object_at(f, 1, "ValidatingWebhookConfiguration", "op");
    buf_reset(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_and_the_narrowed_original, setup, teardown),
        cmocka_unit_test_setup_teardown(without_the_label_all_is_as_before, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_there_from_an_earlier_run_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(each_kind_has_an_object, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_routed_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_is_routed_is_narrowed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_its_owner_narrowed_has_an_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(ports_of_the_service_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(another_service_has_the_ports, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shard_that_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_that_namespaces_do_not_tell_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(the_namespace_of_the_shards_is_not_routed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_configuration_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_are_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_with_webhooks_can_be_compared, setup, teardown),
        cmocka_unit_test_setup_teardown(more_entries_than_there_may_be, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
