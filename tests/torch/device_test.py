#!/usr/bin/env python3
"""Gradients on a CUDA device, with real torch: the runs of exchange_cases.py
on two workers that share a device, against the same runs alone.

    PYTHON device_test.py --build DIR [PATTERN...]

Prints TAP; skips where there is no device.
"""
import sys

import common
import exchange_test
from common import Skip, test

common.e2e.TESTS.clear()
CASES = ['plain_mlp', 'adamw_clip', 'fused_zeros', 'foreach', 'lenet',
         'transformer', 'lstm', 'checkpointed', 'reentrant', 'hooks',
         'branches', 'kept', 'batch_norm', 'bfloat16']
# Sums on a device are rounded otherwise; a search of small differences.
LOOSE = dict(exchange_test.LOOSE, lenet=1e-4, transformer=1e-4, lstm=1e-4)


def compare(workers, words, limit):
    try:
        import torch
        there = torch.cuda.is_available()
    except ImportError:
        there = False
    if not there:
        raise Skip('no CUDA device')
    exchange_test.compare(exchange_test.spread(workers, words),
                          exchange_test.alone(*words), limit, LOOSE)


@test
def two_workers_on_a_device():
    compare(2, ['--cuda', *CASES], 1e-5)


@test
def three_workers_on_a_device_in_float64():
    compare(3, ['--cuda', '--float64', *CASES], 1e-11)


if __name__ == '__main__':
    sys.exit(common.main())
