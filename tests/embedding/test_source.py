"""Which model a setting means, and which weights are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engram.embedding import model_source
from engram.embedding.embedder import Prompts
from engram.embedding.model_source import find_source, weights_sha256
from engram.errors import EmbeddingError

REPO = Path(__file__).resolve().parents[2]


def make_model(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_the_bundled_model_is_a_folder_of_the_package() -> None:
    folder = find_source("bundled").folder

    assert folder == REPO / "engram" / "embedding" / "bundled"
    assert (folder / "model.safetensors").is_file()


def test_the_bundled_weights_are_the_pinned_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weights_sha256(model_source.BUNDLED_FOLDER) == model_source.BUNDLED_FLOAT16_SHA256
    assert model_source.is_bundled_intact()

    shutil.copytree(model_source.BUNDLED_FOLDER, tmp_path / "bundled")
    monkeypatch.setattr(model_source, "BUNDLED_FOLDER", tmp_path / "bundled")
    with (tmp_path / "bundled" / "model.safetensors").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"damaged")
    assert not model_source.is_bundled_intact()


def test_a_missing_bundled_model_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_source, "BUNDLED_FOLDER", tmp_path)

    assert not model_source.is_bundled_intact()
    with pytest.raises(EmbeddingError, match=r"install Engram again.*hatch_build\.py"):
        find_source("bundled")


def test_a_folder_is_named_by_its_path(tmp_path: Path) -> None:
    model = find_source(str(make_model(tmp_path / "My Model!")))

    assert model.folder == tmp_path / "My Model!"
    assert model.name == "my-model"


def test_a_name_with_a_slash_is_never_a_folder_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(tmp_path / "somebody" / "model")
    monkeypatch.chdir(tmp_path)

    assert find_source("somebody/model").folder is None


@pytest.mark.parametrize("name", ["", "a/b/c", "../x y", "name with spaces", "x;y", "-option", "/does/not/exist"])
def test_what_is_neither_a_folder_nor_a_name_is_refused(name: str) -> None:
    with pytest.raises(EmbeddingError):
        find_source(name)


def test_a_known_model_gets_the_prompts_that_it_needs() -> None:
    assert find_source("nomic-ai/nomic-embed-text-v1.5").prompts == Prompts("search_document: ", "search_query: ")
    assert find_source("sentence-transformers/all-MiniLM-L6-v2").prompts == Prompts()


def test_weights_that_are_pickled_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")

    with pytest.raises(EmbeddingError, match="safetensors"):
        weights_sha256(folder)


def test_a_later_module_with_pickled_weights_alone_is_refused(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"pickle")

    with pytest.raises(EmbeddingError, match="safetensors"):
        weights_sha256(folder)


def test_copies_for_other_programs_are_not_looked_at(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    alone = weights_sha256(folder)
    (folder / "openvino").mkdir()
    (folder / "openvino" / "openvino_model.bin").write_bytes(b"other")

    assert weights_sha256(folder) == alone


def test_the_hash_covers_every_file_of_weights(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    make_model(folder / "2_Dense", b"dense")
    before = weights_sha256(folder)

    make_model(folder / "2_Dense", b"other")

    assert weights_sha256(folder) != before
