"""Sessions of Code Mode and their plain twins, in which the model makes the same calls itself: both are read alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from turn_memory import Memory, Script

from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.models.search.memory_lists import latest_memories
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.claude_code.calls import SCRIPT_TOOL
from engram.transcripts.claude_code.entry import Entry, parse_line
from engram.transcripts.growing_file import Line
from engram.transcripts.turns import Turn

SECRET = "orchid-lagoon-7741-quartz"
Data = dict[str, Any]

# -- The plain twin of a session.


def plain_twin(lines: list[Data]) -> list[Data]:
    """Return the lines that Claude Code would have written if the model had made the calls of its scripts itself."""
    tools: dict[str, tuple[str, Data]] = {}
    scripts = {block["id"] for line in lines for block in blocks(line, "tool_use") if block["name"] == SCRIPT_TOOL}
    twin: list[Data] = []
    for line in lines:
        if line["type"] == "repl-mode" or any(
            block.get("id", block.get("tool_use_id")) in scripts for block in blocks(line, "tool_use", "tool_result")
        ):
            continue
        if line.get("isVirtual"):
            line = {key: value for key, value in line.items() if key not in ("isVirtual", "madeBy", "turnCompanion")}
            message = line["message"] = dict(line["message"])
            for block in blocks(line, "tool_use"):
                tools[block["id"]] = (block["name"], block["input"])
                message["model"] = "claude-opus-5-5"
            message["content"] = [
                block | {"content": shown(*tools[block["tool_use_id"]], line.get("toolUseResult"))}
                if block["type"] == "tool_result" and not block.get("is_error")
                else block
                for block in message["content"]
            ]
        twin.append(line)
    return twin


def blocks(line: Data, *kinds: str) -> list[Data]:
    content = line.get("message", {}).get("content") if isinstance(line.get("message"), dict) else None
    return [block for block in content if block.get("type") in kinds] if isinstance(content, list) else []


def shown(tool: str, given: Data, report: Any) -> Any:
    """The content of a result as the model is shown it in a plain session."""
    if isinstance(report, str):
        return [{"type": "text", "text": report}]
    if tool == "Bash":
        if background := report.get("backgroundTaskId"):
            return f"Command running in background with ID: {background}. Output is being written to: /tmp/{background}"
        output = "\n".join(filter(None, (report["stdout"], report["stderr"])))
        return output or "(Bash completed with no output)"
    if tool == "Read":
        lines = report["file"]["content"].split("\n")
        return "\n".join(
            f"{number:>6}\t{text}" for number, text in enumerate(lines, report["file"].get("startLine", 1))
        )
    if tool in ("Edit", "MultiEdit"):
        return f"The file {given['file_path']} has been updated successfully."
    if tool == "Write":
        return f"File created successfully at: {given['file_path']}"
    if tool == "Grep":
        return report["content"]
    if tool == "TaskCreate":
        return f"Task #{report['task']['id']} created successfully: {report['task']['subject']}"
    if tool == "TaskUpdate":
        return f"Updated task #{report['taskId']} {', '.join(report['updatedFields'])}"
    if tool == "TodoWrite":
        return "Todos have been modified successfully."
    if tool == "Agent":
        if report.get("isAsync"):
            text = f"Async agent launched successfully.\nagentId: {report['agentId']} (internal ID)"
            return [{"type": "text", "text": text}]
        return [*report["content"], {"type": "text", "text": f"agentId: {report['agentId']} (use SendMessage)"}]
    raise AssertionError(f"no plain form of the result of {tool} is known")


# -- What is compared.


def turns_of(lines: list[Data]) -> list[Data]:
    """The turns of a session without ids and places in the file."""
    memory, at = Memory(), 0
    entries = []
    for number, line in enumerate(lines, 1):
        raw = json.dumps(line).encode()
        found = parse_line(Line(at, len(raw), number, raw))
        at += len(raw) + 1
        if isinstance(found, Entry):
            entries.append(found)
    memory.feed("s", entries, close=True)
    return [plain_turn(turn) for turn in memory.turns.values()]


def plain_turn(turn: Turn) -> Data:
    left_out = ("entries", "start_offset", "end_offset", "said", "actions")
    facts = {field.name: getattr(turn, field.name) for field in fields(turn) if field.name not in left_out}
    facts["said"] = [(block.role, block.text, block.at_ms) for block in turn.said]
    facts["actions"] = [action._replace(uuid="", result_uuid="")._asdict() for action in turn.actions]
    return facts


def kept(folder: Path, lines: list[Data]) -> Data:
    """Everything that is stored of a session, without ids."""
    settings = Settings(home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed")
    settings.places.prepare()
    session = next(line["sessionId"] for line in lines if "sessionId" in line)
    path = settings.projects_folder / "-p" / f"{session}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with open_store(settings.places.memory_db) as store:
        ingest_path(store, path, settings=settings, redact=redact, close=True)
        extract_session(store, session, settings=settings, extractor=LocalExtractor(), embedder=None)
        turns = [plain_turn(stored.turn) for stored in turns_of_session(store, 1)]
        made = [
            (
                memory.kind,
                memory.summary,
                memory.content,
                memory.importance,
                memory.status,
                memory.voice,
                memory.quality,
            )
            for memory in latest_memories(store, limit=100)
        ]
        failures = sorted(map(repr, store.rows("SELECT seq, error_key, programs FROM failed_call")))
        known = store.rows("SELECT COUNT(*) FROM known_value")
    return {"turns": turns, "memories": made, "failures": failures, "known": [tuple(row) for row in known]}


def read_both(folder: Path, lines: list[Data]) -> tuple[Data, Data]:
    """What is kept of a session and of its twin, after no secret was found in the files of either."""
    twin = plain_twin(lines)
    assert turns_of(lines) == turns_of(twin)
    found = kept(folder / "code-mode", lines), kept(folder / "twin", twin)
    assert found[0] == found[1]
    for path in folder.rglob("memory.db*"):
        assert SECRET.encode() not in path.read_bytes()
    return found


# -- The sessions.


class CodeMode(Script):
    """Writes a session of Code Mode."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Data] = []
        self._inner = 0

    def add(self, data: Data) -> str:
        if data["type"] != "repl-mode":
            uuid = super().add(data)
            self.lines.append({**self.entries[-1].data, "sessionId": SESSION, "version": "2.1.332"})
            return uuid
        self.lines.append(data | {"sessionId": SESSION})
        return ""

    def mode(self) -> None:
        self.add({"type": "repl-mode", "replMode": True})

    def runs(self, *calls: tuple[str, Data, Any], error: str = "") -> None:
        """A script with its calls, each with its input and what is reported of it; a text is a failure."""
        self.calls(SCRIPT_TOOL, code="…")
        names = sorted({tool for tool, _, _ in calls})
        text = f"<repl-output><tools-used-before-summary>{', '.join(names)}</tools-used-before-summary></repl-output>"
        script = {"type": "tool_result", "tool_use_id": f"t{self._calls}", "content": error or text}
        # A script that threw does not say which tools it used.
        report = {"code": "…", "result": None} | ({"error": error} if error else {"toolsUsed": names})
        before = self.user([script | {"is_error": bool(error)}], toolUseResult=report)
        for tool, given, reported in calls:
            self._inner += 1
            block = {"type": "tool_use", "id": f"repl_{self._inner}", "name": tool, "input": given}
            message = {"id": f"v{self._inner}", "model": "<synthetic>", "content": [block]}
            virtual = {"isVirtual": True, "madeBy": "other", "parentUuid": before}
            before = self.add({"type": "assistant", "message": message} | virtual)
            failed = isinstance(reported, Failure)
            result = {"type": "tool_result", "tool_use_id": block["id"], "content": str(reported) if failed else ""}
            beside = {} if failed else {"toolUseResult": reported}
            companion = {"isVirtual": True, "turnCompanion": True, "parentUuid": before}
            before = self.user([result | {"is_error": failed}], **companion, **beside)


