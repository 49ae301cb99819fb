"""Redact every text of a turn before it is stored, and collect the values of environment files on the way."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from engram.redaction import env_values, hash_value
from engram.transcripts.claude_code.action import COMMAND_CHARS, ERROR_CHARS
from engram.transcripts.claude_code.draft import TurnUpdate
from engram.transcripts.record import Action, TextBlock, Turn

#: So many redacted short texts (paths, commands) are remembered, since they repeat.
_REMEMBERED = 4096
#: Values of environment lines that are remembered for one session at most.
MAX_KNOWN = 500

Redact = Callable[[str, Collection[bytes]], str]


class Cleaner:
    """Redacts the turns of one read of one session.

    Values of environment lines are kept only as salted hashes, and mask the same value wherever it stands later.
    """

    def __init__(self, redact: Redact, salt: bytes, known: Collection[bytes] = ()) -> None:
        """Begin with what the session is known to hold."""
        self._redact = redact
        self._salt = salt
        self._known = set(known)
        self._new: set[bytes] = set()
        self._remembered: dict[str, str] = {}

    @property
    def new_known(self) -> frozenset[bytes]:
        """Hashes that were not known before."""
        return frozenset(self._new)

    def see_environment(self, text: str) -> None:
        """Take the values of environment lines in ``text`` as secrets; the text itself is not kept."""
        for value in env_values(text):
            if len(self._known) >= MAX_KNOWN:
                return
            hashed = hash_value(value, self._salt)
            if hashed not in self._known:
                self._known.add(hashed)
                self._new.add(hashed)
                self._remembered.clear()

    def clean(self, update: TurnUpdate) -> Turn:
        """The turn with all texts redacted; what was stored before is redacted already and stays as it is."""
        turn = update.turn
        old, new = turn.said[: update.said_before], turn.said[update.said_before :]
        return replace(
            turn,
            said=(*old, *(self._clean_said(one) for one in new)),
            actions=tuple(self._clean_action(action) for action in turn.actions),
            branch=self._short(turn.branch),
        )

    def _clean_said(self, said: TextBlock) -> TextBlock:
        self.see_environment(said.text)
        text = self._redact(said.text, self._known)
        return said if text == said.text else replace(said, text=text)

    def _clean_action(self, action: Action) -> Action:
        if not (action.files or action.command or action.error_line or action.commit or action.refusal):
            return action
        files = tuple(self._short(file) for file in action.files)
        # Cut after it was redacted, not before.
        command = self._short(action.command)[:COMMAND_CHARS]
        error_line, commit = self._short(action.error_line)[:ERROR_CHARS], self._short(action.commit)[:ERROR_CHARS]
        refusal = self._short(action.refusal)
        if (files, command, error_line, commit, refusal) == (
            action.files, action.command, action.error_line, action.commit, action.refusal,
        ):  # fmt: skip
            return action
        return replace(action, files=files, command=command, error_line=error_line, commit=commit, refusal=refusal)

    def _short(self, text: str) -> str:
        if not text:
            return text
        found = self._remembered.get(text)
        if found is None:
            found = self._redact(text, self._known)
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[text] = found
            self._remembered.setdefault(found, found)
        return found
