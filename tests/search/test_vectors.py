"""The vector index: exact while small, nearly so when large, and readable while it is written."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engram.errors import EmbeddingError
from engram.search.vectors.row_blocks import BLOCK_ROWS
from engram.search.vectors.vector_index import MAX_SHORTLIST, VectorIndex

DIMENSION = 32


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def some_rows(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Rows in clusters, as texts are."""
    random = np.random.default_rng(seed)
    centres = unit(random.standard_normal((20, DIMENSION), dtype=np.float32))
    noise = random.standard_normal((count, DIMENSION), dtype=np.float32)
    return unit(centres[random.integers(0, 20, count)] + 0.15 * noise)


@pytest.fixture(params=["exact", "quantised"])
def index(request: pytest.FixtureRequest) -> VectorIndex:
    """An empty index of either kind."""
    return VectorIndex(DIMENSION, max_exact_rows=10**6 if request.param == "exact" else 0)


def test_the_mean_cosine_is_that_of_the_rows_of_the_groups(index: VectorIndex) -> None:
    rows = some_rows(400)
    index.add(np.arange(400), rows, np.arange(400) % 2)
    index.remove(np.arange(0, 100))
    kept = rows[100::2]

    mean, count = index.mean_cosine(rows[7], 1_000, groups=[0])
    sampled, _ = index.mean_cosine(rows[7], 100, groups=[0])

    assert count == 150
    assert mean == pytest.approx(float((kept @ rows[7]).mean()), abs=0.01)
    assert sampled == pytest.approx(mean, abs=0.1)
    assert index.mean_cosine(rows[7], 100, groups=[5]) == (0.0, 0)


def test_the_best_rows_come_first_with_their_cosines(index: VectorIndex) -> None:
    rows = some_rows(400)
    index.add(np.arange(400), rows)

    ids, cosines = index.top(rows[7], 5)

    wanted = rows @ rows[7]
    assert ids[0] == 7
    assert list(cosines) == sorted(cosines, reverse=True)
    assert np.allclose(cosines, wanted[ids], atol=0.01)
    assert len(ids) == 5


def test_an_empty_index_has_no_hits(index: VectorIndex) -> None:
    ids, cosines = index.top(some_rows(1)[0], 3)

    assert (len(index), len(ids), len(cosines)) == (0, 0, 0)
    assert len(index.top(some_rows(1)[0], 5)[0]) == 0
    assert np.isnan(index.scores_of(some_rows(1)[0], [1])).all()


def test_an_id_with_several_rows_is_found_once_by_its_best(index: VectorIndex) -> None:
    rows = some_rows(30)
    index.add([5] * 29 + [6], rows)

    ids, cosines = index.top(rows[3], 2)

    assert list(ids) in ([5, 6], [6, 5])
    assert cosines[list(ids).index(5)] == pytest.approx(1, abs=0.01)


def test_fewer_hits_than_asked_for_are_all_there_are(index: VectorIndex) -> None:
    index.add([1, 2], some_rows(2))

    assert sorted(index.top(some_rows(1)[0], 10)[0]) == [1, 2]
    assert len(index.top(some_rows(1)[0], 0)[0]) == 0


def test_only_the_asked_groups_are_searched(index: VectorIndex) -> None:
    rows = some_rows(90)
    index.add(np.arange(90), rows, np.arange(90) % 3)

    assert set(index.top(rows[0], 90, groups=[1])[0] % 3) == {1}
    assert set(index.top(rows[0], 90, groups=[0, 2])[0] % 3) == {0, 2}
    assert len(index.top(rows[0], 90, groups=range(1, 20))[0]) == 60
    assert len(index.top(rows[0], 90, groups=[])[0]) == 0


def test_removed_ids_are_gone_at_once_and_may_come_back(index: VectorIndex) -> None:
    rows = some_rows(60)
    index.add(np.arange(60), rows)

    assert index.remove([7, 8, 999]) == 2

    assert len(index) == 58
    assert 7 not in index.top(rows[7], 60)[0]
    assert 7 not in index.top(rows[7], 100)[0]
    assert 7 not in index.ids
    index.add([7], rows[7:8])
    assert index.top(rows[7], 1)[0][0] == 7


