"""Models in onnxruntime: bounded batches, refused nonsense, no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_bert import write_tiny_bert

from engram.embedding.embedder import Embedder
from engram.embedding.load_model import load_embedder
from engram.embedding.onnx_model import MAX_BATCH_TOKENS, batches
from engram.errors import EmbeddingError


@given(st.lists(st.integers(min_value=2, max_value=256), max_size=60))
def test_batches_hold_every_text_once_and_stay_below_the_limit(lengths: list[int]) -> None:
    found = list(batches(lengths, 256))

    assert sorted(index for batch in found for index in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[index] for index in batch) <= 256 for batch in found)


def test_texts_of_like_length_share_a_batch() -> None:
    assert list(batches([2, 100, 3, 100], 256)) == [[1, 3], [2, 0]]


@pytest.fixture
def own(bundled_folder: Path) -> Embedder:
    """An embedder that a test may break."""
    return load_embedder("bundled")


@pytest.mark.model
@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_an_answer_that_is_not_a_vector_is_an_error(own: Embedder, bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(run=lambda *_: [np.full((1, 384), bad, dtype=np.float32)])
    monkeypatch.setattr(own, "_session", answer)

    with pytest.raises(EmbeddingError):
        own.embed(["text"])


@pytest.mark.model
def test_a_fault_inside_the_runtime_is_an_embedding_error(own: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(own, "_session", SimpleNamespace(run=run))

    with pytest.raises(EmbeddingError, match="out of memory"):
        own.embed_query("text")


@pytest.mark.model
def test_no_call_of_the_model_is_larger_than_the_limit(own: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    session = own._session

    def run(outputs: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        sizes.append(inputs["input_ids"].size)
        return session.run(outputs, inputs)

    monkeypatch.setattr(own, "_session", SimpleNamespace(run=run))
    own.embed(["short", "some more words " * 20, "a long text " * 300] * 5)

    assert max(sizes) <= MAX_BATCH_TOKENS


@pytest.mark.model
def test_a_prompt_of_the_settings_changes_rows_and_id(bundled_folder: Path, own: Embedder) -> None:
    prompted = load_embedder("bundled", document_prompt="note: ")

    assert prompted.model_id != own.model_id
    assert not np.allclose(prompted.embed(["text"]), own.embed(["text"]))
    assert np.allclose(prompted.embed(["text"]), own.embed(["note: text"]), atol=1e-5)
    assert np.allclose(prompted.embed_query("text"), own.embed_query("text"), atol=1e-5)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_an_embedding_error(tmp_path: Path, name: str) -> None:
    folder = write_tiny_bert(tmp_path / "tiny").folder
    (folder / name).write_bytes(b"damaged")

    with pytest.raises(EmbeddingError, match=r"can't be loaded|damaged"):
        load_embedder(str(folder))


@pytest.mark.model
def test_onnxruntime_reports_nothing_and_leaves_no_device_id(bundled_folder: Path, tmp_path: Path) -> None:
    """Its telemetry keeps an id and a queue of events in the cache of the user from the moment it is imported."""
    program = (
        "from pathlib import Path; from engram.embedding.load_model import load_embedder; "
        "load_embedder('bundled').embed(['text'])"
    )
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "ORT_DISABLE_TELEMETRY": "0"}

    subprocess.run([sys.executable, "-c", program], env=os.environ | places, check=True, timeout=120)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.model
def test_running_the_bundled_model_needs_neither_torch_nor_the_hub(bundled_folder: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from engram.embedding.load_model import load_embedder; "
        "load_embedder('bundled', may_load_torch=True).embed(['text']); "
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'onnx', 'huggingface_hub'} & set(sys.modules); "
        "assert not heavy, heavy"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program, str(bundled_folder)], capture_output=True, text=True, timeout=120
    )

    assert answer.returncode == 0, answer.stderr
