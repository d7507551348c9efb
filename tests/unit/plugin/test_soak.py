"""The gate stays as small as it began, whatever passes through it."""

import pytest

from benchmarks.soak import SPARE, TOLERANCE, Soak, soak


def assert_flat(seen: Soak) -> None:
    assert seen.calls > 100
    assert seen.growth < TOLERANCE, seen.samples
    assert seen.leaked <= SPARE, seen.samples


def test_memory_and_descriptors_stay_flat() -> None:
    assert_flat(soak(12))


@pytest.mark.slow
def test_memory_and_descriptors_stay_flat_for_minutes() -> None:
    assert_flat(soak(180))
