"""Work that can wait waits while a question is answered, and everything else does not."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from engram.embedding.onnx_model import OnnxEmbedder
from engram.system import process_limits
from engram.tasks.runtime import SerialExecutor

PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that ends only with the question."""
    monkeypatch.setattr(process_limits, "MAX_PAUSE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def steps() -> list[str]:
    return []


def work(steps: list[str]) -> threading.Thread:
    """Heavy work of two steps in a thread."""

    def run() -> None:
        with process_limits.giving_way():
            steps.append("began")
            process_limits.pause()
            steps.append("ended")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for(steps: list[str], step: str) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if step in steps:
            return
        pause.wait(0.01)
    raise AssertionError(f"{step} did not come")


def test_work_continues_once_the_last_question_is_answered(steps: list[str]) -> None:
    with process_limits.asking():
        with process_limits.asking():
            thread = work(steps)
            wait_for(steps, "began")
        thread.join(0.05)
        assert steps == ["began"]
    thread.join(PATIENCE_SECONDS)
    assert steps == ["began", "ended"]


def test_work_continues_after_a_while_though_questions_do_not_end(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "MAX_PAUSE_SECONDS", 0.01)
    with process_limits.asking():
        work(steps).join(PATIENCE_SECONDS)
    assert steps == ["began", "ended"]


def test_a_question_does_not_wait_for_itself_or_another(steps: list[str]) -> None:
    with process_limits.asking():
        process_limits.pause()
        steps.append("answered")
    assert steps == ["answered"]


def test_a_question_that_fails_is_over() -> None:
    with pytest.raises(ValueError, match="broken"), process_limits.asking():
        raise ValueError("broken")
    with process_limits.giving_way():
        process_limits.pause()
    assert not process_limits.is_giving_way()


def test_heavy_tasks_give_way_and_what_called_them_does_not(steps: list[str]) -> None:
    SerialExecutor().run("one", lambda: steps.append(str(process_limits.is_giving_way())))

    assert steps == ["True"]
    assert not process_limits.is_giving_way()


class _Counted:
    """Counts pauses in place of waiting."""

    def __init__(self) -> None:
        self.number = 0

    def count(self) -> None:
        self.number += 1


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> _Counted:
    found = _Counted()
    monkeypatch.setattr(process_limits, "let_questions_pass", found.count)
    return found


@pytest.mark.model
@pytest.mark.parametrize(("texts", "least"), [(["one text"], 1), (["a much longer text " * 60] * 8, 2)])
def test_embedding_pauses_before_each_batch_and_never_for_a_query(
    bundled: OnnxEmbedder, counted: _Counted, texts: Sequence[str], least: int
) -> None:
    bundled.embed_query("a question")
    bundled.embed(texts)
    assert counted.number == 0
    with process_limits.giving_way():
        bundled.embed(texts)
    assert counted.number >= least


@pytest.mark.model
@pytest.mark.parametrize("is_quiet", [True, False])
def test_two_threads_embed_on_a_quiet_machine_and_give_the_same_vectors(
    bundled: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(process_limits, "is_quiet", lambda: is_quiet)
    monkeypatch.setattr(bundled, "_threads", 0)
    run = bundled._run
    monkeypatch.setattr(bundled, "_run", lambda tokens: threads.append(threading.get_ident()) or run(tokens))
    texts = [f"A text with number {number} and more. " * 40 for number in range(8)]

    several = bundled.embed(texts)
    in_main = threading.get_ident() in threads
    alone = [bundled.embed([text])[0] for text in texts]

    assert in_main is not is_quiet
    assert all(float(one @ other) > 0.9999 for one, other in zip(several, alone, strict=True))
