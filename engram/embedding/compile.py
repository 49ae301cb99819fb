"""Compiles a model once, in a short-lived child process: ``python -m engram.embedding.compile MODEL FOLDER``.

Only models that are no BERT encoders need it. It takes the extra ``models``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from engram.embedding.embedder import CARD_NAME, ModelCard, read_card, write_card
from engram.embedding.source import ModelSource, find_source, require_extra
from engram.errors import EmbeddingError, EngramError
from engram.system.atomic import FILE_MODE, FOLDER_MODE, make_private_folder

#: The lowest cosine to the original at which a compiled model is accepted.
MIN_COSINE = 0.999
#: Longest that compiling may take, including the wait for another process, in seconds.
TIMEOUT_SECONDS = 900
_EXIT_FAILED = 1
#: Texts that compare the compiled model with the original: lengths, scripts, code, blanks.
CHECK_TEXTS = (
    "",
    " ",
    "yes",
    "Use tabs.",
    "How do I run the tests?",
    "We decided to use SQLite instead of Postgres because it needs no server.",
    "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "git commit -am 'fix: close the file before the rename' && git push origin main",
    "def add(a: int, b: int) -> int:\n    return a + b\n",
    "SELECT id, name FROM turn WHERE session = ? ORDER BY created_at DESC LIMIT 10;",
    "Die Prüfung schlug fehl, weil die Datei schon geöffnet war.",
    "数据库连接在超时后没有关闭。",
    "Это сообщение на другом языке.",
    "🚀 ship it 🎉",
    "/usr/local/lib/python3.11/site-packages/package/module.py:123",
    "a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "The worker reads the queue, and the watcher reads the files; " * 3,
    "Never push to main without a review. " * 8,
    "| column | value |\n|---|---|\n| a | 1 |\n| b | 2 |\n" * 6,
    "A long text that goes far beyond what the model can read at once, in many words that say little. " * 40,
)


def ensure_compiled(model: str, models_folder: Path, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Path:
    """Return the folder of the compiled ``model``; compile it first if needed (about 20 s, 0.8 GB, in a child).

    If several processes ask at once, one compiles and the others wait.

    Args:
        model: A folder, or the name of a model in the hub's cache.
        models_folder: Where compiled models are kept.
        timeout_seconds: Longest to wait.

    Raises:
        EmbeddingError: the model can't be compiled; the message is one line.
    """
    target = models_folder / find_source(model).target_name
    if is_compiled(target):
        return target
    command = [sys.executable, "-P", "-m", __name__, model, str(models_folder.absolute())]
    try:
        child = subprocess.run(
            command,
            env=_child_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EmbeddingError(f"compiling the model took longer than {timeout_seconds:.0f} s") from error
    if child.returncode != 0 or not is_compiled(target):
        raise EmbeddingError(_reason(child.returncode, child.stderr))
    return target


def is_compiled(target: Path) -> bool:
    """Whether ``target`` holds a compiled model of the present form."""
    try:
        read_card(target)
    except EmbeddingError:
        return False
    return True


def discard(target: Path) -> None:
    """Remove a compiled model that turned out to be damaged; the next ``ensure_compiled`` makes it again."""
    with contextlib.suppress(OSError):
        (target / CARD_NAME).unlink()


def compile_model(model: str, models_folder: Path) -> Path:
    """Compile ``model`` in this process, which then holds torch, and return the folder. Raises EmbeddingError."""
    source = find_source(model)
    target = make_private_folder(models_folder) / source.target_name
    with _locked(target):
        if is_compiled(target):
            return target
        shutil.rmtree(target, ignore_errors=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=FOLDER_MODE)
        try:
            _build(source, unfinished)
            _seal(unfinished)
            os.rename(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


def main(arguments: list[str]) -> int:
    """Compile, and return the exit status; the last line on stderr says why it failed."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m engram.embedding.compile MODEL MODELS_FOLDER\n")
        return 2
    try:
        compile_model(arguments[0], Path(arguments[1]))
    except EngramError as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - the edge of this process: any fault of an exporter is a reason
        first_line = (str(error).strip().splitlines() or ["no reason given"])[0]
        sys.stderr.write(f"compiling failed: {type(error).__name__}: {first_line}\n")
        return _EXIT_FAILED
    return 0


def _build(source: ModelSource, folder: Path) -> None:
    """Write everything of a compiled model into ``folder``; the card comes last, after the check."""
    from engram.embedding import onnx_model, original_model
    from engram.embedding.bert import TOKENIZER_NAME
    from engram.embedding.source import weights_sha256

    original_folder = original_model.source_folder(source)
    weights_hash = weights_sha256(original_folder)
    require_extra(source.name)
    original = original_model.load_original(original_folder)
    original_model.export(original, folder / onnx_model.MODEL_NAME)
    original_model.save_tokenizer(original, folder / TOKENIZER_NAME)
    card = ModelCard(
        name=source.name,
        weights_sha256=weights_hash,
        dimension=original.get_embedding_dimension(),
        max_tokens=original.max_seq_length,
        pooling=original_model.pooling_of(original),
        prompts=original_model.own_prompts(original, source),
        verified_cosine=0.0,
        made_by=original_model.versions(),
    )
    write_card(folder, _checked(card, folder, original))


def _checked(card: ModelCard, folder: Path, original: object) -> ModelCard:
    """Return ``card`` with the lowest cosine of the check; raises EmbeddingError if that is too low."""
    import dataclasses

    from engram.embedding import onnx_model, original_model
    from engram.embedding.embedder import Prompts
    from engram.embedding.hashed import unit_rows

    compiled = onnx_model.OnnxEmbedder(folder, card, Prompts())
    expected = unit_rows(original_model.encode(original, CHECK_TEXTS))
    together = (compiled.embed(CHECK_TEXTS) * expected).sum(axis=1)
    alone = [float(compiled.embed([text])[0] @ row) for text, row in zip(CHECK_TEXTS, expected, strict=True)]
    lowest = min(float(together.min()), *alone)
    if lowest < MIN_COSINE:
        raise EmbeddingError(f"the compiled model differs from the original (cosine {lowest:.4f})")
    return dataclasses.replace(card, verified_cosine=round(lowest, 6))


def _seal(folder: Path) -> None:
    """Make ``folder`` private and sync it to the disk, so that it is whole after the rename even if power fails."""
    for file in folder.iterdir():
        file.chmod(FILE_MODE)
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    folder.chmod(FOLDER_MODE)


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock for ``target``; the kernel releases it when the process dies."""
    descriptor = os.open(target.with_name(f".{target.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _child_environment() -> dict[str, str]:
    quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONWARNINGS": "ignore"}
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    # The child must find this very package, installed or not, and nothing in the folder it is started in.
    package = str(Path(__file__).resolve().parents[2])
    search = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **quiet, **offline, "PYTHONPATH": search}


def _reason(status: int, stderr: bytes) -> str:
    if status < 0:
        return f"compiling the model was ended by signal {-status}; is there 1 GB of free memory?"
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else f"compiling the model failed with status {status}"


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))
