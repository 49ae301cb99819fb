"""The place of a message in its turn: the surroundings that the score of a passage uses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engram.text.content_words import content_words
from engram.transcripts.record import Action, Role, TextBlock, Turn

#: Maximum length of the next prompt that is compared, in characters.
MAX_ANSWER_CHARACTERS = 1_500

_ASKS = re.compile(
    r"\?|^\W*(?:why|how|what|where|which|when|who|is|are|do|does|did|can|could|should|would|explain|tell)\b",
    re.IGNORECASE,
)
_AGREES = re.compile(
    r"^\W*(?:yes|yeah|yep|ok(?:ay)?|sure|right|correct|agreed?|exactly|good|great|perfect|nice|do (?:it|that|so)|go "
    r"(?:ahead|on|for it)|please do|sounds good|looks good|lgtm|let'?s (?:do|go)|proceed|continue|implement|commit|"
    r"push|thanks?)\b",
    re.IGNORECASE,
)
_OBJECTS = re.compile(
    r"^\W*(?:no\b|nope|wait|hm+|but\b|still\b|not\b|don'?t|stop|actually|that'?s (?:not|wrong)|why\b|wrong|it "
    r"(?:doesn|does not|still))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """The surroundings of a message."""

    is_user: bool
    #: Length of the message in characters.
    chars: int
    #: The last message of its turn.
    is_closing: bool = False
    #: The first message of the assistant in its turn.
    is_first: bool = False
    #: Messages of the assistant in the turn.
    messages: int = 0
    has_edits: bool = False
    has_commit: bool = False
    has_errors: bool = False
    #: The tool call before the message failed.
    after_error: bool = False
    #: The next tool call changes a file.
    before_edit: bool = False
    #: No tool call comes before the message in its turn.
    before_tools: bool = False
    #: The prompt is a question.
    asked: bool = False
    #: Characters of the prompt.
    prompt_chars: int = 0
    #: The next prompt begins with agreement, or with an objection; both False if there is none yet.
    is_agreed: bool = False
    is_objected: bool = False
    #: The message ends with a question to the user.
    asks_back: bool = False
    #: Content words of the prompt (empty for the prompt itself), the message, and the turn's other messages.
    prompt_words: frozenset[str] = frozenset()
    message_words: frozenset[str] = frozenset()
    other_words: tuple[frozenset[str], ...] = ()
    #: Number of the turn's messages that contain each content word.
    word_counts: Mapping[str, int] = field(default_factory=dict)
    #: Content words of the commands that made the turn's commits, of changed files' names, and of the next prompt.
    commit_words: frozenset[str] = frozenset()
    file_words: frozenset[str] = frozenset()
    answer_words: frozenset[str] = frozenset()


def places(turn: Turn, following: Turn | None) -> Iterator[tuple[TextBlock, Place]]:
    """Yield every message of a turn with its place.

    Args:
        turn: The turn.
        following: The session's next turn, whose prompt answers this one; None if there is none yet.
    """
    order = {entry.uuid: index for index, entry in enumerate(turn.entries)}
    replies = [s for s in turn.said if s.role is Role.ASSISTANT]
    words = {id(s): content_words(s.text) for s in turn.said}
    answer = following.users_prompt if following else ""
    prompt_words = content_words(turn.prompt)
    word_counts = Counter(word for said in turn.said for word in words[id(said)])
    commit_words = content_words(" ".join(a.command for a in turn.actions if a.commit))
    file_words = content_words(" ".join(_file_name(f) for a in turn.actions if a.is_edit for f in a.files))
    answer_words = content_words(answer[:MAX_ANSWER_CHARACTERS])
    for said in turn.said:
        if said.role not in (Role.USER, Role.ASSISTANT):
            continue
        is_user = said.role is Role.USER
        before, after = _neighbours(turn.actions, order, said)
        yield (
            said,
            Place(
                is_user=is_user,
                is_closing=not is_user and said is replies[-1],
                is_first=not is_user and said is replies[0],
                chars=len(said.text),
                messages=len(replies),
                has_edits=turn.has_edits,
                has_commit=any(a.commit for a in turn.actions),
                has_errors=any(a.is_error for a in turn.actions),
                after_error=before is not None and bool(before.is_error),
                before_edit=after is not None and after.is_edit,
                before_tools=before is None,
                asked=bool(_ASKS.search(turn.prompt[:2_000])),
                prompt_chars=len(turn.prompt),
                is_agreed=bool(_AGREES.match(answer)),
                is_objected=bool(_OBJECTS.match(answer)),
                asks_back=said.text.rstrip().endswith("?"),
                prompt_words=frozenset() if is_user else prompt_words,
                message_words=words[id(said)],
                other_words=tuple(words[id(s)] for s in replies if s is not said),
                word_counts=word_counts,
                commit_words=commit_words,
                file_words=file_words,
                answer_words=answer_words,
            ),
        )


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _neighbours(
    actions: tuple[Action, ...], order: dict[str, int], said: TextBlock
) -> tuple[Action | None, Action | None]:
    """Return the tool calls just before and after a message."""
    here = order.get(said.uuid, -1)
    before = [a for a in actions if order.get(a.uuid, -1) < here]
    after = [a for a in actions if order.get(a.uuid, -1) >= here]
    return (before[-1] if before else None), (after[0] if after else None)
