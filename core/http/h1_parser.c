/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A head is collected into one buffer while its lines are checked, then given to llhttp in one
 * piece, so that what llhttp reports are spans of that buffer. What llhttp saw is then compared
 * with the lines: two readings of one head that differ are an error, whatever llhttp tolerates.
 * Bodies with a length or until close are counted here; llhttp reads the chunked coding, a line or
 * a run of data at a time.
 */
#include "http/h1_parser.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define LLHTTP_STRICT_MODE 1
#include <llhttp.h>

#include "base/buf.h"
#include "http/h1_framing.h"
#include "http/h1_line.h"

enum {
    BLANK_LINES_MAX = 4,       /* before a request line, RFC 9112 section 2.2 */
    INTERIM_MAX = 16,          /* 1xx responses before the final one */
    CHUNK_LINE_MAX = 256,      /* chunk size with its extensions */
    CHUNK_OVERHEAD_MAX = 4096, /* what chunk lines may exceed the data by */
    CHUNK_OVERHEAD_FREE = 16,  /* a chunk's own cost that is not counted */
    KEPT_HEAD_BYTES = 4096,    /* a head above this is large: its memory does not serve the next */
    KEPT_HEADERS = 64,
    HEADERS_STEP = 16,
};

const struct h1_limits h1_limits_default = {.head_bytes = 64 * 1024, .header_count = 128};

/*
 * IDLE <-> BLANK_LINE
 * IDLE -> HEAD -> ENDING -> IDLE (no body)
 *         HEAD -> IDLE (interim response)
 *         HEAD -> BODY_LENGTH | BODY_CLOSE -> ENDING
 *         HEAD -> CHUNK_LINE -> CHUNK_DATA -> CHUNK_DATA_END -> CHUNK_LINE
 *                 CHUNK_LINE -> TRAILER -> ENDING
 * any -> FAILED
 */
enum h1_state {
    IDLE,
    BLANK_LINE,
    HEAD,
    BODY_LENGTH,
    BODY_CLOSE,
    CHUNK_LINE,
    CHUNK_DATA,
    CHUNK_DATA_END,
    TRAILER,
    ENDING,
    FAILED,
};

struct h1_parser {
    llhttp_t ll;
    struct h1_limits limits;
    enum h1_role role;
    enum h1_state state;
    bool to_head_request;
    bool chunk_begun;      /* set by llhttp: a chunk line is complete */
    bool message_complete; /* set by llhttp: the end of the chunked coding */
    unsigned blank_lines;
    unsigned interim;
    struct h1_line line;
    size_t lines;          /* complete lines of the head or of the trailers */
    size_t start_line_len; /* of the head, without CR and LF */
    size_t trailer_bytes;
    size_t chunk_overhead;
    uint64_t left;            /* bytes of the body or of the chunk */
    struct byte_share *share; /* of `bytes`; NULL: not counted */
    struct buf bytes;         /* the head as it came */
    struct http_header *headers;
    size_t header_cap;
    struct http_head head;
    const char *error; /* FAILED: why */
    int error_code;
};

static enum h1_event fail(struct h1_parser *p, int code, const char *why)
{
    p->state = FAILED;
    p->error_code = code;
    p->error = why;
    return H1_ERROR;
}

static enum h1_event fail_bad(struct h1_parser *p, const char *why)
{
    return fail(p, -HTTP_PARSE_BAD, why);
}

static const char *const bad_line = "a control byte, or a CR or LF that does not end a line";

/* What llhttp reports. */

static int on_method(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;
    p->head.method = slice_of(at, len);
    return 0;
}

static int on_url(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;
    p->head.target = slice_of(at, len);
    return 0;
}

static int on_header_field(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;
    if (p->state != HEAD) {
        return 0; /* trailers are dropped */
    }
    if (p->head.header_count == p->header_cap) {
        return -1;
    }
    struct http_header *h = &p->headers[p->head.header_count++];
    h->name = slice_of(at, len);
    h->value = slice_of(at + len + 1, 0);
    return 0;
}

static int on_header_value(llhttp_t *ll, const char *at, size_t len)
{
    struct h1_parser *p = ll->data;
    if (p->state != HEAD) {
        return 0;
    }
    if (p->head.header_count == 0) {
        return -1;
    }
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t')) {
        len--;
    }
    if (len > 0) {
        p->headers[p->head.header_count - 1].value = slice_of(at, len);
    }
    return 0;
}

