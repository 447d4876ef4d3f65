/*
 * auth.c: see auth.h. A proof is HMAC-SHA-256 under the job's secret over a
 * word that names the direction, the client's hello and the server's nonce;
 * the word keeps one side's proof from being sent back as the other's.
 */
#define _GNU_SOURCE
#include "wire/auth.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "base/le.h"
#include "base/log.h"

#define HELLO_MAGIC "POSEIDON"
#define HELLO_MAGIC_SIZE 8
#define HELLO_VERSION 8
#define HELLO_ROLE 10
#define HELLO_RANK 12
#define HELLO_INCARNATION 16
#define HELLO_SHARD 20
#define HELLO_JOB 24
#define HELLO_NONCE (HELLO_JOB + AUTH_JOB_SIZE)
#define HELLO_END (HELLO_NONCE + AUTH_NONCE_SIZE)
#define ROLE_CLIENT 1
#define WORD_SIZE 8

static_assert(HELLO_END <= AUTH_HELLO_SIZE, "the hello has room");

static const char word_server[WORD_SIZE] = "psd serv";
static const char word_client[WORD_SIZE] = "psd clnt";

psd_status auth_random(void *bytes, size_t size)
{
    uint8_t *at = bytes;

    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);

        if (got < 0 && errno != EINTR) {
            log_error("auth: no random bytes: %m");
            return PSD_ESYSTEM;
        }
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
    return PSD_OK;
}

static psd_status auth_mac(const struct auth_job *job,
                           const char word[WORD_SIZE],
                           const uint8_t hello[AUTH_HELLO_SIZE],
                           const uint8_t nonce[AUTH_NONCE_SIZE],
                           uint8_t proof[AUTH_PROOF_SIZE])
{
    uint8_t text[WORD_SIZE + AUTH_HELLO_SIZE + AUTH_NONCE_SIZE];
    unsigned size = 0;

    memcpy(text, word, WORD_SIZE);
    memcpy(text + WORD_SIZE, hello, AUTH_HELLO_SIZE);
    memcpy(text + WORD_SIZE + AUTH_HELLO_SIZE, nonce, AUTH_NONCE_SIZE);
    if (HMAC(EVP_sha256(), job->secret, AUTH_SECRET_SIZE, text, sizeof(text),
             proof, &size) == NULL ||
        size != AUTH_PROOF_SIZE) {
        log_error("auth: libcrypto has no HMAC-SHA-256");
        return PSD_ESYSTEM;
    }
    return PSD_OK;
}

psd_status auth_hello(const struct auth_job *job,
                      const struct auth_identity *identity,
                      uint8_t hello[AUTH_HELLO_SIZE])
{
    memset(hello, 0, AUTH_HELLO_SIZE);
    memcpy(hello, HELLO_MAGIC, HELLO_MAGIC_SIZE);
    le_put_u16(hello + HELLO_VERSION, WIRE_VERSION);
    le_put_u16(hello + HELLO_ROLE, ROLE_CLIENT);
    le_put_u32(hello + HELLO_RANK, identity->rank);
    le_put_u32(hello + HELLO_INCARNATION, identity->incarnation);
    le_put_u32(hello + HELLO_SHARD, identity->shard);
    memcpy(hello + HELLO_JOB, job->id, AUTH_JOB_SIZE);
    return auth_random(hello + HELLO_NONCE, AUTH_NONCE_SIZE);
}

static psd_status hello_check(const struct auth_job *job,
                              const uint8_t hello[AUTH_HELLO_SIZE])
{
    static const uint8_t zeros[AUTH_HELLO_SIZE - HELLO_END];
    uint16_t version = le_get_u16(hello + HELLO_VERSION);

    if (memcmp(hello, HELLO_MAGIC, HELLO_MAGIC_SIZE) != 0) {
        log_error("auth: the peer does not speak poseidon");
        return PSD_EPROTO;
    }
    if (version != WIRE_VERSION) {
        log_error("auth: the peer speaks version %u, this build %u", version,
                  WIRE_VERSION);
        return PSD_EPROTO;
    }
    if (le_get_u16(hello + HELLO_ROLE) != ROLE_CLIENT ||
        memcmp(hello + HELLO_END, zeros, sizeof(zeros)) != 0) {
        log_error("auth: malformed hello");
        return PSD_EPROTO;
    }
    if (CRYPTO_memcmp(hello + HELLO_JOB, job->id, AUTH_JOB_SIZE) != 0) {
        log_error("auth: the peer belongs to another job");
        return PSD_EAUTH;
    }
    return PSD_OK;
}

psd_status auth_challenge(const struct auth_job *job,
                          const uint8_t hello[AUTH_HELLO_SIZE],
                          struct auth_identity *identity_p,
                          uint8_t challenge[AUTH_CHALLENGE_SIZE])
{
    psd_status status = hello_check(job, hello);

    if (status != PSD_OK) {
        return status;
    }
    status = auth_random(challenge, AUTH_NONCE_SIZE);
    if (status != PSD_OK) {
        return status;
    }
    status = auth_mac(job, word_server, hello, challenge,
                      challenge + AUTH_NONCE_SIZE);
    if (status != PSD_OK) {
        return status;
    }
    identity_p->rank = le_get_u32(hello + HELLO_RANK);
    identity_p->incarnation = le_get_u32(hello + HELLO_INCARNATION);
    identity_p->shard = le_get_u32(hello + HELLO_SHARD);
    return PSD_OK;
}

psd_status auth_prove(const struct auth_job *job,
                      const uint8_t hello[AUTH_HELLO_SIZE],
                      const uint8_t challenge[AUTH_CHALLENGE_SIZE],
                      uint8_t proof[AUTH_PROOF_SIZE])
{
    uint8_t expected[AUTH_PROOF_SIZE];
    psd_status status = auth_mac(job, word_server, hello, challenge, expected);

    if (status != PSD_OK) {
        return status;
    }
    if (CRYPTO_memcmp(expected, challenge + AUTH_NONCE_SIZE,
                      AUTH_PROOF_SIZE) != 0) {
        log_error("auth: the server does not hold the job's secret");
        return PSD_EAUTH;
    }
    return auth_mac(job, word_client, hello, challenge, proof);
}

psd_status auth_verify(const struct auth_job *job,
                       const uint8_t hello[AUTH_HELLO_SIZE],
                       const uint8_t challenge[AUTH_CHALLENGE_SIZE],
                       const uint8_t proof[AUTH_PROOF_SIZE])
{
    uint8_t expected[AUTH_PROOF_SIZE];
    psd_status status = auth_mac(job, word_client, hello, challenge, expected);

    if (status != PSD_OK) {
        return status;
    }
    if (CRYPTO_memcmp(expected, proof, AUTH_PROOF_SIZE) != 0) {
        log_error("auth: rank %" PRIu32 " does not hold the job's secret",
                  le_get_u32(hello + HELLO_RANK));
        return PSD_EAUTH;
    }
    return PSD_OK;
}
