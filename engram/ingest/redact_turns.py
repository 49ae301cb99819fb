"""Redact every text of a turn before it is stored, and collect the values of environment files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from engram.redaction import env_values, hash_value, redact_parts
from engram.text.shell import error_keys
from engram.transcripts.turns import MAX_COMMAND_CHARS, MAX_ERROR_CHARS, MAX_TODO_CHARS, Action, Turn, TurnUpdate

#: Number of redacted short texts (paths, commands) to cache, because they recur.
_CACHE_SIZE = 4096
#: Maximum number of environment values remembered per session.
MAX_KNOWN_VALUES = 500

Redact = Callable[[str, Collection[bytes]], str]


class Cleaner:
    """Redacts the turns of one read of one session.

    Values in environment lines are stored only as salted hashes, by which the same values are masked wherever they
    occur later.
    """

    def __init__(self, redact: Redact, salt: bytes, known: Collection[bytes] = ()) -> None:
        """Begin with the values that the session is known to contain."""
        self._redact = redact
        self._salt = salt
        self._known = set(known)
        self._new: set[bytes] = set()
        self._cache: dict[str, str] = {}

    @property
    def new_known(self) -> frozenset[bytes]:
        """Hashes of values found during this read."""
        return frozenset(self._new)

    def note_environment(self, text: str) -> None:
        """Treat the values of environment lines in ``text`` as secrets; the text itself is not stored."""
        for value in env_values(text):
            if len(self._known) >= MAX_KNOWN_VALUES:
                return
            hashed = hash_value(value, self._salt)
            if hashed not in self._known:
                self._known.add(hashed)
                self._new.add(hashed)
                self._cache.clear()

    def clean(self, update: TurnUpdate) -> Turn:
        """Return the turn with all texts redacted.

        Texts that were stored earlier are already redacted and are not changed.
        """
        turn = update.turn
        old, new = turn.said[: update.said_before], turn.said[update.said_before :]
        for block in new:  # a value in an environment line is masked in all texts of the turn
            self.note_environment(block.text)
        short = [text for action in turn.actions for text in _short_texts(action)]
        texts = self._read_together([block.text for block in new], [*short, turn.branch])
        pairs = zip(new, texts, strict=True)
        said = [block if text == block.text else replace(block, text=text) for block, text in pairs]
        return replace(
            turn,
            said=(*old, *said),
            actions=tuple(self._clean_action(action, turn.branch) for action in turn.actions),
            branch=self.clean_short(turn.branch),
        )

    def _read_together(self, texts: list[str], short: Iterable[str]) -> list[str]:
        """Return the redacted texts, and cache the redacted short texts.

        A single pass is faster than one for each text.
        """
        new = list(dict.fromkeys(text for text in short if text and text not in self._cache))
        redacted = redact_parts([*texts, *new], self._known, self._redact)
        for text, clean in zip(new, redacted[len(texts) :], strict=True):
            self._remember(text, clean)
        return redacted[: len(texts)]

    def _clean_action(self, action: Action, branch: str) -> Action:
        said = action.command or action.place or action.error_line or action.commit
        if not (action.files or said or action.todos):
            return action
        # Cut after redaction, not before.
        return action._replace(
            files=tuple(self.clean_short(file) for file in action.files),
            command=self.clean_short(action.command)[:MAX_COMMAND_CHARS],
            place=self.clean_short(action.place),
            error_line=self.clean_short(action.error_line)[:MAX_ERROR_CHARS],
            error_lines=(),
            error_keys=self._error_keys(action, branch),
            commit=self.clean_short(action.commit)[:MAX_ERROR_CHARS],
            todos=tuple(todo._replace(text=self.clean_short(todo.text)[:MAX_TODO_CHARS]) for todo in action.todos),
        )

    def _error_keys(self, action: Action, branch: str) -> tuple[int, ...]:
        """Return the keys of a failing command's error: the stored ones, or those of its redacted lines."""
        if action.error_keys or not (action.is_error and action.command):
            return action.error_keys
        lines = action.error_lines or (action.error_line,)
        return error_keys(map(self.clean_short, lines), [branch])

    def clean_short(self, text: str) -> str:
        """Return the redacted form of a short text, from the cache if possible."""
        if not text:
            return text
        redacted = self._cache.get(text)
        if redacted is None:
            redacted = self._redact(text, self._known)
            self._remember(text, redacted)
        return redacted

    def _remember(self, text: str, redacted: str) -> None:
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[text] = redacted
        self._cache.setdefault(redacted, redacted)


def _short_texts(action: Action) -> Iterator[str]:
    """Yield the texts of a tool call that must be redacted."""
    yield from action.files
    yield from action.error_lines
    yield action.command
    yield action.place
    yield action.error_line
    yield action.commit
    for todo in action.todos:
        yield todo.text
