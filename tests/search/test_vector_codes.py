"""Rows in few bits: what is lost, what stays, and that every way to ask gives the same."""

from __future__ import annotations

import numpy as np
import pytest

from engram.search.vectors.row_blocks import ByteCodes, Codes, Floats, PackedCodes


def normal_rows(count: int, width: int) -> Floats:
    return np.random.default_rng(3).standard_normal((count, width), dtype=np.float32) / np.float32(np.sqrt(width))


#: More than a slice of rows of 64 numbers, in any form.
MANY = 8_199


def all_codes(width: int, room: int = MANY) -> list[Codes]:
    return [ByteCodes(room, width), PackedCodes(room, width, 4), PackedCodes(room, width, 2)]


@pytest.mark.parametrize(("bits", "most"), [(4, 0.0125), (2, 0.14)])
def test_the_levels_lose_as_little_as_even_ones_can(bits: int, most: float) -> None:
    """Max's even levels lose 1.15 % and 11.9 % of a row's square; to keep its product with itself adds a little."""
    rows = normal_rows(500, 256)
    codes = PackedCodes(500, 256, bits)
    codes.store(0, rows)

    lost = codes.rows_at(np.arange(500)) - rows

    assert (lost**2).sum() / (rows**2).sum() < most


@pytest.mark.parametrize("bits", [2, 4])
def test_a_rows_product_with_itself_stays_as_it_was(bits: int) -> None:
    rows = normal_rows(200, 64) * np.linspace(0.01, 5, 200, dtype=np.float32)[:, np.newaxis]
    codes = PackedCodes(200, 64, bits)
    codes.store(0, rows)

    products = np.einsum("ij,ij->i", codes.rows_at(np.arange(200)), rows)

    assert np.allclose(products, (rows**2).sum(axis=1), rtol=0.001)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 10, 63, 64])
def test_every_way_to_ask_for_a_dot_product_gives_the_same(width: int) -> None:
    """Also where the numbers do not fill the last byte, and over the end of a slice."""
    rows, query = normal_rows(MANY, width), normal_rows(1, width)[0]
    places = np.array([0, 3, 2047, 2048, 4095, 4096, 8191, 8192, MANY - 1])
    for codes in all_codes(width):
        codes.store(0, rows[:5])
        codes.store(5, rows[5:])

        assert np.allclose(codes.dots(MANY, query)[places], codes.rows_at(places) @ query, atol=1e-5)
        assert np.allclose(codes.dots_at(places, query), codes.rows_at(places) @ query, atol=1e-5)


def test_rows_of_zeros_and_parts_without_numbers_are_like_nothing() -> None:
    for codes in (*all_codes(8), *all_codes(0)):
        width = codes.rows_at(np.arange(0)).shape[1]
        codes.store(0, np.zeros((2, width), dtype=np.float32))

        assert np.array_equal(codes.dots(2, np.ones(width, dtype=np.float32)), [0, 0])


def test_a_row_written_again_holds_nothing_of_the_old_one() -> None:
    rows = normal_rows(2, 30)
    for codes in all_codes(30):
        codes.store(0, rows[:1])
        codes.store(0, rows[1:])

        assert codes.rows_at(np.array([0]))[0] @ rows[1] == pytest.approx(rows[1] @ rows[1], rel=0.02)


def test_two_bits_take_half_of_four_and_a_quarter_of_a_byte() -> None:
    sizes = [codes.arrays()[0].nbytes for codes in all_codes(64)]

    assert sizes == [sizes[0], sizes[0] // 2, sizes[0] // 4]
