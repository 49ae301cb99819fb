"""What of a row is embedded: who said it with the text, and the text with the prompt it answers."""

from __future__ import annotations

import re

from engram.models.vectors import Missing

#: Words of a prompt that are embedded with a passage of its reply.
PROMPT_WORDS = 60
#: A text that names its own speaker, as in a chat log.
_SPEAKER = re.compile(r"(?:user|assistant): (?=[A-Z][\w .'-]{0,30}: )")


def texts_of(missing: Missing) -> list[str]:
    """The texts whose mean vector stands for a row: one or two."""
    own = _SPEAKER.sub("", missing.text, count=1) if missing.owner == "p" else missing.text
    if not missing.prompt:
        return [own]
    _, _, bare = missing.text.partition(": ")
    return [own, f"{' '.join(missing.prompt.split()[:PROMPT_WORDS])}\n{bare}"]
