"""No template and no module of the page puts a text into HTML as it is, and nothing in it is inline."""

from __future__ import annotations

import ast
import html
import re

import pytest
from jinja2 import Environment, nodes

from engram.enums import Verdict
from engram.models.sessions.prompt_outcomes import Candidate
from engram.page import rendering
from engram.page.rendering import ASSETS, STATIC, TEMPLATES, make_environment, render, spell_hidden
from engram.reports.session_report import REASONS

PAGE = TEMPLATES.parent
ALL = sorted(path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.html"))


@pytest.fixture(scope="module")
def environment() -> Environment:
    return make_environment()


@pytest.mark.parametrize("name", ALL)
def test_a_template_escapes_everything_and_has_nothing_inline(environment: Environment, name: str) -> None:
    source = (TEMPLATES / name).read_text()
    tree = environment.parse(source)

    assert not [
        node for node in tree.find_all(nodes.Filter) if node.name in ("safe", "forceescape", "tojson", "xmlattr")
    ]
    assert not list(tree.find_all(nodes.ScopedEvalContextModifier))
    assert not list(tree.find_all(nodes.MarkSafe))
    assert not re.search(r"\son\w+\s*=|\sstyle\s*=|javascript:|hx-on|\{#", source)
    assert re.findall(r"<script(?![^>]*\snonce=)", source) == []
    assert re.findall(r"<style|https?://", source.replace("http://www.w3.org/2000/svg", "")) == []


@pytest.mark.parametrize("name", ALL)
def test_an_element_with_an_htmx_attribute_carries_the_nonce(name: str) -> None:
    source = (TEMPLATES / name).read_text()
    tags = [
        tag for tag in re.findall(r"<[a-z][^<]*?>(?=[^}]|$)", source) if re.search(r"\shx-(?!swap-oob)[\w:-]+=", tag)
    ]

    assert [tag for tag in tags if 'hx-nonce="{{ nonce }}"' not in tag] == []


def test_no_module_of_the_page_makes_markup() -> None:
    for path in PAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            assert name not in ("Markup", "markupsafe", "__html__"), path
            if isinstance(node, ast.ImportFrom | ast.Import):
                assert not any("markupsafe" in alias.name for alias in node.names), path


def test_what_is_hidden_is_spelled_out_before_it_is_escaped(environment: Environment) -> None:
    made = environment.from_string("{{ text }}|<a title='{{ text }}'>").render(text="a\u202e<b>\x00\x1b[31m\nc\u200d")

    assert made == "|".join(["a⟨U+202E⟩&lt;b&gt;⟨U+0000⟩⟨U+001B⟩[31m\nc"] * 2).replace("|", "|<a title='") + "'>"
    assert spell_hidden("plain – ünïcode\ttext\n") == "plain – ünïcode\ttext\n"
    assert spell_hidden("\ud800") == "⟨U+D800⟩"


def test_own_assets_load_nothing_from_elsewhere_and_vendored_ones_are_as_published() -> None:
    own = [STATIC / name for name in ("page.css", "page.js", "icon.svg")]
    for path in own:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|url\(|innerHTML|eval\(|insertAdjacentHTML", text), path.name
    # In one answer, the gate last: htmx starts in a task of its own, which must not come before the gate is there.
    assert [path.name for path in ASSETS["htmx.js"].paths] == [
        "htmx-4.0.1.min.js",
        "hx-csp-4.0.1.min.js",
    ]
    assert (STATIC / "vendor" / "LICENSE").read_text().startswith("Zero-Clause BSD")
    assert sum(len(asset.read()) for asset in ASSETS.values()) <= 70_000


def test_no_output_of_a_macro_is_escaped_twice() -> None:
    """It is markup: ``line`` would take it for plain text, and show ``R&amp;D``."""
    macros = re.findall(r"{% macro (\w+)", (TEMPLATES / "parts/macros.html").read_text(encoding="utf-8"))
    called = re.compile(rf"\b(?:{'|'.join(macros)})\([^(){{}}]*\)\|line")

    assert not [name for name in ALL if called.search((TEMPLATES / name).read_text(encoding="utf-8"))]


def test_a_block_is_rendered_alone(environment: Environment) -> None:
    values = {"told": [("No <b>.", None)], "nonce": "n", "link": rendering.make_link("/r", "")}

    assert render(environment, "failed.html", values, block="sentence") == (
        '<p class="notice bad" data-fades>No &lt;b&gt;.</p>'
    )


def test_what_was_considered_and_is_gone_is_not_named_by_its_id(environment: Environment) -> None:
    candidate = Candidate(0, "ep_0123456789ab", Verdict.SHOWN, 0.7, 0.2)
    values = {
        "considered": [(candidate, "", [])],
        "others": 0,
        "reasons": REASONS,
        "link": rendering.make_link("/r", ""),
    }

    shown = render(environment, "parts/candidates.html", values)

    assert "a memory that has since been deleted" in shown
    assert candidate.episode_id not in shown


def test_a_command_in_a_sentence_is_shown_as_code(environment: Environment) -> None:
    link = rendering.make_link("/r", "")
    for command in ("engram logs --errors", "engram up", "<b>"):
        values = {"told": [(f"See `{command}`.", None)], "nonce": "n", "link": link}
        shown = render(environment, "failed.html", values, block="sentence")
        assert f"See <code>{html.escape(command)}</code>." in shown
        assert "`" not in shown


def test_addresses_keep_the_path_and_the_project() -> None:
    link = rendering.make_link("/room", "a b&c")

    assert link("m", "x/../y?", q="ö") == "/room/m/x%2F..%2Fy%3F?q=%C3%B6&project=a+b%26c"
    assert rendering.make_link("/room", "")("") == "/room/"
    assert ASSETS["page.css"].read()
