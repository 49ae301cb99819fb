"""Models by name from the hub's cache on this machine; the one home of huggingface_hub.

Only ``download`` uses the network, and only ``engram model fetch`` calls it.
"""

from __future__ import annotations

import os
from pathlib import Path

from engram.errors import EmbeddingError

#: The small files of a model; its kind can be told from them.
DESCRIPTION_FILES = ("*.json", "*.txt", "*.model")
#: Nothing that holds code or pickled data is fetched.
ALL_FILES = (*DESCRIPTION_FILES, "*.safetensors")
#: Copies of the weights for other programs.
_IGNORED_FILES = ("onnx/*", "openvino/*", "coreml/*")


def find_cached(name: str) -> Path:
    """Return the folder of the model ``name`` in the hub's cache; never uses the network.

    Raises:
        EmbeddingError: the model was not fetched yet.
    """
    try:
        return _snapshot(name, ALL_FILES, is_offline=True)
    except Exception as error:  # faults of the cache and of the name have no common base
        raise EmbeddingError(
            f"the model {name} is not on this machine, and the network is not allowed; run: engram model fetch {name}"
        ) from error


def download(name: str, files: tuple[str, ...] = ALL_FILES) -> Path:
    """Fetch the model ``name``, or those of its ``files`` (patterns), and return its folder in the hub's cache.

    Raises:
        EmbeddingError: there is no such model, or the hub can't be reached.
    """
    try:
        return _snapshot(name, files, is_offline=False)
    except Exception as error:  # faults of the network, the cache and the name have no common base
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise EmbeddingError(f"can't fetch the model {name}: {reason}") from error


def _snapshot(name: str, files: tuple[str, ...], *, is_offline: bool) -> Path:
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        name,
        allow_patterns=list(files),
        ignore_patterns=list(_IGNORED_FILES),
        local_files_only=is_offline,
    )
    return Path(folder)
