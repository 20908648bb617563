/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what is made of rows and copied into the source tree: the CustomResourceDefinitions, the
 * chart's copies, and docs/reference.md. With --check it compares them instead. It is a tool of the
 * build, and not installed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "config/sharding_config.h"
#include "schema/openapi.h"
#include "traffic/policy.h"

#define SIZE_MAX_OF_FILE ((size_t)1 << 20)

static const struct {
    const char *kind;
    const struct schema_object *spec;
} kinds[] = {
    {"ShardingConfig", &sharding_spec},
    {"CircuitBreaker", &circuit_breaker_spec},
    {"FaultInjection", &fault_injection_spec},
};

/* A template with a line "# rows: KIND.spec" in place of the schema of the spec; or a file to copy.
 */
static const struct {
    const char *from;
    const char *to[2];
} files[] = {
    {"k8s/templates/crd.yaml", {"k8s/base/crd.yaml", "k8s/chart/crds/shardingconfigs.yaml"}},
    {"k8s/templates/crd_circuitbreakers.yaml",
     {"k8s/base/crd_circuitbreakers.yaml", "k8s/chart/crds/circuitbreakers.yaml"}},
    {"k8s/templates/crd_faultinjections.yaml",
     {"k8s/base/crd_faultinjections.yaml", "k8s/chart/crds/faultinjections.yaml"}},
    {"k8s/dashboards/alerts.yaml", {"k8s/chart/files/alerts.yaml"}},
};

/* Behind the first line of what a template made. */
#define NOTE "# Made by `cmake --build BUILD --target generated`: do not edit.\n"

static bool is_template(const char *path)
{
    return strncmp(path, "k8s/templates/", 14) == 0;
}

struct making {
    const char *root; /* of the sources */
    bool check;
    unsigned differ; /* files */
};

static _Noreturn void end(const char *message)
{
    (void)fprintf(stderr, "generate: %s\n", message);
    exit(1);
}

static void read_source(const struct making *m, const char *path, struct buf *out)
{
    char full[4096];
    struct err e = ERR_INIT;
    (void)snprintf(full, sizeof full, "%s/%s", m->root, path);
    if (file_read(full, out, &e) != 0) {
        end(e.msg);
    }
}

static void put(struct making *m, const char *path, const struct buf *text)
{
    char full[4096];
    struct err e = ERR_INIT;
    struct buf old = BUF_INIT(SIZE_MAX_OF_FILE);
    (void)snprintf(full, sizeof full, "%s/%s", m->root, path);
    if (buf_error(text) != 0) {
        end(path);
    }
    bool same = file_read(full, &old, &e) == 0 && slice_eq(buf_slice(&old), buf_slice(text));
    buf_reset(&old);
    if (same) {
        return;
    }
    m->differ++;
    (void)printf("%s %s\n", path, m->check ? "is not what its source says" : "written");
    err_clear(&e);
    if (!m->check && file_replace(full, buf_data(text), text->len, 0644, &e) != 0) {
        end(e.msg);
    }
}

/* Whether the line stands for the rows of a kind. */
static bool write_rows(struct slice line, struct buf *out)
{
    static const char mark[] = "# rows: ";
    const char *at = memmem(line.ptr, line.len, mark, sizeof mark - 1);
    unsigned indent = at == NULL ? 0 : (unsigned)(at - line.ptr);
    for (size_t i = 0; i < ARRAY_LEN(kinds) && at != NULL; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s%s.spec", mark, kinds[i].kind);
        if (slice_eq(slice_of(at, line.len - indent), slice_str(name))) {
            (void)buf_printf(out, "%*sspec:\n", (int)indent, "");
            schema_write_openapi(kinds[i].spec, indent + 2, out);
            return true;
        }
    }
    return false;
}

static void fill_template(struct slice text, const char *note, struct buf *out)
{
    while (text.len > 0) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        size_t len = newline == NULL ? text.len : (size_t)(newline - text.ptr);
        if (!write_rows(slice_of(text.ptr, len), out)) {
            (void)buf_append(out, text.ptr, len);
            (void)buf_append_char(out, '\n');
        }
        (void)buf_append_str(out, note);
        note = "";
        len += newline == NULL ? 0 : 1;
        text = slice_of(text.ptr + len, text.len - len);
    }
}

static void write_reference(struct buf *out)
{
    (void)buf_append_str(
        out,
        "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
        "<!-- Made by `cmake --build BUILD --target generated`: do not edit. -->\n"
        "# Reference of the custom resources\n\n"
        "Every field of `spec`, with its bounds. `kubectl explain` shows the same. Durations are\n"
        "written as in `10s`, `1.5s`, `100ms` or `1h30m`; a percentage is a whole number, or a "
        "text\n"
        "such as `\"0.5\"`; a label selector has `matchLabels` and `matchExpressions`, as in a\n"
        "Deployment. Objects with fields that are not listed are refused.\n");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        (void)buf_printf(out, "\n## %s\n\n| field | value | meaning |\n|---|---|---|\n",
                         kinds[i].kind);
        schema_write_reference(kinds[i].spec, "spec", out);
    }
}

int main(int argc, char **argv)
{
    struct making m = {.check = argc == 3 && strcmp(argv[1], "--check") == 0};
    struct buf text = BUF_INIT(SIZE_MAX_OF_FILE);
    struct buf made = BUF_INIT(SIZE_MAX_OF_FILE);
    if (argc != (m.check ? 3 : 2)) {
        end("usage: generate [--check] FOLDER_OF_THE_SOURCES");
    }
    m.root = argv[argc - 1];
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        buf_clear(&text);
        buf_clear(&made);
        read_source(&m, files[i].from, &text);
        fill_template(buf_slice(&text), is_template(files[i].from) ? NOTE : "", &made);
        for (size_t j = 0; j < ARRAY_LEN(files[i].to) && files[i].to[j] != NULL; j++) {
            put(&m, files[i].to[j], &made);
        }
    }
    buf_clear(&made);
    write_reference(&made);
    put(&m, "docs/reference.md", &made);
    buf_reset(&made);
    buf_reset(&text);
    if (m.check && m.differ > 0) {
        (void)printf("Run `cmake --build BUILD --target generated`, and commit what it writes.\n");
        return 1;
    }
    return 0;
}
