"""Which embedder a setting loads, and what happens where that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.embedding import load, reference
from engram.embedding.compile import CHECK_TEXTS
from engram.embedding.embedder import Prompts
from engram.embedding.source import find_source
from engram.errors import EmbeddingError


def test_importing_the_loader_imports_no_heavy_library() -> None:
    program = (
        "import sys, engram.embedding.load, engram.embedding.compile, engram.embedding.embedder; "
        "heavy = {'torch', 'onnxruntime', 'tokenizers', 'sentence_transformers', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert answer.returncode == 0, answer.stderr


def test_hashed_needs_no_folder(tmp_path: Path) -> None:
    embedder = load.load_embedder("hashed", tmp_path / "none", compile_if_missing=False)

    assert embedder.runtime == "hashed"
    assert not (tmp_path / "none").exists()


def test_a_model_that_is_not_compiled_is_an_error_where_it_must_not_be(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no compiled model"):
        load.load_embedder("bundled", tmp_path, compile_if_missing=False)


def test_where_compiling_fails_the_original_runs_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Original:
        def __init__(self, source: Any, prompts: Prompts, reason: str, **_: Any) -> None:
            self.reason = reason
            self.source = source

    def fail(*_: Any, **__: Any) -> Path:
        raise EmbeddingError("the disk is full")

    monkeypatch.setattr(load, "ensure_compiled", fail)
    monkeypatch.setattr(reference, "ReferenceEmbedder", Original)

    embedder = load.load_embedder("bundled", tmp_path, compile_if_missing=True)

    assert embedder.reason == "the disk is full"


def test_a_damaged_compiled_model_is_compiled_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ensure(model: str, folder: Path, *, allow_network: bool) -> Path:
        asked.append(model)
        return folder

    def run(folder: Path, prompts: Prompts, threads: int) -> Any:
        if len(asked) < 2:
            raise EmbeddingError("damaged")
        return "ready"

    monkeypatch.setattr(load, "ensure_compiled", ensure)
    monkeypatch.setattr(load, "_run_compiled", run)

    assert load.load_embedder("bundled", tmp_path, compile_if_missing=True) == "ready"
    assert asked == ["bundled", "bundled"]


@pytest.mark.model
def test_the_original_model_gives_the_rows_of_the_compiled_one(bundled: Any) -> None:
    """Both have one id, so rows of either may stand side by side in the database."""
    original = reference.ReferenceEmbedder(find_source("bundled"), Prompts(), "asked for")

    rows = original.embed(CHECK_TEXTS)

    assert original.model_id == bundled.model_id
    assert original.dimension == bundled.dimension
    assert float((rows * bundled.embed(CHECK_TEXTS)).sum(axis=1).min()) > 0.999
    assert np.allclose(original.embed_query("a text"), bundled.embed_query("a text"), atol=1e-3)
    assert original.pieces("One sentence. " * 200) == bundled.pieces("One sentence. " * 200)
    assert original.embed([]).shape == (0, 384)
    assert original.reason == "asked for"


def test_a_hub_model_that_is_not_on_the_machine_is_refused_without_the_network(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="network is not allowed"):
        reference.source_folder(find_source("nobody/no-such-model"))
