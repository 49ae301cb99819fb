"""The editor of JSON files: everything else keeps every character, and what it did can be undone."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engram.errors import BadRequest
from engram.setup.edits.install_steps import JsonEdit, JsonEntry
from engram.setup.edits.json_document import parse
from engram.setup.edits.json_edit import AppliedJson, apply_json, drop_json, revert_json

HOOK = {"matcher": "", "hooks": [{"type": "command", "command": "engram_hooks/prompt.py", "timeout": 2}]}
ADDING = JsonEdit(
    add=(
        JsonEntry(("hooks", "Stop"), HOOK, is_item=True, marker="engram_hooks"),
        JsonEntry(("hooks", "PreToolUse"), HOOK, is_item=True, marker="engram_hooks"),
        JsonEntry(("permissions", "allow"), "mcp__engram", is_item=True),
        JsonEntry(("mcpServers", "engram"), {"command": "/bin/python", "args": ["-m", "engram_mcp.server"]}),
    )
)
#: Forms in which people and programs write such files.
FORMS = {
    "absent": "",
    "blank": " \n",
    "only a comment": "// mine\n// all mine",
    "braces": "{}",
    "braces with a line": "{\n}\n",
    "BOM": '\ufeff{\n  "a": 1\n}\n',
    "minified": '{"hooks":{"Stop":[]},"a":[1,2]}',
    "one line": '{"model": "opus", "permissions": {"allow": ["Bash(ls)"], "deny": []}}',
    "tabs": '{\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"hooks": []}\n\t\t]\n\t}\n}',
    "four blanks, CRLF": '{\r\n    "permissions": {\r\n        "allow": [\r\n            "Read"\r\n        ]\r\n    }'
    "\r\n}\r\n",
    "comments": '// top\n{\n  "hooks": { // ours\n    /* none yet */\n  },\n  "allow": 1, // one\n  "last": 2 // two\n'
    "  // end\n}\n// bye",
    "trailing commas": '{\n  "permissions": {\n    "allow": [\n      "Read", // yes\n    ],\n  },\n}\n',
    "duplicate keys": '{\n  "hooks": {"Stop": [1]},\n  "hooks": {"Stop": [2], "Stop": [3]}\n}',
    "odd": '  {"a" :\n1 , "permissions":{"allow":[ "x" ,\n"y"]}\n\n,"b":2}   \n\n',
    "empty list": '{\n  "permissions": {\n    "allow": []\n  }\n}\n',
    "unicode": '{"name": "Zoë 日本 \\u00e9", "n": 1.0, "big": 12345678901234567890}',
}


@pytest.mark.parametrize("name", FORMS)
def test_what_was_added_is_found_and_undone_to_the_character(name: str) -> None:
    text = FORMS[name]

    edited, applied = apply_json(text, ADDING)

    root = parse(edited)
    assert root is not None
    value = root.value
    assert HOOK in value["hooks"]["Stop"]
    assert HOOK in value["hooks"]["PreToolUse"]
    assert "mcp__engram" in value["permissions"]["allow"]
    assert value["mcpServers"]["engram"]["command"] == "/bin/python"
    for comment in ("// mine", "/* none yet */", "// one", "// two", "// end", "// bye", "// yes"):
        assert (comment in edited) == (comment in text)
    assert apply_json(edited, ADDING)[0] == edited
    stored = AppliedJson.from_json(json.loads(json.dumps(applied.to_json())))
    assert revert_json(edited, stored) == text


def test_a_new_file_looks_as_claude_code_writes_it() -> None:
    edited, _ = apply_json("", JsonEdit(add=ADDING.add[2:]))

    assert edited == json.dumps(json.loads(edited), indent=2) + "\n"


#: How fast a machine is does not matter.
steadily = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_keys = st.sampled_from(["hooks", "permissions", "allow", "Stop", "mcpServers", "engram", "a", "b"])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys | st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_groups = st.lists(st.dictionaries(_keys, _values, max_size=2) | st.just(HOOK), max_size=3)
_settings = st.fixed_dictionaries(
    {},
    optional={
        "hooks": st.dictionaries(st.sampled_from(["Stop", "PreToolUse", "Notification"]), _groups, max_size=3),
        "permissions": st.fixed_dictionaries(
            {}, optional={"allow": st.lists(st.text(max_size=5) | st.just("mcp__engram")), "deny": _values}
        ),
        "mcpServers": st.dictionaries(_keys, _values, max_size=2),
        "other": _values,
    },
)


_GAPS = ("", " ", "\n", "\n  ", "\r\n\t", " // c\n", "/* c */", "\n\n/* c\n d */ ")


@st.composite
def _documents(draw: st.DrawFn) -> str:
    """A settings file in any formatting: blanks, lines and comments between all its parts."""
    chance = random.Random(draw(st.integers(0, 10_000)))

    def gap() -> str:
        return chance.choice(_GAPS)

    def write(value: Any) -> str:
        if isinstance(value, dict):
            parts = [f"{gap()}{json.dumps(key)}{gap()}:{gap()}{write(item)}" for key, item in value.items()]
        elif isinstance(value, list):
            parts = [gap() + write(item) for item in value]
        else:
            return json.dumps(value, ensure_ascii=chance.random() < 0.5)
        ends = "{}" if isinstance(value, dict) else "[]"
        comma = "," if parts and chance.random() < 0.3 else ""
        return ends[0] + ",".join(part + gap() for part in parts) + comma + gap() + ends[1]

    return gap() + write(draw(_settings)) + gap()


@steadily
@given(_documents())
@example('{"hooks": {"Stop": [{}\n// c\n]}}')
def test_any_file_is_as_it_was_after_apply_and_revert(text: str) -> None:
    edited, applied = apply_json(text, ADDING)

    before, after = parse(text), parse(edited)
    assert before is not None
    assert after is not None
    for key in ("other",):
        assert json.dumps(after.value.get(key)) == json.dumps(before.value.get(key))
    assert revert_json(edited, applied) == text


@steadily
@given(_documents(), _keys, _values)
def test_what_another_program_added_meanwhile_stays(text: str, key: str, value: Any) -> None:
    theirs = JsonEdit(
        add=(JsonEntry((f"their {key}",), value), JsonEntry(("hooks", "Stop"), {"their": 1}, is_item=True))
    )
    edited, applied = apply_json(text, ADDING)
    changed, _ = apply_json(edited, theirs)

    reverted = parse(revert_json(changed, applied))

    expected = parse(apply_json(text, theirs)[0])
    assert reverted is not None
    assert expected is not None
    assert json.dumps(reverted.value, sort_keys=True) == json.dumps(expected.value, sort_keys=True)


def test_after_another_program_wrote_the_whole_file_anew_only_our_entries_go() -> None:
    text = '{"hooks": {"Stop": [{"hooks": []}]}, "permissions": {"allow": ["Read"]}}'
    edited, applied = apply_json(text, ADDING)
    value = json.loads(edited)
    value["hooks"]["Stop"][-1]["hooks"][0]["timeout"] = 9  # one of ours, recognized by its marker
    value["model"] = "opus"

    reverted = revert_json(json.dumps(value, indent=2), applied)

    assert json.loads(reverted) == {**json.loads(text), "model": "opus"}


def test_what_was_there_already_stays_at_the_end() -> None:
    text = json.dumps({"permissions": {"allow": ["mcp__engram"]}})
    edited, applied = apply_json(text, JsonEdit(add=ADDING.add[2:3]))

    assert edited == text
    assert revert_json(edited, applied) == text


def test_what_was_removed_or_replaced_comes_back() -> None:
    theirs = {"hooks": [{"command": "bun old.ts"}]}
    text = json.dumps({"hooks": {"Stop": [theirs, 1]}, "mcpServers": {"engram": {"command": "bun"}}}, indent=4)
    edit = JsonEdit(add=ADDING.add, remove=(JsonEntry(("hooks", "Stop"), theirs, is_item=True),))

    edited, applied = apply_json(text, edit)
    reverted = revert_json(edited, applied)

    assert "bun" not in edited
    value = json.loads(reverted)
    assert sorted(map(str, value["hooks"].pop("Stop"))) == sorted(map(str, [1, theirs]))
    assert value == {"hooks": {}, "mcpServers": {"engram": {"command": "bun"}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"hooks": {"PreToolUse": [HOOK]}, "a": 1}, {"a": 1}),
        ({"hooks": {"PreToolUse": [HOOK], "Stop": [1]}}, {"hooks": {"Stop": [1]}}),
        ({"hooks": {"PreToolUse": [HOOK, 2], "Stop": []}}, {"hooks": {"PreToolUse": [2], "Stop": []}}),
        ({"hooks": {"PreToolUse": [HOOK], "Stop": [HOOK]}, "permissions": {}}, {"permissions": {}}),
    ],
)
def test_what_is_empty_after_a_removal_goes_too_and_comes_back(before: dict[str, Any], after: dict[str, Any]) -> None:
    events = ("PreToolUse", "Stop")
    edit = JsonEdit(remove=tuple(JsonEntry(("hooks", event), HOOK, is_item=True) for event in events))

    edited, applied = apply_json(json.dumps(before, indent=2), edit)

    assert json.loads(edited) == after
    assert apply_json(edited, edit)[0] == edited
    back = json.loads(revert_json(edited, applied))
    assert {event: sorted(map(str, items)) for event, items in back["hooks"].items()} == {
        event: sorted(map(str, items)) for event, items in before["hooks"].items()
    }


def test_a_list_whose_entry_is_replaced_keeps_its_place() -> None:
    old, new = JsonEntry(("hooks", "Stop"), HOOK, is_item=True), JsonEntry(("hooks", "Stop"), {"a": 1}, is_item=True)
    text = json.dumps({"hooks": {"Stop": [HOOK], "PreToolUse": []}})

    edited, _ = apply_json(text, JsonEdit(remove=(old,), add=(new,)))

    assert list(json.loads(edited)["hooks"].items()) == [("Stop", [{"a": 1}]), ("PreToolUse", [])]


def test_entries_of_an_older_engram_are_dropped_with_their_empty_lists() -> None:
    text = json.dumps({"hooks": {"PreCompact": [HOOK], "Stop": [HOOK, 1]}, "a": 1}, indent=2)
    entries = tuple(JsonEntry(("hooks", event), HOOK, is_item=True) for event in ("PreCompact", "Stop"))

    assert json.loads(drop_json(text, entries)) == {"hooks": {"Stop": [1]}, "a": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1', "line 1, column 8: a comma or } is missing"),
        ('{\n  "a": tru\n}', "line 2, column 8: tru is not a value"),
        ("[]", "the document is not an object in braces"),
        ('{"hooks": []}', "'hooks' is not an object"),
        ('{"hooks": {"Stop": {}}}', "'hooks.Stop' is not a list"),
        ('{"a": "x', "a string is not closed"),
        ("{} {}", "extra text after the end"),
        ('{"a": NaN}', "NaN is not a value"),
        ("{/* ", "a comment is not closed"),
        ('{"a":' + "[" * 300, "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_edited_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said.replace("(", r"\(").replace("{", r"\{").replace("}", r"\}")):
        apply_json(text, ADDING)


@steadily
@given(st.text(alphabet='{}[]",:/*\\ \n1atruefls', max_size=30))
def test_the_parser_agrees_with_json_wherever_that_reads(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        return

    root = parse(text)

    assert root is not None
    assert root.value == expected


def test_a_hook_that_somebody_put_into_our_group_stays() -> None:
    entry = JsonEntry(("hooks", "Stop"), HOOK, is_item=True, marker="engram_hooks")
    theirs = {"type": "command", "command": "mine.sh"}
    edited, applied = apply_json('{"a": 1}', JsonEdit(add=(entry,)))
    value = json.loads(edited)
    value["hooks"]["Stop"][0]["hooks"].append(theirs)
    expected = {"a": 1, "hooks": {"Stop": [{"matcher": "", "hooks": [theirs]}]}}

    assert json.loads(revert_json(json.dumps(value), applied)) == expected
    mixed = JsonEntry(entry.path, value["hooks"]["Stop"][0], is_item=True, marker=entry.marker)
    assert json.loads(drop_json(json.dumps(value), (mixed,))) == expected
