"""Does an answer agree with what was said before it? Pure."""

from __future__ import annotations

import re

#: Length of the beginning of an answer that is examined for agreement, in characters.
_MAX_ANSWER_CHARACTERS = 240

_AGREES = re.compile(
    r"^\W*(?:yes|yeah|yep|yup|ok(?:ay)?|sure|right|correct|agreed?|exactly|indeed|perfect|great|good|nice|do (?:it|"
    r"that|so)|go (?:ahead|for it|with (?:it|that|this))|please do|sounds good|looks good|lgtm|makes sense|let['’]?s "
    r"(?:do|go with)|proceed|ship it|that(?:'s| is) (?:right|it|what i))\b",
    re.IGNORECASE,
)
_BUT = re.compile(r"\b(?:but|however|except|although|instead|actually|wait|don['’]?t|not|no)\b", re.IGNORECASE)


def agrees(answer: str) -> bool:
    """Return True if a prompt agrees with what was said before it, and objects to nothing."""
    first = answer.strip()[:_MAX_ANSWER_CHARACTERS]
    return bool(_AGREES.match(first)) and not _BUT.search(first)
