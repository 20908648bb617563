/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/schema.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "base/array.h"
#include "base/buf.h"
#include "kube/name.h"
#include "schema/openapi.h"
#include "json/json.h"

/* ---- an object with a field of each type ---- */

struct entry {
    const char *name;
    uint32_t weight;
};

struct event {
    const char *text;
    const char *optional;
    bool flag;
    uint32_t size; /* 0: auto */
    uint64_t count;
    int64_t at;
    int64_t seconds;
    unsigned word;
    struct entry part;
    const cJSON *map;
};

struct inner {
    const char *text;
    uint64_t wait_ms;
};

struct outer {
    const char *text;
    const char *label;
    bool flag;
    uint32_t number;
    uint64_t number64;
    uint64_t wait_ms;
    uint32_t ppm;
    unsigned word;
    uint32_t bits;
    struct schema_texts texts;
    struct schema_texts distinct;
    struct inner part;
    const struct inner *object;
    struct schema_list list;
    const cJSON *selector;
    const cJSON *tree;
};

#define AT(member) SCHEMA_MEMBER(struct outer, member)

static const struct schema_field entry_fields[] = {
    {"name", SCHEMA_TEXT, SCHEMA_MEMBER(struct entry, name), .required = "", .max = 5},
    {"weight", SCHEMA_NUMBER, SCHEMA_MEMBER(struct entry, weight), .min = 1, .max = 9, .absent = 7},
};
static const struct schema_object entry = {SCHEMA_OBJECT_OF(entry_fields, struct entry)};

static void check_inner(struct schema_reader *r, const struct schema_path *at, void *out)
{
    struct inner *inner = out;
    if (inner->text[0] == '\0' && inner->wait_ms == 0) {
        schema_warn(r, at, NULL, "is empty");
    }
}

static const struct schema_field inner_fields[] = {
    {"text", SCHEMA_TEXT, SCHEMA_MEMBER(struct inner, text)},
    {"wait", SCHEMA_DURATION, SCHEMA_MEMBER(struct inner, wait_ms), .min = 1, .max = 60000},
};
static const struct schema_object inner = {SCHEMA_OBJECT_OF(inner_fields, struct inner),
                                           .check = check_inner};

static const char *const words[] = {"Whitelist", "Blacklist", NULL};
static const char *const meant[] = {"White", "Black", NULL};
static const char *const kind[] = {"Outer", NULL};

static const struct schema_field outer_fields[] = {
    {"kind", SCHEMA_CONSTANT, .words = kind},
    {"text", SCHEMA_TEXT, AT(text), .required = "names it"},
    {"label", SCHEMA_TEXT, AT(label), .check = name_check_label, .help = "A | label."},
    {"flag", SCHEMA_BOOL, AT(flag)},
    {"number", SCHEMA_NUMBER, AT(number), .min = 2, .max = 10, .absent = 3},
    {"number64", SCHEMA_NUMBER64, AT(number64), .max = UINT64_C(1) << 53},
    {"wait", SCHEMA_DURATION, AT(wait_ms), .min = 1, .max = 3600000, .absent = 5},
    {"percent", SCHEMA_PERCENT, AT(ppm)},
    {"word", SCHEMA_WORD, AT(word), .words = words, .meant = meant, .absent = 1},
    {"bits", SCHEMA_BITS, AT(bits), .max = 6},
    {"texts", SCHEMA_TEXTS, AT(texts), .max = 3, .flags = SCHEMA_NULLABLE},
    {"distinct", SCHEMA_TEXTS, AT(distinct), .min = 1, .each = 4, .flags = SCHEMA_DISTINCT},
    {"part", SCHEMA_PART, AT(part), .object = &inner},
    {"object", SCHEMA_OBJECT, AT(object), .object = &inner},
    {"list", SCHEMA_LIST, AT(list), .max = 3, .flags = SCHEMA_KEYED, .object = &entry},
    {"selector", SCHEMA_SELECTOR, AT(selector), .max = 64},
    {"tree", SCHEMA_TREE, AT(tree)},
};
static const struct schema_object outer = {SCHEMA_OBJECT_OF(outer_fields, struct outer)};

/* ---- reading ---- */

