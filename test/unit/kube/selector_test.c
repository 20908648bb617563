/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "kube/selector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct selector *parse(const char *text)
{
    struct err e = ERR_INIT;
    struct selector *s = selector_parse(slice_str(text), &e);
    if (s == NULL) {
        fail_msg("'%s': %s", text, e.msg);
    }
    return s;
}

static void prints(const struct selector *s, const char *source, const char *want)
{
    struct buf out = BUF_INIT(SELECTOR_TEXT_MAX);
    assert_int_equal(selector_print(s, &out), 0);
    const char *got = buf_cstr(&out);
    if (strcmp(got, want) != 0) {
        fail_msg("'%s' prints as '%s', not '%s'", source, got, want);
    }
    buf_reset(&out);
}

struct text_row {
    const char *text;
    const char *canonical;
};

static void canonical_text(void **state)
{
    (void)state;
    static const struct text_row rows[] = {
        {"", ""},
        {" \t\r\n", ""},
        {"a=b", "a=b"},
        {" a = b ", "a=b"},
        {"a==b", "a==b"},
        {"a == b", "a==b"},
        {"a!=b", "a!=b"},
        {"a != b", "a!=b"},
        {"a", "a"},
        {"!a", "!a"},
        {" ! a ", "!a"},
        {"a>5", "a>5"},
        {"a < 007", "a<007"},
        {"a in (b)", "a in (b)"},
        {"a in(b)", "a in (b)"},
        {"a notin (c,b)", "a notin (b,c)"},
        {"a in ( z , y,x )", "a in (x,y,z)"},
        {"a in (b,b,b)", "a in (b)"},
        {"a\tin\n(b)\r", "a in (b)"},
        /* the empty value */
        {"a=", "a="},
        {"a==,b", "a==,b"},
        {"a!=", "a!="},
        {"a=,b=", "a=,b="},
        {"a in ()", "a in ()"},
        {"a in (,)", "a in ()"},
        {"a in (,x)", "a in (,x)"},
        {"a in (x,)", "a in (,x)"},
        {"a in (x,,y)", "a in (,x,y)"},
        {"a in (,,x)", "a in (,x)"},
        {"a in (,,,)", "a in ()"},
        {"a in (,,,,x)", "a in (,x)"},
        {"a notin ()", "a notin ()"},
        /* words of the grammar as keys and values */
        {"in", "in"},
        {"notin", "notin"},
        {"!in", "!in"},
        {"in in (in,notin)", "in in (in,notin)"},
        {"notin notin (notin)", "notin notin (notin)"},
        {"in=in", "in=in"},
        {"a=notin", "a=notin"},
        {"in,notin", "in,notin"},
        /* order */
        {"b=1,a=2", "a=2,b=1"},
        {"b,!a,c in (d)", "!a,b,c in (d)"},
        {"a!=c,a=b,a", "a,a=b,a!=c"},
        {"!k,k", "k,!k"},
        {"a=c,a=b", "a=b,a=c"},
        {"B,a,A", "A,B,a"},
        {"x/y=1,x=2", "x=2,x/y=1"},
        /* keys and values */
        {"example.com/a.b_c-d=E.f_G-9", "example.com/a.b_c-d=E.f_G-9"},
        {"0=1", "0=1"},
        {"a1234567890123456789012345678901234567890123456789012345678901b",
         "a1234567890123456789012345678901234567890123456789012345678901b"},
        {"a=b1234567890123456789012345678901234567890123456789012345678901b",
         "a=b1234567890123456789012345678901234567890123456789012345678901b"},
        {"a>9223372036854775807", "a>9223372036854775807"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *s = parse(rows[i].text);
        prints(s, rows[i].text, rows[i].canonical);
        struct selector *again = parse(rows[i].canonical);
        assert_true(selector_equal(s, again));
        assert_int_equal(selector_is_everything(s), rows[i].canonical[0] == '\0');
        selector_free(again);
        selector_free(s);
    }
}

static void errors_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {",", "position 1: found ',', expected '!' or a label key"},
        {",a", "position 1: found ','"},
        {"a,", "position 3: the selector ends, expected '!' or a label key"},
        {"a,,b", "position 3: found ',', expected '!' or a label key"},
        {"a b", "position 3: found 'b', expected '=', '==', '!=', '>', '<', 'in' or 'notin'"},
        {"a=b c", "position 5: found 'c', expected ',' or the end"},
        {"a=b=c", "position 4: found '=', expected ',' or the end"},
        {"!a=b", "position 3: found '=', expected ',' or the end"},
        {"!!a", "position 2: found '!', expected a label key"},
        {"!", "position 2: the selector ends, expected a label key"},
        {"=b", "position 1: found '=', expected '!' or a label key"},
        {"!=b", "position 1: found '!='"},
        {"a=!b", "position 3: found '!', expected a value"},
        {"a===b", "position 4: found '=', expected a value"},
        {"a=(b)", "position 3: found '(', expected a value"},
        {"a!b", "position 2: found '!', expected '='"},
        {"a>=5", "position 3: found '=', expected a value"},
        {"a in", "position 5: the selector ends, expected '('"},
        {"a in b", "position 6: found 'b', expected '('"},
        {"a in (", "position 7: the selector ends, expected ',' or a value"},
        {"a in (b", "position 8: the selector ends, expected ',' or ')'"},
        {"a in (b c)", "position 9: found 'c', expected ',' or ')'"},
        {"a in (b,c", "position 10: the selector ends, expected ',' or ')'"},
        {"a in (b=c)", "position 8: found '='"},
        {"a in (!b)", "position 7: found '!', expected ',' or a value"},
        {"a in (b,,)", "position 10: found ')', expected ',' or a value"},
        {"a in (,,)", "position 9: found ')', expected ',' or a value"},
        {"a in ((b))", "position 7: found '('"},
        {"a in (b))", "position 9: found ')', expected ',' or the end"},
        {"a In (b)", "position 3: found 'In'"},
        {"a not in (b)", "position 3: found 'not'"},
        {"(a)", "position 1: found '('"},
        /* keys */
        {"-a=b", "position 1: invalid label key: name part must consist of"},
        {"b,a.=b", "position 3: invalid label key: name part must consist of"},
        {"a/b/c", "position 1: invalid label key: name part must consist of"},
        {"/a", "position 1: invalid label key: prefix part"},
        {"a/", "position 1: invalid label key: name part"},
        {"A.b/c", "position 1: invalid label key: prefix part"},
        {"a..b/c", "position 1: invalid label key: prefix part"},
        {"'a'=b", "position 1: invalid label key"},
        {"a1234567890123456789012345678901234567890123456789012345678901bc",
         "position 1: invalid label key: name part must be no more than 63 characters"},
        /* values: there is no quoting */
        {"a='b'", "position 3: invalid label value: must be"},
        {"a=\"b\"", "position 3: invalid label value: must be"},
        {"a=b/c", "position 3: invalid label value: must be"},
        {"a=-b", "position 3: invalid label value: must be"},
        {"a in (b,c-)", "position 9: invalid label value: must be"},
        {"a=b1234567890123456789012345678901234567890123456789012345678901bc",
         "position 3: invalid label value: must be no more than 63 characters"},
        {"a=\xc3\xa9", "position 3: invalid label value"},
        /* integers */
        {"a>", "position 3: invalid label value: for 'Gt', 'Lt' operators"},
        {"a>b", "position 3: invalid label value: for 'Gt', 'Lt' operators"},
        {"a<1.5", "position 3: invalid label value: for 'Gt', 'Lt' operators"},
        {"a<-1", "position 3: invalid label value: must be"},
        {"a>9223372036854775808", "position 3: invalid label value: for 'Gt', 'Lt' operators"},
        {"a>1_000", "position 3: invalid label value: for 'Gt', 'Lt' operators"},
        /* what is shown of hostile text */
        {"a \x1b[31m", "position 3: found '?[31m'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        assert_null(selector_parse(slice_str(rows[i].text), &e));
        if (e.code != -EINVAL || strncmp(e.msg, rows[i].says, strlen(rows[i].says)) != 0) {
            fail_msg("'%s': %d '%s'", rows[i].text, e.code, e.msg);
        }
    }
}

