"""Find the model chosen in the settings: the bundled one, a folder, or a model on the Hugging Face hub."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from engram.embedding.embedder import Prompts, Thresholds
from engram.errors import EmbeddingError
from engram.paths import absolute_path
from engram.system.lazy_regex import lazy_regex
from engram.version import install_command

# -- The ``models`` extra: optional packages for models other than BERT encoders.

#: Name of the extra.
EXTRA = "models"
_MODULES = ("torch", "sentence_transformers")


def has_extra() -> bool:
    """Return True if the extra's packages are installed, without importing them."""
    return all(importlib.util.find_spec(name) is not None for name in _MODULES)


def require_extra(model: str) -> None:
    """Raise EmbeddingError if a model other than a BERT encoder can't run because the extra is missing."""
    if not has_extra():
        raise EmbeddingError(f"the model {model} needs packages that are not installed; run: {install_command(EXTRA)}")


# -- The hub and its cache on this machine. Only this section imports huggingface_hub; only ``download``, which
# ``engram setup model`` calls, uses the network.

#: The small files of a model, by which its kind is recognised.
DESCRIPTION_FILES = ("*.json", "*.txt", "*.model")
#: Files to fetch; files with code or pickled data are excluded.
ALL_FILES = (*DESCRIPTION_FILES, "*.safetensors")
#: Copies of the weights for other runtimes.
_IGNORED_FILES = ("onnx/*", "openvino/*", "coreml/*")


def find_cached(name: str) -> Path:
    """Return a model's folder in the hub's cache, without network access. Raises EmbeddingError if there is none."""
    try:
        return _snapshot(name, ALL_FILES, is_offline=True)
    except Exception as error:  # cache and name errors share no base class
        raise EmbeddingError(
            f"the model {name} is not on this machine; if it exists, `engram setup model {name}` downloads it"
        ) from error


def cached_names() -> list[str]:
    """Return the names of the models in the hub's cache that have weights."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folders = {weights.parents[2] for weights in Path(HF_HUB_CACHE).glob("models--*/snapshots/*/*.safetensors")}
    return sorted(folder.name.removeprefix("models--").replace("--", "/", 1) for folder in folders)


def download(name: str, files: tuple[str, ...] = ALL_FILES) -> Path:
    """Fetch a model's files that match ``files``; return its folder in the hub's cache. Raises EmbeddingError."""
    try:
        return _snapshot(name, files, is_offline=False)
    except Exception as error:  # network, cache and name errors share no base class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].removeprefix("Got: ")
        raise EmbeddingError(
            f"can't fetch the model {name}: {reason}. Check the name and the connection, or give the folder of a model "
            "that you have"
        ) from error


def _snapshot(name: str, files: tuple[str, ...], *, is_offline: bool) -> Path:
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        name, allow_patterns=list(files), ignore_patterns=list(_IGNORED_FILES), local_files_only=is_offline
    )
    return Path(folder)


# -- The model chosen in the settings.

#: Value of the setting for the model that is included in Engram.
BUNDLED = "bundled"
#: Value of the setting for hashing instead of a model.
HASHED = "hashed"
BUNDLED_NAME = "all-minilm-l6-v2"
#: Folder of the bundled model's files, which hatch_build.py writes when Engram is built.
BUNDLED_FOLDER = Path(__file__).resolve().parent / "bundled"
#: SHA-256 of the bundled model's original weights. The model id is made from it, so that stored vectors remain valid.
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: SHA-256 of the float16 weights that are made from the original ones.
BUNDLED_FLOAT16_SHA256 = "2fd43e5dffb31bc6f7b748f586ec3daa5ba845d0517dce83af0b35900036e895"
_WEIGHTS_NAME = "model.safetensors"
_HUB_NAME = lazy_regex(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
#: Folders next to the weights that contain the same model for other runtimes.
_OTHER_RUNTIMES = frozenset({"onnx", "openvino", "coreml"})
#: Prompts of models with a configuration that lacks them, by a part of the model's name.
_KNOWN_PROMPTS = {
    "nomic-embed-text": Prompts("search_document: ", "search_query: "),
    "e5-": Prompts("passage: ", "query: "),
}
#: Thresholds by the model's short name; other models use the defaults. MiniLM's cosines are low: 9 in 10 memories that
#: are relevant to a prompt are above 0.30, but only 3 in 100 memories of another project are. Prompts with a cosine of
#: 0.6 to 0.7 share two of their three best memories. (Measured with 95 prompts and 325 memories.)
_THRESHOLDS = {BUNDLED_NAME: Thresholds(duplicate=0.92, same_topic=0.70, relevance_floor=0.30)}


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The location of a model's original files."""

    #: Short name, safe in a file name.
    name: str
    #: The model's folder; None for a name on the hub.
    folder: Path | None
    #: The model's name on the hub; "" for a folder.
    hub_name: str
    #: Required SHA-256 of the original weights; "" for any.
    pinned_sha256: str
    #: Known prompts for this model's name.
    prompts: Prompts