struct reading {
    struct schema_memory memory;
    cJSON *tree;
    struct outer out;
    struct err first;
    char findings[4096]; /* a line each: "E ..." or "W ..." */
};

static void on_finding(void *data, bool error, const char *text)
{
    struct reading *x = data;
    size_t used = strlen(x->findings);
    (void)snprintf(x->findings + used, sizeof x->findings - used, "%s%s\n", error ? "E " : "W ",
                   text);
}

static int read_text(struct reading *x, const char *text, bool collect, bool lines)
{
    *x = (struct reading){.first = ERR_INIT};
    struct err e = ERR_INIT;
    x->tree = json_parse(text, strlen(text), &e);
    assert_non_null(x->tree);
    struct schema_reader r = {.memory = &x->memory,
                              .on_finding = collect ? on_finding : NULL,
                              .data = x,
                              .text = lines ? slice_str(text) : SLICE(""),
                              .root = x->tree};
    const struct schema_path at = SCHEMA_AT(NULL, "spec", x->tree);
    int rc = schema_read(&r, &outer, &at, &x->out);
    assert_int_equal(rc, r.first.code);
    x->first = r.first;
    return rc;
}

static void end(struct reading *x)
{
    schema_memory_deinit(&x->memory);
    cJSON_Delete(x->tree);
}

#define WHOLE                                                                                      \
    "{\"kind\":\"Outer\",\"text\":\"t\",\"label\":\"a-1\",\"flag\":true,\"number\":10,"            \
    "\"number64\":9007199254740992,\"wait\":\"1.0001s\",\"percent\":\"0.5\","                      \
    "\"word\":\"Whitelist\",\"bits\":[0,6,6],\"texts\":[\"a\",null,\"a\"],"                        \
    "\"distinct\":[\"b\",\"c\"],\"part\":{\"text\":\"p\"},\"object\":{\"wait\":\"1m\"},"           \
    "\"list\":[{\"name\":\"x\"},{\"name\":\"y\",\"weight\":2}],\"selector\":{},\"tree\":[1]}"

static void fields_of_each_type(void **state)
{
    (void)state;
    struct reading x;
    assert_int_equal(read_text(&x, WHOLE, true, false), 0);
    assert_string_equal(x.findings, "");
    assert_string_equal(x.out.text, "t");
    assert_string_equal(x.out.label, "a-1");
    assert_true(x.out.flag);
    assert_int_equal(x.out.number, 10);
    assert_int_equal(x.out.number64, UINT64_C(1) << 53);
    assert_int_equal(x.out.wait_ms, 1001);
    assert_int_equal(x.out.ppm, 5000);
    assert_int_equal(x.out.word, 0);
    assert_int_equal(x.out.bits, 1 | 1 << 6);
    assert_int_equal(x.out.texts.count, 3);
    assert_string_equal(x.out.texts.items[1], "");
    assert_int_equal(x.out.distinct.count, 2);
    assert_string_equal(x.out.part.text, "p");
    assert_int_equal(x.out.object->wait_ms, 60000);
    assert_int_equal(x.out.list.count, 2);
    const struct entry *entries = x.out.list.items;
    assert_string_equal(entries[1].name, "y");
    assert_int_equal(entries[0].weight, 7);
    assert_int_equal(entries[1].weight, 2);
    assert_true(cJSON_IsObject(x.out.selector));
    assert_true(cJSON_IsArray(x.out.tree));
    end(&x);
}

static void absent_and_null_fields(void **state)
{
    (void)state;
    struct reading x;
    assert_int_equal(
        read_text(&x, "{\"text\":\"t\",\"label\":null,\"word\":null,\"list\":[]}", true, false), 0);
    assert_string_equal(x.findings, "");
    assert_string_equal(x.out.label, "");
    assert_int_equal(x.out.number, 3);
    assert_int_equal(x.out.wait_ms, 5);
    assert_int_equal(x.out.word, 1);
    assert_string_equal(x.out.part.text, "");
    assert_null(x.out.object);
    assert_int_equal(x.out.list.count, 0);
    end(&x);
}

