/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/name_constraints.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <strings.h>

#include "crypto/der.h"

/* Numbers of the choices of a GeneralName: RFC 5280 section 4.2.1.6. */
enum general_name { EMAIL = 1, DNS = 2, DIRECTORY = 4, URI = 6, IP = 7, KINDS = 32 };
enum { NUMBER_MASK = 0x1f, CLASS_MASK = 0xc0 };
enum { PERMITTED, EXCLUDED }; /* of the lists in the extension */
enum { IPV4 = 4, IPV6 = 16 };

#define OID_EMAIL_ADDRESS SLICE("\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01")
#define LABEL_MAX 128
#define NAME_MAX_TEXT 256

/* ---- one name against one subtree ---- */

static bool ends_with(struct slice name, struct slice suffix)
{
    return name.len >= suffix.len &&
           slice_ieq(slice_of(name.ptr + name.len - suffix.len, suffix.len), suffix);
}

/* Whether `name` is `domain`, or has labels to its left. A domain that begins with a dot stands for
 * the names below it alone, as in OpenSSL and Go. */
static bool dns_within(struct slice name, struct slice domain)
{
    if (domain.len == 0 || !ends_with(name, domain)) {
        return domain.len == 0;
    }
    if (domain.ptr[0] == '.') {
        return name.len > domain.len;
    }
    return name.len == domain.len || name.ptr[name.len - domain.len - 1] == '.';
}

/* Whether one of the names that "*.x.org" stands for, such as "a.x.org", is within the domain. */
static bool wildcard_reaches(struct slice name, struct slice domain)
{
    if (name.len < 2 || name.ptr[0] != '*' || name.ptr[1] != '.' || domain.len == 0 ||
        domain.ptr[0] == '.') {
        return false;
    }
    struct slice parent = slice_of(name.ptr + 1, name.len - 1); /* with the dot */
    return domain.len > parent.len && ends_with(domain, parent) &&
           memchr(domain.ptr, '.', domain.len - parent.len) == NULL;
}

