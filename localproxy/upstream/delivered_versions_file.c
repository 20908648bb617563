/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is mapped: what is written there stays when the process is killed. That it outlives the
 * machine is not wanted, so nothing is ever synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "upstream/delivered_versions_internal.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* The version that was the first to write it like that. Whoever changes what a number in the file
 * means, such as a hash, names a new one. */
#define FORMAT "localproxy 0.2.0-dev"

/* What is mapped. Earlier builds read and wrote no name behind it. */
struct image {
    struct delivered_versions versions;
    char upstream[64]; /* whose it is; "": it was not said */
};

struct delivered_file {
    int fd; /* holds the lock */
};

#define FIELD(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)

/* All that delivered_take_over reads: a build whose compiler lays it out in another way, or that
 * has another field, must not believe the file. */
static const size_t layout[] = {
    sizeof(struct delivered_versions),
    FIELD(delivered_versions, busy),
    FIELD(delivered_versions, all_known),
    FIELD(delivered_versions, lost_unread),
    FIELD(delivered_versions, lost_highest),
    FIELD(delivered_versions, lost_forgotten),
    FIELD(delivered_versions, writes),
    FIELD(delivered_versions, began_ms),
    FIELD(delivered_versions, accounts_elsewhere),
    FIELD(delivered_versions, point_count),
    FIELD(delivered_versions, point_pool),
    FIELD(delivered_versions, resource_count),
    FIELD(delivered_versions, resource_pool),
    FIELD(delivered_versions, account_count),
    FIELD(delivered_versions, account_pool),
    sizeof(struct point),
    FIELD(point, key),
    FIELD(point, kind),
    FIELD(point, count),
    FIELD(point, since_ms),
    FIELD(point, range),
    POINT_KINDS,
    sizeof(struct resource),
    FIELD(resource, id),
    FIELD(resource, floor),
    FIELD(resource, forgotten),
    FIELD(resource, seen),
    FIELD(resource, has_unread),
    FIELD(resource, unread),
    FIELD(seen, selector),
    FIELD(seen, highest),
    sizeof(struct delivered_account),
    FIELD(delivered_account, key),
    FIELD(delivered_account, delivered),
    FIELD(delivered_account, mixed),
    FIELD(delivered_account, synced),
    FIELD(delivered_account, unknown),
    FIELD(delivered_account, changing),
    FIELD(delivered_account, open),
    FIELD(delivered_key, resource),
    FIELD(delivered_key, view),
    FIELD(delivered_key, selector),
    FIELD(pending_record, under_way),
    FIELD(pending_record, until_ms),
    FIELD(pending_record, lost),
    FIELD(pending_record, rules),
    FIELD(delivered_range, from),
    FIELD(delivered_range, to),
};

static uint64_t layout_hash(void)
{
    uint64_t hash = HASH_SEED;
    for (size_t i = 0; i < ARRAY_LEN(layout); i++) {
        hash = hash_slice(hash, slice_of((const char *)&layout[i], sizeof layout[i]));
    }
    return hash;
}

static void stamp_init(struct delivered_stamp *stamp)
{
    struct buf boot = BUF_INIT(sizeof stamp->boot - 1);
    struct err e = ERR_INIT;
    *stamp = (struct delivered_stamp){.layout = layout_hash()};
    (void)snprintf(stamp->format, sizeof stamp->format, "%s", FORMAT);
    if (file_read(BOOT_ID, &boot, &e) == 0) {
        memcpy(stamp->boot, buf_data(&boot), boot.len);
    }
    buf_reset(&boot);
}

static int fail_with_errno(const char *path, const char *doing, struct err *e)
{
    int code = -errno;
    return err_set(e, code, "%s: %s: %s", path, doing, strerror(-code));
}

static int open_locked(const char *path, struct err *e)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return fail_with_errno(path, "cannot be opened", e);
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        err_set(e, -EINVAL, "%s: is not a regular file", path);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        err_set(e, -EBUSY, "%s: another localproxy uses it: give each its own", path);
    } else {
        return fd;
    }
    close(fd);
    return e->code;
}

