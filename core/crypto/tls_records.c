/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: a record that is whole in the input is opened from there into the caller's memory, and
 * so on while they fit. One that is not whole is gathered (`head`, then `held`), and one that is
 * longer than the caller's memory is opened into `held` and given out in pieces. `held` is wiped
 * when neither is left, and freed when nothing comes (tls_records_idle): a stream that flows would
 * map and unmap it with each read. What ends the session is noted in `end`, and said once all data
 * that came before was given out.
 *
 * A cipher takes 2,000 instructions to set up, and as many bytes. One that is used again and again
 * is kept until nothing comes: a session that waits, or that carries little, has no more than its
 * keys.
 */
#include "crypto/tls_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crypto/tls_alert.h"
#include "crypto/tls_key_schedule.h"
#include "crypto/tls_record.h"

/* Records in a row that bring no data: more is an attempt to keep us busy. */
#define QUIET_MAX 32
/* Uses of ciphers after which they are kept. */
#define KEPT_FROM 6
/* Full records that may be sent with one key of AES-GCM: 2^24.5, RFC 8446 section 5.5. */
#define WORN_OUT (UINT64_C(1) << 24)
/* Two fields of 64 KiB (RFC 8446 section 4.6.1), and the small ones. */
#define TICKET_MAX (2u * 65536u + 512u)

enum message_type {
    HELLO_REQUEST = 0,
    CLIENT_HELLO = 1,
    NEW_SESSION_TICKET = 4,
    KEY_UPDATE = 24,
};
enum { KEY_UPDATE_NOT_REQUESTED, KEY_UPDATE_REQUESTED };

#define MESSAGE_HEADER 4u
#define KEY_UPDATE_SIZE 5u

enum ending {
    NOT_ENDED,
    ENDED_BY_CLOSE, /* close_notify */
    ENDED_BY_ALERT, /* of the peer */
    ENDED_BY_FAULT, /* of the peer: we send the alert */
    ENDED_BY_ERROR, /* of ours */
};

struct tls_records {
    struct tls_handover h;
    bool close_sent;
    struct {
        enum ending how;
        enum tls_alert alert;
        const char *why;
        int code;
    } end;
    struct aead
        *opens; /* with the keys of `h`; NULL: not needed so far, or of a key that is over */
    struct aead *seals;
    unsigned uses;  /* of both, since it was idle; no more than KEPT_FROM */
    unsigned quiet; /* records without data, in a row */

    uint8_t head[TLS_RECORD_HEADER]; /* of a record that is being gathered */
    size_t body;                     /* its length, once `head` is complete */
    size_t have;                     /* bytes of it, header and all */
    uint8_t *held;                   /* a record, or plaintext; NULL: neither */
    size_t held_cap;
    bool held_secret; /* there was plaintext in it */
    size_t plain_at;  /* what waits in `held` to be given out */
    size_t plain_len;

    /* TLS 1.3: a handshake message that is spread over records. */
    uint8_t message[KEY_UPDATE_SIZE];
    size_t message_have;
    size_t ticket_left; /* of one that is passed over */
};

struct tls_records *tls_records_new(const struct tls_handover *h)
{
    struct tls_records *r = calloc(1, sizeof *r);
    if (r != NULL) {
        r->h = *h;
    }
    return r;
}

static void wipe_held(struct tls_records *r)
{
    if (r->held_secret) {
        explicit_bzero(r->held, r->held_cap);
        r->held_secret = false;
    }
}

static void drop_held(struct tls_records *r)
{
    wipe_held(r);
    free(r->held);
    r->held = NULL;
    r->held_cap = 0;
}

static void drop_cipher(struct aead **a)
{
    aead_free(*a);
    *a = NULL;
}

static void drop_ciphers(struct tls_records *r)
{
    drop_cipher(&r->opens);
    drop_cipher(&r->seals);
}

static void note_use(struct tls_records *r)
{
    if (r->uses < KEPT_FROM) {
        r->uses++;
        drop_ciphers(r);
    }
}

void tls_records_free(struct tls_records *r)
{
    if (r != NULL) {
        drop_held(r);
        drop_ciphers(r);
        explicit_bzero(r, sizeof *r);
        free(r);
    }
}

/* Room for `len` bytes, whose content need not be kept. */
static bool hold(struct tls_records *r, size_t len)
{
    if (r->held_cap < len) {
        drop_held(r);
        r->held = malloc(len);
        r->held_cap = r->held == NULL ? 0 : len;
    }
    return r->held != NULL;
}

/* ---- how it ends ---- */

