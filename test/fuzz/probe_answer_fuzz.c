/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever somebody at a pod's address answers: nothing, or rules that make sense; texts end, and
 * hold no control characters.
 */
#include "enforcement/probe_answer.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "control/status.h"

static void check_text(const char *text, size_t size)
{
    CHECK(memchr(text, '\0', size) != NULL);
    for (; *text != '\0'; text++) {
        CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
    }
}

/* An annotation with this text requires nothing only if it is empty. */
static void check_requirement(const uint8_t *data, size_t size)
{
    char text[64];
    size_t len = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, len);
    text[len] = '\0';
    uint64_t required = control_lease_required(text);
    CHECK((required == 0) == (text[0] == '\0'));
    CHECK(required <= RULES_GENERATION_MAX || required == UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice body = slice_of((const char *)data, size);
    struct probe_result r = {.message = "kept"};
    struct err e = ERR_INIT;
    char message[PROBE_MESSAGE_SIZE] = "kept";
    if (probe_answer_proxy(body, "demo/blue-0", "u", &r, &e) != 0) {
        CHECK(e.msg[0] != '\0');
        CHECK(!r.enforcing && r.generation == 0 && r.shard[0] == '\0');
    }
    CHECK(r.load == NULL || r.load->known);
    free(r.load);
    CHECK(strcmp(r.message, "kept") == 0);
    CHECK(!r.enforcing || r.generation > 0);
    CHECK((r.generation > 0) == (strlen(r.checksum) == RULES_CHECKSUM_LEN));
    CHECK((r.generation > 0) == (strchr(r.shard, '/') != NULL));
    CHECK(r.since_ms >= 0 && r.generation <= UINT64_C(9007199254740991));
    check_text(r.shard, sizeof r.shard);
    check_text(r.version, sizeof r.version);
    CHECK(r.lease_s == 0 ||
          (r.lease_s >= CONTROL_RULES_LEASE_MIN_S && r.lease_s <= CONTROL_RULES_LEASE_MAX_S));
    CHECK(!r.expired || r.lease_s > 0);
    check_requirement(data, size);
    struct probe_result told = {.message = "kept"};
    if (probe_answer_told(body, "demo/blue-0", "u", &told, &e) == 0) {
        CHECK(told.generation == r.generation && told.enforcing == r.enforcing);
        CHECK((told.load == NULL) == (r.load == NULL));
    } else {
        CHECK(told.generation == 0 && !told.enforcing);
    }
    free(told.load);
    if (probe_answer_rulesync(body, message, &e) != 0) {
        CHECK(strcmp(message, "kept") == 0);
    }
    check_text(message, sizeof message);
    return 0;
}
