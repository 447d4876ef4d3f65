/*
 * auth.h: the start of a TCP link. Both sides prove that they hold the job's
 * secret by HMAC-SHA-256 over both nonces, with role, job, rank and shard
 * bound in, before anything is allocated for the peer. No I/O here: these
 * functions make and check the fixed-size messages; transport/tcp.c moves
 * them. Any thread.
 *
 *     client                                    server
 *       hello (identity, job, nonce)     ->
 *                                        <-     challenge (nonce, proof)
 *       proof                            ->
 *                                        <-     verdict (1 byte: 0 welcome)
 */
#ifndef PSD_WIRE_AUTH_H
#define PSD_WIRE_AUTH_H

#include "wire/wire.h"

#define AUTH_SECRET_SIZE 32
#define AUTH_JOB_SIZE 16
#define AUTH_NONCE_SIZE 32
#define AUTH_PROOF_SIZE 32
#define AUTH_HELLO_SIZE 80
#define AUTH_CHALLENGE_SIZE (AUTH_NONCE_SIZE + AUTH_PROOF_SIZE)

/* Who a link's client says it is. */
struct auth_identity {
    uint32_t rank;
    uint32_t incarnation;
    uint32_t shard; /* which shard it wants to speak to */
};

struct auth_job {
    uint8_t id[AUTH_JOB_SIZE];
    uint8_t secret[AUTH_SECRET_SIZE];
};

enum auth_verdict {
    AUTH_WELCOME = 0,
    AUTH_REFUSED_PROOF = 1,
    AUTH_REFUSED_SHARD = 2, /* not served here */
};

/* Fresh random bytes. PSD_ESYSTEM when the kernel has none. */
psd_status auth_random(void *bytes, size_t size);

/* Client: make the hello. */
psd_status auth_hello(const struct auth_job *job,
                      const struct auth_identity *identity,
                      uint8_t hello[AUTH_HELLO_SIZE]);
/* Server: check a hello (magic, version, job) and answer it. */
psd_status auth_challenge(const struct auth_job *job,
                          const uint8_t hello[AUTH_HELLO_SIZE],
                          struct auth_identity *identity_p,
                          uint8_t challenge[AUTH_CHALLENGE_SIZE]);
/* Client: check the server's proof, make ours. PSD_EAUTH. */
psd_status auth_prove(const struct auth_job *job,
                      const uint8_t hello[AUTH_HELLO_SIZE],
                      const uint8_t challenge[AUTH_CHALLENGE_SIZE],
                      uint8_t proof[AUTH_PROOF_SIZE]);
/* Server: check the client's proof. PSD_EAUTH. */
psd_status auth_verify(const struct auth_job *job,
                       const uint8_t hello[AUTH_HELLO_SIZE],
                       const uint8_t challenge[AUTH_CHALLENGE_SIZE],
                       const uint8_t proof[AUTH_PROOF_SIZE]);

#endif