static void end_with(struct tls_records *r, enum ending how, enum tls_alert alert, const char *why,
                     int code)
{
    r->end.how = how;
    r->end.alert = alert;
    r->end.why = why;
    r->end.code = code;
}

static void end_by_fault(struct tls_records *r, enum tls_alert alert, const char *why)
{
    end_with(r, ENDED_BY_FAULT, alert, why, -EPROTO);
}

static void end_by_error(struct tls_records *r, int code)
{
    const char *why = code == -ENOMEM    ? "out of memory"
                      : code == -ENOBUFS ? "no room for what TLS has to send"
                                         : "TLS: the cipher cannot be used any more";
    end_with(r, ENDED_BY_ERROR, TLS_ALERT_INTERNAL_ERROR, why, code);
}

/* ---- sending ---- */

/* NULL without memory. */
static struct aead *cipher_of(const struct tls_records *r, const struct tls_direction *d,
                              struct aead **kept)
{
    *kept = *kept != NULL ? *kept : aead_new(r->h.algorithm, d->key);
    return *kept;
}

/* Appends one record. 0, -ENOBUFS, -ENOMEM, or -EPROTO. */
static int put(struct tls_records *r, enum tls_content type, const uint8_t *data, size_t len,
               struct buf *out)
{
    size_t all = len + tls_record_overhead(&r->h);
    if (all > out->max - out->len) {
        return -ENOBUFS;
    }
    uint8_t *to = buf_reserve(out, all);
    struct aead *a = cipher_of(r, &r->h.out, &r->seals);
    int rc = to == NULL || a == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        rc = tls_record_seal(&r->h, a, type, data, len, to) == 0 ? 0 : -EPROTO;
    }
    if (rc == 0) {
        buf_commit(out, all);
    }
    return rc;
}

/* Nothing comes behind a close_notify. */
static int put_alert(struct tls_records *r, int level, enum tls_alert alert, struct buf *out)
{
    const uint8_t bytes[] = {(uint8_t)level, (uint8_t)alert};
    return r->close_sent ? 0 : put(r, TLS_ALERT, bytes, sizeof bytes, out);
}

static const uint8_t key_update[KEY_UPDATE_SIZE] = {KEY_UPDATE, 0, 0, 1, KEY_UPDATE_NOT_REQUESTED};

static int update_out_key(struct tls_records *r)
{
    drop_cipher(&r->seals);
    return tls_keys_update(&r->h.out, r->h.algorithm, r->h.secret_len) == 0 ? 0 : -EPROTO;
}

static bool wears_out(const struct tls_records *r, size_t records)
{
    return r->h.tls13 && r->h.algorithm != AEAD_CHACHA20_POLY1305 &&
           (r->h.out.sequence >= WORN_OUT || records > WORN_OUT - r->h.out.sequence);
}

/* Before more than the key is good for is sealed with it: says so, and takes the next. */
static int renew_key(struct tls_records *r, size_t records, struct buf *out)
{
    if (!wears_out(r, records)) {
        return 0;
    }
    int rc = put(r, TLS_HANDSHAKE, key_update, sizeof key_update, out);
    return rc != 0 ? rc : update_out_key(r);
}

static int seal_all(struct tls_records *r, const uint8_t *data, size_t len, uint8_t *to)
{
    int rc = 0;
    struct aead *a = cipher_of(r, &r->h.out, &r->seals);
    if (a == NULL) {
        return -ENOMEM;
    }
    while (len > 0 && rc == 0) {
        size_t n = len < r->h.record_max ? len : r->h.record_max;
        rc = tls_record_seal(&r->h, a, TLS_APPLICATION_DATA, data, n, to) == 0 ? 0 : -EPROTO;
        data += n;
        len -= n;
        to += n + tls_record_overhead(&r->h);
    }
    return rc;
}

static int write_failed(struct tls_records *r, int rc, struct err *e)
{
    if (rc == -ENOBUFS) {
        return err_set(e, rc, "no room for encrypted data");
    }
    if (rc == -ENOMEM) {
        return err_memory(e);
    }
    end_by_error(r, rc);
    return err_set(e, rc, "%s", r->end.why);
}

