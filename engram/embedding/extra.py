"""The optional packages that compile models other than BERT encoders: the extra ``models``."""

from __future__ import annotations

import importlib.util

from engram.errors import EmbeddingError
from engram.version import install_command

#: Name of the extra.
EXTRA = "models"
_MODULES = ("torch", "sentence_transformers", "onnx", "onnxscript")


def has_extra() -> bool:
    """Whether the packages of the extra are installed; imports none of them."""
    return all(importlib.util.find_spec(name) is not None for name in _MODULES)


def require_extra(model: str) -> None:
    """Check that ``model`` can be compiled here.

    Raises:
        EmbeddingError: the extra is not installed.
    """
    if not has_extra():
        raise EmbeddingError(f"the model {model} needs packages that are not installed; run: {install_command(EXTRA)}")
