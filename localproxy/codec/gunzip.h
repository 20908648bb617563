/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gunzip.h - inflates a body in gzip while it streams by.
 *
 * zlib takes 40 KiB for it, from the first byte on. The sum at the end is for the client, which
 * gets the same bytes: to check it here, too, takes as much as inflating.
 */
#ifndef LOCALPROXY_CODEC_GUNZIP_H
#define LOCALPROXY_CODEC_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"

#define GUNZIP_MEMORY ((size_t)40 * 1024)
/* What is inflated beyond so many bytes is so many times as long as the body at most; gzip can make
 * a thousand of one, for which all else would wait. Lists of the API server are 10 to 30 times as
 * long. */
#define GUNZIP_ANY_RATIO ((size_t)4 * 1024 * 1024)
#define GUNZIP_RATIO_MAX 100

struct gunzip;

/* NULL without memory. */
MUST_CHECK struct gunzip *gunzip_new(void);
/* NULL is ignored. */
void gunzip_free(struct gunzip *g);

/* What was inflated, valid until return: 1 KiB at most at first, which mostly has all of an
 * object's or a list's metadata, then 16 KiB. False: no more is wanted;
 * `g` may be freed then. */
typedef bool (*gunzip_cb)(void *data, struct slice inflated);

/* The next bytes. 0, or -EPROTO: they are no gzip, or one that inflates too far. Neither this nor
 * what follows it is to be fed when that was returned, or no more was wanted. */
MUST_CHECK int gunzip_feed(struct gunzip *g, struct slice bytes, gunzip_cb cb, void *data);

#endif