int tls_records_write(struct tls_records *r, const void *data, size_t len, struct buf *out,
                      struct err *e)
{
    size_t records = (len + r->h.record_max - 1) / r->h.record_max;
    size_t need = len + records * tls_record_overhead(&r->h);
    size_t update = wears_out(r, records) ? KEY_UPDATE_SIZE + tls_record_overhead(&r->h) : 0;
    if (r->close_sent || r->end.how > ENDED_BY_CLOSE) {
        return err_set(e, -EPROTO, "the TLS session is not open");
    }
    if (need + update > out->max - out->len) {
        return write_failed(r, -ENOBUFS, e);
    }
    /* All room first, so that a refused write leaves the session as it was. */
    if (buf_reserve(out, need + update) == NULL) {
        return err_memory(e);
    }
    int rc = len == 0 ? 0 : renew_key(r, records, out);
    if (rc == 0 && len > 0) {
        rc = seal_all(r, data, len, buf_data(out) + out->len);
    }
    if (rc != 0) {
        return write_failed(r, rc, e);
    }
    note_use(r);
    buf_commit(out, need);
    return 0;
}

void tls_records_shutdown(struct tls_records *r, struct buf *out)
{
    if (r->close_sent || r->end.how > ENDED_BY_CLOSE) {
        return;
    }
    /* Without room or memory for it the peer sees the connection end without notice. */
    (void)put_alert(r, TLS_ALERT_LEVEL_WARNING, TLS_ALERT_CLOSE_NOTIFY, out);
    r->close_sent = true;
}

/* ---- what comes in place of data ---- */

static void take_alert(struct tls_records *r, const uint8_t *content, size_t len)
{
    if (len != 2) {
        end_by_fault(r, TLS_ALERT_DECODE_ERROR, "an alert of a wrong length");
        return;
    }
    enum tls_alert alert = content[1];
    bool passes =
        r->h.tls13 ? alert == TLS_ALERT_USER_CANCELED : content[0] == TLS_ALERT_LEVEL_WARNING;
    if (alert == TLS_ALERT_CLOSE_NOTIFY) {
        end_with(r, ENDED_BY_CLOSE, alert, NULL, 0);
    } else if (!passes) {
        end_with(r, ENDED_BY_ALERT, alert, NULL, -EPROTO);
    }
}

static void end_by_message(struct tls_records *r)
{
    end_by_fault(r, TLS_ALERT_UNEXPECTED_MESSAGE, "a handshake message that has no place here");
}

/* Whether they are nothing but HelloRequests, which are empty. */
static bool are_hello_requests(const uint8_t *content, size_t len)
{
    size_t i = 0;
    while (i < len && content[i] == 0) {
        i++;
    }
    return i == len && len % MESSAGE_HEADER == 0 && len > 0;
}

static bool is_client_hello(const uint8_t *content, size_t len)
{
    return len >= MESSAGE_HEADER && content[0] == CLIENT_HELLO &&
           ((size_t)content[1] << 16 | (size_t)content[2] << 8 | content[3]) ==
               len - MESSAGE_HEADER;
}

/* TLS 1.2: a wish for renegotiation is refused (RFC 5246 section 7.2.2). */
static void refuse_renegotiation(struct tls_records *r, const uint8_t *content, size_t len,
                                 struct buf *out)
{
    if (r->h.client ? !are_hello_requests(content, len) : !is_client_hello(content, len)) {
        end_by_message(r);
        return;
    }
    int rc = put_alert(r, TLS_ALERT_LEVEL_WARNING, TLS_ALERT_NO_RENEGOTIATION, out);
    if (rc < 0) {
        end_by_error(r, rc);
    }
}

/* RFC 8446 section 4.6.3. What is asked for is answered with the old key. */
void tls_records_take_key_update(struct tls_records *r, uint8_t wish, struct buf *out)
{
    if (wish > KEY_UPDATE_REQUESTED) {
        end_by_fault(r, TLS_ALERT_ILLEGAL_PARAMETER, "a KeyUpdate that cannot be read");
        return;
    }
    int rc = tls_keys_update(&r->h.in, r->h.algorithm, r->h.secret_len);
    drop_cipher(&r->opens);
    if (rc == 0 && wish == KEY_UPDATE_REQUESTED && !r->close_sent) {
        rc = put(r, TLS_HANDSHAKE, key_update, sizeof key_update, out);
        rc = rc != 0 ? rc : update_out_key(r);
    }
    if (rc != 0) {
        end_by_error(r, rc == -ENOBUFS || rc == -ENOMEM ? rc : -EPROTO);
    }
}

/* The header of a message is complete. */
static void begin_message(struct tls_records *r)
{
    const uint8_t *m = r->message;
    size_t len = (size_t)m[1] << 16 | (size_t)m[2] << 8 | m[3];
    if (m[0] == NEW_SESSION_TICKET && r->h.client && len > 0 && len <= TICKET_MAX) {
        r->ticket_left = len;
        r->message_have = 0;
    } else if (m[0] != KEY_UPDATE || len != KEY_UPDATE_SIZE - MESSAGE_HEADER) {
        end_by_message(r);
    }
}

