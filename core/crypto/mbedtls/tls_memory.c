/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/mbedtls/tls_internal.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "crypto/tls_records.h"

/* A session has two buffers of just over 16 KiB; what other buffers are as large lives long. */
#define MMAP_THRESHOLD 16384
/* The heap grows by no more than it must, for what fits into its top is not mapped. */
#define TOP_PAD 4096
#define RECORD_HEADER 5

void tls_tune_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    mallopt(M_TOP_PAD, TOP_PAD);
    mallopt(M_ARENA_MAX, 1);
    /* Where huge pages are always on, one touched byte would cost 2 MiB. */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

#ifdef MBEDTLS_SSL_VARIABLE_BUFFER_LENGTH

/* Buffers that the library resizes are small already, and may have moved since they were seen. */
static void give_back_buffers(struct tls_session *s)
{
    (void)s;
}

#else

/* Gives back the whole pages of a buffer whose content nobody will read again; they read as zeros
 * when next touched. */
static void give_back(unsigned char *from, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)from + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)from + len) & ~(page - 1);
    if (end > start) {
        madvise((void *)start, end - start, MADV_DONTNEED);
    }
}

static void give_back_buffers(struct tls_session *s)
{
    if (s->state != TLS_OPEN || s->ssl == NULL) {
        return;
    }
    /* The next thing the library does with the buffer is to read a header, then a body behind it;
     * no plaintext waits in it. */
    if (s->in_base != NULL && s->between_records && mbedtls_ssl_check_pending(s->ssl) == 0) {
        give_back(s->in_base + RECORD_HEADER, MBEDTLS_SSL_IN_CONTENT_LEN);
    }
    /* All that the library built here was handed to us at once. */
    if (s->out_base != NULL) {
        give_back(s->out_base + RECORD_HEADER, MBEDTLS_SSL_OUT_CONTENT_LEN);
    }
}

#endif

void tls_session_idle(struct tls_session *s)
{
    if (s->records != NULL) {
        tls_records_idle(s->records);
    } else {
        give_back_buffers(s);
    }
}
