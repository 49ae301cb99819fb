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