static int on_headers_complete(llhttp_t *ll)
{
    (void)ll;
    return HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *ll)
{
    struct h1_parser *p = ll->data;
    p->chunk_begun = true;
    p->left = ll->content_length;
    return 0;
}

static int on_message_complete(llhttp_t *ll)
{
    struct h1_parser *p = ll->data;
    p->message_complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method = on_method,
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_chunk_header = on_chunk_header,
    .on_message_complete = on_message_complete,
};

struct h1_parser *h1_parser_new(enum h1_role role, const struct h1_limits *limits)
{
    struct h1_parser *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    p->role = role;
    p->limits = *limits;
    buf_init(&p->bytes, limits->head_bytes);
    llhttp_init(&p->ll, role == H1_RESPONSES ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    p->ll.data = p;
    return p;
}

void h1_parser_free(struct h1_parser *p)
{
    if (p != NULL) {
        buf_reset(&p->bytes);
        free(p->headers);
        free(p);
    }
}

void h1_parser_expect(struct h1_parser *p, bool to_head_request)
{
    p->to_head_request = to_head_request;
}

void h1_parser_set_share(struct h1_parser *p, struct byte_share *share)
{
    p->share = share;
}

bool h1_parser_idle(const struct h1_parser *p)
{
    return p->state == IDLE && p->interim == 0;
}

void h1_parser_release_head(struct h1_parser *p)
{
    if (p->state == HEAD) {
        return; /* it is being read */
    }
    buf_reset(&p->bytes);
    free(p->headers);
    p->headers = NULL;
    p->header_cap = 0;
    p->head.method = p->head.target = p->head.reason = slice_of(NULL, 0);
    p->head.headers = NULL;
    p->head.header_count = 0;
}

void h1_parser_release_large_head(struct h1_parser *p)
{
    if (p->bytes.cap > KEPT_HEAD_BYTES || p->header_cap > KEPT_HEADERS) {
        h1_parser_release_head(p);
    }
}

/* Forgets the message before, and keeps the memory of a small head for the next one. */
static void begin_head(struct h1_parser *p)
{
    h1_parser_release_large_head(p);
    buf_clear(&p->bytes);
    p->state = HEAD;
    p->line = (struct h1_line){.len = 0, .cr = false};
    p->lines = 0;
}

/* Reading the head. */

static bool make_room_for_headers(struct h1_parser *p, size_t count)
{
    if (count <= p->header_cap) {
        return true;
    }
    size_t cap = (count + HEADERS_STEP - 1) / HEADERS_STEP * HEADERS_STEP;
    free(p->headers);
    p->header_cap = 0;
    p->headers = malloc(cap * sizeof *p->headers);
    if (p->headers == NULL) {
        return false;
    }
    p->header_cap = cap;
    return true;
}

/* RFC 9112 section 2.3. Sets head.minor. */
static enum h1_event check_version(struct h1_parser *p, const char *version, size_t len)
{
    if (len < 8 || memcmp(version, "HTTP/", 5) != 0 || !isdigit((unsigned char)version[5]) ||
        version[6] != '.' || !isdigit((unsigned char)version[7])) {
        return fail_bad(p, "the start line is not HTTP/1");
    }
    if (version[5] != '1' || version[7] > '1') {
        return fail(p, -HTTP_PARSE_VERSION, "the HTTP version is neither 1.0 nor 1.1");
    }
    p->head.minor = (unsigned)(version[7] - '0');
    return H1_MORE;
}

static enum h1_event check_status_line(struct h1_parser *p)
{
    const char *line = (const char *)buf_data(&p->bytes);
    size_t len = p->start_line_len;
    if (check_version(p, line, len) != H1_MORE) {
        return H1_ERROR;
    }
    if (len < 12 || line[8] != ' ' || line[9] < '1' || line[9] > '9' ||
        !isdigit((unsigned char)line[10]) || !isdigit((unsigned char)line[11]) ||
        (len > 12 && line[12] != ' ')) {
        return fail_bad(p, "the status line is malformed");
    }
    p->head.status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
    p->head.reason = len > 13 ? slice_of(line + 13, len - 13) : slice_of(line + len, 0);
    return H1_MORE;
}

static enum h1_event check_request_version(struct h1_parser *p)
{
    const char *line = (const char *)buf_data(&p->bytes);
    size_t len = p->start_line_len;
    if (len < 8) {
        return fail_bad(p, "the request line is malformed");
    }
    return check_version(p, line + len - 8, 8);
}

static bool is_visible_ascii(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < 0x21 || s.ptr[i] > 0x7e || s.ptr[i] == '#') {
            return false;
        }
    }
    return true;
}

