"""Compiling happens once, whole or not at all, and says why it failed."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.embedding import compile as compiling
from engram.embedding import original_model
from engram.embedding.embedder import ModelCard, Prompts, read_card, write_card
from engram.embedding.load import load_embedder
from engram.embedding.source import ModelSource, find_source
from engram.errors import EmbeddingError

CARD = ModelCard("tiny", "00ff", 4, 32, "mean", Prompts(), 0.9999, {})


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"no real weights")
    return folder


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replaces the heavy part; lists the folders that were built."""
    built: list[Path] = []

    def build(source: ModelSource, folder: Path) -> None:
        built.append(folder)
        (folder / "model.onnx").write_bytes(b"graph")
        write_card(folder, CARD)

    monkeypatch.setattr(compiling, "_build", build)
    return built


def test_the_compiled_folder_is_private(model_folder: Path, tmp_path: Path, builds: list[Path]) -> None:
    target = compiling.compile_model(str(model_folder), tmp_path / "models")

    assert target.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in target.iterdir()} == {0o600}


def test_what_is_compiled_is_not_compiled_again(model_folder: Path, tmp_path: Path, builds: list[Path]) -> None:
    first = compiling.compile_model(str(model_folder), tmp_path / "models")

    assert compiling.compile_model(str(model_folder), tmp_path / "models") == first
    assert compiling.ensure_compiled(str(model_folder), tmp_path / "models") == first
    assert len(builds) == 1


def test_of_two_at_the_same_time_one_compiles_and_the_other_waits(
    model_folder: Path, tmp_path: Path, builds: list[Path]
) -> None:
    threads = [
        threading.Thread(target=compiling.compile_model, args=(str(model_folder), tmp_path / "models"))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(builds) == 1


def test_a_failed_build_leaves_nothing_that_could_be_taken_for_a_model(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(source: ModelSource, folder: Path) -> None:
        (folder / "model.onnx").write_bytes(b"half")
        raise EmbeddingError("no")

    monkeypatch.setattr(compiling, "_build", build)

    with pytest.raises(EmbeddingError):
        compiling.compile_model(str(model_folder), tmp_path / "models")

    assert [entry.name for entry in (tmp_path / "models").iterdir() if entry.is_dir()] == []


def test_what_a_killed_process_left_is_cleared_away(model_folder: Path, tmp_path: Path, builds: list[Path]) -> None:
    models = tmp_path / "models"
    name = find_source(str(model_folder)).target_name
    for left in (models / name, models / f".{name}.unfinished"):
        left.mkdir(parents=True)
        (left / "model.onnx.data").write_bytes(b"half")

    target = compiling.compile_model(str(model_folder), models)

    assert not (target / "model.onnx.data").exists()
    assert [entry.name for entry in models.iterdir() if entry.is_dir()] == [name]


def test_a_discarded_model_is_compiled_anew(model_folder: Path, tmp_path: Path, builds: list[Path]) -> None:
    target = compiling.compile_model(str(model_folder), tmp_path / "models")

    compiling.discard(target)
    compiling.compile_model(str(model_folder), tmp_path / "models")

    assert len(builds) == 2


def test_the_child_says_in_one_line_why_it_failed(tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")

    with pytest.raises(EmbeddingError, match="no safetensors weights") as caught:
        compiling.ensure_compiled(str(folder), tmp_path / "models")

    assert "\n" not in str(caught.value)


def test_a_child_that_was_killed_is_a_reason_too(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = tmp_path / "killer"
    killer.write_text("#!/bin/sh\nkill -9 $$\n")
    killer.chmod(0o700)
    monkeypatch.setattr(compiling.sys, "executable", str(killer))

    with pytest.raises(EmbeddingError, match="signal 9"):
        compiling.ensure_compiled(str(model_folder), tmp_path / "models")


def test_pinned_weights_that_changed_are_refused(model_folder: Path) -> None:
    source = ModelSource("all-minilm-l6-v2", model_folder, "", "0" * 64, Prompts())

    with pytest.raises(EmbeddingError, match="not the ones"):
        original_model.source_folder(source)


def test_a_compiled_model_that_answers_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from engram.embedding import onnx_model

    class Wrong:
        def __init__(self, *_: Any) -> None:
            pass

        def embed(self, texts: tuple[str, ...]) -> Any:
            return np.tile(np.array([0.0, 1.0], dtype=np.float32), (len(texts), 1))

    monkeypatch.setattr(onnx_model, "OnnxEmbedder", Wrong)
    monkeypatch.setattr(original_model, "encode", lambda model, texts: np.tile([1.0, 0.1], (len(texts), 1)))

    with pytest.raises(EmbeddingError, match="differs"):
        compiling._checked(CARD, tmp_path, object())


def test_waiting_ends_after_the_given_time(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="longer than"):
        compiling.ensure_compiled(str(model_folder), tmp_path / "models", timeout_seconds=0)


def test_the_program_compiles_and_says_nothing(
    model_folder: Path, tmp_path: Path, builds: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiling.main([str(model_folder), str(tmp_path / "models")]) == 0

    assert compiling.is_compiled(tmp_path / "models" / find_source(str(model_folder)).target_name)
    assert capsys.readouterr().err == ""


def test_any_fault_of_an_exporter_is_one_line(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(*_: Any) -> None:
        raise RuntimeError("no such operator\nand a long story")

    monkeypatch.setattr(compiling, "_build", build)

    assert compiling.main([str(model_folder), str(tmp_path / "models")]) == 1
    assert capsys.readouterr().err == "compiling failed: RuntimeError: no such operator\n"


def test_arguments_that_make_no_sense_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert compiling.main(["one"]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.reference
@pytest.mark.timeout(600)
def test_the_bundled_model_compiles_to_the_vectors_of_the_original(original: ModelSource, tmp_path: Path) -> None:
    assert original.folder is not None
    folder = compiling.ensure_compiled(str(original.folder), tmp_path / "models")

    card = read_card(folder)

    assert card.verified_cosine >= compiling.MIN_COSINE
    assert card.pooling == "mean"
    assert (card.dimension, card.max_tokens) == (384, 256)


@pytest.mark.reference
@pytest.mark.timeout(600)
def test_a_model_from_a_folder_keeps_its_own_pooling_and_prompts(dense_model: Path, compiled_dense_model: Path) -> None:
    """Another pooling, another dimension, prompts of its own: all of it comes out of the model's files."""
    embedder = load_embedder(str(dense_model), compiled_dense_model, compile_if_missing=True)

    card = json.loads((next(compiled_dense_model.glob("tiny-*")) / "engram-model.json").read_text())
    assert embedder.runtime == "onnx", embedder.reason
    assert card["pooling"] == "cls"
    assert embedder.dimension == 8
    assert card["prompts"] == {"document": "passage: ", "query": "query: "}
    assert not np.allclose(embedder.embed(["same words"])[0], embedder.embed_query("same words"))


@pytest.mark.reference
def test_weights_that_are_none_are_an_embedding_error(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_model, folder)
    (folder / "model.safetensors").write_bytes(b"broken")

    with pytest.raises(EmbeddingError, match="cannot load"):
        original_model.load_original(folder)
