"""The daily log: what each session asked, decided, changed and left open, kept in one Markdown file a day without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from engram.atomic import read_regular, write_atomic
from engram.clock import day_of
from engram.errors import BadRequest
from engram.models.episodes import Episode, episodes_of_session
from engram.models.sessions import find_session, project_by_id
from engram.models.store import Store
from engram.models.turns import turns_of_session
from engram.paths import Home
from engram.transcripts.record import Turn

#: A day's file is not made larger than this, in bytes.
DAY_LIMIT_BYTES = 400_000
#: Longest text of a note that is saved at once, in characters.
NOTE_TEXT_LIMIT = 20_000
#: Words of a prompt that the log keeps.
_PROMPT_WORDS = 24

Redact = Callable[[str], str]


def log_session(store: Store, home: Home, session_id: str) -> Path | None:
    """Write (anew) the section of a session in the log of the day it last spoke; None where it has no turns.

    The section is made from the turns as they are stored, so writing it twice changes nothing.
    """
    session = find_session(store, session_id)
    if session is None:
        return None
    turns = [stored.turn for stored in turns_of_session(store, session.id)]
    if not any(turn.prompt for turn in turns):
        return None
    project = None if session.project_id is None else project_by_id(store, session.project_id)
    path = home.daily_notes / f"{day_of(session.last_at_ms)}.md"
    decided = [e.summary for e in episodes_of_session(store, session_id) if e.kind == "decision" and _holds(e)]
    section = session_section(session_id, project.name if project else "no project", turns, decided)
    _put_section(path, f"<!-- session {session_id} -->", section)
    return path


def session_section(session_id: str, project: str, turns: Sequence[Turn], decided: Sequence[str] = ()) -> str:
    """The Markdown section of one session: asked, decided, changed, committed, left open."""
    asked = [f"- {_short(turn.prompt)}" for turn in turns if turn.prompt]
    files = list(
        dict.fromkeys(f for turn in turns for a in turn.actions if a.is_edit and not a.is_error for f in a.files)
    )
    commits = [action.commit for turn in turns for action in turn.actions if action.commit]
    left = _left_open(turns)
    lines = [f"## {project}", f"<!-- session {session_id} -->", "", "Asked:", *asked[-40:]]
    if decided:
        lines += ["", "Decided:", *[f"- {_short(one)}" for one in decided[-20:]]]
    if files:
        lines += ["", "Changed:", *[f"- `{_one_line(name)}`" for name in files[:30]]]
    if commits:
        lines += ["", "Committed:", *[f"- {_one_line(commit)}" for commit in commits[:20]]]
    if left:
        lines += ["", "Left open:", *[f"- {one}" for one in left]]
    return "\n".join(lines) + "\n"


def _holds(episode: Episode) -> bool:
    return episode.status in ("active", "provisional") and not episode.suspect


def save_note(home: Home, text: str, redact: Redact, at_ms: int, project: str = "") -> Path:
    """Append a text that was saved as a note to the day's file; ``project`` is the display name of the project it is for.

    Raises:
        BadRequest: the text is empty or longer than 20,000 characters.
    """
    clean = redact(text.replace("\0", "")).strip()
    if not clean or len(clean) > NOTE_TEXT_LIMIT:
        raise BadRequest(f"a note has 1 to {NOTE_TEXT_LIMIT} characters")
    path = home.daily_notes / f"{day_of(at_ms)}.md"
    old = _read(path)
    head = f"## {_one_line(project) or 'no project'}\n<!-- saved {datetime.fromtimestamp(at_ms / 1000):%H:%M} -->\n"
    nested = re.sub(r"(?m)^(#+\s)", r"##\1", clean)
    write_atomic(path, f"{old.rstrip()}\n\n{head}\n{nested}\n".lstrip().encode())
    return path


def _left_open(turns: Sequence[Turn]) -> list[str]:
    """Commands that failed last time they ran, and an interrupted or unanswered last prompt."""
    last: dict[str, bool] = {}
    for turn in turns:
        for action in turn.actions:
            if action.command and action.is_error is not None:
                last[action.command] = action.is_error
    found = [f"`{_short(command)}` failed" for command, is_error in last.items() if is_error][-5:]
    closing = turns[-1]
    if closing.is_interrupted or (closing.prompt and not closing.reply):
        found.append(f"not finished: {_short(closing.prompt)}")
    return found


def _short(text: str) -> str:
    words = _one_line(text).split()
    return " ".join(words[:_PROMPT_WORDS]) + ("…" if len(words) > _PROMPT_WORDS else "")


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f`<>]+", " ", text).strip()


def _put_section(path: Path, mark: str, section: str) -> None:
    """Replace the section that holds ``mark``, or append it."""
    parts = re.split(r"(?m)^(?=## )", _read(path))
    kept = [part for part in parts if mark not in part]
    text = "".join(kept).rstrip()
    whole = (f"{text}\n\n" if text else f"# {path.stem}\n\n") + section
    data = whole.encode()
    if len(data) <= DAY_LIMIT_BYTES:
        write_atomic(path, data)


def _read(path: Path) -> str:
    return (read_regular(path, DAY_LIMIT_BYTES * 2) or b"").decode("utf-8", "replace")