static void nul_as_in_kubernetes(void **state)
{
    (void)state;
    static const struct {
        struct slice text;
        const char *canonical; /* NULL: refused */
    } rows[] = {
        {{"\0a", 2}, ""},
        {{"a=b \0,c", 7}, "a=b"},
        {{"a=\0b", 4}, "a=b"},
        {{"a\0=b", 4}, "a=b"},
        {{"a\0", 2}, "a"},
        {{"a\0\0b", 4}, "a"},
        {{"a=b\0c", 5}, NULL},
        {{"a=b,\0c", 6}, "a=b,c"},
        {{"a=b, \0", 6}, NULL},
        {{"!\0=b", 4}, NULL},
        {{"a in (b\0)", 9}, "a in (b)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *s = selector_parse(rows[i].text, NULL);
        if ((s == NULL) != (rows[i].canonical == NULL)) {
            fail_msg("row %zu", i);
        }
        if (s != NULL) {
            prints(s, rows[i].text.ptr, rows[i].canonical);
        }
        selector_free(s);
    }
}

/* Labels are written as "a=1 b=" in the table. */
static bool matches(const struct selector *s, const char *text)
{
    struct selector_label labels[8];
    size_t count = 0;
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        size_t key = strcspn(text, "=");
        labels[count++] = (struct selector_label){.key = slice_of(text, key),
                                                  .value = slice_of(text + key + 1, len - key - 1)};
        text += len + strspn(text + len, " ");
    }
    return selector_matches(s, labels, count);
}

