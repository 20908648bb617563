/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/name_constraints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/array.h"
#include "der_write.h"

enum { OTHER = 0xa0, EMAIL = 0x81, DNS = 0x82, DIRECTORY = 0xa4, URI = 0x86, IP = 0x87, ID = 0x88 };

struct name {
    uint8_t tag; /* 0: none */
    struct slice value;
};

#define LIST_MAX 4

struct attempt {
    struct name permitted[LIST_MAX];
    struct name excluded[LIST_MAX];
    struct name names[LIST_MAX];
    struct slice subject; /* content of the Name */
};

static void put_subtrees(struct buf *b, const struct name *list, uint8_t number)
{
    size_t from = b->len;
    for (size_t i = 0; i < LIST_MAX && list[i].tag != 0; i++) {
        size_t subtree = b->len;
        der_put_element(b, list[i].tag, list[i].value);
        der_wrap(b, subtree, DER_SEQUENCE);
    }
    if (b->len > from) {
        der_wrap(b, from, (uint8_t)(DER_CONTEXT | DER_CONSTRUCTED | number));
    }
}

static int check(const struct attempt *a, struct err *e)
{
    struct buf authority = BUF_INIT(SIZE_MAX);
    struct buf names = BUF_INIT(SIZE_MAX);
    put_subtrees(&authority, a->permitted, 0);
    put_subtrees(&authority, a->excluded, 1);
    der_wrap(&authority, 0, DER_SEQUENCE);
    der_wrap_extension(&authority, 0, X509_OID_NAME_CONSTRAINTS);
    for (size_t i = 0; i < LIST_MAX && a->names[i].tag != 0; i++) {
        der_put_element(&names, a->names[i].tag, a->names[i].value);
    }
    der_wrap(&names, 0, DER_SEQUENCE);
    der_wrap_extension(&names, 0, X509_OID_SUBJECT_ALT_NAME);
    struct x509 ca = {.extensions = buf_slice(&authority)};
    struct x509 c = {.extensions = buf_slice(&names), .subject = a->subject};
    assert_true(name_constraints_present(&ca));
    assert_false(name_constraints_present(&c));
    int rc = name_constraints_check(&ca, &c, e);
    assert_int_equal(rc, e->code);
    buf_reset(&authority);
    buf_reset(&names);
    return rc;
}

static void passes(struct attempt a)
{
    struct err e = ERR_INIT;
    assert_int_equal(check(&a, &e), 0);
}

static void fails(struct attempt a, const char *says)
{
    struct err e = ERR_INIT;
    assert_int_equal(check(&a, &e), -EACCES);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
    }
}

#define SUBJECT_EMAIL                                                                              \
    SLICE("\x31\x14\x30\x12\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01\x16\x05"                   \
          "a@b.c")
#define SUBJECT_PLAIN                                                                              \
    SLICE("\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x0c\x01"                                           \
          "x")

/* The verdicts on DNS names and addresses are those of openssl: see certificates_test.py. */
static void names_are_compared_by_label(void **state)
{
    (void)state;
    passes((struct attempt){.permitted = {{DNS, SLICE("a.org")}},
                            .names = {{DNS, SLICE("x.A.org")}, {DNS, SLICE("a.ORG")}}});
    fails((struct attempt){.permitted = {{DNS, SLICE("a.org")}}, .names = {{DNS, SLICE("xa.org")}}},
          "is for xa.org, which the name constraints of its authority");
    passes((struct attempt){.permitted = {{DNS, SLICE("")}}, .names = {{DNS, SLICE("a.org")}}});
    fails((struct attempt){.excluded = {{DNS, SLICE("")}}, .names = {{DNS, SLICE("a.org")}}},
          "a.org");
    fails((struct attempt){.permitted = {{DNS, SLICE("a.org")}}, .names = {{DNS, SLICE("")}}}, "");
    fails((struct attempt){.permitted = {{DNS, SLICE(".a.org")}}, .names = {{DNS, SLICE("a.org")}}},
          "a.org");
}

