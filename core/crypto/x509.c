/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/x509.h"

#include <stdint.h>
#include <stdio.h>

#include "base/array.h"
#include "crypto/der.h"

#define OID_COMMON_NAME SLICE("\x55\x04\x03")
#define OID_ORGANIZATION SLICE("\x55\x04\x0a")

/* AlgorithmIdentifier: `parameters` begins with what follows the identifier. */
static bool take_algorithm(struct slice *rest, struct slice *oid, struct slice *parameters)
{
    return der_take(rest, DER_SEQUENCE, parameters) && der_take(parameters, DER_OID, oid);
}

static bool take_key(struct slice *rest, struct x509 *out)
{
    struct slice key;
    struct slice parameters;
    if (!der_take(rest, DER_SEQUENCE, &key) || !take_algorithm(&key, &out->key_oid, &parameters)) {
        return false;
    }
    (void)der_take(&parameters, DER_OID, &out->curve_oid);
    return true;
}

static bool take_extension(struct slice *rest, struct x509_extension *out)
{
    struct slice extension;
    struct slice critical;
    *out = (struct x509_extension){.critical = false};
    if (!der_take(rest, DER_SEQUENCE, &extension) || !der_take(&extension, DER_OID, &out->oid)) {
        return false;
    }
    if (der_take(&extension, DER_BOOLEAN, &critical)) {
        out->critical = critical.len == 1 && der_byte(critical, 0) != 0;
    }
    return der_take(&extension, DER_OCTET_STRING, &out->value) && extension.len == 0;
}

static bool are_extensions(struct slice rest)
{
    struct x509_extension ignored;
    while (rest.len > 0) {
        if (!take_extension(&rest, &ignored)) {
            return false;
        }
    }
    return true;
}

/* What is behind the key: two identifiers that nobody uses, and the extensions. */
static bool take_optional(struct slice rest, struct x509 *out)
{
    struct slice value;
    enum { ISSUER_ID = 1, SUBJECT_ID, EXTENSIONS };
    (void)der_take(&rest, DER_CONTEXT | DER_CONSTRUCTED | ISSUER_ID, &value);
    (void)der_take(&rest, DER_CONTEXT | DER_CONSTRUCTED | SUBJECT_ID, &value);
    if (der_take(&rest, DER_CONTEXT | DER_CONSTRUCTED | EXTENSIONS, &value) &&
        (!der_take(&value, DER_SEQUENCE, &out->extensions) || value.len > 0)) {
        return false;
    }
    return rest.len == 0 && are_extensions(out->extensions);
}

bool x509_read(struct slice der, struct x509 *out)
{
    struct slice certificate;
    struct slice tbs;
    struct slice ignored;
    uint8_t tag = 0;
    *out = (struct x509){.subject = {0}};
    return der_take(&der, DER_SEQUENCE, &certificate) &&
           der_take(&certificate, DER_SEQUENCE, &tbs) &&
           (der_take(&tbs, DER_CONTEXT | DER_CONSTRUCTED, &ignored) || tbs.len > 0) && /* version */
           der_next(&tbs, &tag, &ignored) &&                      /* serial number */
           take_algorithm(&tbs, &out->signature_oid, &ignored) && /* signature */
           der_take(&tbs, DER_SEQUENCE, &ignored) &&              /* issuer */
           der_take(&tbs, DER_SEQUENCE, &ignored) &&              /* validity */
           der_take(&tbs, DER_SEQUENCE, &out->subject) && take_key(&tbs, out) &&
           take_optional(tbs, out);
}

bool x509_next_extension(struct slice *rest, struct x509_extension *out)
{
    return take_extension(rest, out);
}

/* The first attribute of that type in the subject. */
static bool find_attribute(const struct x509 *c, struct slice type, struct slice *value)
{
    struct slice names = c->subject;
    struct slice set;
    struct slice attribute;
    struct slice oid;
    uint8_t tag = 0;
    while (der_take(&names, DER_SET, &set)) {
        while (der_take(&set, DER_SEQUENCE, &attribute)) {
            if (der_take(&attribute, DER_OID, &oid) && slice_eq(oid, type) &&
                der_next(&attribute, &tag, value)) {
                return true;
            }
        }
    }
    return false;
}

bool x509_subject_has(const struct x509 *c, struct slice attribute)
{
    struct slice ignored;
    return find_attribute(c, attribute, &ignored);
}

