/*
 * port.h: ports of this machine that nobody listens at, for programs that get
 * their addresses by the command line. Any thread.
 */
#ifndef PSD_LAUNCH_PORT_H
#define PSD_LAUNCH_PORT_H

#include <stdint.h>

/* The first of `count` ports in a row that are free now, from `first` on; 0
 * when there are none. */
uint16_t port_find(uint16_t first, uint32_t count);

#endif