/* TLS 1.3: messages may share records and be spread over them, but none goes on behind a new key
 * (RFC 8446 section 5.1). */
static void take_messages(struct tls_records *r, const uint8_t *content, size_t len,
                          struct buf *out)
{
    if (len == 0) {
        end_by_message(r);
    }
    while (len > 0 && r->end.how == NOT_ENDED) {
        size_t skip = r->ticket_left < len ? r->ticket_left : len;
        r->ticket_left -= skip;
        content += skip;
        len -= skip;
        if (len == 0) {
            break;
        }
        r->message[r->message_have++] = *content++;
        len--;
        if (r->message_have == MESSAGE_HEADER) {
            begin_message(r);
        } else if (r->message_have == KEY_UPDATE_SIZE && len > 0) {
            end_by_message(r);
        } else if (r->message_have == KEY_UPDATE_SIZE) {
            r->message_have = 0;
            tls_records_take_key_update(r, r->message[MESSAGE_HEADER], out);
        }
    }
}

static void take_content(struct tls_records *r, enum tls_content type, const uint8_t *content,
                         size_t len, struct buf *out)
{
    bool in_message = r->message_have > 0 || r->ticket_left > 0;
    if (++r->quiet > QUIET_MAX) {
        end_by_fault(r, TLS_ALERT_UNEXPECTED_MESSAGE, "too many records without data");
    } else if (type == TLS_HANDSHAKE && r->h.tls13) {
        take_messages(r, content, len, out);
    } else if (type == TLS_HANDSHAKE) {
        refuse_renegotiation(r, content, len, out);
    } else if (in_message) {
        end_by_message(r);
    } else if (type == TLS_ALERT) {
        take_alert(r, content, len);
    } else if (type != TLS_APPLICATION_DATA) {
        end_by_fault(r, TLS_ALERT_UNEXPECTED_MESSAGE, "a record of a type that has no place here");
    }
}

/* ---- reading ---- */

struct reading {
    struct tls_records *r;
    struct slice *in;
    uint8_t *data;
    size_t len;
    size_t *got;
    struct buf *out;
};

static size_t take_bytes(struct slice *in, uint8_t *to, size_t len)
{
    size_t n = in->len < len ? in->len : len;
    if (n > 0) {
        memcpy(to, in->ptr, n);
        in->ptr += n;
        in->len -= n;
    }
    return n;
}

static bool check_head(struct tls_records *r, const uint8_t *head, size_t *body)
{
    struct tls_fault f = tls_record_check(&r->h, head, body);
    if (f.why != NULL) {
        end_by_fault(r, f.alert, f.why);
    }
    return f.why == NULL;
}

/* Gathers a record that is not whole in the input; true when it is complete. */
static bool gather(struct tls_records *r, struct slice *in)
{
    if (r->have < TLS_RECORD_HEADER) {
        r->have += take_bytes(in, r->head + r->have, TLS_RECORD_HEADER - r->have);
        if (r->have < TLS_RECORD_HEADER || !check_head(r, r->head, &r->body)) {
            return false;
        }
        if (!hold(r, TLS_RECORD_HEADER + r->body)) {
            end_by_error(r, -ENOMEM);
            return false;
        }
        memcpy(r->held, r->head, TLS_RECORD_HEADER);
    }
    size_t all = TLS_RECORD_HEADER + r->body;
    r->have += take_bytes(in, r->held + r->have, all - r->have);
    return r->have == all;
}

/* The next record, in the input or gathered; NULL: there is none. */
static const uint8_t *find_record(struct tls_records *r, struct slice *in, size_t *body)
{
    const uint8_t *from = (const uint8_t *)in->ptr;
    if (r->have == 0 && in->len >= TLS_RECORD_HEADER) {
        if (!check_head(r, from, body)) {
            return NULL;
        }
        if (in->len - TLS_RECORD_HEADER >= *body) {
            return from;
        }
    }
    if (!gather(r, in)) {
        return NULL;
    }
    *body = r->body;
    return r->held;
}