static bool is_scheme_byte(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '-' || c == '.';
}

/* RFC 9112 section 3.2.2: `scheme://` and something behind it. What it means is the reader's to
 * say. */
static bool is_absolute(struct slice target)
{
    size_t n = 0;
    while (n < target.len && is_scheme_byte(target.ptr[n])) {
        n++;
    }
    return n > 0 && isalpha((unsigned char)target.ptr[0]) && target.len > n + 3 &&
           memcmp(target.ptr + n, "://", 3) == 0;
}

/* Section 3.2.3: `host:port`, both there, and nothing of a URL around them. */
static bool is_authority(struct slice target)
{
    size_t host = target.len;
    while (host > 0 && isdigit((unsigned char)target.ptr[host - 1])) {
        host--;
    }
    if (host == target.len || host < 2 || target.ptr[host - 1] != ':') {
        return false;
    }
    for (size_t i = 0; i < host; i++) {
        if (strchr("/?@\\", target.ptr[i]) != NULL) {
            return false;
        }
    }
    return true;
}

/* Of a method other than CONNECT. */
static bool is_target(const struct h1_parser *p, struct slice target)
{
    if (target.len == 0) {
        return false;
    }
    bool asterisk = slice_eq(target, SLICE("*")) && slice_eq(p->head.method, SLICE("OPTIONS"));
    return target.ptr[0] == '/' || asterisk ||
           (p->role == H1_PROXY_REQUESTS && is_absolute(target));
}

/* Method, one space, target, one space, version: as llhttp saw them and without a gap. */
static enum h1_event check_request_line(struct h1_parser *p)
{
    const char *line = (const char *)buf_data(&p->bytes);
    struct http_head *h = &p->head;
    if (h->method.ptr != line || h->target.ptr != line + h->method.len + 1 ||
        h->target.len != p->start_line_len - h->method.len - sizeof " HTTP/1.1") {
        return fail_bad(p, "the request line is malformed");
    }
    h->connect = slice_eq(h->method, SLICE("CONNECT"));
    if (h->connect && p->role == H1_REQUESTS) {
        return fail_bad(p, "CONNECT is not supported");
    }
    if (h->connect && !is_authority(h->target)) {
        return fail_bad(p, "the request target of CONNECT is not host:port");
    }
    if (!h->connect && !is_target(p, h->target)) {
        return fail_bad(p, p->role == H1_REQUESTS ? "the request target is not a path"
                                                  : "the request target is not a URL or a path");
    }
    if (!is_visible_ascii(h->target)) {
        return fail_bad(p, "the request target contains a byte that must be percent-encoded");
    }
    return H1_MORE;
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return at;
}

/* Where the header's line ends, NULL unless it is `name:value` from `at` on, with white space
 * around the value only. */
static const char *check_header_line(const struct http_header *h, const char *at)
{
    if (h->name.ptr != at || h->name.len == 0 || at[h->name.len] != ':') {
        return NULL;
    }
    at = skip_blanks(at + h->name.len + 1);
    if (h->value.len > 0 && h->value.ptr != at) {
        return NULL;
    }
    at = skip_blanks(at + h->value.len);
    return at[0] == '\r' && at[1] == '\n' ? at + 2 : NULL;
}

/* Each line after the first must be one header, and nothing else: together they reach to the empty
 * line. */
static enum h1_event check_header_lines(struct h1_parser *p)
{
    const char *base = (const char *)buf_data(&p->bytes);
    const char *at = base + p->start_line_len + 2;
    for (size_t i = 0; i < p->head.header_count && at != NULL; i++) {
        at = check_header_line(&p->headers[i], at);
    }
    if (at != base + p->bytes.len - 2) {
        return fail_bad(p, "a header line is malformed");
    }
    return H1_MORE;
}

