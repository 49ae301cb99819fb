"""Words that say what a prompt or a memory is about, for recollection. Pure."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w[\w./:@#-]*")
#: Words that say nothing about the topic: agreement, thanks, urging, and function words.
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


def topic_words(text: str) -> list[str]:
    """Return the words of a text that say something about its topic, each once, in order."""
    words = (word.rstrip(".:-/") for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word.lower() not in _EMPTY))
