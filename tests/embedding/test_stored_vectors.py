"""Vectors as they lie in memory.db."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.embedding.packed_vectors import pack_vector, unpack_rows, unpack_vectors
from engram.errors import EmbeddingError


def unit(dimension: int, seed: int) -> bytes:
    row = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return bytes((row / np.linalg.norm(row)).astype(np.float16).tobytes())


@pytest.mark.parametrize("dimension", [384, 386, 768])
def test_a_vector_comes_back_nearly_as_it_was_from_a_quarter_of_the_room(dimension: int) -> None:
    data = unit(dimension, 1)

    stored = pack_vector(data)
    (found,) = unpack_vectors([stored])

    first, second = (np.frombuffer(one, dtype=np.float16).astype(np.float64) for one in (data, found))
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert cosine > 0.994
    assert len(stored) <= len(data) / 4 + 4


@pytest.mark.parametrize("data", [b"", bytes(8), np.array([1, np.inf], dtype=np.float16).tobytes(), unit(383, 1)])
def test_what_no_level_can_stand_for_stays_as_it_is(data: bytes) -> None:
    assert unpack_vectors([pack_vector(data)]) == [data]


def test_older_rows_and_others_of_unlike_length_come_back_in_order() -> None:
    old, new, other = unit(16, 1), unit(16, 2), unit(18, 3)
    a_byte_a_number = bytes([3]) + np.float16(0.5).tobytes() + np.arange(-8, 8, dtype=np.int8).tobytes()

    found = unpack_vectors([old, pack_vector(other), a_byte_a_number, pack_vector(new)])

    assert found[0] == old
    assert [len(one) for one in found] == [32, 36, 32, 32]
    assert np.array_equal(np.frombuffer(found[2], dtype=np.float16), np.arange(-8, 8) / 2)


def test_the_length_of_a_vector_is_kept() -> None:
    (found,) = unpack_vectors([pack_vector(unit(384, 1))])

    assert np.linalg.norm(np.frombuffer(found, dtype=np.float16).astype(np.float64)) == pytest.approx(1, abs=0.002)


@given(st.binary(max_size=64).filter(lambda data: len(data) % 2 == 0))
@settings(max_examples=60, deadline=None)
def test_packing_what_was_unpacked_changes_no_length(data: bytes) -> None:
    (found,) = unpack_vectors([pack_vector(data)])

    assert len(found) == len(data)


def test_rows_are_the_same_as_one_by_one_however_they_were_stored() -> None:
    new, old = [pack_vector(unit(16, seed)) for seed in range(3)], unit(16, 4)

    for stored in (new, [*new, old], [old], []):
        single = [np.frombuffer(one, dtype=np.float16) for one in unpack_vectors(stored)]
        rows = unpack_rows(stored, 16)
        assert rows.shape == (len(stored), 16)
        assert np.allclose(rows, np.array(single).reshape(-1, 16), atol=1e-3)


@pytest.mark.parametrize("stored", [[pack_vector(unit(15, 1))], [pack_vector(unit(16, 1)), unit(15, 1)], [b"ab"]])
def test_rows_of_another_length_are_refused(stored: list[bytes]) -> None:
    with pytest.raises(EmbeddingError):
        unpack_rows(stored, 16)