static void wildcards_are_excluded_with_what_they_stand_for(void **state)
{
    static const struct {
        struct slice excluded;
        struct slice name;
        bool fits;
    } cases[] = {
        {SLICE("a.b.org"), SLICE("*.b.org"), false},  {SLICE("A.B.org"), SLICE("*.b.ORG"), false},
        {SLICE("b.org"), SLICE("*.b.org"), false},    {SLICE(".b.org"), SLICE("*.b.org"), false},
        {SLICE("x.a.b.org"), SLICE("*.b.org"), true}, {SLICE(".a.b.org"), SLICE("*.b.org"), true},
        {SLICE("b.org"), SLICE("*.org"), false},      {SLICE("xb.org"), SLICE("*.b.org"), true},
        {SLICE("c.org"), SLICE("*.b.org"), true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct attempt a = {.excluded = {{DNS, cases[i].excluded}},
                            .names = {{DNS, cases[i].name}}};
        struct err e = ERR_INIT;
        assert_int_equal(check(&a, &e), cases[i].fits ? 0 : -EACCES);
    }
}

static void addresses_of_both_families(void **state)
{
    const struct slice v4 = SLICE("\x0a\x01\x02\x03");
    const struct slice v6 = SLICE("\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
    const struct slice net4 = SLICE("\x0a\0\0\0\xff\0\0\0");
    const struct slice net6 =
        SLICE("\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    (void)state;
    passes((struct attempt){.permitted = {{IP, net4}, {IP, net6}}, .names = {{IP, v4}, {IP, v6}}});
    fails((struct attempt){.permitted = {{IP, net4}}, .names = {{IP, v4}, {IP, v6}}}, "fd00::1");
    fails((struct attempt){.permitted = {{IP, net6}}, .names = {{IP, v4}}}, "10.1.2.3");
    fails((struct attempt){.excluded = {{IP, net4}}, .names = {{IP, v4}}}, "10.1.2.3");
    passes((struct attempt){.excluded = {{IP, net4}}, .names = {{IP, v6}}});
    fails((struct attempt){.permitted = {{IP, net4}}, .names = {{IP, SLICE("\x0a\x01")}}},
          "is for");
}

static void other_kinds_are_refused_when_they_are_limited(void **state)
{
    static const struct {
        uint8_t tag;
        const char *says;
    } kinds[] = {{EMAIL, "an email address"},
                 {DIRECTORY, "a directory name"},
                 {URI, "a URI"},
                 {OTHER, "a special name"},
                 {ID, "a special name"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct name n = {kinds[i].tag, SLICE("x")};
        fails((struct attempt){.permitted = {n}, .names = {n}}, kinds[i].says);
        fails((struct attempt){.excluded = {n}, .names = {n}}, kinds[i].says);
        passes((struct attempt){.permitted = {n}, .names = {{DNS, SLICE("a.org")}}});
        passes((struct attempt){.permitted = {{DNS, SLICE("a.org")}}, .names = {n}});
    }
}

static void the_subject_counts_as_a_directory_name(void **state)
{
    (void)state;
    fails((struct attempt){.permitted = {{DIRECTORY, SLICE("x")}}, .subject = SUBJECT_PLAIN},
          "certificate of \"x\" has a directory name");
    fails((struct attempt){.excluded = {{EMAIL, SLICE("b.c")}}, .subject = SUBJECT_EMAIL},
          "an email address");
    passes((struct attempt){.excluded = {{EMAIL, SLICE("b.c")}}, .subject = SUBJECT_PLAIN});
    passes((struct attempt){.permitted = {{DIRECTORY, SLICE("x")}}});
}

static void what_cannot_be_read_permits_nothing(void **state)
{
    static const struct slice values[] = {
        SLICE(""),
        SLICE("\x30\0"),                                                 /* neither list */
        SLICE("\x30\x02\xa2\0"),                                         /* a third list */
        SLICE("\x30\x04\xa1\0\xa0\0"),                                   /* in the wrong order */
        SLICE("\x30\x02\xa0\0\0"),                                       /* bytes behind it */
        SLICE("\x30\x05\xa0\x03\x30\x01\x82"),                           /* cut */
        SLICE("\x30\x06\xa0\x04\x30\x02\x04\0"),                         /* no GeneralName */
        SLICE("\x30\x0a\xa0\x08\x30\x06\x82\x01x\x80\x01\0"),            /* a minimum */
        SLICE("\x30\x08\xa0\x06\x30\x04\x82\x02*."),                     /* no domain */
        SLICE("\x30\x09\xa0\x07\x30\x05\x82\x03x.."),                    /* an empty label */
        SLICE("\x30\x08\xa0\x06\x30\x04\x82\x02x "),                     /* a space */
        SLICE("\x30\x0a\xa0\x08\x30\x06\x87\x04\x0a\0\0\0"),             /* no mask */
        SLICE("\x30\x0e\xa0\x0c\x30\x0a\x87\x08\x0a\0\0\0\xff\0\xff\0"), /* a mask with a hole */
    };
    struct x509 c = {.subject = {0}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct buf extension = BUF_INIT(SIZE_MAX);
        struct err e = ERR_INIT;
        der_put(&extension, values[i].ptr, values[i].len);
        der_wrap_extension(&extension, 0, X509_OID_NAME_CONSTRAINTS);
        struct x509 ca = {.extensions = buf_slice(&extension), .subject = SUBJECT_PLAIN};
        assert_false(name_constraints_readable(values[i]));
        assert_int_equal(name_constraints_check(&ca, &c, &e), -EACCES);
        assert_string_equal(e.msg, "the name constraints of the authority \"x\" cannot be read");
        buf_reset(&extension);
    }
    assert_true(name_constraints_readable(SLICE("\x30\x02\xa0\0")));
}

/* One extension too many must not hide another. */
static void each_of_several_extensions_counts(void **state)
{
    struct buf b = BUF_INIT(SIZE_MAX);
    struct err e = ERR_INIT;
    struct attempt a = {.permitted = {{DNS, SLICE("a.org")}}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t from = b.len;
        put_subtrees(&b, i == 0 ? a.excluded : a.permitted, 0);
        der_put(&b, "\xa1", i == 0 ? 1 : 0);
        der_put(&b, "\0", i == 0 ? 1 : 0);
        der_wrap(&b, from, DER_SEQUENCE);
        der_wrap_extension(&b, from, X509_OID_NAME_CONSTRAINTS);
    }
    struct buf names = BUF_INIT(SIZE_MAX);
    der_put_element(&names, DNS, SLICE("b.org"));
    der_wrap(&names, 0, DER_SEQUENCE);
    der_wrap_extension(&names, 0, X509_OID_SUBJECT_ALT_NAME);
    struct x509 ca = {.extensions = buf_slice(&b)};
    struct x509 c = {.extensions = buf_slice(&names)};
    assert_int_equal(name_constraints_check(&ca, &c, &e), -EACCES);
    assert_int_equal(name_constraints_check(&c, &c, &e), 0); /* none at all */
    buf_reset(&b);
    buf_reset(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_compared_by_label),
        cmocka_unit_test(wildcards_are_excluded_with_what_they_stand_for),
        cmocka_unit_test(addresses_of_both_families),
        cmocka_unit_test(other_kinds_are_refused_when_they_are_limited),
        cmocka_unit_test(the_subject_counts_as_a_directory_name),
        cmocka_unit_test(what_cannot_be_read_permits_nothing),
        cmocka_unit_test(each_of_several_extensions_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
