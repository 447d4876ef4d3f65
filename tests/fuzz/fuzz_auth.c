/*
 * fuzz_auth.c: any bytes, as the messages of a handshake. Without the secret
 * no proof is ever accepted, on either side. Bit 0 of the first byte: the
 * hello's fixed fields are put right, so that the rest is reached.
 */
#include "base/le.h"
#include "base/log.h"
#include "fuzz.h"
#include "wire/auth.h"

#define INPUT_SIZE \
    (1 + AUTH_HELLO_SIZE + AUTH_CHALLENGE_SIZE + AUTH_PROOF_SIZE)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct auth_job job = { "job of the fuzz", "its secret" };
    struct auth_identity identity = { 0, 0, 0 };
    uint8_t input[INPUT_SIZE] = { 0 };
    uint8_t *hello = input + 1;
    uint8_t *challenge = hello + AUTH_HELLO_SIZE;
    uint8_t *proof = challenge + AUTH_CHALLENGE_SIZE;
    uint8_t made[AUTH_CHALLENGE_SIZE];
    uint8_t answer[AUTH_PROOF_SIZE];

    memcpy(input, data, size < INPUT_SIZE ? size : INPUT_SIZE);
    if ((input[0] & 1) != 0) {
        memcpy(hello, "POSEIDON", 8);
        le_put_u16(hello + 8, WIRE_VERSION);
        memcpy(hello + 24, job.id, AUTH_JOB_SIZE);
    }
    if (auth_challenge(&job, hello, &identity, made) == PSD_OK) {
        PSD_ASSERT(identity.rank == le_get_u32(hello + 12));
        PSD_ASSERT(auth_verify(&job, hello, made, proof) == PSD_EAUTH);
        PSD_ASSERT(auth_prove(&job, hello, made, answer) == PSD_OK);
        PSD_ASSERT(auth_verify(&job, hello, made, answer) == PSD_OK);
    }
    PSD_ASSERT(auth_prove(&job, hello, challenge, answer) == PSD_EAUTH);
    return 0;
}