/* `range` is an address and a mask. */
static bool ip_within(struct slice ip, struct slice range)
{
    if (range.len != 2 * ip.len) {
        return false;
    }
    for (size_t i = 0; i < ip.len; i++) {
        if (((der_byte(ip, i) ^ der_byte(range, i)) & der_byte(range, ip.len + i)) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- the extension ---- */

static bool domain_readable(struct slice domain)
{
    for (size_t i = 0; i < domain.len; i++) {
        char c = domain.ptr[i];
        bool empty_label = c == '.' && (i + 1 == domain.len || domain.ptr[i + 1] == '.');
        if (c <= 0x20 || c > 0x7e || c == '*' || empty_label) {
            return false;
        }
    }
    return true;
}

/* The mask is ones, then zeros. */
static bool range_readable(struct slice range)
{
    size_t half = range.len / 2;
    bool ended = false;
    for (size_t i = half; i < range.len; i++) {
        for (unsigned bit = 0x80; bit != 0; bit >>= 1) {
            bool set = (der_byte(range, i) & bit) != 0;
            if (set && ended) {
                return false;
            }
            ended = !set;
        }
    }
    return range.len == 2 * IPV4 || range.len == 2 * IPV6;
}

static bool take_name(struct slice *rest, unsigned *kind, struct slice *value)
{
    uint8_t tag = 0;
    if (!der_next(rest, &tag, value) || (tag & CLASS_MASK) != DER_CONTEXT) {
        return false;
    }
    *kind = tag & NUMBER_MASK;
    return true;
}

/* GeneralSubtree: minimum is 0 and maximum absent in all certificates, so DER has neither. */
static bool take_subtree(struct slice *rest, unsigned *kind, struct slice *base)
{
    struct slice subtree;
    if (!der_take(rest, DER_SEQUENCE, &subtree) || !take_name(&subtree, kind, base) ||
        subtree.len > 0) {
        return false;
    }
    return *kind == DNS ? domain_readable(*base) : *kind != IP || range_readable(*base);
}

/* Both lists; one that is absent is empty. */
static bool take_lists(struct slice value, struct slice lists[2])
{
    struct slice content;
    bool found = false;
    if (!der_take(&value, DER_SEQUENCE, &content) || value.len > 0) {
        return false;
    }
    for (unsigned i = PERMITTED; i <= EXCLUDED; i++) {
        lists[i] = slice_of(NULL, 0);
        found =
            der_take(&content, (uint8_t)(DER_CONTEXT | DER_CONSTRUCTED | i), &lists[i]) || found;
    }
    return found && content.len == 0;
}

static bool list_readable(struct slice rest)
{
    unsigned kind = 0;
    struct slice base;
    while (rest.len > 0) {
        if (!take_subtree(&rest, &kind, &base)) {
            return false;
        }
    }
    return true;
}

bool name_constraints_readable(struct slice value)
{
    struct slice lists[2];
    return take_lists(value, lists) && list_readable(lists[PERMITTED]) &&
           list_readable(lists[EXCLUDED]);
}

static bool next_constraints(struct slice *extensions, struct slice *value)
{
    struct x509_extension x;
    while (x509_next_extension(extensions, &x)) {
        if (slice_eq(x.oid, X509_OID_NAME_CONSTRAINTS)) {
            *value = x.value;
            return true;
        }
    }
    return false;
}

bool name_constraints_present(const struct x509 *authority)
{
    struct slice extensions = authority->extensions;
    struct slice ignored;
    return next_constraints(&extensions, &ignored);
}

/* ---- names of a certificate against the extension ---- */

struct check {
    const struct x509 *authority;
    const struct x509 *c;
    struct err *e;
};

static const char *kind_text(unsigned kind)
{
    return kind == EMAIL       ? "an email address"
           : kind == DIRECTORY ? "a directory name"
           : kind == URI       ? "a URI"
                               : "a special name";
}

static void name_text(unsigned kind, struct slice name, char *out, size_t size)
{
    if (kind == IP && (name.len == IPV4 || name.len == IPV6) &&
        inet_ntop(name.len == IPV4 ? AF_INET : AF_INET6, name.ptr, out, (socklen_t)size) != NULL) {
        return;
    }
    size_t len = name.len < size ? name.len : size - 1;
    for (size_t i = 0; i < len; i++) {
        char ch = name.ptr[i];
        out[i] = ch <= 0x20 || ch > 0x7e || ch == '"' ? '?' : ch;
    }
    out[len] = '\0';
}

static int refuse_name(const struct check *k, unsigned kind, struct slice name)
{
    char subject[LABEL_MAX];
    char authority[LABEL_MAX];
    char text[NAME_MAX_TEXT];
    x509_subject_text(k->c, subject, sizeof subject);
    x509_subject_text(k->authority, authority, sizeof authority);
    name_text(kind, name, text, sizeof text);
    return err_set(k->e, -EACCES,
                   "certificate of \"%s\" is for %s, which the name constraints of its authority "
                   "\"%s\" do not permit",
                   subject, text, authority);
}

static int refuse_kind(const struct check *k, unsigned kind)
{
    char subject[LABEL_MAX];
    char authority[LABEL_MAX];
    x509_subject_text(k->c, subject, sizeof subject);
    x509_subject_text(k->authority, authority, sizeof authority);
    return err_set(k->e, -EACCES,
                   "certificate of \"%s\" has %s, and the name constraints of its authority \"%s\" "
                   "limit those; only DNS names and IP addresses can be checked",
                   subject, kind_text(kind), authority);
}

/* Whether a subtree in the list is of that kind, and whether one of those holds the name. */
static bool find_subtree(struct slice list, unsigned kind, struct slice name, bool excluding,
                         bool *holds)
{
    unsigned of = 0;
    struct slice base;
    bool found = false;
    *holds = false;
    while (take_subtree(&list, &of, &base)) {
        if (of != kind) {
            continue;
        }
        found = true;
        *holds = *holds || (kind == IP ? ip_within(name, base)
                                       : dns_within(name, base) ||
                                             (excluding && wildcard_reaches(name, base)));
    }
    return found;
}

static int check_name(const struct check *k, const struct slice lists[2], unsigned kind,
                      struct slice name)
{
    bool permitted = false;
    bool excluded = false;
    bool limited = find_subtree(lists[PERMITTED], kind, name, false, &permitted);
    bool carved = find_subtree(lists[EXCLUDED], kind, name, true, &excluded);
    if (kind != DNS && kind != IP) {
        return limited || carved ? refuse_kind(k, kind) : 0;
    }
    return excluded || (limited && !permitted) ? refuse_name(k, kind, name) : 0;
}

static int check_alternative_names(const struct check *k, const struct slice lists[2],
                                   struct slice value)
{
    struct slice names;
    unsigned kind = 0;
    struct slice name;
    if (!der_take(&value, DER_SEQUENCE, &names)) {
        return refuse_kind(k, KINDS);
    }
    while (names.len > 0) {
        if (!take_name(&names, &kind, &name)) {
            return refuse_kind(k, KINDS);
        }
        int rc = check_name(k, lists, kind, name);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* The subject is a directory name, and may have an address in it. */
static int check_subject(const struct check *k, const struct slice lists[2])
{
    int rc = k->c->subject.len > 0 ? check_name(k, lists, DIRECTORY, k->c->subject) : 0;
    if (rc == 0 && x509_subject_has(k->c, OID_EMAIL_ADDRESS)) {
        rc = check_name(k, lists, EMAIL, slice_of(NULL, 0));
    }
    return rc;
}

static int check_extension(const struct check *k, struct slice value)
{
    struct slice lists[2];
    char authority[LABEL_MAX];
    struct slice extensions = k->c->extensions;
    struct x509_extension x;
    if (!name_constraints_readable(value)) {
        x509_subject_text(k->authority, authority, sizeof authority);
        return err_set(k->e, -EACCES, "the name constraints of the authority \"%s\" cannot be read",
                       authority);
    }
    (void)take_lists(value, lists);
    int rc = check_subject(k, lists);
    while (rc == 0 && x509_next_extension(&extensions, &x)) {
        if (slice_eq(x.oid, X509_OID_SUBJECT_ALT_NAME)) {
            rc = check_alternative_names(k, lists, x.value);
        }
    }
    return rc;
}

int name_constraints_check(const struct x509 *authority, const struct x509 *c, struct err *e)
{
    const struct check k = {.authority = authority, .c = c, .e = e};
    struct slice extensions = authority->extensions;
    struct slice value;
    int rc = 0;
    while (rc == 0 && next_constraints(&extensions, &value)) {
        rc = check_extension(&k, value);
    }
    return rc;
}
