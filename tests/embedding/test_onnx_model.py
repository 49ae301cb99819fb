"""The compiled model in onnxruntime: bounded batches, refused nonsense, no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.embedding.card import read_card
from engram.embedding.embedder import Prompts
from engram.embedding.onnx_model import BATCH_TOKENS, OnnxEmbedder, batches
from engram.errors import EmbeddingError


@given(st.lists(st.integers(min_value=2, max_value=256), max_size=60))
def test_batches_hold_every_text_once_and_stay_below_the_limit(lengths: list[int]) -> None:
    found = list(batches(lengths, 256))

    assert sorted(index for batch in found for index in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[index] for index in batch) <= 256 for batch in found)


def test_texts_of_like_length_share_a_batch() -> None:
    assert list(batches([2, 100, 3, 100], 256)) == [[1, 3], [2, 0]]


@pytest.fixture
def own(compiled_model: Path) -> OnnxEmbedder:
    """An embedder that a test may break."""
    return OnnxEmbedder(compiled_model, read_card(compiled_model))


@pytest.mark.model
@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_an_answer_that_is_no_vector_is_an_error(
    own: OnnxEmbedder, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = SimpleNamespace(run=lambda *_: [np.full((1, 384), bad, dtype=np.float32)])
    monkeypatch.setattr(own, "_session", answer)

    with pytest.raises(EmbeddingError):
        own.embed(["text"])


@pytest.mark.model
def test_a_fault_inside_the_runtime_is_an_embedding_error(own: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(own, "_session", SimpleNamespace(run=run))

    with pytest.raises(EmbeddingError, match="out of memory"):
        own.embed_query("text")


@pytest.mark.model
def test_no_call_of_the_model_is_larger_than_the_limit(own: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    session = own._session

    def run(outputs: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        sizes.append(inputs["input_ids"].size)
        return session.run(outputs, inputs)

    monkeypatch.setattr(own, "_session", SimpleNamespace(run=run))
    own.embed(["short", "some more words " * 20, "a long text " * 300] * 5)

    assert max(sizes) <= BATCH_TOKENS


@pytest.mark.model
def test_a_prompt_of_the_settings_changes_rows_and_id(compiled_model: Path, own: OnnxEmbedder) -> None:
    prompted = OnnxEmbedder(compiled_model, read_card(compiled_model), Prompts("note: ", ""))

    assert prompted.model_id != own.model_id
    assert not np.allclose(prompted.embed(["text"]), own.embed(["text"]))
    assert np.allclose(prompted.embed(["text"]), own.embed(["note: text"]), atol=1e-5)
    assert np.allclose(prompted.embed_query("text"), own.embed_query("text"), atol=1e-5)


@pytest.mark.model
def test_a_damaged_file_is_an_embedding_error(compiled_model: Path, tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"damaged")

    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        OnnxEmbedder(tmp_path, read_card(compiled_model))


@pytest.mark.model
def test_running_the_compiled_model_needs_no_torch(compiled_model: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from engram.embedding.load import load_embedder; "
        "load_embedder('bundled', Path(sys.argv[1]), compile_if_missing=True).embed(['text']); "
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'onnx'} & set(sys.modules); "
        "assert not heavy, heavy"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program, str(compiled_model.parent)], capture_output=True, text=True, timeout=120
    )

    assert answer.returncode == 0, answer.stderr
