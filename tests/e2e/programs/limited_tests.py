# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Tests for pytest whose GPU memory is limited; python_tools_test.py says which of them have to fail."""

import unittest

import pytest
import torch

kept = []


def mib(count):
    return torch.empty(count << 20, dtype=torch.uint8, device="cuda")


@pytest.fixture
def base():
    return mib(64)


def test_small():
    mib(1)


@pytest.mark.limit_gpu_memory("32 MB")
def test_fits_beside_its_fixture(base):
    mib(32)


@pytest.mark.limit_gpu_memory("32 MB")
def test_too_much(base):
    first = mib(16)
    second = mib(20)
    assert first is not second


@pytest.mark.limit_gpu_leaks("1 MB")
def test_leaks():
    kept.append(mib(4))


@pytest.mark.limit_gpu_leaks(0)
def test_cycles_are_no_leak():
    cycle = [mib(4)]
    cycle.append(cycle)


@pytest.mark.parametrize("size", [1, 48])
def test_each(size):
    mib(size)


@pytest.mark.limit_gpu_memory("a lot")
def test_no_size():
    pass


@pytest.mark.limit_gpu_memory("1 MB")
def test_fails_by_itself():
    mib(8)
    raise ValueError("its own")


@pytest.mark.limit_gpu_memory("1 MB")
@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail():
    mib(8)
    raise ValueError("its own")


def test_without_gpu():
    pass


class OfUnittest(unittest.TestCase):
    @pytest.mark.limit_gpu_memory("1 MB")
    def test_too_much(self):
        mib(2)