void x509_subject_text(const struct x509 *c, char *out, size_t size)
{
    struct slice name;
    if ((!find_attribute(c, OID_COMMON_NAME, &name) || name.len == 0) &&
        (!find_attribute(c, OID_ORGANIZATION, &name) || name.len == 0)) {
        name = SLICE("an unnamed subject");
    }
    size_t len = name.len < size ? name.len : size - 1;
    for (size_t i = 0; i < len; i++) {
        char ch = name.ptr[i];
        out[i] = ch < 0x20 || ch > 0x7e || ch == '"' ? '?' : ch;
    }
    out[len] = '\0';
}

static const struct {
    struct slice oid;
    const char *text;
} known[] = {
    /* Keys and signatures. */
    {SLICE("\x2b\x65\x70"), "Ed25519"},
    {SLICE("\x2b\x65\x71"), "Ed448"},
    {SLICE("\x60\x86\x48\x01\x65\x03\x04\x03\x11"), "ML-DSA-44"},
    {SLICE("\x60\x86\x48\x01\x65\x03\x04\x03\x12"), "ML-DSA-65"},
    {SLICE("\x60\x86\x48\x01\x65\x03\x04\x03\x13"), "ML-DSA-87"},
    {SLICE("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"), "RSA"},
    {SLICE("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a"), "RSA-PSS"},
    {SLICE("\x2a\x86\x48\xce\x38\x04\x01"), "DSA"},
    {SLICE("\x2a\x86\x48\xce\x3d\x02\x01"), "ECDSA"},
    {SLICE("\x2a\x81\x1c\xcf\x55\x01\x82\x2d"), "SM2"},
    {SLICE("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04"), "RSA with MD5"},
    {SLICE("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05"), "RSA with SHA-1"},
    {SLICE("\x2a\x86\x48\xce\x3d\x04\x01"), "ECDSA with SHA-1"},
    /* Curves. */
    {SLICE("\x2a\x86\x48\xce\x3d\x03\x01\x07"), "P-256"},
    {SLICE("\x2b\x81\x04\x00\x22"), "P-384"},
    {SLICE("\x2b\x81\x04\x00\x23"), "P-521"},
    {SLICE("\x2b\x81\x04\x00\x0a"), "secp256k1"},
    {SLICE("\x2b\x24\x03\x03\x02\x08\x01\x01\x07"), "brainpoolP256r1"},
    {SLICE("\x2b\x24\x03\x03\x02\x08\x01\x01\x0b"), "brainpoolP384r1"},
    {SLICE("\x2b\x24\x03\x03\x02\x08\x01\x01\x0d"), "brainpoolP512r1"},
    /* Extensions. */
    {SLICE("\x55\x1d\x1e"), "name constraints"},
    {SLICE("\x55\x1d\x20"), "certificate policies"},
    {SLICE("\x55\x1d\x21"), "policy mappings"},
    {SLICE("\x55\x1d\x24"), "policy constraints"},
    {SLICE("\x55\x1d\x36"), "inhibit any policy"},
};

/* The dotted form, as far as it has room; arcs are at most 32 bits long. */
static void dotted(struct slice oid, char *out, size_t size)
{
    size_t used = 0;
    uint32_t arc = 0;
    out[0] = '\0';
    for (size_t i = 0; i < oid.len && used < size; i++) {
        uint8_t b = der_byte(oid, i);
        arc = arc << 7 | (b & 0x7f);
        if ((b & 0x80) != 0) {
            continue;
        }
        if (used == 0) {
            uint32_t first = arc < 80 ? arc / 40 : 2;
            used += (size_t)snprintf(out, size, "%u.%u", first, arc - 40 * first);
        } else {
            used += (size_t)snprintf(out + used, size - used, ".%u", arc);
        }
        arc = 0;
    }
}

void x509_oid_text(struct slice oid, char *out, size_t size)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (slice_eq(oid, known[i].oid)) {
            (void)snprintf(out, size, "%s", known[i].text);
            return;
        }
    }
    dotted(oid, out, size);
}

void x509_key_text(const struct x509 *c, char *out, size_t size)
{
    x509_oid_text(c->key_oid, out, size);
    size_t used = strlen(out);
    if (c->curve_oid.len > 0 && size - used > sizeof " on ") {
        memcpy(out + used, " on ", sizeof " on ");
        used += strlen(" on ");
        x509_oid_text(c->curve_oid, out + used, size - used);
    }
}