static void evaluation(void **state)
{
    (void)state;
    static const struct {
        const char *selector;
        const char *labels;
        bool match;
    } rows[] = {
        {"", "", true},
        {"", "a=b", true},
        {"a=b", "a=b", true},
        {"a=b", "a=bb", false},
        {"a=bb", "a=b", false},
        {"a=b", "b=a", false},
        {"a=b", "", false},
        {"a==b", "x=y a=b", true},
        {"a=", "a=", true},
        {"a=", "", false},
        {"a=", "a=b", false},
        {"a!=b", "a=c", true},
        {"a!=b", "a=b", false},
        {"a!=b", "", true},
        {"a!=", "a=", false},
        {"a!=", "", true},
        {"a in (b,c,d)", "a=b", true},
        {"a in (b,c,d)", "a=c", true},
        {"a in (b,c,d)", "a=d", true},
        {"a in (b,c,d)", "a=", false},
        {"a in (b,c,d)", "a=e", false},
        {"a in (b,c,d)", "a=bc", false},
        {"a in (b,c,d)", "", false},
        {"a in ()", "a=", true},
        {"a in ()", "", false},
        {"a in (,b)", "a=", true},
        {"a notin (b,c)", "a=b", false},
        {"a notin (b,c)", "a=d", true},
        {"a notin (b,c)", "a=", true},
        {"a notin (b,c)", "", true},
        {"a notin ()", "a=", false},
        {"a notin ()", "", true},
        {"a", "a=", true},
        {"a", "a=b", true},
        {"a", "aa=b", false},
        {"!a", "", true},
        {"!a", "a=", false},
        {"!a", "b=a", true},
        {"a>5", "a=6", true},
        {"a>5", "a=5", false},
        {"a>5", "a=-6", false},
        {"a<5", "a=4", true},
        {"a<5", "a=-9", true},
        {"a<5", "a=5", false},
        {"a<5", "a=", false},
        {"a<5", "a=x", false},
        {"a<5", "a=1.5", false},
        {"a<5", "", false},
        {"a>5", "a=006", true},
        {"a>5", "a=9223372036854775807", true},
        {"a>5", "a=9223372036854775808", false},
        {"a,!a", "", false},
        {"a,!a", "a=b", false},
        {"a=b,c=d", "a=b c=d", true},
        {"a=b,c=d", "a=b", false},
        {"a=b,c!=d", "a=b", true},
        {"a=b,a=c", "a=b", false},
        {"a!=b,a!=c", "a=d", true},
        {"a/b=c", "a/b=c", true},
        {"A=b", "a=b", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *s = parse(rows[i].selector);
        if (matches(s, rows[i].labels) != rows[i].match) {
            fail_msg("'%s' on '%s'", rows[i].selector, rows[i].labels);
        }
        selector_free(s);
    }
}

static void conjunction(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        const char *both;
    } rows[] = {
        {"", "", ""},
        {"a=b", "", "a=b"},
        {"b=c", "a", "a,b=c"},
        {"a in (x,y)", "a in (y,z)", "a in (x,y),a in (y,z)"},
        {"a=b,c", "c,a=b,d", "a=b,c,d"},
        {"a in (x,y)", "a in (y,x)", "a in (x,y)"},
        {"a=b", "a==b", "a=b,a==b"},
        {"k,!k", "a=b", "a=b,k,!k"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *list[] = {parse(rows[i].a), parse(rows[i].b)};
        struct selector *both = selector_and((const struct selector *const *)list, 2, NULL);
        prints(both, rows[i].a, rows[i].both);
        selector_free(list[0]);
        selector_free(list[1]);
        selector_free(both);
    }
    struct selector *everything = selector_and(NULL, 0, NULL);
    assert_true(selector_is_everything(everything));
    selector_free(everything);
}

static void nothing(void **state)
{
    (void)state;
    struct selector *s = selector_nothing();
    prints(s, "nothing", "k,!k");
    assert_false(matches(s, ""));
    assert_false(matches(s, "k=v"));
    selector_free(s);
}

static void size(void **state)
{
    static const struct {
        const char *text;
        size_t size;
    } rows[] = {{"", 0}, {"a", 1}, {"a=b", 2}, {"a in (b,c,c),!d,e!=f", 6}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct selector *s = parse(rows[i].text);
        assert_int_equal(selector_size(s), rows[i].size);
        selector_free(s);
    }
}

static void equality(void **state)
{
    (void)state;
    struct selector *a = parse("b in (y,x),a=1");
    struct selector *same = parse("a=1, b in (x,y,x)");
    struct selector *others[] = {parse("a=1"), parse("a=1,b in (x,z)"), parse("a=1,b notin (x,y)"),
                                 parse("a=1,c in (x,y)"), parse("a==1,b in (x,y)")};
    assert_true(selector_equal(a, same));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(selector_equal(a, others[i]));
        selector_free(others[i]);
    }
    selector_free(a);
    selector_free(same);
}

