"""The header of a safetensors file is read strictly: what it says becomes places in a file that is mapped."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from engram.embedding.bert import Tensor, read_header
from engram.errors import EmbeddingError


def write(path: Path, header: Any, data: bytes = bytes(64)) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_every_tensor_has_its_place_in_the_file(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "b": {"dtype": "F16", "shape": [16], "data_offsets": [32, 64]},
    }
    path = write(tmp_path / "model.safetensors", header)

    start = path.stat().st_size - 64
    assert read_header(path) == {"a": Tensor("F32", (2, 4), start, 32), "b": Tensor("F16", (16,), start + 32, 32)}


@pytest.mark.parametrize(
    "field",
    [
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 32]},
        {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]},
        {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]},
        {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0]},
        [],
    ],
)
def test_a_tensor_that_makes_no_sense_is_refused(tmp_path: Path, field: Any) -> None:
    path = write(tmp_path / "model.safetensors", {"a": field})

    with pytest.raises(EmbeddingError, match="damaged"):
        read_header(path)


@pytest.mark.parametrize(
    "data", [b"", b"short", struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"[]", b"x" * 99]
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)

    with pytest.raises(EmbeddingError, match="damaged"):
        read_header(path)


def test_a_missing_file_is_an_embedding_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="can't read"):
        read_header(tmp_path / "none")