/* What is wrong, and the finding that says so. */
static void findings(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        const char *finding;
    } rows[] = {
        {"\"kind\":\"Inner\"", "E spec.kind: Unsupported value: \"Inner\": supported values: "
                               "\"Outer\"\n"},
        {"\"text\":\"\"", "E spec.text: Required value: names it\n"},
        {"\"text\":5", "E spec.text: Invalid value: must be a string\n"},
        {"\"txt\":5", "E spec.txt: Forbidden: unknown field; is \"text\" meant?\n"},
        {"\"colour\":5", "E spec.colour: Forbidden: unknown field\n"},
        {"\"label\":\"A\"", NULL},
        {"\"flag\":1", "E spec.flag: Invalid value: must be true or false\n"},
        {"\"number\":1", "E spec.number: Invalid value: must be a whole number from 2 to 10\n"},
        {"\"number\":2.5", "E spec.number: Invalid value: must be a whole number from 2 to 10\n"},
        {"\"number\":\"2\"", "E spec.number: Invalid value: must be a whole number from 2 to 10\n"},
        {"\"wait\":\"0s\"", "E spec.wait: Invalid value: \"0s\": must be from 1ms to 1h\n"},
        {"\"wait\":\"10\"", "E spec.wait: Invalid value: \"10\": must be a duration, such as "
                            "\"10s\", \"1.5s\", \"100ms\" or \"1h30m\"\n"},
        {"\"percent\":101", "E spec.percent: Invalid value: must be a whole number from 0 to 100, "
                            "or a text with a number, such as \"0.5\"\n"},
        {"\"word\":\"White\"", "E spec.word: Unsupported value: \"White\": supported values: "
                               "\"Whitelist\", \"Blacklist\"; write \"Whitelist\"\n"},
        {"\"bits\":[1,7]", "E spec.bits[1]: Invalid value: must be a whole number from 0 to 6\n"},
        {"\"texts\":[1,2,3,4]", "E spec.texts: Too many: must have at most 3 entries\n"},
        {"\"texts\":[1]", "E spec.texts[0]: Invalid value: must be a string\n"},
        {"\"texts\":{}", "E spec.texts: Invalid value: must be an array\n"},
        {"\"distinct\":[]", "E spec.distinct: Required value: must have at least 1 entry\n"},
        {"\"distinct\":[\"a\",\"b\",\"a\"]", "E spec.distinct[2]: Duplicate value: \"a\"\n"},
        {"\"distinct\":[1,\"\",\"\"]", "E spec.distinct[0]: Invalid value: must be a string\n"
                                       "E spec.distinct[2]: Duplicate value: \"\"\n"},
        {"\"distinct\":[\"abcde\"]", "E spec.distinct[0]: Too long: must have at most 4 bytes\n"},
        {"\"part\":{}", "W spec.part: is empty\n"},
        {"\"part\":[]", "E spec.part: Invalid value: must be an object\n"},
        {"\"object\":{\"wait\":0}", "E spec.object.wait: Invalid value: must be a string\n"
                                    "W spec.object: is empty\n"},
        {"\"list\":[{\"weight\":1},{\"weight\":1}]", "E spec.list[0].name: Required value\n"
                                                     "E spec.list[1].name: Required value\n"},
        {"\"list\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"a\"}]",
         "E spec.list[2].name: Duplicate value: \"a\"\n"},
        {"\"list\":[{\"name\":\"abcdef\"}]",
         "E spec.list[0].name: Too long: must have at most 5 bytes\n"},
        {"\"list\":[7]", "E spec.list[0]: Invalid value: must be an object\n"},
        {"\"selector\":[]", "E spec.selector: Invalid value: must be an object\n"},
        {"\"selector\":{\"matchExpressions\":{}}",
         "E spec.selector.matchExpressions: Invalid value: must be an array\n"},
        {"\"list\":\"\"", "E spec.list: Invalid value: must be an array\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[256];
        struct reading x;
        bool has_text = strncmp(rows[i].field, "\"text\"", 6) == 0;
        (void)snprintf(text, sizeof text, "{%s%s}", has_text ? "" : "\"text\":\"t\",",
                       rows[i].field);
        int rc = read_text(&x, text, true, false);
        if (rows[i].finding != NULL) {
            assert_string_equal(x.findings, rows[i].finding);
        }
        assert_int_equal(rc != 0, strstr(x.findings, "E ") != NULL);
        end(&x);
    }
}