static char *repeated(const char *piece, size_t count)
{
    size_t len = strlen(piece);
    char *text = malloc(len * count + 1);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + i * len, piece, len);
    }
    text[len * count] = '\0';
    return text;
}

static void bounds(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    char *text = repeated("a=b,", SELECTOR_REQUIREMENTS_MAX);
    text[strlen(text) - 1] = '\0';
    struct selector *most = parse(text);
    struct selector *one = parse("c");
    free(text);
    const struct selector *list[] = {most, one};
    struct selector *merged = selector_and(list, 1, NULL);
    prints(merged, "most", "a=b");
    assert_null(selector_and(list, 2, &e));
    assert_int_equal(e.code, -E2BIG);
    selector_free(merged);
    selector_free(most);
    selector_free(one);

    text = repeated("a=b,", SELECTOR_REQUIREMENTS_MAX + 1);
    assert_null(selector_parse(slice_of(text, strlen(text) - 1), &e));
    assert_int_equal(e.code, -E2BIG);
    free(text);

    text = repeated(" ", SELECTOR_TEXT_MAX + 1);
    assert_null(selector_parse(slice_str(text), &e));
    assert_int_equal(e.code, -E2BIG);
    selector_free(parse(text + 1));
    free(text);
}

static struct selector *from_json(const char *json, struct err *e)
{
    cJSON *object = cJSON_Parse(json);
    assert_non_null(object);
    struct selector *s = selector_from_label_selector(object, "spec.limits[0].selector", e);
    cJSON_Delete(object);
    return s;
}

