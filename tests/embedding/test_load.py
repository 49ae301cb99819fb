"""Which embedder a setting loads, and what happens where that fails."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_bert import TinyBert

from engram.embedding import load, original_model
from engram.embedding import source as extra
from engram.embedding.compile import CHECK_TEXTS
from engram.embedding.embedder import Embedder, Prompts
from engram.embedding.source import ModelSource, find_source
from engram.errors import EmbeddingError
from engram.version import install_command


def test_importing_the_loader_imports_no_heavy_library() -> None:
    program = (
        "import sys, engram.embedding.load, engram.embedding.compile, engram.embedding.embedder; "
        "heavy = {'torch', 'onnxruntime', 'tokenizers', 'sentence_transformers', 'huggingface_hub', 'numpy'} "
        "& set(sys.modules); "
        "assert not heavy, heavy"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert answer.returncode == 0, answer.stderr


def test_hashed_needs_no_folder(tmp_path: Path) -> None:
    embedder = load.load_embedder("hashed", tmp_path / "none", compile_if_missing=False)

    assert embedder.runtime == "hashed"
    assert not (tmp_path / "none").exists()


def test_a_model_that_is_not_compiled_is_an_error_where_it_must_not_be(foreign_model: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no compiled model"):
        load.load_embedder(str(foreign_model), tmp_path, compile_if_missing=False)


def test_without_the_extra_a_model_that_needs_it_says_how_to_install_it(
    foreign_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra, "_MODULES", ("a_package_that_nobody_has",))

    with pytest.raises(EmbeddingError, match=re.escape(install_command("models"))):
        load.load_embedder(str(foreign_model), tmp_path / "models", compile_if_missing=True)


def test_only_a_model_of_another_kind_has_to_be_compiled(
    foreign_model: Path, tiny_bert: TinyBert, tmp_path: Path
) -> None:
    assert load.needs_compiling(str(foreign_model), tmp_path)
    assert not load.needs_compiling(str(tiny_bert.folder), tmp_path)
    assert not load.needs_compiling("bundled", tmp_path)
    assert not load.needs_compiling("hashed", tmp_path)


def test_where_compiling_fails_the_original_runs_and_says_why(
    foreign_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Original:
        def __init__(self, source: Any, prompts: Prompts, reason: str, **_: Any) -> None:
            self.reason = reason
            self.source = source

    def fail(*_: Any, **__: Any) -> Path:
        raise EmbeddingError("the disk is full")

    monkeypatch.setattr(extra, "_MODULES", ())
    monkeypatch.setattr(load, "ensure_compiled", fail)
    monkeypatch.setattr(original_model, "ReferenceEmbedder", Original)

    embedder = load.load_embedder(str(foreign_model), tmp_path, compile_if_missing=True)

    assert embedder.reason == "the disk is full"


@pytest.mark.reference
@pytest.mark.timeout(600)
def test_a_damaged_compiled_model_is_compiled_once_more(
    dense_model: Path, compiled_dense_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(compiled_dense_model, tmp_path, dirs_exist_ok=True)
    before = load.load_embedder(str(dense_model), tmp_path, compile_if_missing=False).embed(["text"])
    (graph,) = tmp_path.glob("tiny-*/model.onnx")
    graph.write_bytes(b"damaged")
    with pytest.raises(EmbeddingError, match="can't be loaded"):
        load.load_embedder(str(dense_model), tmp_path, compile_if_missing=False)

    embedder = load.load_embedder(str(dense_model), tmp_path, compile_if_missing=True)

    assert embedder.runtime == "onnx"
    assert np.allclose(embedder.embed(["text"]), before, atol=1e-6)


@pytest.mark.model
@pytest.mark.reference
def test_the_original_model_gives_the_vectors_of_the_bundled_one(bundled: Embedder, original: ModelSource) -> None:
    """Both have one id, so vectors of either may stand side by side in the database."""
    embedder = original_model.ReferenceEmbedder(original, Prompts(), "asked for")

    rows = embedder.embed(CHECK_TEXTS)

    assert embedder.model_id == bundled.model_id
    assert embedder.dimension == bundled.dimension
    assert float((rows * bundled.embed(CHECK_TEXTS)).sum(axis=1).min()) > 0.9999
    assert np.allclose(embedder.embed_query("a text"), bundled.embed_query("a text"), atol=1e-3)
    assert embedder.pieces("One sentence. " * 200) == bundled.pieces("One sentence. " * 200)
    assert embedder.embed([]).shape == (0, 384)
    assert embedder.reason == "asked for"


def test_a_hub_model_that_is_not_on_the_machine_is_refused_without_the_network(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="network is not allowed"):
        original_model.source_folder(find_source("nobody/no-such-model"))
