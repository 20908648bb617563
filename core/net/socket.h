/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - a libuv handle for a socket of either kind, TCP or Unix; internal to core/net.
 */
#ifndef CORE_NET_SOCKET_H
#define CORE_NET_SOCKET_H

#include <stdbool.h>

#include <uv.h>

union net_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe; /* a Unix socket */
};

static inline int net_socket_init(uv_loop_t *loop, union net_socket *s, bool local)
{
    return local ? uv_pipe_init(loop, &s->pipe, 0) : uv_tcp_init(loop, &s->tcp);
}

#endif
