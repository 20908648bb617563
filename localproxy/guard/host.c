/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/host.h"

#include <string.h>

#include "net/address.h"

enum { HOST_SIZE = 256 };

static bool is_port(const char *text, const char *end)
{
    bool digits = text < end && *text == ':';
    for (const char *p = text + 1; digits && p < end; p++) {
        digits = *p >= '0' && *p <= '9';
    }
    return text == end || digits;
}

/* Without port, brackets and the dot at the end; empty if it is neither. */
static struct slice bare_name(struct slice host)
{
    bool bracket = host.len > 0 && host.ptr[0] == '[';
    const char *end = host.ptr + host.len;
    const char *from = bracket ? host.ptr + 1 : host.ptr;
    const char *to = memchr(host.ptr, bracket ? ']' : ':', host.len);
    to = to == NULL ? end : to;
    if ((bracket && to == end) || !is_port(bracket ? to + 1 : to, end)) {
        return (struct slice){0};
    }
    size_t len = (size_t)(to - from);
    return slice_of(from, !bracket && len > 0 && from[len - 1] == '.' ? len - 1 : len);
}

static bool is_address(struct slice name)
{
    struct sockaddr_storage address;
    char text[HOST_SIZE];
    if (name.len >= sizeof text) {
        return false;
    }
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    return net_address_literal(text, 0, &address) == 0;
}

static bool is_name(struct slice name)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    for (size_t i = 0; i < name.len; i++) {
        if (memchr(chars, name.ptr[i], sizeof chars - 1) == NULL) {
            return false;
        }
    }
    return name.len > 0 && name.len < HOST_SIZE && name.ptr[0] != '.' &&
           name.ptr[name.len - 1] != '.';
}

bool host_is_name(const char *text)
{
    return is_name(slice_str(text));
}

static bool is_localhost(struct slice name)
{
    static const struct slice below = SLICE(".localhost");
    return slice_ieq(name, SLICE("localhost")) ||
           (name.len > below.len && is_name(name) &&
            slice_ieq(slice_of(name.ptr + name.len - below.len, below.len), below));
}

bool host_is_accepted(const struct http_head *head, const struct flag_list *accepted)
{
    const struct http_header *h = http_head_find(head, SLICE("Host"));
    if (h == NULL) {
        return true;
    }
    struct slice name = h->value.len > 0 ? bare_name(h->value) : h->value;
    if (name.len == 0) {
        return false;
    }
    if (is_address(name) || h->value.ptr[0] == '[') {
        return is_address(name);
    }
    for (size_t i = 0; i < accepted->count; i++) {
        if (slice_ieq(name, slice_str(accepted->items[i]))) {
            return true;
        }
    }
    return is_localhost(name);
}
