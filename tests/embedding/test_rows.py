"""Rows that are no vectors are refused; all others come out with length 1."""

from __future__ import annotations

import numpy as np
import pytest

from engram.embedding.hashed import unit_rows
from engram.errors import EmbeddingError


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 3e38])
def test_a_row_with_a_number_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(EmbeddingError, match="not finite"), np.errstate(over="ignore"):
        unit_rows([[1.0, 2.0], [bad, 1.0]])


def test_a_row_of_zeros_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="empty"):
        unit_rows([[1.0, 2.0], [0.0, 0.0]])


def test_rows_get_length_one_and_the_input_stays() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float32)

    units = unit_rows(rows)

    assert np.allclose(units, [[0.6, 0.8], [0.0, 1.0]])
    assert rows[0, 0] == 3.0


def test_no_rows_stay_no_rows() -> None:
    assert unit_rows(np.zeros((0, 4))).shape == (0, 4)
