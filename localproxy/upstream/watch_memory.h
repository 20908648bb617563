/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_memory.h - what watches keep in memory of what the API server answers, all together.
 *
 * One budget (struct migration_context), of which who can do without leaves a part to others: an
 * event that is not whole can also pass as it comes, and who holds no page of a difference can wait
 * for its turn, while who holds some gives none back before it has the others.
 */
#ifndef LOCALPROXY_UPSTREAM_WATCH_MEMORY_H
#define LOCALPROXY_UPSTREAM_WATCH_MEMORY_H

#include <stddef.h>

/* In bytes: for pages of who holds some, and for requests of localproxy's own; for the first pages
 * of others; for events that are not whole. */
#define WATCH_MEMORY_MAX ((size_t)48 * 1024 * 1024)
#define WATCH_MEMORY_FIRST ((size_t)32 * 1024 * 1024)
#define WATCH_MEMORY_EVENTS ((size_t)16 * 1024 * 1024)

#endif
