"""Lines of transcripts as Claude Code writes them, for tests: what somebody said, appended to a session's file."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

#: When it was said unless a test says otherwise.
SAID_AT = "2026-05-01T10:00:00.000Z"


def line(
    role: str, content: object, *, session: str, entry: str = "", cwd: str = "/work/demo", at: str = SAID_AT
) -> str:
    """One whole line with its end; ``content`` is a text or Claude Code's blocks, ``role`` user or assistant."""
    entry = entry or str(uuid.uuid4())
    if role == "assistant" and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    message = {"role": role, "content": content} | ({"id": entry} if role == "assistant" else {})
    whole = {
        "type": role,
        "uuid": entry,
        "sessionId": session,
        "cwd": cwd,
        "isSidechain": False,
        "timestamp": at,
        "message": message,
    }
    return json.dumps(whole) + "\n"


def say(path: Path, role: str, content: object, *, cwd: str = "/work/demo", at: str = SAID_AT) -> str:
    """Append what was said to the transcript of a session, made with its folder where it is missing; returns its
    uuid.
    """
    entry = str(uuid.uuid4())
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line(role, content, session=path.stem, entry=entry, cwd=cwd, at=at))
    return entry


def commit(path: Path, subject: str, why: str, *, cwd: str = "/work/demo", at: str = SAID_AT) -> str:
    """Append a commit whose message says why, which the local writer keeps as a fix; returns the uuid of the call."""
    message = f"fix: {subject}\n\n{why}"
    name = f"toolu_{uuid.uuid4().hex}"
    given = {"command": f"git commit -m '{message}'"}
    entry = say(path, "assistant", [{"type": "tool_use", "id": name, "name": "Bash", "input": given}], cwd=cwd, at=at)
    result = {"type": "tool_result", "tool_use_id": name, "content": f"[main abc1234] {subject}", "is_error": False}
    say(path, "user", [result], cwd=cwd, at=at)
    return entry
