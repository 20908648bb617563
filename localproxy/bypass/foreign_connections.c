/* SPDX-License-Identifier: Apache-2.0 */
#include "bypass/foreign_connections.h"

#include <string.h>

static bool is_server(const struct foreign_connections *f, const struct socket_end *end)
{
    for (size_t i = 0; i < f->count; i++) {
        if (socket_end_equal(&f->servers[i], end)) {
            return true;
        }
    }
    return false;
}

void foreign_connections_name(struct foreign_connections *f, const struct socket_end *server)
{
    if (f->named < FOREIGN_NAMED_MAX && !is_server(f, server)) {
        f->servers[f->named++] = *server;
        f->count = f->named;
        f->oldest = f->named;
    }
}

/* In place of the oldest if there is no room. */
static void learn_server(struct foreign_connections *f, const struct socket_end *end)
{
    if (is_server(f, end)) {
        return;
    }
    if (f->count < FOREIGN_SERVERS_MAX) {
        f->servers[f->count++] = *end;
        return;
    }
    f->servers[f->oldest++] = *end;
    if (f->oldest == FOREIGN_SERVERS_MAX) {
        f->oldest = f->named;
    }
}

static bool is_carried(const struct socket_look *look, const struct socket_entry *entry)
{
    size_t count = 0;
    return socket_table_to(&look->table, &entry->local, &count) != NULL;
}

/* localproxy has the other end. */
static bool is_led(const struct socket_look *look, const struct socket_entry *entry)
{
    size_t count = 0;
    const struct socket_entry *end = socket_table_to(&look->table, &entry->local, &count);
    for (; count > 0; count--, end++) {
        if (socket_look_is_own(look, end)) {
            return true;
        }
    }
    return false;
}

static bool is_own_port(const struct foreign_connections *f, uint16_t port)
{
    for (size_t i = 0; i < FOREIGN_OWN_PORTS_MAX; i++) {
        if (f->own_ports[i] == port) {
            return true;
        }
    }
    return false;
}

/* The others are clients'. */
static bool goes_to_server(const struct foreign_connections *f, const struct socket_entry *entry)
{
    return f->port != 0 && entry->remote.port == f->port && !is_own_port(f, entry->local.port);
}

/* Whether it is another's that does not end here. */
static bool is_foreign(const struct foreign_connections *f, const struct socket_look *look,
                       const struct socket_entry *entry)
{
    return !socket_look_is_own(look, entry) && !is_led(look, entry) &&
           (!f->carried || is_carried(look, entry));
}

static void look_at_own(struct foreign_connections *f, const struct socket_look *look)
{
    for (size_t i = 0; i < look->table.count; i++) {
        const struct socket_entry *entry = &look->table.entries[i];
        if (goes_to_server(f, entry) && socket_look_is_own(look, entry)) {
            learn_server(f, &entry->remote);
            f->carried = f->carried || is_carried(look, entry);
        }
    }
}

static bool was_there(const struct foreign_connections *before, const struct socket_entry *entry)
{
    for (size_t i = 0; i < before->found_count; i++) {
        const struct socket_entry *old = &before->found[i];
        if (old->inode == entry->inode && socket_end_equal(&old->local, &entry->local)) {
            return true;
        }
    }
    return false;
}

static void find_to(struct foreign_connections *f, const struct foreign_connections *before,
                    const struct socket_look *look, const struct socket_end *server)
{
    size_t count = 0;
    const struct socket_entry *entry = socket_table_to(&look->table, server, &count);
    for (; count > 0 && f->found_count < FOREIGN_FOUND_MAX; count--, entry++) {
        if (is_foreign(f, look, entry)) {
            f->found[f->found_count++] = *entry;
            f->lasting += was_there(before, entry);
        }
    }
}

bool foreign_connections_update(struct foreign_connections *f, const struct socket_look *look)
{
    const struct foreign_connections before = *f;
    look_at_own(f, look);
    f->found_count = 0;
    f->lasting = 0;
    for (size_t i = 0; i < f->count; i++) {
        find_to(f, &before, look, &f->servers[i]);
    }
    return f->found_count > f->lasting;
}