static enum h1_event fail_from_llhttp(struct h1_parser *p, llhttp_errno_t rc)
{
    const char *line = (const char *)buf_data(&p->bytes);
    if (rc == HPE_INVALID_METHOD && p->state == HEAD) {
        size_t n = 0;
        while (n < p->start_line_len && (isalnum((unsigned char)line[n]) || line[n] == '-')) {
            n++;
        }
        if (n > 0 && n < p->start_line_len && line[n] == ' ') {
            return fail(p, -HTTP_PARSE_NOT_IMPLEMENTED, "unknown method");
        }
    }
    const char *why = llhttp_get_error_reason(&p->ll);
    return fail_bad(p, why != NULL && why[0] != '\0' ? why : "malformed message");
}

static enum h1_event run_llhttp_on_head(struct h1_parser *p)
{
    const char *base = (const char *)buf_data(&p->bytes);
    llhttp_reset(&p->ll);
    llhttp_errno_t rc = llhttp_execute(&p->ll, base, p->bytes.len);
    if (rc != HPE_PAUSED) {
        return fail_from_llhttp(p, rc);
    }
    if (llhttp_get_error_pos(&p->ll) != base + p->bytes.len) {
        return fail_bad(p, "a header line is malformed");
    }
    return p->role == H1_RESPONSES ? H1_MORE : check_request_line(p);
}

static void enter_body(struct h1_parser *p)
{
    p->left = p->head.content_length;
    switch (p->head.framing) {
    case HTTP_BODY_NONE:
        p->state = ENDING;
        break;
    case HTTP_BODY_LENGTH:
        p->state = p->left > 0 ? BODY_LENGTH : ENDING;
        break;
    case HTTP_BODY_CHUNKED:
        p->state = CHUNK_LINE;
        p->line = (struct h1_line){.len = 0, .cr = false};
        p->chunk_overhead = 0;
        p->message_complete = false;
        llhttp_resume(&p->ll);
        break;
    case HTTP_BODY_CLOSE:
        p->state = BODY_CLOSE;
        break;
    }
}

/* The buffer holds a whole head of good lines. */
static enum h1_event parse_head(struct h1_parser *p)
{
    p->head = (struct http_head){0};
    if (!make_room_for_headers(p, p->lines - 1)) {
        return fail(p, -ENOMEM, "out of memory");
    }
    enum h1_event ev = p->role == H1_RESPONSES ? check_status_line(p) : check_request_version(p);
    if (ev != H1_MORE || (ev = run_llhttp_on_head(p)) != H1_MORE ||
        (ev = check_header_lines(p)) != H1_MORE) {
        return ev;
    }
    const char *why = NULL;
    int rc = h1_framing_derive(&p->head, p->headers, p->role, p->to_head_request, &why);
    if (rc != 0) {
        return fail(p, rc, why);
    }
    if (p->role == H1_RESPONSES && p->head.status < 200 && p->head.status != 101) {
        p->state = IDLE;
        return ++p->interim > INTERIM_MAX ? fail_bad(p, "too many interim responses") : H1_MORE;
    }
    enter_body(p);
    return H1_HEAD;
}

static enum h1_event fail_too_large(struct h1_parser *p)
{
    if (p->role != H1_RESPONSES && p->lines == 0) {
        return fail(p, -HTTP_PARSE_URI_TOO_LONG, "the request line is too long");
    }
    return fail(p, -HTTP_PARSE_TOO_LARGE, "the head is too large");
}

/* A line of the head is complete. */
static enum h1_event end_head_line(struct h1_parser *p, bool *complete)
{
    if (p->lines == 0) {
        p->start_line_len = p->line.len;
    }
    if (p->line.len == 0 && p->lines == 0) {
        return fail_bad(p, "an empty line where a message should begin");
    }
    if (p->line.len == 0) {
        *complete = true;
    } else if (p->lines++ > p->limits.header_count) {
        return fail(p, -HTTP_PARSE_TOO_LARGE, "too many headers");
    }
    p->line = (struct h1_line){.len = 0, .cr = false};
    return H1_MORE;
}

/* Looks at bytes of the head up to its end; *used is how many belong to it. */
static enum h1_event scan_head(struct h1_parser *p, struct slice part, size_t *used, bool *complete)
{
    size_t at = 0;
    while (at < part.len && !*complete) {
        size_t n = 0;
        if (p->lines > 0 && h1_line_folds(&p->line, part.ptr + at)) {
            return fail_bad(p, "a folded header line");
        }
        enum h1_line_result result = h1_line_scan(&p->line, part.ptr + at, part.len - at, &n);
        if (result == H1_LINE_BAD) {
            return fail_bad(p, bad_line);
        }
        if (result == H1_LINE_DONE && end_head_line(p, complete) != H1_MORE) {
            return H1_ERROR;
        }
        at += n;
    }
    *used = at;
    return H1_MORE;
}