static void null_as_a_value_and_other_fields(void **state)
{
    (void)state;
    struct reading x = {.first = ERR_INIT};
    struct entry out;
    struct schema_object open = entry;
    open.open = true;
    static const char text[] = "{\"name\":\"a\",\"later\":1,\"weight\":null}";
    x.tree = json_parse(text, sizeof text - 1, NULL);
    assert_non_null(x.tree);
    for (int nulls = 0; nulls < 2; nulls++) {
        struct schema_reader r = {.memory = &x.memory, .null_is_value = nulls != 0};
        const struct schema_path at = SCHEMA_AT(NULL, "spec", x.tree);
        assert_int_equal(schema_read(&r, &open, &at, &out), nulls != 0 ? -EINVAL : 0);
        if (nulls != 0) {
            assert_string_equal(r.first.msg,
                                "spec.weight: Invalid value: must be a whole number from 1 to 9");
        }
        assert_int_equal(out.weight, 7);
    }
    end(&x);
}

static void all_findings_or_the_first_with_its_line(void **state)
{
    (void)state;
    static const char text[] = "{\n\"number\":1,\n\"flag\":2}";
    struct reading x;
    assert_int_equal(read_text(&x, text, true, false), -EINVAL);
    assert_string_equal(x.findings, "E spec.text: Required value: names it\n"
                                    "E spec.flag: Invalid value: must be true or false\n"
                                    "E spec.number: Invalid value: must be a whole number from 2 "
                                    "to 10\n");
    end(&x);
    assert_int_equal(read_text(&x, text, false, true), -EINVAL);
    assert_string_equal(x.findings, "");
    assert_string_equal(x.first.msg, "line 1: spec.text: Required value: names it");
    end(&x);
    assert_int_equal(read_text(&x, "{\"text\":\"t\",\n\"flag\":2}", false, true), -EINVAL);
    assert_string_equal(x.first.msg, "line 2: spec.flag: Invalid value: must be true or false");
    end(&x);
}

static void count_finding(void *data, bool error, const char *text)
{
    (void)text;
    *(unsigned *)data += error ? 1 : 0;
}

/* Whoever sends a megabyte of mistakes does not keep the reader busy with telling all of them. */
static void reading_stops_at_many_errors(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *each;
        const char *after;
    } rows[] = {
        {"{\"text\":\"t\",\"distinct\":[\"a\"", ",\"a\"", "]}"},
        {"{\"text\":\"t\",\"distinct\":[\"a\"", ",7", "]}"},
        {"{\"text\":\"t\"", NULL, "}"},
        {"{\"text\":\"t\",\"bits\":[1", ",7", "]}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf text = BUF_INIT(1 << 20);
        struct schema_memory memory = {0};
        struct outer out = {.text = NULL};
        unsigned errors = 0;
        (void)buf_append_str(&text, rows[i].before);
        for (unsigned n = 0; n < 10000; n++) {
            if (rows[i].each == NULL) {
                (void)buf_printf(&text, ",\"x%u\":1", n); /* unknown fields */
            } else {
                (void)buf_append_str(&text, rows[i].each);
            }
        }
        assert_int_equal(buf_append_str(&text, rows[i].after), 0);
        cJSON *tree = json_parse(buf_cstr(&text), text.len, NULL);
        assert_non_null(tree);
        struct schema_reader r = {.memory = &memory, .on_finding = count_finding, .data = &errors};
        const struct schema_path at = SCHEMA_AT(NULL, "spec", tree);
        assert_int_equal(schema_read(&r, &outer, &at, &out), -EINVAL);
        assert_int_equal(errors, SCHEMA_ERRORS_MAX);
        schema_memory_deinit(&memory);
        cJSON_Delete(tree);
        buf_reset(&text);
    }
}