class Failure(str):
    """What the model is shown of a call that failed."""


SESSION = "77777777-6666-4777-8888-999999999999"


def ran(stdout: str = "", stderr: str = "", **facts: Any) -> Data:
    return {"stdout": stdout, "stderr": stderr, "interrupted": False, "isImage": False} | facts


def read(path: str, text: str) -> Data:
    return {
        "type": "text",
        "file": {"filePath": path, "content": text, "numLines": text.count("\n") + 1, "startLine": 1},
    }


def edited(path: str, old: str, new: str, before: str) -> Data:
    return {"filePath": path, "oldString": old, "newString": new, "originalFile": before, "userModified": False}


def mended(session: CodeMode) -> None:
    """A failure that is fixed, and a commit."""
    session.user("The upload fails. We decided to keep sessions in redis, never in files. Please repair it.")
    session.says("I look at it.")
    session.runs(
        ("Bash", {"command": "git status --short"}, ran(" M up.py")),
        ("Read", {"file_path": "/p/up.py"}, read("/p/up.py", "def up():\n    return 1\n")),
        ("Bash", {"command": "pytest -q tests/test_up.py"},
         Failure("Exit code 1\nE   AssertionError: retries must be 3\n1 failed in 0.1s")),
        error="ShellError: Command failed with exit code 1",
    )  # fmt: skip
    session.runs(
        ("Edit", {"file_path": "/p/up.py", "old_string": "return 1", "new_string": "return 3"},
         edited("/p/up.py", "return 1", "return 3", "def up():\n    return 1\n")),
        ("Bash", {"command": "pytest -q tests/test_up.py"}, ran("1 passed in 0.1s")),
        ("Bash", {"command": 'git commit -am "retry uploads three times"'},
         ran("[main bb14198] retry uploads three times\n 1 file changed",
             gitOperation={"commit": {"sha": "bb14198", "kind": "committed"}})),
    )  # fmt: skip
    session.says("The cause was that retries was 1: up() returns 3 now, and the tests pass.")


