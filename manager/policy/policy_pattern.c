/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policy_pattern.h"

#include <string.h>

#include "base/array.h"
#include "base/slice.h"
#include "base/xalloc.h"

/* ---- whether it is about a whole text ---- */

/* Behind a set of characters, [...], or at the end. */
static const char *skip_set(const char *p, const char *end)
{
    p++;
    p += p < end && *p == '^' ? 1 : 0;
    p += p < end && *p == ']' ? 1 : 0; /* stands for itself there */
    while (p < end && *p != ']') {
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    }
    return p < end ? p + 1 : end;
}

/* Behind what begins at `p`, one character mostly. */
static const char *skip_atom(const char *p, const char *end)
{
    if (*p == '[') {
        return skip_set(p, end);
    }
    return *p == '\\' && p + 1 < end ? p + 2 : p + 1;
}

/* The `|` at which the first alternative ends, or the end; or, of one that begins with it, the `)`
 * of a group. */
static const char *find_end(const char *p, const char *end, char what)
{
    unsigned depth = 0;
    for (; p < end; p = skip_atom(p, end)) {
        depth += *p == '(' ? 1 : 0;
        depth -= *p == ')' && depth > 0 ? 1 : 0;
        if (*p == what && depth == 0) {
            return p;
        }
    }
    return end;
}

/* Without "(?i)" and its like, which stand before. */
static const char *skip_flags(const char *p, const char *end)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-";
    while (end - p > 2 && p[0] == '(' && p[1] == '?') {
        const char *q = p + 2;
        while (q < end && strchr(letters, *q) != NULL) {
            q++;
        }
        if (q == end || *q != ')') {
            break;
        }
        p = q + 1;
    }
    return p;
}

static bool begins(const char *p, const char *end)
{
    return p < end && (*p == '^' || (*p == '\\' && p + 1 < end && p[1] == 'A'));
}

static bool ends(const char *p, const char *end)
{
    const char *last = p;
    for (const char *next = p; next < end; next = skip_atom(next, end)) {
        last = next;
    }
    return last < end &&
           (*last == '$' || (end - last == 2 && strchr("zZ", last[1]) != NULL && *last == '\\'));
}

/* Behind "(", "(?:" or "(?<name>". */
static const char *skip_opening(const char *p, const char *end)
{
    if (end - p < 2 || p[1] != '?') {
        return p + 1;
    }
    const char *q = p;
    while (q < end && *q != ':' && *q != '>') {
        q++;
    }
    return q < end ? q + 1 : end;
}

enum { DEPTH_MAX = 100 };

/* Each alternative begins and ends with the text, or is a group of such. */
static bool is_anchored(const char *p, const char *end, unsigned depth)
{
    p = skip_flags(p, end);
    for (;;) {
        const char *stop = find_end(p, end, '|');
        bool group = p < stop && *p == '(' && find_end(p, stop, ')') == stop - 1;
        if (!(begins(p, stop) && ends(p, stop)) &&
            !(group && depth < DEPTH_MAX &&
              is_anchored(skip_opening(p, stop - 1), stop - 1, depth + 1))) {
            return false;
        }
        if (stop == end) {
            return true;
        }
        p = stop + 1;
    }
}

/* ---- what it matches ---- */

/* One of these hosts, as a request may have it. */
static bool matches_any(const struct pattern *p, struct pattern_scratch *s,
                        const char *const *hosts, size_t count, uint32_t *steps)
{
    for (size_t i = 0; i < count; i++) {
        if (pattern_match(p, s, slice_str(hosts[i]), steps) == PATTERN_MATCHES) {
            return true;
        }
    }
    return false;
}

static void look(const struct pattern *p, struct pattern_scratch *s, uint32_t *steps,
                 struct policy_pattern *out)
{
    static const char *const loopback[] = {"127.0.0.1", "127.0.0.1:80", "127.0.0.1:443",
                                           "::1",       "[::1]",        "[::1]:80"};
    static const char *const metadata[] = {"169.254.169.254", "169.254.169.254:80"};
    static const char *const one[] = {"q"};
    static const char *const another[] = {"0.zz-y.v:65535"};
    out->loopback = matches_any(p, s, loopback, ARRAY_LEN(loopback), steps);
    out->metadata = matches_any(p, s, metadata, ARRAY_LEN(metadata), steps);
    out->everything = matches_any(p, s, one, ARRAY_LEN(one), steps) &&
                      matches_any(p, s, another, ARRAY_LEN(another), steps);
}

void policy_pattern_look(const char *text, const struct pattern *p, uint32_t *steps,
                         struct policy_pattern *out)
{
    struct pattern_scratch *s = xptr(pattern_scratch_new());
    look(p, s, steps, out);
    out->anchored = is_anchored(text, text + strlen(text), 0);
    pattern_scratch_free(s);
}
