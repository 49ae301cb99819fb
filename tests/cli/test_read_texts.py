"""A Markdown text on a terminal: as a person reads it."""

from __future__ import annotations

import pytest

from engram.cli.results import print_lines
from engram.text.splitting import without_markup
from engram.text.titles import LABELS, in_words

MARKDOWN = """## What was found

**Cause**: `quay --all` counts *every* boat, see [the bell](src/bell.go:258).

| Boat | Lies |
|------|:----:|
| Anna | at the quay |
> a remark

```sh
quay --present | wc -l   # **not** a mark
```
- **Anna** left"""


def test_a_text_is_shown_without_its_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(MARKDOWN)

    assert capsys.readouterr().out.splitlines() == [
        "What was found",
        "Cause: `quay --all` counts every boat, see the bell.",
        "Boat — Lies",
        "Anna — at the quay",
        "a remark",
        "    quay --present | wc -l   # **not** a mark",
        "- Anna left",
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("`quay` tests don't use …** — they have", "`quay` tests don't use … — they have"),
        ("1. **Claude saw it", "1. Claude saw it"),
        ("**`quay`** — was **`a**b`**", "`quay` — was `a**b`"),
        ("src/**/*.py, **/quay and 2 ** 3 * 4", "src/**/*.py, **/quay and 2 ** 3 * 4"),
        ("__init__.py of `[a](b)`", "__init__.py of `[a](b)`"),
    ],
)
def test_half_of_a_mark_is_left_out_but_no_path_and_no_code(line: str, shown: str) -> None:
    assert without_markup(line) == shown


def test_labels_in_the_text_of_a_memory_are_words() -> None:
    labelled = "\n".join(f"[{label}] the bell" for label in LABELS)

    assert in_words(f"{labelled}\nan index [also]").splitlines() == [
        *(f"{words}: the bell" for words in LABELS.values()),
        "an index [also]",
    ]
