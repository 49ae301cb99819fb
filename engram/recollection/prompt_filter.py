"""Is this prompt worth a look into the memory? Pure."""

from __future__ import annotations

import re

from engram.search.question.query import MAX_QUERY_CHARS
from engram.transcripts.claude_code.prompt import PICTURE, is_interruption, typed_text

#: Words that say what a prompt is about; with fewer there is nothing to search for.
MIN_WORDS = 2

_WORD = re.compile(r"\w[\w./:@#-]*")
_NAME = re.compile(r"[a-z][A-Z]|\w[._/:#-]\w|\w_\w|\d{2,}")
_COMMAND = re.compile(r"/[\w:.-]+\s*")
#: Words that tell nothing about the topic: agreement, thanks, urging, and the glue between them.
_EMPTY_TEXT = """
    a about actually again ahead all alright also am an and any anything are as at awesome back be because been
    being bit but by bye can carry commit continue cool correct could course did do does doing don don't done dont
    else everything exactly fine first for from fully get give go going gonna good got great had has have hello help
    her here hey hi his how i i'd i'll i'm if in into is it it's its just keep know let let's lets like ll looks lot
    make many may maybe me merge might more much must my need next nice no nope not nothing now of off ok okay on
    one only or our out over perfect please pls proceed push re really right run same say see shall she should show
    so some something sorry sounds start step still stop such sure take tell test thank thanks that that's thats the
    their them then there these they thing things this those through to too try two up us use very wait want was we
    well were what whats when where which while who why will with would yeah yep yes yet you you're your yup
"""
_EMPTY = frozenset(_EMPTY_TEXT.split())


def search_text(prompt: object) -> str:
    """The part of a prompt that is searched for (the rest is mostly pasted); "" where nothing should be brought up.

    Nothing: what a program wrote (notifications, command output), bare commands, agreement, thanks, urging to go on,
    and prompts of less than two telling words.
    """
    typed = typed_text(prompt) if isinstance(prompt, str) else None
    if not typed or typed == PICTURE or is_interruption(typed):
        return ""
    command = _COMMAND.match(typed)
    text = typed[command.end() :] if command else typed
    text = text[:MAX_QUERY_CHARS].strip()
    return text if is_telling(text) else ""


def is_telling(text: str) -> bool:
    """True where the text names a topic."""
    words = telling_words(text)
    if len(words) >= MIN_WORDS:
        return True
    return any(_NAME.search(word) or (not word.isascii() and len(word) > 3) for word in words)


def telling_words(text: str) -> list[str]:
    """The words of a text that say something about its topic, each once, in order."""
    found = (word.rstrip(".:-/") for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in found if len(word) > 1 and word.lower() not in _EMPTY))
