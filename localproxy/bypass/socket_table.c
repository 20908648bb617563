/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line: "sl: LOCAL:PORT REMOTE:PORT STATE queues timer retransmits UID timeout INODE …". Numbers
 * are hexadecimal up to the retransmits, decimal behind them. An address is one or four words of 32
 * bits, each printed as the machine that has it in its memory reads it.
 */
#include "bypass/socket_table.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATE_ESTABLISHED = 1,
    WORD_DIGITS = 8,
    FIRST_ROOM = 64,
};

/* ---- pieces of a line ---- */

static void skip_blanks(struct slice *rest)
{
    while (rest->len > 0 && rest->ptr[0] == ' ') {
        *rest = slice_of(rest->ptr + 1, rest->len - 1);
    }
}

/* Up to the next blank; empty at the end. */
static struct slice take_field(struct slice *rest)
{
    skip_blanks(rest);
    const char *blank = rest->len > 0 ? memchr(rest->ptr, ' ', rest->len) : NULL;
    size_t len = blank == NULL ? rest->len : (size_t)(blank - rest->ptr);
    struct slice field = slice_of(rest->ptr, len);
    *rest = slice_of(rest->ptr + len, rest->len - len);
    return field;
}

static bool read_digit(char c, unsigned base, unsigned *out)
{
    unsigned n = 16;
    if (c >= '0' && c <= '9') {
        n = (unsigned)(c - '0');
    } else if (c >= 'A' && c <= 'F') {
        n = (unsigned)(c - 'A') + 10;
    } else if (c >= 'a' && c <= 'f') {
        n = (unsigned)(c - 'a') + 10;
    }
    *out = n;
    return n < base;
}

static bool read_number(struct slice text, unsigned base, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = 0;
        if (!read_digit(text.ptr[i], base, &digit) || value > (max - digit) / base) {
            return false;
        }
        value = value * base + digit;
    }
    *out = value;
    return text.len > 0;
}

static bool read_words(struct slice text, uint8_t *ip, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        uint64_t value = 0;
        if (!read_number(slice_of(text.ptr + i * WORD_DIGITS, WORD_DIGITS), 16, UINT32_MAX,
                         &value)) {
            return false;
        }
        uint32_t word = (uint32_t)value;
        memcpy(ip + i * sizeof word, &word, sizeof word);
    }
    return true;
}

static void map(uint8_t ip[16])
{
    memset(ip, 0, 10);
    memset(ip + 10, 0xff, 2);
}

static bool read_end(struct slice text, struct socket_end *out)
{
    const char *colon = text.len > 0 ? memchr(text.ptr, ':', text.len) : NULL;
    uint64_t port = 0;
    if (colon == NULL) {
        return false;
    }
    struct slice ip = slice_of(text.ptr, (size_t)(colon - text.ptr));
    struct slice rest = slice_of(colon + 1, text.len - ip.len - 1);
    bool six = ip.len == (size_t)4 * WORD_DIGITS;
    if ((!six && ip.len != WORD_DIGITS) || !read_number(rest, 16, UINT16_MAX, &port)) {
        return false;
    }
    map(out->ip);
    out->port = (uint16_t)port;
    return read_words(ip, six ? out->ip : out->ip + 12, six ? 4 : 1);
}

/* Whether it is a line as above. */
static bool read_line(struct slice line, struct socket_entry *out, bool *established)
{
    enum { BETWEEN = 5 }; /* queues, timer, retransmits, user, timeout */
    uint64_t state = 0;
    struct slice number = take_field(&line);
    if (number.len == 0 || number.ptr[number.len - 1] != ':' ||
        !read_end(take_field(&line), &out->local) || !read_end(take_field(&line), &out->remote) ||
        !read_number(take_field(&line), 16, UINT8_MAX, &state)) {
        return false;
    }
    for (int i = 0; i < BETWEEN; i++) {
        (void)take_field(&line);
    }
    *established = state == STATE_ESTABLISHED;
    return read_number(take_field(&line), 10, UINT64_MAX, &out->inode);
}

/* ---- the table ---- */

static int append(struct socket_table *t, const struct socket_entry *entry)
{
    if (t->count == SOCKET_TABLE_MAX) {
        return -ENOBUFS;
    }
    if (t->count == t->room) {
        size_t room = t->room == 0 ? FIRST_ROOM : 2 * t->room;
        struct socket_entry *entries = realloc(t->entries, room * sizeof *entries);
        if (entries == NULL) {
            return -ENOMEM;
        }
        t->entries = entries;
        t->room = room;
    }
    t->entries[t->count++] = *entry;
    return 0;
}

static struct slice take_line(struct slice *text)
{
    const char *end = memchr(text->ptr, '\n', text->len);
    size_t len = end == NULL ? text->len : (size_t)(end - text->ptr);
    struct slice line = slice_of(text->ptr, len);
    size_t taken = end == NULL ? len : len + 1;
    *text = slice_of(text->ptr + taken, text->len - taken);
    return line;
}

int socket_table_add(struct socket_table *t, struct slice text)
{
    int rc = 0;
    struct slice titles = text.len > 0 ? take_line(&text) : text;
    struct slice first = take_field(&titles);
    if (!slice_eq(first, SLICE("sl"))) {
        return -EPROTO;
    }
    while (text.len > 0 && rc == 0) {
        struct socket_entry entry;
        bool established = false;
        if (!read_line(take_line(&text), &entry, &established)) {
            return -EPROTO;
        }
        rc = established ? append(t, &entry) : 0;
    }
    return rc;
}

static int compare_ends(const struct socket_end *a, const struct socket_end *b)
{
    int ip = memcmp(a->ip, b->ip, sizeof a->ip);
    return ip != 0 ? ip : (int)a->port - (int)b->port;
}

static int compare_remotes(const void *a, const void *b)
{
    return compare_ends(&((const struct socket_entry *)a)->remote,
                        &((const struct socket_entry *)b)->remote);
}

void socket_table_sort(struct socket_table *t)
{
    if (t->count > 1) {
        qsort(t->entries, t->count, sizeof *t->entries, compare_remotes);
    }
}

const struct socket_entry *socket_table_to(const struct socket_table *t,
                                           const struct socket_end *remote, size_t *count)
{
    size_t low = 0;
    size_t high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ends(&t->entries[middle].remote, remote) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *count = 0;
    while (low + *count < t->count && socket_end_equal(&t->entries[low + *count].remote, remote)) {
        (*count)++;
    }
    return *count == 0 ? NULL : &t->entries[low];
}

void socket_table_deinit(struct socket_table *t)
{
    free(t->entries);
    *t = (struct socket_table){.entries = NULL};
}

bool socket_end_equal(const struct socket_end *a, const struct socket_end *b)
{
    return compare_ends(a, b) == 0;
}

struct socket_end socket_end_of(const struct sockaddr_storage *address)
{
    struct socket_end end = {.port = 0};
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;
        memcpy(end.ip, &six->sin6_addr, sizeof end.ip);
        end.port = ntohs(six->sin6_port);
    } else if (address->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        map(end.ip);
        memcpy(end.ip + 12, &four->sin_addr, sizeof four->sin_addr);
        end.port = ntohs(four->sin_port);
    }
    return end;
}