/* Whether it was read, each time whole or not at all. */
static bool read_whole(void *data)
{
    struct reading *x = data;
    struct schema_reader r = {.memory = &x->memory, .on_finding = on_finding, .data = x};
    const struct schema_path at = SCHEMA_AT(NULL, "spec", x->tree);
    int rc = schema_read(&r, &outer, &at, &x->out);
    schema_memory_deinit(&x->memory);
    assert_true(rc == 0 || rc == -ENOMEM);
    assert_string_equal(x->findings, "");
    return rc == 0;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    struct reading x;
    assert_int_equal(read_text(&x, WHOLE, true, false), 0);
    schema_memory_deinit(&x.memory);
    assert_true(sweep_allocations(read_whole, &x) >= 6);
    end(&x);
}

/* ---- writing ---- */

#define EVENT(member) SCHEMA_MEMBER(struct event, member)
static const char *const size_words[] = {"auto", NULL};
static const struct schema_field event_fields[] = {
    {"kind", SCHEMA_CONSTANT, .words = kind},
    {"text", SCHEMA_TEXT, EVENT(text), .required = "", .flags = SCHEMA_EMPTY},
    {"optional", SCHEMA_TEXT, EVENT(optional), .flags = SCHEMA_LENIENT},
    {"flag", SCHEMA_BOOL, EVENT(flag), .flags = SCHEMA_LENIENT},
    {"size", SCHEMA_NUMBER, EVENT(size), .min = 1, .max = 32, .words = size_words},
    {"count", SCHEMA_NUMBER64, EVENT(count), .max = UINT64_C(1) << 53},
    {"at", SCHEMA_TIME, EVENT(at)},
    {"seconds", SCHEMA_TIME, EVENT(seconds), .flags = SCHEMA_SECONDS},
    {"word", SCHEMA_WORD, EVENT(word), .words = words},
    {"part", SCHEMA_PART, EVENT(part), .object = &entry},
    {"map", SCHEMA_TEXT_MAP, EVENT(map)},
};
static const struct schema_object event = {SCHEMA_OBJECT_OF(event_fields, struct event)};

static int read_event(const char *text, struct event *out, cJSON **tree, struct err *e)
{
    *tree = json_parse(text, strlen(text), NULL);
    assert_non_null(*tree);
    struct schema_reader r = {.memory = NULL};
    const struct schema_path at = SCHEMA_AT(NULL, "", *tree);
    memset(out, 0, sizeof *out);
    int rc = schema_read(&r, &event, &at, out);
    *e = r.first;
    return rc;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const struct event all = {.text = "t",
                                     .optional = "o",
                                     .flag = true,
                                     .size = 7,
                                     .count = UINT64_C(1) << 53,
                                     .at = 1000000000,
                                     .seconds = 1000000001,
                                     .word = 1,
                                     .part = {"x", 2}};
    static const struct event none = {.text = "", .optional = NULL, .size = 1, .part = {"x", 1}};
    struct event again;
    cJSON *tree;
    struct err e;
    cJSON *out = cJSON_CreateObject();
    assert_true(schema_write_json(&event, &all, out));
    char *text = cJSON_PrintUnformatted(out);
    assert_string_equal(text, "{\"kind\":\"Outer\",\"text\":\"t\",\"optional\":\"o\",\"flag\":true,"
                              "\"size\":7,\"count\":9007199254740992,\"at\":"
                              "\"2001-09-09T01:46:40Z\",\"seconds\":1000000001,\"word\":"
                              "\"Blacklist\",\"part\":{\"name\":\"x\",\"weight\":2}}");
    assert_int_equal(read_event(text, &again, &tree, &e), 0);
    assert_true(again.count == all.count && again.at == all.at && again.seconds == all.seconds);
    assert_true(again.flag && again.size == 7 && again.word == 1 && again.part.weight == 2);
    cJSON_Delete(tree);
    cJSON_free(text);
    cJSON_Delete(out);
    out = cJSON_CreateObject();
    assert_true(schema_write_json(&event, &none, out));
    text = cJSON_PrintUnformatted(out);
    assert_string_equal(text, "{\"kind\":\"Outer\",\"text\":\"\",\"flag\":false,\"size\":1,"
                              "\"count\":0,\"seconds\":0,\"word\":\"Whitelist\",\"part\":"
                              "{\"name\":\"x\",\"weight\":1}}");
    cJSON_free(text);
    cJSON_Delete(out);
}

static bool write_whole(void *data)
{
    cJSON *out = cJSON_CreateObject();
    bool whole = schema_write_json(&event, data, out);
    cJSON_Delete(out);
    return whole;
}

