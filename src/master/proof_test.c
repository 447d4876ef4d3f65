/* proof_test.c: proofs are compared once per worker, in bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "master/proof.h"

static enum proof_outcome note(struct proof_table *table, uint32_t rank,
                               uint32_t tensor, uint32_t kind, uint64_t step,
                               uint32_t crc)
{
    struct message_proof proof = {
        .tensor = tensor, .kind = kind, .step = step, .crc = crc
    };
    struct proof_known known;

    return proof_note(table, &proof, rank, &known);
}

static void proofs_are_known_by_kind_tensor_and_step(void **state)
{
    struct proof_table *table;

    (void)state;
    assert_int_equal(proof_table_create(2, &table), PSD_OK);
    assert_int_equal(note(table, 0, 1, 0, 1, 10), PROOF_FIRST);
    assert_int_equal(note(table, 1, 2, 0, 1, 11), PROOF_FIRST);
    assert_int_equal(note(table, 1, 1, 1, 1, 11), PROOF_FIRST);
    assert_int_equal(note(table, 1, 1, 0, 2, 11), PROOF_FIRST);
    assert_int_equal(note(table, 1, 1, 0, 1, 10), PROOF_EQUAL);
    proof_table_destroy(table);
}

static void a_difference_tells_what_was_known(void **state)
{
    struct message_proof proof = { .tensor = 5, .step = 9, .crc = 70 };
    struct proof_known known;
    struct proof_table *table;

    (void)state;
    assert_int_equal(proof_table_create(4, &table), PSD_OK);
    proof_note(table, &proof, 3, &known);
    proof_note(table, &proof, 1, &known);
    proof.crc = 71;
    assert_int_equal(proof_note(table, &proof, 0, &known), PROOF_DIFFER);
    assert_int_equal(known.first_rank, 3);
    assert_int_equal(known.holders, 2);
    assert_int_equal(known.crc, 70);
    proof_table_destroy(table);
}

static void two_steps_of_ten_thousand_tensors_fit(void **state)
{
    struct proof_table *table;

    (void)state;
    assert_int_equal(proof_table_create(2, &table), PSD_OK);
    for (uint32_t i = 0; i < 20000; i++) {
        note(table, 0, i % 10000, 0, i / 10000, i);
    }
    for (uint32_t i = 0; i < 20000; i++) {
        assert_int_equal(note(table, 1, i % 10000, 0, i / 10000, i),
                         PROOF_EQUAL);
    }
    proof_table_destroy(table);
}

static void the_oldest_gives_way_when_one_worker_runs_ahead(void **state)
{
    struct proof_table *table;

    (void)state;
    assert_int_equal(proof_table_create(2, &table), PSD_OK);
    for (uint32_t step = 0; step < 1000000; step++) {
        note(table, 0, 0, 0, step, step);
    }
    assert_int_equal(note(table, 1, 0, 0, 0, 1), PROOF_FIRST);
    assert_int_equal(note(table, 1, 0, 0, 999999, 1), PROOF_DIFFER);
    proof_table_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs_are_known_by_kind_tensor_and_step),
        cmocka_unit_test(a_difference_tells_what_was_known),
        cmocka_unit_test(two_steps_of_ten_thousand_tensors_fit),
        cmocka_unit_test(the_oldest_gives_way_when_one_worker_runs_ahead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