def secrets(session: CodeMode) -> None:
    """A secret that is read, printed, searched and repeated."""
    session.user("Which password does the database use?")
    line = f"DEPLOY_KEY={SECRET}\n"
    session.runs(
        ("Read", {"file_path": "/p/.env"}, read("/p/.env", line)),
        ("Bash", {"command": "cat .env"}, ran(line)),
        ("Bash", {"command": "cat .env.local >&2"}, ran("", line)),
        ("Grep", {"pattern": "KEY", "path": "/p/.env"}, {"mode": "content", "content": f".env:1:{line}"}),
        ("mcp__files__read", {"path": "/p/.env"}, line),
    )
    session.says(f"It uses {SECRET} to log in.")
    session.user(f"Thanks. Keep {SECRET} out of the logs, always.")
    session.says("I will.")


def edited_secret(session: CodeMode) -> None:
    """A secret that only the edit of the file shows."""
    session.user("Rename the key in the settings.")
    session.runs(
        ("Edit", {"file_path": "/p/.env", "old_string": f"KEY={SECRET}", "new_string": f"DEPLOY_KEY={SECRET}"},
         edited("/p/.env", f"KEY={SECRET}", f"DEPLOY_KEY={SECRET}", f"KEY={SECRET}\n")),
    )  # fmt: skip
    session.says(f"DEPLOY_KEY holds {SECRET} now.")


def helpers(session: CodeMode) -> None:
    """Subagents, commands in the background, and a list of what is to be done."""
    session.user("Count the files and watch the build.")
    session.runs(
        ("TaskCreate", {"subject": "count the files"}, {"task": {"id": "1", "subject": "count the files"}}),
        ("TaskCreate", {"subject": "watch the build"}, {"task": {"id": "2", "subject": "watch the build"}}),
        ("TaskUpdate", {"taskId": "1", "status": "completed"},
         {"success": True, "taskId": "1", "updatedFields": ["status"]}),
        ("Agent", {"description": "count", "prompt": "count the files", "subagent_type": "general-purpose"},
         {"isAsync": True, "status": "async_launched", "agentId": "a3736089be575ac2c", "description": "count"}),
        ("Agent", {"description": "look", "prompt": "look at them", "subagent_type": "Explore"},
         {"status": "completed", "agentId": "a4", "content": [{"type": "text", "text": "There are 3 files."}]}),
        ("Bash", {"command": "make watch", "run_in_background": True}, ran("", backgroundTaskId="bn2r33x6a")),
        ("Bash", {"command": "sleep 600"}, ran("", backgroundTaskId="b2")),
    )  # fmt: skip
    session.says("There are 3 files; the build is watched.")


