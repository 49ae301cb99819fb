"""Rendering: escaped values, addresses, readable times and text, static files and charts."""

from __future__ import annotations

import datetime
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_environment

from engram.models.memories.memory_records import Memory
from engram.page.view import View
from engram.reports.memory_report import Span
from engram.system.clock import parse_time_ms
from engram.system.lazy_regex import lazy_regex
from engram.text.titles import LABELS, SENTENCE_ENDS, labelled_parts, with_short_question
from engram.transcripts.turns import Role
from engram.trust.display import cut_at_word, is_hidden, number_of, span
from engram.vaults import takes_vault

# -- Stored text as the page shows it: without characters that hide or reorder anything.

#: Hidden characters that occur in ordinary text and are left out: emoji joiners and selectors, and the soft hyphen.
LEFT_OUT = frozenset("\u200d\ufe0e\ufe0f\u00ad")
#: Invisible characters that are kept.
LAYOUT = frozenset("\n\t")


def spell_hidden(text: str) -> str:
    """Return text with every hidden character spelled out, such as ``⟨U+202E⟩``; line breaks and tabs are kept.

    Control, invisible and bidirectional characters and lone surrogates could hide or reorder text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in LAYOUT or not is_hidden(char) else "" if char in LEFT_OUT else f"⟨U+{ord(char):04X}⟩"
        for char in text.replace("\r\n", "\n")
    )


#: Folder of the templates.
TEMPLATES = Path(__file__).resolve().parent / "templates"
#: Role of a text → the name shown above it.
SPEAKERS = {
    Role.USER: "You",
    Role.ASSISTANT: "Claude",
    Role.CHOSEN: "You chose",
    Role.PROPOSED: "Claude proposed",
    Role.PROGRAM: "A program",
    Role.CONTEXT: "Not typed",
}
#: Default limit for a text on one line, in characters.
MAX_LINE_CHARACTERS = 160
#: The program's name at the beginning of a command in a message, and the command.
_OWN_COMMAND = lazy_regex(r"(?<![\w/.-])engram(?= (projects (?:un)?vault\b|-|[a-z]+))")


def speaker_of(role: str, assistant: str) -> str:
    """Return the name above a text, in a session in which the assistant has this name."""
    return SPEAKERS[Role(role)].replace("Claude", assistant)


def make_environment(*, autoescape: bool = True) -> Environment:
    """Return the templates' environment, in which ``engram`` is the command and ``typed`` writes it in messages.

    ``engram_around`` is the command for the memory folder that contains the page's vault.
    Only tests turn escaping off.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "line": to_line,
        "when": when,
        "clock": clock,
        "day": day,
        "date": date,
        "zoned": zoned,
        "took": took,
        "short_date": short_date,
        "ms": parse_time_ms,
        "number": number,
        "count": number_of,
        "span": span,
        "inline": inline_spans,
        "blocks": text_blocks,
        "quoted": quoted_blocks,
        "speaker": speaker_of,
        "typed": as_typed,
    }
    environment.globals |= {"engram": "engram", "engram_around": "engram"}
    return environment


def finalize(value: Any) -> Any:
    """Spell out hidden characters in text before it is escaped. The output of macros has already been processed."""
    if value is None:
        return ""
    is_plain = type(value) is str or (isinstance(value, str) and not hasattr(value, "__html__"))
    return spell_hidden(value) if is_plain else value


@pass_environment
def as_typed(environment: Environment, text: str) -> str:
    """Return one of Engram's own messages with its commands as a person types them for the page's memory."""

    def typed(found: re.Match[str]) -> str:
        return str(environment.globals["engram" if takes_vault(found[1]) else "engram_around"])

    return _OWN_COMMAND.sub(typed, text)


def make_link(root: str, project: str) -> Any:
    """Return the template function ``link(*parts, **query)``, which makes addresses below ``root``."""

    def link(*parts: object, **query: object) -> str:
        path = "/".join(quote(str(part), safe="") for part in parts)
        asked = {name: str(value) for name, value in query.items() if value not in ("", None)}
        if project:
            asked.setdefault("project", project)
        return f"{root}/{path}" + (f"?{urlencode(asked)}" if asked else "")

    return link