static void from_label_selector(void **state)
{
    (void)state;
    static const struct text_row rows[] = {
        {"{}", ""},
        {"null", "k,!k"},
        {"{\"matchLabels\":{},\"matchExpressions\":[]}", ""},
        {"{\"matchLabels\":null,\"matchExpressions\":null}", ""},
        {"{\"matchLabels\":{\"b\":\"2\",\"a\":\"\"}}", "a=,b=2"},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"y\",\"x\",\"y\"]}"
         "]}",
         "a in (x,y)"},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[\"x\"]}]}",
         "a notin (x)"},
        {"{\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"Exists\"},"
         "{\"key\":\"a\",\"operator\":\"DoesNotExist\",\"values\":[]}]}",
         "!a,b"},
        {"{\"matchLabels\":{\"c\":\"d\"},"
         "\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"Exists\",\"values\":null}]}",
         "b,c=d"},
        /* an empty list: nothing, whatever else is asked for */
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[]}]}", "k,!k"},
        {"{\"matchLabels\":{\"c\":\"d\"},"
         "\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[]},"
         "{\"key\":\"b\",\"operator\":\"Exists\"}]}",
         "k,!k"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        struct selector *s = from_json(rows[i].text, &e);
        if (s == NULL) {
            fail_msg("%s: %s", rows[i].text, e.msg);
        }
        prints(s, rows[i].text, rows[i].canonical);
        selector_free(s);
    }
}

static void label_selector_errors_name_the_field(void **state)
{
    (void)state;
#define EXPRESSION(members)                                                                        \
    "{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"Exists\"},{" members "}]}"
    static const struct {
        const char *json;
        const char *says; /* behind spec.limits[0].selector */
    } rows[] = {
        {"[]", ": Invalid value: must be an object"},
        {"{\"matchLabel\":{}}", ".matchLabel: Forbidden: unknown field"},
        {"{\"matchLabels\":[]}", ".matchLabels: Invalid value: must be an object"},
        {"{\"matchLabels\":{\"a\":1}}", ".matchLabels[a]: Invalid value: must be a string"},
        {"{\"matchLabels\":{\"-\":\"a\"}}", ".matchLabels: Invalid value: \"-\": name part must"},
        {"{\"matchLabels\":{\"a\":\"-\"}}", ".matchLabels: Invalid value: \"-\": must be"},
        {"{\"matchExpressions\":{}}", ".matchExpressions: Invalid value: must be an array"},
        {"{\"matchExpressions\":[1]}", ".matchExpressions[0]: Invalid value: must be an object"},
        {EXPRESSION("\"key\":\"a\""), ".matchExpressions[1].operator: Required value"},
        {EXPRESSION("\"operator\":\"Exists\""), ".matchExpressions[1].key: Required value"},
        {EXPRESSION("\"key\":1,\"operator\":\"Exists\""),
         ".matchExpressions[1].key: Invalid value: must be a string"},
        {EXPRESSION("\"key\":\"a b\",\"operator\":\"Exists\""),
         ".matchExpressions[1].key: Invalid value: \"a b\": name part must"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"in\",\"values\":[\"b\"]"),
         ".matchExpressions[1].operator: Unsupported value: \"in\": supported values: \"In\", "},
        {EXPRESSION("\"key\":\"a\",\"operator\":1"),
         ".matchExpressions[1].operator: Invalid value: must be a string"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"In\""),
         ".matchExpressions[1].values: Required value: must be specified when `operator` is 'In' "
         "or 'NotIn'"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[]"),
         ".matchExpressions[1].values: Required value"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"Exists\",\"values\":[\"b\"]"),
         ".matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' "
         "or 'DoesNotExist'"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"In\",\"values\":\"b\""),
         ".matchExpressions[1].values: Invalid value: must be an array"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"In\",\"values\":[\"b\",2]"),
         ".matchExpressions[1].values[1]: Invalid value: must be a string"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"In\",\"values\":[\"b\",\"c d\"]"),
         ".matchExpressions[1].values[1]: Invalid value: \"c d\": must be"},
        {EXPRESSION("\"key\":\"a\",\"operator\":\"In\",\"values\":[],\"value\":[]"),
         ".matchExpressions[1].value: Forbidden: unknown field"},
    };