def files(session: CodeMode) -> None:
    """Files that are written, and commands that find nothing or fail in several ways."""
    session.user("Write the notes and check them.")
    session.runs(
        ("Write", {"file_path": "/p/notes.md", "content": "# Notes\n"},
         {"type": "create", "filePath": "/p/notes.md", "content": "# Notes\n", "originalFile": None}),
        ("Bash", {"command": "grep -n nothing notes.md"}, ran("", returnCodeInterpretation="No matches found")),
        ("Bash", {"command": "cat /nonexistent.env"},
         Failure("Exit code 1\ncat: /nonexistent.env: No such file or directory")),
        ("Read", {"file_path": "/p/gone.py"}, Failure("<tool_use_error>File does not exist.</tool_use_error>")),
        ("Edit", {"file_path": "/p/notes.md", "old_string": "x", "new_string": "y"},
         Failure("<tool_use_error>String to replace not found in file.</tool_use_error>")),
        ("Bash", {"command": "make lint"}, ran("2 warnings", "deprecated: x")),
        ("TodoWrite", {"todos": [{"content": "write more", "status": "pending", "activeForm": "x"}]},
         {"oldTodos": [], "newTodos": [{"content": "write more", "status": "pending"}]}),
    )  # fmt: skip
    session.says("Done.")


@pytest.mark.parametrize("write", [mended, secrets, edited_secret, helpers, files])
def test_a_session_and_its_plain_twin_are_read_alike(tmp_path: Path, write: Callable[[CodeMode], None]) -> None:
    session = CodeMode()
    session.mode()
    write(session)
    session.mode()

    found, _ = read_both(tmp_path, session.lines)

    assert found["turns"]
    assert any(turn["actions"] for turn in found["turns"])


def test_the_real_sessions_and_their_plain_twins_are_read_alike(tmp_path: Path, shared: Path) -> None:
    sample = shared / "fixtures" / "code-mode-2.1.332" / "sessions.jsonl"
    if not sample.is_file():
        pytest.skip("the sample of sessions is not at hand")
    lines = [json.loads(line) for line in sample.read_text(encoding="utf-8").splitlines()]
    sessions = {
        line["sessionId"]: [other for other in lines if other["sessionId"] == line["sessionId"]] for line in lines
    }

    actions = []
    for number, session in enumerate(sessions.values()):
        found, _ = read_both(tmp_path / str(number), session)
        actions += [action for turn in found["turns"] for action in turn["actions"]]

    assert [(action["tool"], action["exit_code"], action["commit"][:7]) for action in actions] == EXPECTED


#: Tool, exit code and commit of each call in the sample.
EXPECTED: list[tuple[str, int | None, str]] = [
    *[("Read", None, ""), ("Bash", 1, ""), ("Edit", None, ""), ("Bash", 0, ""), ("Write", None, "")],
    *[("Read", None, ""), ("Bash", 0, ""), ("Bash", 2, ""), ("Agent", None, "")],
    *[
        ("Write", None, ""),
        ("Bash", 0, ""),
        ("Bash", 0, "bb14198"),
        ("Bash", 0, ""),
        ("Bash", None, ""),
        ("Bash", 1, ""),
    ],
]


def test_a_script_that_threw_without_a_call_keeps_its_failure_before_a_script_with_calls() -> None:
    session = CodeMode()
    session.user("count them")
    session.runs(error="ReferenceError: x is not defined")
    session.runs(("Bash", {"command": "false"}, Failure("Exit code 1")), error="ShellError: failed with exit code 1")
    session.runs(("Bash", {"command": "true"}, ran("")))

    (turn,) = turns_of(session.lines)

    assert [(action["tool"], action["is_error"]) for action in turn["actions"]] == [
        (SCRIPT_TOOL, True),
        ("Bash", True),
        ("Bash", False),
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_session_that_is_read_in_pieces_is_read_alike(size: int) -> None:
    session = CodeMode()
    for write in (mended, files, helpers):
        write(session)

    whole, memory = Memory(), Memory()
    whole.feed("s", session.entries, close=True)
    for at in range(0, len(session.entries), size):
        memory.feed("s", session.entries[at : at + size])
    memory.feed("s", [], close=True)

    assert list(map(plain_turn, memory.turns.values())) == list(map(plain_turn, whole.turns.values()))