/* NULL: there is nothing. Without memory, and when it cannot be read, too, with `e` set: who has
 * seen what would not be known. */
static struct image *read_old(const char *path, int fd, struct err *e)
{
    struct image *old = calloc(1, sizeof *old);
    if (old == NULL) {
        err_memory(e);
        return NULL;
    }
    ssize_t n = pread(fd, old, sizeof *old, 0);
    if (n > 0) {
        if ((size_t)n < sizeof old->versions) {
            atomic_store(&old->versions.busy, 1); /* it is not whole */
        }
        if ((size_t)n < sizeof *old) {
            old->upstream[0] = '\0';
        }
        return old;
    }
    if (n < 0) {
        fail_with_errno(path, "cannot be read", e);
    }
    free(old);
    return NULL;
}

/* A file must have its room from the beginning: where there is none a mapping kills. */
static struct image *map_file(const char *path, int fd, struct err *e)
{
    int rc = posix_fallocate(fd, 0, (off_t)sizeof(struct image));
    if (rc != 0) {
        errno = rc;
        fail_with_errno(path, "has no room", e);
        return NULL;
    }
    void *memory = mmap(NULL, sizeof(struct image), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        fail_with_errno(path, "cannot be mapped", e);
        return NULL;
    }
    return memory;
}

/* From here on until it is not busy the file is good for nothing. A new one is all zero, and its
 * memory is touched when it is used. */
static void wipe_file(struct delivered_versions *r, bool new)
{
    size_t behind = offsetof(struct delivered_versions, file);
    atomic_store(&r->busy, 1);
    if (!new) {
        memset((char *)r + behind, 0, sizeof *r - behind);
    }
}

static void take_old(struct image *i, const char *path, const char *upstream,
                     const struct image *old)
{
    struct delivered_versions *r = &i->versions;
    stamp_init(&r->stamp);
    (void)snprintf(i->upstream, sizeof i->upstream, "%s", upstream);
    r->writes = PENDING_UNKNOWN;
    if (old == NULL) {
        r->all_known = true;
        r->writes = (struct pending_record){.under_way = 0};
    } else if (memcmp(&old->versions.stamp, &r->stamp, sizeof r->stamp) != 0) {
        log_warn("starting without the saved client state: it is in another format, or from "
                 "before the last boot",
                 log_str("state", path));
    } else if (old->upstream[0] != '\0' &&
               strncmp(old->upstream, i->upstream, sizeof i->upstream) != 0) {
        log_warn("starting without the saved client state: it is of another API server",
                 log_str("state", path), log_str("upstream", upstream));
    } else if (!delivered_take_over(r, &old->versions)) {
        log_warn("starting without the saved client state: the file is incomplete",
                 log_str("state", path));
    } else {
        log_info("restored the saved client state", log_str("state", path),
                 log_str("upstream", upstream));
    }
    atomic_store(&r->busy, 0);
}

struct delivered_versions *delivered_open(const char *path, const char *upstream, uint64_t doubt_ms,
                                          struct err *e)
{
    struct delivered_file *file = calloc(1, sizeof *file);
    struct image *old = NULL;
    struct image *i = NULL;
    if (file == NULL) {
        err_memory(e);
        return NULL;
    }
    file->fd = open_locked(path, e);
    if (file->fd < 0) {
        goto no_file;
    }
    old = read_old(path, file->fd, e);
    if (old == NULL && e->code != 0) {
        goto no_memory;
    }
    i = map_file(path, file->fd, e);
    if (i == NULL) {
        goto no_memory;
    }
    wipe_file(&i->versions, old == NULL);
    i->versions.file = file;
    delivered_init(&i->versions, doubt_ms);
    take_old(i, path, upstream, old);
    free(old);
    return &i->versions;

no_memory:
    free(old);
    close(file->fd);
no_file:
    free(file);
    return NULL;
}

void delivered_file_close(struct delivered_versions *r)
{
    struct delivered_file *file = r->file;
    (void)munmap(r, sizeof(struct image)); /* which begins with it */
    close(file->fd);
    free(file);
}