def test_scores_of_certain_ids_come_in_their_order(index: VectorIndex) -> None:
    rows = some_rows(40)
    index.add(np.arange(40), rows)
    index.add([3], rows[20:21])

    scores = index.scores_of(rows[20], [20, 99, 3, 20])

    assert scores[0] == pytest.approx(1, abs=0.01)
    assert np.isnan(scores[1])
    assert scores[2] == pytest.approx(1, abs=0.01)
    assert scores[3] == scores[0]


def test_moving_the_living_rows_together_loses_none(index: VectorIndex) -> None:
    count = BLOCK_ROWS + 3000
    rows = some_rows(count)
    index.add(np.arange(count), rows, np.arange(count) % 5)
    before = index.bytes_used

    index.remove(np.arange(0, count, 2))

    assert len(index) == count // 2
    assert np.array_equal(index.ids, np.arange(1, count, 2))
    assert index.bytes_used < before
    assert index.top(rows[801], 1, groups=[1])[0][0] == 801
    index.add([-4], rows[800:801])
    assert index.top(rows[800], 1)[0][0] == -4


def test_shapes_that_do_not_fit_are_refused(index: VectorIndex) -> None:
    with pytest.raises(EmbeddingError):
        index.add([1, 2], some_rows(3))
    with pytest.raises(EmbeddingError):
        index.add([1], np.zeros((1, DIMENSION + 1)))
    with pytest.raises(EmbeddingError):
        index.add([1], some_rows(1), [1, 2])
    with pytest.raises(EmbeddingError):
        index.top(np.zeros(DIMENSION - 1), 3)


def test_beyond_its_limit_an_index_keeps_8_bits_a_number() -> None:
    rows = some_rows(1000)
    index = VectorIndex(DIMENSION, max_exact_rows=600)
    index.add(np.arange(600), rows[:600])
    index.remove([5])
    exact_bytes = index.bytes_used

    index.add(np.arange(600, 1000), rows[600:])

    assert len(index) == 999
    assert index.bytes_used < exact_bytes
    assert all(index.top(rows[at], 1)[0][0] == at for at in (0, 599, 600, 999))
    assert 5 not in index.ids


def spread_rows(count: int, seed: int) -> NDArray[np.float32]:
    """Rows of 384 numbers whose variance falls along the axes about as it does for a text model."""
    random = np.random.default_rng(seed)
    spread = (1 / np.sqrt(np.arange(1, 385) + 6)).astype(np.float32)
    return unit(random.standard_normal((count, 384), dtype=np.float32) * spread)


def test_a_narrow_row_takes_less_than_half_of_one_in_bytes() -> None:
    rows = spread_rows(100, seed=0)
    sizes = []
    for byte_limit in (10**6, 0):
        index = VectorIndex(384, max_exact_rows=0, max_byte_rows=byte_limit)
        index.add(np.arange(100), rows)
        sizes.append(index.bytes_used / 100)

    assert sizes == [384 + 3 * 4 + 13, 192 / 2 + 192 / 4 + 3 * 2 + 13]


def test_narrow_rows_are_found_nearly_as_well_as_exact_ones() -> None:
    """More rows than the shortlist holds; the queries resemble a few rows, and most rows little."""
    count = 2 * MAX_SHORTLIST
    rows = spread_rows(count, seed=0)
    queries = unit(rows[:30] + spread_rows(30, seed=1))
    index = VectorIndex(384, max_exact_rows=0, max_byte_rows=0)
    index.expect(count)
    index.add(np.arange(count), rows)

    shares, errors = [], []
    for query in queries:
        true = rows @ query
        ids, cosines = index.top(query, 100)
        best = np.argsort(-true)
        shares.append([np.isin(best[:most], ids).mean() for most in (10, 50, 100)])
        errors.append(np.abs(cosines - true[ids]).mean())

    assert np.all(np.mean(shares, axis=0) > (0.995, 0.99, 0.87))
    assert np.mean(errors) < 0.008


