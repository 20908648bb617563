/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/probe_answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/array.h"
#include "kube/name.h"
#include "json/field.h"
#include "json/json.h"

/* The greatest integer that JSON numbers carry without loss, and the last second of the year 9999.
 */
#define INTEGER_MAX 9007199254740991.0
#define SECONDS_MAX 253402300799.0

/* False when it is no integer from 0 to `max`. */
static bool integer_of(const cJSON *object, const char *key, double max, uint64_t *out)
{
    const cJSON *item = field_get(object, key);
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value <= max) || (double)(uint64_t)value < value) {
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

static bool is_checksum(const char *text)
{
    return strlen(text) == RULES_CHECKSUM_LEN && strncmp(text, "sha256:", 7) == 0 &&
           strspn(text + 7, "0123456789abcdef") == RULES_CHECKSUM_LEN - 7;
}

static int wrong(struct err *e, const char *field)
{
    return err_set(e, -EINVAL, "its answer has no valid %s", field);
}

/* The document that a program of that name sent; NULL with `e` set. */
static cJSON *parse(struct slice body, const char *program, struct err *e)
{
    cJSON *root = json_parse(body.ptr != NULL ? body.ptr : "", body.len, e);
    if (root == NULL) {
        err_prefix(e, "its answer");
        return NULL;
    }
    if (strcmp(field_text(root, "program"), program) != 0) {
        (void)err_set(e, -EINVAL, "what answers there is not %s", program);
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

static int read_shard(const cJSON *rules, struct probe_result *r, struct err *e)
{
    const cJSON *shard = field_get(rules, "shard");
    const char *ns = field_text(shard, "namespace");
    const char *name = field_text(shard, "name");
    if (name_check_label(slice_str(ns)) != NULL || name_check_subdomain(slice_str(name)) != NULL) {
        return wrong(e, "rules.shard");
    }
    (void)snprintf(r->shard, sizeof r->shard, "%s/%s", ns, name);
    return 0;
}

static int read_rules(const cJSON *rules, struct probe_result *r, struct err *e)
{
    const char *checksum = field_text(rules, "checksum");
    uint64_t since = 0;
    if (!integer_of(rules, "generation", INTEGER_MAX, &r->generation) || r->generation == 0) {
        return wrong(e, "rules.generation");
    }
    if (!is_checksum(checksum)) {
        return wrong(e, "rules.checksum");
    }
    if (!integer_of(rules, "since", SECONDS_MAX, &since)) {
        return wrong(e, "rules.since");
    }
    (void)snprintf(r->checksum, sizeof r->checksum, "%s", checksum);
    r->since_ms = (int64_t)since * 1000;
    r->enforcing = cJSON_IsTrue(field_get(rules, "settled"));
    return read_shard(rules, r, e);
}

int probe_answer_proxy(struct slice body, struct probe_result *r, struct err *e)
{
    cJSON *root = parse(body, "localproxy", e);
    if (root == NULL) {
        return e->code;
    }
    struct probe_result read = *r;
    const cJSON *rules = field_get(root, "rules");
    int rc = 0;
    read.enforcing = false;
    read.generation = 0;
    read.checksum[0] = '\0';
    read.shard[0] = '\0';
    read.since_ms = 0;
    if (!cJSON_IsBool(field_get(rules, "inForce"))) {
        rc = wrong(e, "rules.inForce");
    } else if (cJSON_IsTrue(field_get(rules, "inForce"))) {
        rc = read_rules(rules, &read, e);
    }
    cJSON_Delete(root);
    if (rc == 0) {
        *r = read;
    }
    return rc;
}

/* What hinders most comes first: without a document there is nothing to refuse, and what is refused
 * is not handed over. */
static const char *trouble_of(const cJSON *root)
{
    static const char *const fields[][2] = {
        {"source", "error"}, {"seen", "error"}, {"enforced", "error"}, {"source", "warning"}};
    const char *text = "";
    for (size_t i = 0; i < ARRAY_LEN(fields) && text[0] == '\0'; i++) {
        text = field_text(field_get(root, fields[i][0]), fields[i][1]);
    }
    return text;
}

int probe_answer_rulesync(struct slice body, char message[PROBE_MESSAGE_SIZE], struct err *e)
{
    cJSON *root = parse(body, "rulesync", e);
    if (root == NULL) {
        return e->code;
    }
    probe_answer_text(message, PROBE_MESSAGE_SIZE, trouble_of(root));
    cJSON_Delete(root);
    return 0;
}

void probe_answer_text(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);
    if (len >= size) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        out[i] = c < ' ' || c == 0x7f ? ' ' : text[i];
    }
    out[len] = '\0';
}
