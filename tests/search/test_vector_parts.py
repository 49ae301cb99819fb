"""Rows in few bits: what is lost, what stays, and that every way to ask gives the same."""

from __future__ import annotations

import numpy as np
import pytest

from engram.search.vectors.parts import Bytes, Floats, Packed, Part


def normal_rows(count: int, width: int) -> Floats:
    return np.random.default_rng(3).standard_normal((count, width), dtype=np.float32) / np.float32(np.sqrt(width))


#: More than a slice of rows of 64 numbers, in any form.
MANY = 8_199


def parts_of(width: int, room: int = MANY) -> list[Part]:
    return [Bytes(room, width), Packed(room, width, 4), Packed(room, width, 2)]


@pytest.mark.parametrize(("bits", "most"), [(4, 0.0125), (2, 0.14)])
def test_the_levels_lose_as_little_as_even_ones_can(bits: int, most: float) -> None:
    """Max's even levels lose 1.15 % and 11.9 % of a row's square; to keep its product with itself adds a little."""
    rows = normal_rows(500, 256)
    part = Packed(500, 256, bits)
    part.store(0, rows)

    lost = part.at(np.arange(500)) - rows

    assert (lost**2).sum() / (rows**2).sum() < most


@pytest.mark.parametrize("bits", [2, 4])
def test_a_rows_product_with_itself_stays_as_it_was(bits: int) -> None:
    rows = normal_rows(200, 64) * np.linspace(0.01, 5, 200, dtype=np.float32)[:, np.newaxis]
    part = Packed(200, 64, bits)
    part.store(0, rows)

    products = np.einsum("ij,ij->i", part.at(np.arange(200)), rows)

    assert np.allclose(products, (rows**2).sum(axis=1), rtol=0.001)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 10, 63, 64])
def test_every_way_to_ask_for_a_dot_product_gives_the_same(width: int) -> None:
    """Also where the numbers do not fill the last byte, and over the end of a slice."""
    rows, query = normal_rows(MANY, width), normal_rows(1, width)[0]
    places = np.array([0, 3, 2047, 2048, 4095, 4096, 8191, 8192, MANY - 1])
    for part in parts_of(width):
        part.store(0, rows[:5])
        part.store(5, rows[5:])

        assert np.allclose(part.dots(MANY, query)[places], part.at(places) @ query, atol=1e-5)
        assert np.allclose(part.dots_at(places, query), part.at(places) @ query, atol=1e-5)


def test_rows_of_zeros_and_parts_without_numbers_are_like_nothing() -> None:
    for part in (*parts_of(8), *parts_of(0)):
        width = part.at(np.arange(0)).shape[1]
        part.store(0, np.zeros((2, width), dtype=np.float32))

        assert np.array_equal(part.dots(2, np.ones(width, dtype=np.float32)), [0, 0])


def test_a_row_written_again_holds_nothing_of_the_old_one() -> None:
    rows = normal_rows(2, 30)
    for part in parts_of(30):
        part.store(0, rows[:1])
        part.store(0, rows[1:])

        assert part.at(np.array([0]))[0] @ rows[1] == pytest.approx(rows[1] @ rows[1], rel=0.02)


def test_two_bits_take_half_of_four_and_a_quarter_of_a_byte() -> None:
    sizes = [part.columns()[0].nbytes for part in parts_of(64)]

    assert sizes == [sizes[0], sizes[0] // 2, sizes[0] // 4]
