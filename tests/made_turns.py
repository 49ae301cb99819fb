"""Turns and tool calls made for the extractors."""

from __future__ import annotations

from collections.abc import Sequence

from engram.transcripts.turns import Action, EntryRef, Opening, Role, TextBlock, Turn


class Make:
    """Makes turns and their actions."""

    @staticmethod
    def run(command: str, *, fails: str = "", uuid: str = "") -> Action:
        """A shell command that passes, or fails with an error line."""
        return Action(
            tool_use_id=uuid or command,
            tool="Bash",
            uuid=uuid,
            command=command,
            is_error=bool(fails),
            exit_code=1 if fails else 0,
            error_line=fails,
        )

    @staticmethod
    def edit(file: str, *, uuid: str = "") -> Action:
        """A file that is changed."""
        return Action(tool_use_id=uuid or file, tool="Edit", uuid=uuid, files=(file,), is_edit=True, is_error=False)

    @staticmethod
    def turn(prompt: str, *steps: str | Action, key: str = "t1") -> Turn:
        """A turn: the prompt, then what the assistant said (texts) and did (actions), in order."""
        said, actions, uuids = _steps(key, prompt, steps)
        entries = tuple(EntryRef(uuid, n * 100, 90, n + 1) for n, uuid in enumerate(uuids))
        return Turn(
            key=key,
            session_id="11111111-2222-3333-4444-555555555555",
            opening=Opening.PROMPT,
            said=tuple(said),
            actions=tuple(actions),
            entries=entries,
            is_closed=True,
        )


def _steps(key: str, prompt: str, steps: Sequence[str | Action]) -> tuple[list[TextBlock], list[Action], list[str]]:
    said, actions, uuids = [], [], []
    if prompt:
        said.append(TextBlock(uuid=f"{key}-p", role=Role.USER, text=prompt))
        uuids.append(f"{key}-p")
    for n, step in enumerate(steps):
        if isinstance(step, str):
            said.append(TextBlock(uuid=f"{key}-{n}", role=Role.ASSISTANT, text=step))
            uuids.append(f"{key}-{n}")
        else:
            actions.append(step)
            uuids.append(step.uuid)
    return said, actions, [u for u in uuids if u]