def render(
    environment: Environment, template: str, values: Mapping[str, Any], *, block: str = "", views: Sequence[View] = ()
) -> str:
    made = environment.get_template(template)
    if not block:
        return made.render(values, views=views)
    context = made.new_context({**values, "views": views})
    return "".join(made.blocks[block](context))


def title_and_rest(memory: Memory) -> tuple[str, str]:
    """Return a memory's title, as in a list, and the part of its summary that the title leaves out."""
    title, rest = memory.headline
    if memory.title or not memory.summary.startswith(title):
        return title, memory.summary
    if rest and rest[0] not in SENTENCE_ENDS:
        return f"{title}…", memory.summary
    told = rest.lstrip(SENTENCE_ENDS).strip()
    # Text that continues the title's sentence can't be understood without it.
    return title, memory.summary if rest[:1] in (":", ";") and told[:1].islower() else told


def to_line(text: str, limit: int = MAX_LINE_CHARACTERS) -> str:
    """Return a text on one line, cut at a word; of a question and what was chosen, the question is cut first."""
    return cut_at_word(with_short_question(" ".join(str(text).split()), limit), limit)


def when(at_ms: int | None) -> str:
    """Return a time for display: hours and minutes for today, otherwise the date; a date before this year has no time.

    The time is local. The page's script rewrites it if the browser is in another time zone.
    """
    if not at_ms:
        return "–"
    then, now = time.localtime(at_ms / 1000), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%-d %b %H:%M" if then[0] == now[0] else "%-d %b %Y", then)


def clock(at_ms: int | None) -> str:
    return time.strftime("%H:%M", time.localtime(at_ms / 1000)) if at_ms else "–"


def day(at_ms: int | None) -> str:
    """Return a day for display: today, yesterday, or a date, with the year if it isn't this year."""
    if not at_ms:
        return "–"
    then, now = time.localtime(at_ms / 1000), time.localtime()
    ago = (datetime.date(*now[:3]) - datetime.date(*then[:3])).days
    if ago in (0, 1):
        return ("Today", "Yesterday")[ago]
    return time.strftime("%A %-d %B" if then[0] == now[0] else "%-d %B %Y", then)


def month(at_ms: int) -> str:
    then, now = time.localtime(at_ms / 1000), time.localtime()
    return (
        day(at_ms)
        if day(at_ms) in ("Today", "Yesterday")
        else time.strftime("%B" if then[0] == now[0] else "%B %Y", then)
    )


def date(at_ms: int) -> str:
    return time.strftime("%-d %b %Y", time.localtime(at_ms / 1000))


def short_day(at_ms: int) -> str:
    """Return a day for a chart, such as ``24 Nov``."""
    return time.strftime("%-d %b", time.localtime(at_ms / 1000))


def took(duration_ms: float | None) -> str:
    """Return how long a task took: ``89 ms``, or seconds from one second on; "" for None."""
    if duration_ms is None:
        return ""
    return f"{number(duration_ms)} ms" if duration_ms < 1000 else f"{duration_ms / 1000:,.1f} s"


def short_date(day: str) -> str:
    """Return a day such as ``2026-11-24`` as other dates are shown: ``24 Nov``, with the year if it isn't this year."""
    then = datetime.date.fromisoformat(day)
    return then.strftime("%-d %b" if then.year == time.localtime().tm_year else "%-d %b %Y")


