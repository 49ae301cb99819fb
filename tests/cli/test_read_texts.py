"""A text on a terminal: as a person reads it, and as it was said where its marks may be code."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import pytest

from engram.cli.results import print_lines, readable_content
from engram.models.memories.memory_records import Memory
from engram.system.lazy_regex import LazyRegex
from engram.text import markdown
from engram.text.titles import LABELS, in_words
from tests.linear_patterns import given_back

MARKDOWN = """## What was found

**Cause**: `quay --all` counts ***every*** boat, see [the bell](src/bell.go:258).

| Boat | Lies |
|------|:----:|
| Anna | `a | b` — **here** |
| Bea | |

```sh title=count
quay --present | wc -l   # **not** a mark

# a comment
```
- **Anna** left
  1. *first*"""


def shown(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed of a text, without the line break at its end."""
    print_lines(text)
    return capsys.readouterr().out.removesuffix("\n")


def test_a_text_is_shown_without_its_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(MARKDOWN, capsys).splitlines() == [
        "What was found",
        "Cause: `quay --all` counts every boat, see the bell.",
        "Boat — Lies",
        "Anna — `a | b` — here",
        "Bea",
        "    quay --present | wc -l   # **not** a mark",
        "",
        "    # a comment",
        "- Anna left",
        "  1. *first*",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*), sum(*) FROM t",
        "SELECT a.*,b.* FROM a,b",
        "git add '*.c' '*.h' \"**.py\",\"**.md\" *.py|*.md",
        "a regex ^a.*b.*$ and .*foo.* and (.*)-(.*) and **.py,**.md",
        "ls *foo*, password ****, cron */5 * * * *",
        "src/**/*.py, **/quay/** and 2 ** 3 * 4",
        "f(*args, **kwargs), {**a, **b}, {**a,**b} and def g(*, key, **kw):",
        "char **argv, **envp; x = **p + **q",
        "2**(n) elements, 2**n and 3**m",
        r"C:\*\* and \*escaped\*, \**bold\** and \[a](b/c)",
        "handlers[i](event) and list[str](items), then x[i](y/2) = z[j](w/2)",
        "[0](a/b), [x](y) and ![an image](quay/a.png)",
        "__init__ of `[a](b/c)` in ``a ` b`` is **not** sure",
        "an open ` in **code**, or not",
        "> 5 errors means failure",
        "> user said: never use pnpm",
        ">>> print(1)",
        "| tail -5 |",
        "|a| <= |b|",
        "| a row | of a table |\n| whose head | is gone |",
        "--- a/quay\n+++ b/quay\n-----",
        "# install what is needed\nmake quay",
        "def quay():\n    if boats:\n        return boats",
        "1. **Claude saw it",
        "a word**s and **words**s",
    ],
)
def test_what_may_be_code_stays_as_it_was_said(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(text, capsys) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("**注意：**内容在这里", "注意：内容在这里"),
        ("这是**重点**内容，参见**文档**。", "这是重点内容，参见文档。"),
        ("**중요**는 **이것**입니다", "중요는 이것입니다"),
        ("**$HOME**, **`quay`** and **.env** are (**not**) set.", "$HOME, `quay` and .env are (not) set."),
        ("**[the bell](src/bell.go)** – **Note:** rings **5 %**.", "the bell – Note: rings 5 %."),
        ("was **`a**b`** [once](https://quay.example/a_(b))", "was `a**b` once"),
    ],
)
def test_marks_go_in_pairs(text: str, read: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(text, capsys) == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("````md\n```\n**a**\n```\n````\nafter **b**", ["    ```", "    **a**", "    ```", "after b"]),
        ("~~~\n```\n~~~\nafter **b**", ["    ```", "after b"]),
        ("~~~\n**a** ~~~\n```\n~~~", ["    **a** ~~~", "    ```"]),
        ("rm **a**\n```\nafter **b**", ["rm **a**", "```", "after **b**"]),
        ("before **a**\n\n```sh\nrm **b**", ["before **a**", "```sh", "rm **b**"]),
        ("```make``` is **it**", ["```make``` is **it**"]),
    ],
)
def test_code_blocks_that_are_not_closed_are_shown_as_they_were_said(
    text: str, read: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(text, capsys).splitlines() == read


def test_no_pattern_takes_more_than_linear_time() -> None:
    patterns = {name: value for name, value in vars(markdown).items() if isinstance(value, LazyRegex)}

    assert len(patterns) >= 5
    assert not {name for name, value in patterns.items() if given_back(cast("re.Pattern[str]", value))}


def test_labels_in_the_text_of_a_memory_are_words() -> None:
    labelled = "\n".join(f"[{label}] the bell" for label in LABELS)

    assert in_words(f"{labelled}\nan index [also]").splitlines() == [
        *(f"{words}: the bell" for words in LABELS.values()),
        "an index [also]",
    ]


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("Use tabs.\n\n[also] Never use spaces.", ""),
        ("[the user]\nUse tabs.\n\n[before it]\nWe had spaces.", "Before that: We had spaces."),
        ("Use tabs.\n[asked] Which ones? Never use spaces.", "Asked: Which ones?"),
        ("Wait.\n[todo list]\n- one\n- two", "Wait.\nTo do:\n- one\n- two"),
        ("[also] ```\nUse tabs.\n```", "Also said:\n```\nUse tabs.\n```"),
        (
            "[also] ```py title=x\ndone\n```\nAs I said: wait.\nUse\ntabs.",
            "Also said:\n```py title=x\ndone\n```\nAs I said: wait.",
        ),
    ],
)
def test_the_text_of_a_memory_does_not_say_again_what_its_facts_say(content: str, read: str) -> None:
    memory = cast("Memory", SimpleNamespace(summary="Use tabs.", facts=("Never use spaces.",), content=content))

    assert readable_content(memory) == read