static void writing_tells_that_memory_ran_out(void **state)
{
    (void)state;
    struct event e = {.text = "t", .count = UINT64_C(1) << 53, .part = {"x", 1}};
    assert_true(sweep_allocations(write_whole, &e) >= 10);
}

static void values_of_several_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *error; /* NULL: it is right */
    } rows[] = {
        {"{\"text\":\"\",\"size\":\"auto\",\"seconds\":\"2001-09-09T01:46:40Z\",\"at\":7}", NULL},
        {"{\"text\":\"\",\"optional\":7,\"flag\":[],\"map\":{\"a\":\"b\",\"c\":null}}", NULL},
        {"{\"text\":\"\",\"size\":\"Auto\"}",
         "size: Invalid value: must be a whole number from 1 to 32, or the text \"auto\""},
        {"{\"text\":\"\",\"at\":-1}",
         "at: Invalid value: must be a time since 1970, in seconds or in RFC 3339 format"},
        {"{\"text\":\"\",\"at\":\"1969-12-31T23:59:59Z\"}", "at: Invalid value"},
        {"{\"text\":\"\",\"at\":253402300800}", "at: Invalid value"},
        {"{\"text\":\"\",\"map\":{\"a\":1}}", "map: Invalid value: must be an object of strings"},
        {"{\"text\":\"\",\"map\":[]}", "map: Invalid value: must be an object of strings"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct event out;
        cJSON *tree;
        struct err e;
        int rc = read_event(rows[i].text, &out, &tree, &e);
        assert_int_equal(rc != 0, rows[i].error != NULL);
        if (rc != 0 && strncmp(e.msg, rows[i].error, strlen(rows[i].error)) != 0) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
        assert_int_equal(out.size, 0);
        assert_false(out.flag);
        assert_string_equal(out.optional, "");
        cJSON_Delete(tree);
    }
}

/* ---- what is made of the rows ---- */

static void rows_as_the_schema_of_a_definition(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 16);
    schema_write_openapi(&entry, 2, &out);
    assert_string_equal(buf_cstr(&out), "  type: object\n"
                                        "  x-kubernetes-preserve-unknown-fields: true\n"
                                        "  required: [name]\n"
                                        "  properties:\n"
                                        "    name:\n"
                                        "      type: string\n"
                                        "      minLength: 1\n"
                                        "      maxLength: 5\n"
                                        "    weight:\n"
                                        "      type: integer\n"
                                        "      format: int32\n"
                                        "      minimum: 1\n"
                                        "      maximum: 9\n");
    buf_clear(&out);
    schema_write_openapi(&outer, 0, &out);
    assert_non_null(strstr(buf_cstr(&out), "x-kubernetes-list-map-keys: [name]\n"));
    assert_non_null(strstr(buf_cstr(&out), "enum:\n    - 'Whitelist'\n    - 'Blacklist'\n"));
    assert_non_null(strstr(buf_cstr(&out), "            - 'DoesNotExist'\n"));
    buf_reset(&out);
}

static void rows_as_a_reference(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(1 << 16);
    schema_write_reference(&outer, "spec", &out);
    assert_non_null(strstr(buf_cstr(&out), "| `spec.label` | text | A \\| label. |\n"));
    assert_non_null(strstr(buf_cstr(&out), "| `spec.list[].weight` | integer, 1 to 9 |  |\n"));
    assert_non_null(strstr(buf_cstr(&out), "| `spec.wait` | duration, 1ms to 1h |  |\n"));
    assert_non_null(strstr(buf_cstr(&out), "`spec.selector` | label selector, at most 64 requ"));
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_each_type),
        cmocka_unit_test(absent_and_null_fields),
        cmocka_unit_test(findings),
        cmocka_unit_test(null_as_a_value_and_other_fields),
        cmocka_unit_test(all_findings_or_the_first_with_its_line),
        cmocka_unit_test(reading_stops_at_many_errors),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(writing_tells_that_memory_ran_out),
        cmocka_unit_test(values_of_several_forms),
        cmocka_unit_test(rows_as_the_schema_of_a_definition),
        cmocka_unit_test(rows_as_a_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