def zoned(at_ms: int | None) -> str:
    """Return a time in machine-readable form, with this machine's UTC offset; "" for none."""
    if not at_ms:
        return ""
    return datetime.datetime.fromtimestamp(at_ms // 1000).astimezone().isoformat()


def number(value: float) -> str:
    return f"{value:,.0f}"


# -- Text for display: code in monospace, headings and lists as such, everything else unchanged.

#: Private-use characters that enclose the marked parts of a quotation while it is parsed.
_MARK, _END = "\ue000", "\ue001"
_MARKS = lazy_regex(f"([{_MARK}{_END}])")
#: Markup at the beginning and the end of a marked part, which stays unmarked: a list item, a heading, a code fence.
_LINE_START = lazy_regex(r"\s*(?:[-*+][ \t]+|#{1,6}[ \t]+|(?:`{3,}|~{3,})[^\n]*\n)?")
_LINE_END = lazy_regex(r"(?:\n[ \t]*(?:`{3,}|~{3,}))?\s*\Z")
#: A code block, or a table.
_FENCE = lazy_regex(
    r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)(?:\n[ \t]*\1[`~]*[ \t]*$|\Z)"
    rf"|^((?:[ \t{_MARK}{_END}]*\|[^\n]*\|[ \t{_MARK}{_END}]*(?:\n|\Z)){{2,}})",
    re.MULTILINE | re.DOTALL,
)
#: The marks of a heading; code in backticks, even if the end was cut off; words between double asterisks; and, in
#: text that was put on one line, the fences of code blocks, which are left out: a pair, or one whose other half was
#: cut off. Any other run of backticks is part of the text.
_INLINE = lazy_regex(
    r"\A#{1,6}[ \t]+|"
    r"(?P<fence>`{3,}+)(?P<fenced>[^\n]*?[^`\n])(?P=fence)(?!`)|\A`{3,}|`{3,}+(?=[^`\n]*…$)|(?P<run>`{3,})|"
    r"``(?P<two>[^\n]+?)``|`(?P<one>[^`\n]+)`|`(?P<cut>[^`\n]*…)$|\*\*(?P<bold>\S(?:[^*\n]*\S)?)\*\*"
)
_HEADING = lazy_regex(r"^#{1,6}[ \t]+(.+)$")
_BLANK_LINES = lazy_regex(r"\n[ \t]*\n(?:[ \t]*\n)+")
_BULLET = lazy_regex(r"^([ \t]*)[-*+][ \t]+")
#: A line with at least this many characters is joined to the next one, unless that is blank or begins a new item.
MIN_WRAPPED_CHARACTERS = 50
_GOES_ON = lazy_regex(r"^[ \t]{0,3}[^\s#>|*+\-\d]")
#: Maximum length of a text that is parsed, in characters; a longer one is shown unchanged.
MAX_RICH_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a line: ``style`` is "code", "strong" or ""."""

    text: str
    style: str = ""
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text: ``kind`` is "label", "code" or "prose"."""

    kind: str
    spans: tuple[TextSpan, ...]


def inline_spans(text: str) -> list[TextSpan]:
    """Split a text into plain, code and strong parts, without their markers."""
    spans, end = [], 0
    for found in _INLINE.finditer(text):
        if found["run"]:
            continue
        if found.start() > end:
            spans.append(TextSpan(text[end : found.start()]))
        if fenced := found["fenced"]:
            spans += inline_spans(fenced)
        elif bold := found["bold"]:
            spans += strong(inline_spans(bold))
        elif code := found["two"] or found["one"] or found["cut"]:
            spans.append(TextSpan(code.strip(" "), "code"))
        end = found.end()
    return [*spans, TextSpan(text[end:])] if end < len(text) else spans


def strong(spans: Iterable[TextSpan]) -> list[TextSpan]:
    return [TextSpan(span.text, span.style or "strong") for span in spans]


def text_blocks(text: str, is_wrapped: bool = False, *, is_labelled: bool = True) -> list[Passage]:
    """Split the text of a memory or turn into the parts to show.

    Args:
        is_wrapped: True if lines may be hard-wrapped, as in a commit message, and must be joined.
        is_labelled: True for a memory, in which ``LABELS`` are labels; in a transcript, the same words are normal text.
    """
    text = text.replace("\r\n", "\n")
    if len(text) > MAX_RICH_CHARACTERS:
        return [Passage("prose", (TextSpan(text),))]
    blocks = []
    for label, part in labelled_parts(text) if is_labelled else [("", text)]:
        blocks += [Passage("label", (TextSpan(LABELS[label]),))] if label else []
        blocks += _prose_and_code(part, is_wrapped)
    return blocks


def quoted_blocks(quotation: Iterable[Span]) -> list[Passage]:
    """Split a quotation into the parts to show; marked text stays marked."""
    text = ""
    for part in quotation:
        plain = _MARKS.sub("", part.text)
        if part.is_marked:
            begun, ended = _LINE_START.match(plain), _LINE_END.search(plain)
            start = begun.end() if begun and text[-1:] in ("", "\n") else 0
            stop = max(start, ended.start() if ended else len(plain))
            plain = f"{plain[:start]}{_MARK}{plain[start:stop]}{_END}{plain[stop:]}"
        text += plain
    blocks, is_marked = [], False
    for block in text_blocks(text, is_labelled=False):
        pieces = []
        for whole in block.spans:
            for piece in _MARKS.split(whole.text):
                if piece in (_MARK, _END):
                    is_marked = piece == _MARK
                elif piece:
                    pieces.append(TextSpan(piece, whole.style, is_marked))
        blocks.append(Passage(block.kind, tuple(pieces)))
    return blocks


def _prose_and_code(text: str, is_wrapped: bool) -> Iterator[Passage]:
    end = 0
    for found in _FENCE.finditer(text):
        yield from _prose(text[end : found.start()], is_wrapped)
        code = found[2] or found[3] or ""
        if code.strip():
            yield Passage("code", (TextSpan(code.strip("\n")),))
        end = found.end()
    yield from _prose(text[end:], is_wrapped)


def _prose(text: str, is_wrapped: bool) -> Iterator[Passage]:
    spans: list[TextSpan] = []
    lines = _BLANK_LINES.sub("\n\n", text.strip("\n").rstrip()).split("\n")
    is_below_heading = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        heading = _HEADING.match(line)
        if is_below_heading and not line.strip():
            continue
        is_below_heading = heading is not None
        if heading and spans and [span.text for span in spans[-2:]] != ["\n", "\n"]:
            spans.append(TextSpan("\n"))
        spans += strong(inline_spans(heading[1])) if heading else inline_spans(_BULLET.sub(r"\1• ", line))
        goes_on = is_wrapped and len(line) >= MIN_WRAPPED_CHARACTERS and bool(_GOES_ON.match(following))
        spans.append(TextSpan(" " if goes_on and not heading else "\n"))
    if any(span.text.strip() for span in spans):
        yield Passage("prose", tuple(spans[:-1]))


# -- Static files: the page's own style sheet and script, and htmx.

#: Folder of the files.
STATIC = Path(__file__).resolve().parent / "static"
#: Subfolder of third-party files.
VENDOR = STATIC / "vendor"


#: Comments in a style sheet, and white space next to punctuation.
_CSS_BLANKS = lazy_regex(rb"/\*.*?\*/|;?\s*([}])\s*|\s*([{;,>])\s*|(?<=:)\s+|\n", re.DOTALL)
#: The indentation of a script line, or a whole comment line. The script has no multi-line strings.
_JS_BLANKS = lazy_regex(rb"^[ \t]*(?://.*\n)?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asset:
    """One response: a file, or scripts that must run without a gap between them."""

    paths: tuple[Path, ...]
    media_type: str

    def read(self) -> bytes:
        """Return the concatenated files; the page's own style sheet and script are minified."""
        content = b"\n;\n".join(path.read_bytes() for path in self.paths)
        if self.media_type == "text/css":
            return _CSS_BLANKS.sub(rb"\1\2", content)
        is_own_script = self.media_type == "text/javascript" and VENDOR not in {path.parent for path in self.paths}
        return _JS_BLANKS.sub(b"", content) if is_own_script else content


#: Name in the address → the response. Nothing else is served.
ASSETS: Mapping[str, Asset] = {
    "page.css": Asset((STATIC / "page.css",), "text/css"),
    "page.js": Asset((STATIC / "page.js",), "text/javascript"),
    "icon.svg": Asset((STATIC / "icon.svg",), "image/svg+xml"),
    # htmx processes the document in a separate task. If its gate, hx-csp, were in another file, that task could run
    # first, and a browser under load would send requests without a valid nonce.
    "htmx.js": Asset(tuple(VENDOR / f"{name}-4.0.1.min.js" for name in ("htmx", "hx-csp")), "text/javascript"),
}


# -- Charts: lists of numbers by day, which the style sheet draws as bars. Screen readers can read them, and no script
# is needed.

#: Maximum height of a bar; the style sheet has a class for each height, because the page allows no inline styles.
MAX_STEP = 25
#: Minimum number of days with a value for a chart to be drawn.
MIN_DAYS = 3


@dataclass(frozen=True, slots=True)
class Bar:
    #: For example ``24 Nov: 3``.
    label: str
    #: Height, from 0 (no bar) to ``MAX_STEP``.
    step: int
    #: The label below the bar; "" for none.
    tick: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Numbers by day, up to today, with both axes."""

    bars: tuple[Bar, ...]
    #: Labels for the top of the chart and for half its height.
    top: str
    half: str
    total: str
    #: Height of a line across the chart, such as for a limit; 0 for none.
    line: int = 0

    @property
    def is_telling(self) -> bool:
        """True if enough days have a value to compare; otherwise the total, shown elsewhere, is enough."""
        return sum(bar.step > 0 for bar in self.bars) >= MIN_DAYS


def day_chart(
    days: Sequence[tuple[int, int]],
    numbers: Sequence[float],
    form: Callable[[float], str] | None = None,
    *,
    limit: float = 0.0,
) -> Chart:
    """Return a chart of numbers by day.

    Args:
        days: the start and end of each day in milliseconds, ending with today.
        numbers: one number for each day.
        form: formats a number; None for whole numbers.
        limit: the value at which to draw a line across the chart; 0 for none.
    """
    form = form or number
    top = _round_up(max([*numbers, limit, 0.0]), is_whole=form is number)
    last = len(days) - 1
    bars = [
        Bar(f"{short_day(start)}: {form(value)}", _step(value, top), _tick(start, last - index))
        for index, ((start, _), value) in enumerate(zip(days, numbers, strict=True))
    ]
    return Chart(tuple(bars), form(top), form(top / 2), form(sum(numbers)), _step(limit, top))


def _step(value: float, top: float) -> int:
    """Return the height of a bar; at least 1 unless the value is 0."""
    return max(1, round(value / top * MAX_STEP)) if value > 0 else 0


def _tick(start_ms: int, days_ago: int) -> str:
    """Return the label below a bar: a date every seven days before today."""
    return short_day(start_ms) if days_ago and days_ago % 7 == 0 else "" if days_ago else "today"


def _round_up(value: float, *, is_whole: bool) -> float:
    """Round up to 1, 2, 4, 6 or 8 times a power of ten, so that half of the result is a round number, too."""
    if value <= 0:
        return 2.0 if is_whole else 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return max(2.0 if is_whole else 0.0, next(step * power for step in (1, 2, 4, 6, 8, 10) if value <= step * power))


# -- Bars for the features that made a memory relevant.

#: Feature → what it means.
NAMES: Mapping[str, str] = {
    "meaning": "closer in meaning",
    "source": "its source fits",
    "turn": "the conversation around it fits",
    "rare": "rare words in common",
    "words": "words in common",
    "length": "length of the prompt",
    "unknown": "meaning not compared",
    "shared_alone": "share of its words",
    "words_alone": "words in common, no meaning",
    "support_alone": "words of the conversation around it",
}


#: Minimum contribution for a feature to be shown; a smaller one would be displayed as 0.00.
MIN_ADDED = 0.005


@dataclass(frozen=True, slots=True)
class FeatureBar:
    name: str
    value: float
    #: Weight × value: its contribution to the relevance, in log odds.
    adds: float
    #: Length of its bar, from 1 to ``MAX_STEP``.
    step: int


def feature_bars(features: Mapping[str, float]) -> list[FeatureBar]:
    """Return a bar for each feature that contributes, strongest first, by this version's weights."""
    weights = _weights()
    adds = {name: weights.get(name, 0.0) * value for name, value in features.items()}
    strongest = max((abs(amount) for amount in adds.values()), default=0.0) or 1.0
    telling = [pair for pair in features.items() if abs(adds[pair[0]]) >= MIN_ADDED]
    ordered = sorted(telling, key=lambda pair: -abs(adds[pair[0]]))
    return [
        FeatureBar(NAMES.get(name, name), value, adds[name], max(1, round(abs(adds[name]) / strongest * MAX_STEP)))
        for name, value in ordered
    ]


@cache
def _weights() -> Mapping[str, float]:
    """Return the shipped weights, read from their file because their module would load the search."""
    file = resources.files("engram.recollection").joinpath("relevance_weights.json")
    by_feature: Mapping[str, float] = json.loads(file.read_text(encoding="utf-8"))["by_feature"]
    return by_feature