def test_very_many_rows_take_less_and_are_still_found() -> None:
    rows = some_rows(1200)
    index = VectorIndex(DIMENSION, max_exact_rows=100, max_byte_rows=700)
    index.add(np.arange(600), rows[:600])
    index.remove([7])
    in_bytes = index.bytes_used / 600

    index.add(np.arange(600, 1200), rows[600:])

    assert len(index) == 1199
    assert index.bytes_used / 1199 < 0.75 * in_bytes
    assert all(index.top(rows[at], 1)[0][0] == at for at in (0, 599, 600, 1199))
    assert np.allclose(index.scores_of(rows[3], np.arange(8, 1200)), rows[8:] @ rows[3], atol=0.12)
    assert np.allclose(index.scores_of(rows[3], [3]), 1, atol=0.12)
    assert np.isnan(index.scores_of(rows[3], [7])[0])


def test_rows_that_are_expected_are_kept_from_the_first_on_as_they_will_be() -> None:
    rows = some_rows(300)
    index, large = (VectorIndex(DIMENSION, max_exact_rows=1000, max_byte_rows=limit) for limit in (5000, 2000))
    for one in (index, large):
        one.expect(3000)
        one.add(np.arange(300), rows)

    assert large.bytes_used < index.bytes_used


def test_a_row_of_zeros_is_like_nothing() -> None:
    index = VectorIndex(DIMENSION, max_exact_rows=0, max_byte_rows=0)
    index.add([1, 2], np.stack([np.zeros(DIMENSION), some_rows(1)[0]]))

    assert index.scores_of(some_rows(1)[0], [1])[0] == 0


def test_the_first_guess_loses_next_to_nothing() -> None:
    """More rows than the shortlist holds, so that most are judged by a third of their numbers."""
    count = 3 * MAX_SHORTLIST
    rows = some_rows(count)
    queries = some_rows(20, seed=1)
    index = VectorIndex(DIMENSION, max_exact_rows=1000)
    for start in range(0, count, 5000):
        index.add(
            np.arange(start, min(count, start + 5000)), rows[start : start + 5000], np.full(5000, 1)[: count - start]
        )

    lost = []
    for query in queries:
        true = np.sort(rows @ query)[::-1][:10]
        lost += [float((true - index.top(query, 10, groups=groups)[1]).mean()) for groups in (None, [1])]

    assert np.mean(lost) < 0.005
    assert max(lost) < 0.02


def test_a_filter_that_leaves_few_rows_finds_all_of_them() -> None:
    count = 2 * MAX_SHORTLIST
    rows = some_rows(count)
    index = VectorIndex(DIMENSION, max_exact_rows=1000)
    index.add(np.arange(count), rows, np.arange(count) % 1000)

    assert sorted(index.top(rows[0], 100, groups=[3])[0]) == list(range(3, count, 1000))
    assert len(index.top(rows[0], 100, groups=[-1])[0]) == 0


def test_readers_see_whole_rows_while_a_writer_works() -> None:
    """Row and id always belong together: whatever a reader gets has the cosine of that id's row."""
    rows = some_rows(4000)
    index = VectorIndex(DIMENSION, max_exact_rows=1500)
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            for at in (0, 1000, 3999):
                ids, cosines = index.top(rows[at], 5)
                if not np.allclose(cosines, rows[ids] @ rows[at], atol=0.01) or len(set(ids)) != len(ids):
                    wrong.append((at, ids, cosines))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for start in range(0, 4000, 100):
        index.add(np.arange(start, start + 100), rows[start : start + 100])
        index.remove(np.arange(start, start + 60))
    done.set()
    for reader in readers:
        reader.join(60)

    assert not wrong
    assert len(index) == 1600


Step = tuple[bool, list[int]]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 30), max_size=8)), max_size=12),
    st.sampled_from([0, 20, 999]),
)
def test_any_order_of_adding_and_removing_leaves_what_a_list_would_hold(steps: list[Step], limit: int) -> None:
    rows = some_rows(31)
    index = VectorIndex(DIMENSION, max_exact_rows=limit)
    kept: list[int] = []

    for adding, ids in steps:
        if adding:
            index.add(ids, rows[ids].reshape(len(ids), DIMENSION))
            kept += ids
        else:
            assert index.remove(ids) == sum(one in ids for one in kept)
            kept = [one for one in kept if one not in ids]

    assert sorted(index.ids) == sorted(kept)
    assert set(index.top(rows[0], 99)[0]) == set(kept)
