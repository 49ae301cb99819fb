"""Which embedder a setting loads, and what happens where that fails."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tiny_bert import CHECK_TEXTS, TinyBert

from engram.embedding import load_model, torch_model
from engram.embedding import model_source as extra
from engram.embedding.embedder import Embedder, Prompts
from engram.embedding.model_source import ModelSource
from engram.errors import EmbeddingError
from engram.version import install_command


def test_importing_the_loader_imports_no_heavy_library() -> None:
    program = (
        "import sys, engram.embedding.load_model, engram.embedding.embedder; "
        "heavy = {'torch', 'onnxruntime', 'tokenizers', 'sentence_transformers', 'huggingface_hub', 'numpy'} "
        "& set(sys.modules); "
        "assert not heavy, heavy"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert answer.returncode == 0, answer.stderr


def test_hashed_needs_no_model() -> None:
    assert load_model.load_embedder("hashed").runtime == "hashed"


def test_a_model_that_needs_torch_is_an_error_where_torch_must_not_be_loaded(foreign_model: Path) -> None:
    with pytest.raises(EmbeddingError, match="needs torch"):
        load_model.load_embedder(str(foreign_model))


def test_without_the_extra_a_model_that_needs_it_says_how_to_install_it(
    foreign_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extra, "_MODULES", ("a_package_that_nobody_has",))

    with pytest.raises(EmbeddingError, match=re.escape(install_command("models"))):
        load_model.load_embedder(str(foreign_model), may_load_torch=True)


def test_only_a_model_of_another_kind_needs_torch(foreign_model: Path, tiny_bert: TinyBert) -> None:
    assert load_model.needs_torch(str(foreign_model))
    assert not load_model.needs_torch(str(tiny_bert.folder))
    assert not load_model.needs_torch("bundled")
    assert not load_model.needs_torch("hashed")


def test_a_model_of_another_kind_is_given_to_torch(foreign_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Original:
        def __init__(self, source: ModelSource, prompts: Prompts, *, threads: int) -> None:
            self.asked = (source.folder, prompts, threads)

    monkeypatch.setattr(extra, "_MODULES", ())
    monkeypatch.setattr(torch_model, "OriginalEmbedder", Original)

    embedder: Any = load_model.load_embedder(str(foreign_model), may_load_torch=True, query_prompt="q: ", threads=0)

    assert embedder.asked == (foreign_model, Prompts("", "q: "), 1)


@pytest.mark.reference
@pytest.mark.timeout(600)
def test_a_model_of_another_kind_keeps_its_own_pooling_and_prompts(dense_model: Path) -> None:
    """Another pooling, another dimension, its own prompts: all of it comes from the model's files."""
    embedder = load_model.load_embedder(str(dense_model), may_load_torch=True)

    assert (embedder.runtime, embedder.dimension) == ("torch", 8)
    assert embedder.embed(["same words"]).shape == (1, 8)
    assert not np.allclose(embedder.embed(["same words"])[0], embedder.embed_query("same words"))


@pytest.mark.reference
@pytest.mark.timeout(600)
def test_many_threads_may_ask_one_model(dense_model: Path) -> None:
    embedder = load_model.load_embedder(str(dense_model), may_load_torch=True)
    alone = embedder.embed_query("a question")

    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda _: embedder.embed_query("a question"), "x" * 12))

    assert all(np.allclose(row, alone, atol=1e-5) for row in rows)


@pytest.mark.reference
def test_weights_that_are_none_are_an_embedding_error(dense_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(dense_model, folder)
    (folder / "model.safetensors").write_bytes(b"broken")

    with pytest.raises(EmbeddingError, match="can't load"):
        load_model.load_embedder(str(folder), may_load_torch=True)


@pytest.mark.model
@pytest.mark.reference
def test_the_original_model_gives_the_vectors_of_the_bundled_one(bundled: Embedder, original: ModelSource) -> None:
    """Both have one id, so vectors of either may stand side by side in the database."""
    embedder = torch_model.OriginalEmbedder(original, Prompts())

    rows = embedder.embed(CHECK_TEXTS)

    assert embedder.model_id == bundled.model_id
    assert embedder.dimension == bundled.dimension
    assert float((rows * bundled.embed(CHECK_TEXTS)).sum(axis=1).min()) > 0.9999
    assert np.allclose(embedder.embed_query("a text"), bundled.embed_query("a text"), atol=1e-3)
    assert embedder.embed([]).shape == (0, 384)


def test_a_hub_model_that_is_not_on_the_machine_is_refused_without_the_network() -> None:
    with pytest.raises(EmbeddingError, match="is not on this machine"):
        load_model.load_embedder("nobody/no-such-model", may_load_torch=True)


class SlowModel:
    """Stands for a model of sentence-transformers: a row says how long its text is; ``on_call`` is told each call."""

    prompts: ClassVar[dict[str, str]] = {}
    max_seq_length = 256

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.on_call: Callable[[], None] = lambda: None

    def get_embedding_dimension(self) -> int:
        return 2

    def encode(self, texts: list[str], **_: object) -> Any:
        self.calls.append(texts)
        self.on_call()
        return np.array([[len(text), 10] for text in texts], dtype=np.float32)


def test_a_prompt_is_next_while_torch_computes_many_texts(foreign_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SlowModel()
    monkeypatch.setattr(torch_model, "_load", lambda *_: model)
    embedder = torch_model.OriginalEmbedder(extra.find_source(str(foreign_model)), Prompts())
    texts = ["x" * size for size in (9, 2, 7, 4, 5, 8, 3, 6, 1)]

    with ThreadPoolExecutor(1) as pool:

        def ask() -> None:
            model.on_call = lambda: None
            pool.submit(embedder.embed_query, "a prompt")
            while not embedder._turn.locked():
                pass

        model.on_call = ask
        rows = embedder.embed(texts)

    assert [len(call) for call in model.calls] == [4, 1, 4, 1]
    assert model.calls[1] == ["a prompt"]
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], [len(text) / 10 for text in texts], rtol=1e-5)
