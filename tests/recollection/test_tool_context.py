"""Memories about the file or command of a tool call: only those that name it."""

from __future__ import annotations

import pytest

from engram.enums import Kind, Status
from engram.models.memories.memory_records import Memory
from engram.recollection.choose_bites import Bite, InjectionRequest, ToolCall, bites_of, is_about, rate_for_tool_call
from engram.search.hits import Hit


def hit(text: str, *entities: str, kind: str = "fix", session: str = "old", **fields: object) -> Hit:
    given = {"entities": entities, "project_id": 1, "extractor": "local-9", **fields}
    memory = Memory("ep_000000000001", kind, text, text, **given)  # type: ignore[arg-type]
    return Hit(memory.episode_id, kind, text, 1.0, {}, memory=memory, session_id=session)


def choose(hits: list[Hit], request: InjectionRequest, call: ToolCall) -> list[Bite]:
    return bites_of(rate_for_tool_call(hits, request, call))


TOUCHED = ("plan.md", "verify.md", "deliver.md", "shell.zsh", "shell.fish", "shell.ps1", "features.go")
SYMBOLS = ("os.environ", "Store.fetch", "re.compile", "json.dumps", "np.array")


@pytest.mark.parametrize(
    ("memory", "call", "wanted"),
    [
        (hit("watcher.py must not import torch"), ToolCall(("/a/b/watcher.py",)), True),
        (hit("rewatcher.py is gone"), ToolCall(("/a/b/watcher.py",)), False),
        (hit("the leak", "src/store.go"), ToolCall(("C:\\x\\src\\store.go",)), True),
        # What a turn read and changed beside its subject does not make its memory one about those files.
        (hit("the mark of a prompt has a URL", *TOUCHED), ToolCall(("/a/skills/plan.md",)), False),
        (hit("plan.md has the mark of a prompt", *TOUCHED), ToolCall(("/a/skills/plan.md",)), True),
        (hit("the mark of a prompt has a URL", *TOUCHED[:5]), ToolCall(("/a/skills/plan.md",)), True),
        # What a person or a model listed is what the memory is about; a symbol with a dot is no file.
        (hit("the mark has a URL", *TOUCHED, extractor="manual"), ToolCall(("/a/skills/plan.md",)), True),
        (hit("the mark has a URL", *TOUCHED, extractor="openai-m"), ToolCall(("/a/skills/plan.md",)), True),
        (
            hit(f"The loader reads {', '.join(SYMBOLS)}", "cache.py", *SYMBOLS),
            ToolCall(("/a/cache.py",)),
            True,
        ),
        (hit("index.ts re-exports all"), ToolCall(("/a/b/index.ts",)), False),
        (hit("b/index.ts re-exports all"), ToolCall(("/a/b/index.ts",)), True),
        (hit("go test needs CGO_ENABLED=0"), ToolCall(command="go test ./..."), True),
        (hit("the word go alone"), ToolCall(command="go vet ./..."), False),
        (hit("ls shows cat"), ToolCall(command="ls cat"), False),
        (
            hit("undefined symbol torch_cpu came from the CUDA wheel"),
            ToolCall(command="x", error="ImportError: undefined symbol torch_cpu"),
            True,
        ),
        (hit("something else"), ToolCall(command="x", error="ImportError: undefined symbol torch_cpu"), False),
    ],
)
def test_a_memory_is_about_a_call_when_it_names_its_file_command_or_error(
    memory: Hit, call: ToolCall, wanted: bool
) -> None:
    assert is_about(memory, call) is wanted


def test_one_bite_at_most_and_none_that_the_session_had_or_of_kinds_that_pass() -> None:
    call = ToolCall(("/a/watcher.py",))
    request = InjectionRequest("", "now", 1)

    assert len(choose([hit("watcher.py one"), hit("watcher.py and another thing")], request, call)) == 1
    assert choose([hit("watcher.py")], InjectionRequest("", "now", 1, {"ep_000000000001"}), call) == []
    assert choose([hit("watcher.py", kind=Kind.STATE)], request, call) == []
    assert choose([hit("watcher.py")], InjectionRequest("", "now", 2), call) == []
    assert choose([hit("watcher.py", status=Status.SUPERSEDED)], request, call) == []


def test_a_call_that_only_looks_around_asks_nothing() -> None:
    assert ToolCall(command="ls -la src").text == ""
