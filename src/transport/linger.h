/*
 * linger.h: closing a TCP socket without losing its last bytes. A socket that
 * is closed while unread bytes (a credit, say) lie in it, or come later, is
 * reset, and the reset throws away what the peer has not acknowledged yet. So
 * it is kept, and read dry, until everything is acknowledged or
 * LINGER_LIMIT_MS have passed. Private to this room; the loop's thread.
 */
#ifndef PSD_TRANSPORT_LINGER_H
#define PSD_TRANSPORT_LINGER_H

#include "transport/loop.h"

#define LINGER_LIMIT_MS 2000
#define LINGER_LOOK_MS 5

/* Takes `fd`, which nobody watches any more. */
void linger_close(struct psd_loop *loop, int fd);

#endif
