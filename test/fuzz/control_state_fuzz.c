/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer of the control socket: what is taken must write itself as an answer that says the same.
 */
#include "control/state.h"

#include "check.h"

static void check_same(const struct control_state *a, const struct control_state *b)
{
    CHECK(a->enforcing == b->enforcing && a->generation == b->generation && a->since == b->since);
    CHECK(strcmp(a->shard_namespace, b->shard_namespace) == 0);
    CHECK(strcmp(a->shard_name, b->shard_name) == 0);
    CHECK(strcmp(a->checksum, b->checksum) == 0);
    CHECK(strcmp(a->reason, b->reason) == 0);
}

static void check_written(const struct control_state *s, const bool *changed)
{
    struct buf text = BUF_INIT(CONTROL_BODY_MAX);
    struct control_state again;
    bool changed_again = false;
    CHECK(control_state_encode(s, changed, &text) == 0);
    CHECK(control_state_decode(buf_slice(&text), &again, &changed_again, NULL) == 0);
    check_same(s, &again);
    CHECK(changed_again == (changed != NULL && *changed));
    buf_reset(&text);
}

static void check_error(struct slice body)
{
    char why[ERR_MSG_MAX];
    char again[ERR_MSG_MAX];
    struct buf text = BUF_INIT(CONTROL_BODY_MAX);
    control_error_decode(body, why);
    CHECK(memchr(why, '\0', sizeof why) != NULL);
    CHECK(control_error_encode(why, &text) == 0);
    control_error_decode(buf_slice(&text), again);
    CHECK(strcmp(why, again) == 0);
    buf_reset(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control_state state;
    struct err e = ERR_INIT;
    bool changed = false;
    /* A copy of the exact size: reading past the end shows. */
    struct buf exact = BUF_INIT(size + 1);
    CHECK(buf_append(&exact, data, size) == 0);
    struct slice body = slice_of((const char *)buf_data(&exact), size);
    if (control_state_decode(body, &state, &changed, &e) == 0) {
        CHECK(!state.enforcing || state.generation >= 1);
        check_written(&state, &changed);
        check_written(&state, NULL);
    } else {
        CHECK(e.code < 0 && e.msg[0] != '\0');
    }
    check_error(body);
    buf_reset(&exact);
    return 0;
}
