"""The last commit of each turn, and all commits of a time."""

from __future__ import annotations

from pathlib import Path

from transcript_lines import SAID_AT, line

from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.models.sessions.failures_and_commits import Commit, commits_between, last_commits_of
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import parse_time_ms

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"


def test_a_turn_has_its_last_commit_and_one_without_commits_has_none(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.places.prepare()
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    lines = [line("user", "Raise the limit, and commit.", session=SESSION)]
    for number, commit in enumerate(("3f2a91c", "8be10d2")):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "git commit -m 'Raise'"}}
        done = {
            "type": "tool_result",
            "tool_use_id": f"t{number}",
            "content": f"[main {commit}] Raise\n 1 file changed",
        }
        lines += [line("assistant", [call], session=SESSION), line("user", [done], session=SESSION)]
    lines += [line("user", "Thanks. What is left?", session=SESSION), line("assistant", "Nothing.", session=SESSION)]
    path.write_text("".join(lines))
    with open_store(settings.places.memory_db) as store:
        ingest_path(store, path, settings=settings, redact=redact, close=True)
        session = find_session(store, SESSION)
        assert session is not None
        first, second = (turn.id for turn in turns_of_session(store, session.id))

        assert last_commits_of(store, [first, second]) == {first: "8be10d2"}
        assert last_commits_of(store, []) == {}
        at_ms = parse_time_ms(SAID_AT)
        assert at_ms is not None
        made = [Commit(sha, "Raise", at_ms, "demo") for sha in ("3f2a91c", "8be10d2")]
        assert commits_between(store, None, at_ms, at_ms + 1) == made
        assert commits_between(store, session.project_id, at_ms, at_ms + 1) == made
        assert commits_between(store, None, at_ms + 1, at_ms + 2) == []
