"""The message of a ``git commit`` command. Pure."""

from __future__ import annotations

import re

from engram.transcripts.record import MAX_COMMAND_CHARS

_GIT_COMMIT = r"git(?:\s+-[cC]\s+\S+)*\s+commit\b(?P<rest>.*)"
_COMMIT = re.compile(rf"(?:^|[;&|(\n])\s*{_GIT_COMMIT}", re.DOTALL)
#: The same behind a program that runs it, and may shorten what it prints.
_COMMIT_BY_RUNNER = re.compile(rf"(?:^|[;&|(\n])\s*(?:(?:rtk|sudo|command|time|nice)\s+)?{_GIT_COMMIT}", re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(?P<end>\w+)\1\n(?P<text>.*)", re.DOTALL)
_HERE_STRING = re.compile(r"@(?P<quote>['\"])\n(?P<text>.*)", re.DOTALL)
_MESSAGE = re.compile(
    r"(?:\s-[a-zA-Z]*m|\s--message)[= ]?\s*(?:\"(?P<double>(?:[^\"\\]|\\.)*)(?P<end2>\"|$)|"
    r"'(?P<single>[^']*)(?P<end1>'|$))",
    re.DOTALL,
)
#: Lines that tools and people add below a message.
_TRAILER = re.compile(r"^\s*(?:[A-Z][\w-]+-by|Co-authored-by|Change-Id|\W*Generated (?:with|by))\b.*$", re.I | re.M)
#: Where a message that was cut may end: after a sentence, or before a bullet.
_SENTENCE_END = re.compile(r"(?<!\d)[.!?](?=\s|$)|(?=\n\s*(?:[-*•]|\d+[.)])\s)")


def read_message(command: str, *, by_runner: bool = False) -> tuple[str, str]:
    """Return subject and body of the message of a ``git commit`` command; ("", "") if there is none.

    Args:
        command: a shell command as it is stored, up to ``MAX_COMMAND_CHARS``: of a message that was cut, the last
            sentence is left out.
        by_runner: also read a commit that another program runs, such as ``sudo``.
    """
    match = (_COMMIT_BY_RUNNER if by_runner else _COMMIT).search(command)
    if match is None:
        return "", ""
    text, is_whole = _quoted(match["rest"])
    if not is_whole and len(command) >= MAX_COMMAND_CHARS:
        ends = [end.end() for end in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text.partition("\n")[0] if "\n" in text else ""
    subject, _, body = _TRAILER.sub("", text).strip().partition("\n")
    return subject.strip(), body.strip()


def _quoted(rest: str) -> tuple[str, bool]:
    """Return the message in the arguments of a commit, and whether its end was reached."""
    if heredoc := _HEREDOC.search(rest):
        text, end, _ = heredoc["text"].partition("\n" + heredoc["end"])
        return text, bool(end)
    if here := _HERE_STRING.search(rest):
        text, end, _ = here["text"].partition("\n" + here["quote"] + "@")
        return text, bool(end)
    parts = [
        (match["double"] if match["double"] is not None else match["single"], bool(match["end2"] or match["end1"]))
        for match in _MESSAGE.finditer(rest)
    ]
    return "\n\n".join(text for text, _ in parts), all(is_closed for _, is_closed in parts)
