/* auth_test.c: claims about auth.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "wire/auth.h"

struct shake {
    struct auth_job job;
    struct auth_identity identity;
    uint8_t hello[AUTH_HELLO_SIZE];
    uint8_t challenge[AUTH_CHALLENGE_SIZE];
    uint8_t proof[AUTH_PROOF_SIZE];
};

static void shake_init(struct shake *shake)
{
    struct auth_identity identity = { 4, 5, 6 };

    memset(&shake->job, 7, sizeof(shake->job));
    assert_int_equal(auth_hello(&shake->job, &identity, shake->hello),
                     PSD_OK);
    assert_int_equal(auth_challenge(&shake->job, shake->hello,
                                    &shake->identity, shake->challenge),
                     PSD_OK);
    assert_int_equal(auth_prove(&shake->job, shake->hello, shake->challenge,
                                shake->proof),
                     PSD_OK);
}

static void two_ends_with_the_secret_agree(void **state)
{
    struct shake shake;

    (void)state;
    shake_init(&shake);
    assert_int_equal(shake.identity.rank, 4);
    assert_int_equal(shake.identity.incarnation, 5);
    assert_int_equal(shake.identity.shard, 6);
    assert_int_equal(auth_verify(&shake.job, shake.hello, shake.challenge,
                                 shake.proof),
                     PSD_OK);
}

static void a_hello_is_laid_out_as_documented(void **state)
{
    struct shake shake;

    (void)state;
    shake_init(&shake);
    assert_memory_equal(shake.hello, "POSEIDON", 8);
    assert_memory_equal(shake.hello + 8, "\1\0\1\0\4\0\0\0\5\0\0\0\6\0\0\0",
                        16);
    assert_memory_equal(shake.hello + 24, shake.job.id, AUTH_JOB_SIZE);
    assert_memory_equal(shake.hello + 72, "\0\0\0\0\0\0\0\0", 8);
}

static void nonces_are_fresh(void **state)
{
    struct shake one;
    struct shake two;

    (void)state;
    shake_init(&one);
    shake_init(&two);
    assert_memory_not_equal(one.hello, two.hello, AUTH_HELLO_SIZE);
    assert_memory_not_equal(one.challenge, two.challenge, AUTH_NONCE_SIZE);
}

static void a_server_without_the_secret_is_found_out(void **state)
{
    struct shake shake;

    (void)state;
    shake_init(&shake);
    shake.job.secret[0] ^= 1;
    assert_int_equal(auth_prove(&shake.job, shake.hello, shake.challenge,
                                shake.proof),
                     PSD_EAUTH);
}

static void a_client_without_the_secret_is_found_out(void **state)
{
    struct shake shake;

    (void)state;
    shake_init(&shake);
    for (size_t i = 0; i < AUTH_PROOF_SIZE; i++) {
        shake.proof[i] ^= 0x80;
        assert_int_equal(auth_verify(&shake.job, shake.hello,
                                     shake.challenge, shake.proof),
                         PSD_EAUTH);
        shake.proof[i] ^= 0x80;
    }
}

static void the_servers_proof_cannot_be_sent_back(void **state)
{
    struct shake shake;

    (void)state;
    shake_init(&shake);
    assert_int_equal(auth_verify(&shake.job, shake.hello, shake.challenge,
                                 shake.challenge + AUTH_NONCE_SIZE),
                     PSD_EAUTH);
}

static void rank_and_shard_are_bound_in(void **state)
{
    struct shake shake;

    (void)state;
    for (size_t at = 12; at < 24; at++) {
        shake_init(&shake);
        shake.hello[at] ^= 1;
        assert_int_equal(auth_verify(&shake.job, shake.hello,
                                     shake.challenge, shake.proof),
                         PSD_EAUTH);
    }
}

static void a_malformed_hello_gets_no_challenge(void **state)
{
    static const struct {
        size_t at;
        psd_status status;
    } cases[] = {
        { 0, PSD_EPROTO },  { 7, PSD_EPROTO },  { 8, PSD_EPROTO },
        { 9, PSD_EPROTO },  { 10, PSD_EPROTO }, { 24, PSD_EAUTH },
        { 39, PSD_EAUTH },  { 72, PSD_EPROTO }, { 79, PSD_EPROTO },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth_identity identity = { 99, 99, 99 };
        struct shake shake;

        shake_init(&shake);
        shake.hello[cases[i].at] ^= 4;
        assert_int_equal(auth_challenge(&shake.job, shake.hello, &identity,
                                        shake.challenge),
                         cases[i].status);
        assert_int_equal(identity.rank, 99);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ends_with_the_secret_agree),
        cmocka_unit_test(a_hello_is_laid_out_as_documented),
        cmocka_unit_test(nonces_are_fresh),
        cmocka_unit_test(a_server_without_the_secret_is_found_out),
        cmocka_unit_test(a_client_without_the_secret_is_found_out),
        cmocka_unit_test(the_servers_proof_cannot_be_sent_back),
        cmocka_unit_test(rank_and_shard_are_bound_in),
        cmocka_unit_test(a_malformed_hello_gets_no_challenge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