def find_source(model: str) -> ModelSource:
    """Return the source of ``model``: ``bundled``, a folder (starting with /, ~ or .), or a hub name.

    This neither uses the network nor imports a heavy library. Raises EmbeddingError if there is no such model.
    """
    if model == BUNDLED:
        if not (BUNDLED_FOLDER / _WEIGHTS_NAME).is_file():
            raise EmbeddingError(
                "the bundled model is not installed; install Engram again, or run `python hatch_build.py` in a checkout"
            )
        return ModelSource(BUNDLED_NAME, BUNDLED_FOLDER, "", BUNDLED_SHA256, Prompts())
    if model.startswith(("/", "~", ".")):
        folder = absolute_path(model).resolve()
        if not folder.is_dir():
            raise EmbeddingError(f"there is no model folder {model}")
        return ModelSource(_slug(folder.name), folder, "", "", _known_prompts(folder.name))
    if not _HUB_NAME.fullmatch(model):
        raise EmbeddingError(f"{model!r} is neither a folder nor the name of a model")
    return ModelSource(_slug(model.rpartition("/")[2]), None, model, "", _known_prompts(model))


def require_model(model: str) -> None:
    """Raise EmbeddingError if this value of the setting leads to no model; the message lists valid values."""
    if model == HASHED:
        return
    try:
        folder = find_folder(find_source(model))
        if not any(folder.glob("*.safetensors")):
            raise EmbeddingError(f"there is no model in {folder}: no file in it ends with .safetensors")
    except EmbeddingError as error:
        names = ", ".join((BUNDLED, HASHED, *cached_names()))
        raise EmbeddingError(f"{error}. Here, embedding_model may be {names}, or the folder of a model") from error


def find_folder(source: ModelSource) -> Path:
    """Return a source's folder, which may be in the hub's cache. Raises EmbeddingError if it has not been fetched."""
    if source.folder is not None:
        return source.folder
    return find_cached(source.hub_name)


def thresholds_of(name: str) -> Thresholds:
    return _THRESHOLDS.get(name, Thresholds())


def is_bundled_intact() -> bool:
    """Return True if the bundled weights are those with which Engram was built. Reads the whole file."""
    try:
        return _file_sha256(BUNDLED_FOLDER / _WEIGHTS_NAME) == BUNDLED_FLOAT16_SHA256
    except OSError:
        return False


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of the safetensors file in ``folder`` or, if there are several, of their hashes.

    Raises EmbeddingError if part of the model has weights in another format, which could run code.
    """
    inside = [file for file in sorted(folder.rglob("*")) if file.parent.name not in _OTHER_RUNTIMES]
    files = [file for file in inside if file.suffix == ".safetensors"]
    covered = {file.parent for file in files}
    others = [file for file in inside if file.suffix in {".bin", ".pt", ".pth", ".pkl"}]
    if folder not in covered or any(file.parent not in covered for file in others):
        raise EmbeddingError(f"the model in {folder} has no safetensors weights; other formats are refused")
    hashes = [_file_sha256(file) for file in files]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _file_sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _known_prompts(name: str) -> Prompts:
    return next((known for part, known in _KNOWN_PROMPTS.items() if part in name.lower()), Prompts())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60] or "model"