#undef EXPRESSION
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        assert_null(from_json(rows[i].json, &e));
        const char *prefix = "spec.limits[0].selector";
        assert_int_equal(strncmp(e.msg, prefix, strlen(prefix)), 0);
        if (strncmp(e.msg + strlen(prefix), rows[i].says, strlen(rows[i].says)) != 0) {
            fail_msg("%s: '%s'", rows[i].json, e.msg);
        }
    }
}

struct widen_row {
    const char *selector;
    const char *labels; /* of the object, as requirements; !k: it has none of the key */
    const char *wide;
};

/* The labels that a selector of `k=v` alone asks for. */
static size_t labels_of(const struct selector *s, struct selector_label *out)
{
    size_t required;
    size_t count = 0;
    const struct selector_requirement *r = selector_requirements(s, &required);
    for (size_t i = 0; i < required; i++) {
        if (r[i].op == SELECTOR_EQUALS) {
            out[count++] = (struct selector_label){slice_str(r[i].key), slice_str(r[i].values[0])};
        }
    }
    return count;
}

static void widening(void **state)
{
    (void)state;
    static const struct widen_row rows[] = {
        {"ns in (a,b)", "ns=c", "ns in (a,b,c)"},
        {"ns in (a,b)", "ns=a", "ns in (a,b)"},
        {"ns in (a,b)", "other=a", ""},
        {"ns=a", "ns=b", "ns in (a,b)"},
        {"ns==a,x", "ns=b,x=1", "ns in (a,b),x"},
        {"ns notin (a,b)", "ns=a", "ns notin (b)"},
        {"ns!=a", "ns=a", ""},
        {"ns notin (a,b)", "ns=c", "ns notin (a,b)"},
        {"x", "ns=a", ""},
        {"!x", "x=1", ""},
        {"x>5", "x=5", ""},
        {"x>5,ns in (a)", "x=6,ns=b", "ns in (a,b),x>5"},
        {"ns in (a,b),ns notin (c)", "ns=c", "ns in (a,b,c)"},
        {SELECTOR_NOTHING, "a=b", "!k"},
        {SELECTOR_NOTHING, "k=b", "k"},
        {"", "a=b", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = ERR_INIT;
        struct selector_label labels[4];
        struct selector *s = parse(rows[i].selector);
        struct selector *object = parse(rows[i].labels);
        size_t count = labels_of(object, labels);
        struct selector *wide = selector_widen(s, labels, count, &e);
        assert_non_null(wide);
        prints(wide, rows[i].selector, rows[i].wide);
        assert_true(selector_matches(wide, labels, count));
        selector_free(wide);
        selector_free(object);
        selector_free(s);
    }
}

static void what_is_no_label_widens_nothing(void **state)
{
    (void)state;
    struct err e = ERR_INIT;
    const struct selector_label label = {SLICE("ns"), SLICE("not a value")};
    struct selector *s = parse("ns in (a)");
    assert_null(selector_widen(s, &label, 1, &e));
    assert_int_equal(e.code, -EINVAL);
    selector_free(s);
}

static void one_requirement(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "b in (x,y)", "!c", "d notin (z)", "e>5"};
    struct err e = ERR_INIT;
    struct selector *s = parse("e>5,b in (y,x),d notin (z),!c,a");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct selector *one = selector_one(s, i, &e);
        assert_non_null(one);
        prints(one, texts[i], texts[i]);
        selector_free(one);
    }
    selector_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(nul_as_in_kubernetes),
        cmocka_unit_test(evaluation),
        cmocka_unit_test(conjunction),
        cmocka_unit_test(nothing),
        cmocka_unit_test(widening),
        cmocka_unit_test(what_is_no_label_widens_nothing),
        cmocka_unit_test(one_requirement),
        cmocka_unit_test(equality),
        cmocka_unit_test(size),
        cmocka_unit_test(bounds),
        cmocka_unit_test(from_label_selector),
        cmocka_unit_test(label_selector_errors_name_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