static struct slice take(struct slice *data, uint64_t max)
{
    size_t n = data->len < max ? data->len : (size_t)max;
    struct slice taken = slice_of(data->ptr, n);
    data->ptr += n;
    data->len -= n;
    return taken;
}

/* Whether the head may have so many more bytes. */
static bool may_grow(struct h1_parser *p, size_t len)
{
    return p->share == NULL || p->bytes.len + len < BYTE_SHARE_FREE ||
           byte_share_set(p->share, buf_size_with(&p->bytes, len));
}

static enum h1_event read_head(struct h1_parser *p, struct slice *data)
{
    size_t room = p->limits.head_bytes - p->bytes.len;
    struct slice part = slice_of(data->ptr, data->len < room ? data->len : room);
    size_t used = 0;
    bool complete = false;
    if (scan_head(p, part, &used, &complete) != H1_MORE) {
        return H1_ERROR;
    }
    if (!complete && used < data->len) {
        return fail_too_large(p);
    }
    if (!may_grow(p, used)) {
        return fail(p, -HTTP_PARSE_NO_ROOM, "too many large heads are being read: try again later");
    }
    part = take(data, used);
    if (buf_append(&p->bytes, part.ptr, part.len) != 0) {
        return fail(p, -ENOMEM, "out of memory");
    }
    return complete ? parse_head(p) : H1_MORE;
}

/* RFC 9112 section 2.2: some clients send an empty line behind a body. */
static enum h1_event begin_message(struct h1_parser *p, struct slice *data)
{
    if (p->role != H1_RESPONSES && data->ptr[0] == '\r') {
        (void)take(data, 1);
        p->state = BLANK_LINE;
        return H1_MORE;
    }
    begin_head(p);
    return read_head(p, data);
}

static enum h1_event read_blank_line(struct h1_parser *p, struct slice *data)
{
    if (take(data, 1).ptr[0] != '\n' || ++p->blank_lines > BLANK_LINES_MAX) {
        return fail_bad(p, "no message where one should begin");
    }
    p->state = IDLE;
    return H1_MORE;
}

/* Bodies. */

static enum h1_event read_length_body(struct h1_parser *p, struct slice *data, struct slice *body)
{
    *body = take(data, p->left);
    p->left -= body->len;
    if (p->left == 0) {
        p->state = ENDING;
    }
    return H1_BODY;
}

static enum h1_event run_llhttp(struct h1_parser *p, struct slice part)
{
    llhttp_errno_t rc = llhttp_execute(&p->ll, part.ptr, part.len);
    bool ended = p->message_complete && (rc == HPE_PAUSED || rc == HPE_PAUSED_UPGRADE);
    return rc == HPE_OK || ended ? H1_MORE : fail_from_llhttp(p, rc);
}

/* Gives llhttp the next piece of a line; *done tells that it was the last one. */
static enum h1_event read_line(struct h1_parser *p, struct slice *data, size_t max, bool *done)
{
    size_t used = 0;
    size_t room = max - p->line.len - (p->line.cr ? 1 : 0);
    if (room == 0) {
        return fail_bad(p, "a chunk line or the trailers are too long");
    }
    enum h1_line_result result =
        h1_line_scan(&p->line, data->ptr, data->len < room ? data->len : room, &used);
    if (result == H1_LINE_BAD) {
        return fail_bad(p, bad_line);
    }
    *done = result == H1_LINE_DONE;
    return run_llhttp(p, take(data, used));
}

/* Chunks may carry extensions, but not mostly: overhead is paid for with data. */
static bool overhead_is_fair(struct h1_parser *p)
{
    uint64_t paid = p->left > CHUNK_OVERHEAD_MAX ? CHUNK_OVERHEAD_MAX : p->left;
    paid += CHUNK_OVERHEAD_FREE;
    uint64_t owed = p->chunk_overhead + p->line.len;
    p->chunk_overhead = owed > paid ? (size_t)(owed - paid) : 0;
    return p->chunk_overhead <= CHUNK_OVERHEAD_MAX;
}

