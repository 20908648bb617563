/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_address.h - where a sidecar can be, and so what the manager may connect to.
 *
 * The address and the ports of a pod are what its object says. Whoever makes that say otherwise
 * must not have the manager talk to itself, its node, or the metadata service of a cloud.
 */
#ifndef MANAGER_ENFORCEMENT_PROBE_ADDRESS_H
#define MANAGER_ENFORCEMENT_PROBE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether a pod, or the node of one with hostNetwork, can have it: not an unspecified, loopback,
 * link-local, multicast or broadcast address, nor one of these written as an IPv6 one. */
bool probe_address_is_plausible(const struct sockaddr_storage *address);

#endif