/* Where the plaintext of a record goes; NULL: nowhere now. */
static uint8_t *choose_place(struct reading *rd, const uint8_t *record, size_t body)
{
    struct tls_records *r = rd->r;
    size_t room = tls_record_room(&r->h, body);
    if (room <= rd->len - *rd->got) {
        return rd->data + *rd->got;
    }
    if (*rd->got > 0) {
        return NULL; /* the next call has more room */
    }
    if (record == r->held) {
        return r->held + tls_record_body(&r->h);
    }
    if (!hold(r, room)) {
        end_by_error(r, -ENOMEM);
        return NULL;
    }
    return r->held;
}

static bool open_record(struct reading *rd, const uint8_t *record, size_t body, uint8_t *to,
                        size_t *len, enum tls_content *type)
{
    struct tls_records *r = rd->r;
    if (cipher_of(r, &r->h.in, &r->opens) == NULL) {
        end_by_error(r, -ENOMEM);
        return false;
    }
    struct tls_fault f = tls_record_open(&r->h, r->opens, record, body, to, len, type);
    if (f.why != NULL) {
        end_by_fault(r, f.alert, f.why);
        return false;
    }
    if (record == r->held) {
        r->have = 0;
    } else {
        rd->in->ptr += TLS_RECORD_HEADER + body;
        rd->in->len -= TLS_RECORD_HEADER + body;
    }
    return true;
}

static void take_data(struct reading *rd, uint8_t *plain, size_t len)
{
    struct tls_records *r = rd->r;
    r->quiet = 0;
    if (plain == rd->data + *rd->got) {
        *rd->got += len;
    } else {
        r->plain_at = (size_t)(plain - r->held);
        r->plain_len = len;
    }
}

/* Opens the next record. False: there is none, or no place for it, or it was the last. */
static bool take_record(struct reading *rd)
{
    struct tls_records *r = rd->r;
    size_t body = 0;
    size_t len = 0;
    enum tls_content type = TLS_APPLICATION_DATA;
    const uint8_t *record = find_record(r, rd->in, &body);
    uint8_t *to = record == NULL ? NULL : choose_place(rd, record, body);
    if (to == NULL) {
        return false;
    }
    r->held_secret = r->held_secret || to != rd->data + *rd->got;
    if (!open_record(rd, record, body, to, &len, &type)) {
        return false;
    }
    bool in_message = r->message_have > 0 || r->ticket_left > 0;
    if (type == TLS_APPLICATION_DATA && len > 0 && !in_message) {
        take_data(rd, to, len);
        return true;
    }
    take_content(r, type, to, len, rd->out);
    explicit_bzero(to, len);
    return r->end.how == NOT_ENDED;
}

static void give_plain(struct reading *rd)
{
    struct tls_records *r = rd->r;
    size_t room = rd->len - *rd->got;
    size_t n = r->plain_len < room ? r->plain_len : room;
    memcpy(rd->data + *rd->got, r->held + r->plain_at, n);
    *rd->got += n;
    r->plain_at += n;
    r->plain_len -= n;
}

void tls_records_idle(struct tls_records *r)
{
    if (r->have == 0 && r->plain_len == 0) {
        drop_held(r);
    }
    drop_ciphers(r);
    r->uses = 0;
}

static enum tls_result say_end(struct tls_records *r, struct buf *out, struct err *e)
{
    if (r->end.how == NOT_ENDED) {
        return TLS_MORE;
    }
    if (r->end.how == ENDED_BY_CLOSE) {
        return TLS_CLOSED;
    }
    if (r->end.how == ENDED_BY_ALERT) {
        tls_alert_error(e, r->h.client, false, (int)r->end.alert);
        return TLS_FAILED;
    }
    if (r->end.how == ENDED_BY_FAULT) {
        err_set(e, r->end.code, "TLS: %s", r->end.why);
    } else {
        err_set(e, r->end.code, "%s", r->end.why);
    }
    /* Without room or memory for it the peer sees the connection end without notice. */
    (void)put_alert(r, TLS_ALERT_LEVEL_FATAL, r->end.alert, out);
    return TLS_FAILED;
}

enum tls_result tls_records_read(struct tls_records *r, struct slice *in, void *data, size_t len,
                                 size_t *got, struct buf *out, struct err *e)
{
    struct reading rd = {.r = r, .in = in, .data = data, .len = len, .got = got, .out = out};
    *got = 0;
    bool more = true;
    while (more && *got < len) {
        if (r->plain_len > 0) {
            give_plain(&rd);
        } else {
            more = r->end.how == NOT_ENDED && take_record(&rd);
        }
    }
    note_use(r);
    if (r->have == 0 && r->plain_len == 0) {
        wipe_held(r);
    }
    return *got > 0 ? TLS_OK : say_end(r, out, e);
}