static enum h1_event read_chunk_line(struct h1_parser *p, struct slice *data)
{
    bool done = false;
    p->chunk_begun = false;
    if (read_line(p, data, CHUNK_LINE_MAX, &done) != H1_MORE) {
        return H1_ERROR;
    }
    if (done != p->chunk_begun || p->message_complete) {
        return fail_bad(p, "a chunk line is malformed");
    }
    if (!done) {
        return H1_MORE;
    }
    if (p->left > INT64_MAX || !overhead_is_fair(p)) {
        return fail_bad(p, "a chunk is too large, or its extensions are");
    }
    p->line = (struct h1_line){.len = 0, .cr = false};
    p->lines = 0;
    p->trailer_bytes = 0;
    p->state = p->left > 0 ? CHUNK_DATA : TRAILER;
    return H1_MORE;
}

static enum h1_event read_chunk_data(struct h1_parser *p, struct slice *data, struct slice *body)
{
    *body = take(data, p->left);
    p->left -= body->len;
    if (p->left == 0) {
        p->state = CHUNK_DATA_END;
    }
    return run_llhttp(p, *body) == H1_MORE ? H1_BODY : H1_ERROR;
}

static enum h1_event read_chunk_data_end(struct h1_parser *p, struct slice *data)
{
    bool done = false;
    if (read_line(p, data, sizeof "\r\n", &done) != H1_MORE) {
        return H1_ERROR;
    }
    if (p->line.len > 0) {
        return fail_bad(p, "a chunk's data does not end where its size says");
    }
    if (done) {
        p->line = (struct h1_line){.len = 0, .cr = false};
        p->state = CHUNK_LINE;
    }
    return H1_MORE;
}

static enum h1_event read_trailer(struct h1_parser *p, struct slice *data)
{
    bool done = false;
    size_t before = data->len;
    if (h1_line_folds(&p->line, data->ptr)) {
        return fail_bad(p, "a folded trailer line");
    }
    size_t room = p->limits.head_bytes - p->trailer_bytes;
    if (read_line(p, data, p->line.len + (p->line.cr ? 1 : 0) + room, &done) != H1_MORE) {
        return H1_ERROR;
    }
    p->trailer_bytes += before - data->len;
    bool last = done && p->line.len == 0;
    if (last != p->message_complete || (done && p->lines++ > p->limits.header_count)) {
        return fail_bad(p, "a trailer line is malformed, or there are too many");
    }
    if (done) {
        p->line = (struct h1_line){.len = 0, .cr = false};
    }
    if (last) {
        p->state = ENDING;
    }
    return H1_MORE;
}

static enum h1_event end_message(struct h1_parser *p)
{
    p->state = IDLE;
    p->blank_lines = 0;
    p->interim = 0;
    p->to_head_request = false;
    return H1_END;
}

/* One step; H1_MORE: nothing to tell yet. */
static enum h1_event step(struct h1_parser *p, struct slice *data, struct slice *body)
{
    switch (p->state) {
    case IDLE:
        return begin_message(p, data);
    case BLANK_LINE:
        return read_blank_line(p, data);
    case HEAD:
        return read_head(p, data);
    case BODY_LENGTH:
        return read_length_body(p, data, body);
    case BODY_CLOSE:
        *body = take(data, UINT64_MAX);
        return H1_BODY;
    case CHUNK_LINE:
        return read_chunk_line(p, data);
    case CHUNK_DATA:
        return read_chunk_data(p, data, body);
    case CHUNK_DATA_END:
        return read_chunk_data_end(p, data);
    case TRAILER:
        return read_trailer(p, data);
    case ENDING:
        return end_message(p);
    case FAILED:
        break;
    }
    return H1_ERROR;
}

enum h1_event h1_parser_next(struct h1_parser *p, struct slice *data, const struct http_head **head,
                             struct slice *body, struct err *e)
{
    while (data->len > 0 || p->state == ENDING || p->state == FAILED) {
        enum h1_event ev = step(p, data, body);
        if (ev == H1_HEAD) {
            *head = &p->head;
        } else if (ev == H1_ERROR) {
            err_set(e, p->error_code, "%s", p->error);
        }
        if (ev != H1_MORE) {
            return ev;
        }
    }
    return H1_MORE;
}

bool h1_parser_finish(struct h1_parser *p)
{
    if (p->state == BODY_CLOSE) {
        p->state = ENDING;
    }
    return p->state == ENDING || h1_parser_idle(p);
}
