/*
 * address.h: the address of this host that the other hosts of a job reach.
 * Any thread.
 */
#ifndef PSD_CONFIG_ADDRESS_H
#define PSD_CONFIG_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "poseidon.h"

/* Is `name` an address of this machine, or a name of one? */
bool address_is_own(const char *name);

/* In this order: an address of `interface` ("": any); the address that `host`
 * (what the user calls this machine) stands for, IPv4 before IPv6; the one
 * that ssh came in by (SSH_CONNECTION); the one that routes to `peer`. Never
 * loopback. PSD_EINVAL with a sentence. */
psd_status address_choose(const char *host, const char *interface,
                          const char *peer, char *address, size_t size,
                          char *error, size_t error_size);

#endif
