"""Directives: rules for later that the user typed in their own words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engram.enums import Kind, Scope
from engram.extraction import languages
from engram.extraction.bite import cut
from engram.text.statements import Block, split

#: Minimum and maximum length of a directive, in words; longer sentences are descriptions.
MIN_WORDS = 3
MAX_WORDS = 60

#: A lasting rule for the agent or the team.
_LASTING = re.compile(
    r"(?:^|[,;:.!–—-]\s+|\b(?:and|but|so|then|please|you|we|i|claude|agents?|must|should|to|let'?s|"
    r"want)\s+)(?:always|never)\s+(?!mind\b|\w+ed\b)|\b(?:from now on|going forward|in (?:the )?future(?=[,.!]|$)|"
    r"every time (?:you|we|i)|whenever (?:you|we|i)|each time (?:you|we|i)|as a (?:general )?rule|for all (?:future|"
    r"new)|remember (?:that|to)|don'?t ever|at all times|(?:our|my) (?:convention|rule|policy|preference|standard|"
    r"workflow|code style|style) (?:is|for|says))\b",
    re.IGNORECASE,
)
_SUBJECT = (
    r"(?:you|we|claude|agents?|tests?|commits?|prs?|docs?|comments?|messages?|names?|errors?|branches|subagents?)"
)
#: A rule about the user or the team.
_STANDING = re.compile(
    r"\b(?:we (?:use|prefer|only (?:use|support|want)|name|follow|require|support) \w|we don'?t (?:use|commit|want|"
    r"push|support|do|write|add)|i (?:prefer|like (?:to|it when)|don'?t (?:like|want)|do not want|hate) \w|i(?:'d| "
    r"would) (?:prefer|rather) \w+ \w+|i (?:merge|commit|create|review|push|do) \w+.{0,40}\b(?:myself|manually)|"
    rf"{_SUBJECT} (?:must|should)(?:n'?t| not| never| always| only)\b|{_SUBJECT} must\b|{_SUBJECT} (?:are|is) not "
    rf"allowed)",
    re.IGNORECASE,
)
#: A prohibition or preference at the beginning of a clause.
_ORDER = re.compile(
    r"(?:^|[.!,;:—–-]\s+|\b(?:and|but|please|also)\s+)(?:please\s+)?"
    r"(?:don'?t|do not|prefer|avoid|stop|make sure (?:to|that you|you|we|claude)|be sure to|"
    r"use \S+(?: \S+){0,5} (?:instead|rather than)\b)"
    r"\s*(?!know|think|see|worry|forget|understand|have|need|mind|get|care|believe|remember|really|exist)",
    re.IGNORECASE,
)
#: Wordings that hold for the current task only.
_PASSING = re.compile(
    r"\b(?:for now|yet|right now|this time|just now|at the moment|today|this once|temporarily|until|first,|anymore\?|"
    r"i don'?t (?:know|think|see|understand|get|have|remember|believe|care)|don'?t (?:know|think|worry)|never ?mind|"
    r"if (?:there|error|the|a|an|it)\b|i(?:'ve| have)? never|don'?t always|never (?:got|seen|saw|happen|ran|worked|"
    r"been|had)|it (?:always|never)|they (?:always|never)|that (?:always|never)|(?:will|would|does|is|are|was|has|"
    r"have) (?:always|never))\b",
    re.IGNORECASE,
)
#: A clock time: a line of a log, not of a person.
_CLOCK = re.compile(r"\d\d:\d\d:\d\d|\w+\.\w+:\d+:")
_DECIDES = re.compile(
    r"\b(?:we (?:use|only|follow|require|support|ship|decided|go with)|let'?s (?:use|go with|keep|stick))\b",
    re.IGNORECASE,
)
#: What binds a sentence to this code base: symbols, paths, "this", "our", "here".
_LOCAL = re.compile(
    r"`[^`]+`|\b\w+/\w|\b\w+\.[a-z]{1,4}\b|\b[a-z]+[A-Z]\w*|\b\w+_\w+|"
    r"(?i:\b(?:this|these|here|our|the (?:repo\w*|project|app\w*|code|file|cli|api|server|page|button|component|"
    r"branch|table|database|function|method|module|package|service))\b)"
)
#: All projects of the user, explicitly.
_EVERY_PROJECT = (
    r"(?:(?:this and )?(?:every|each|any)(?: other| single| one)?(?: \w+)?(?: of)?(?: my| our| the)?|all(?: of)?(?: "
    r"my| our| the)?(?: other)?) (?:projects?|repos?|repositor(?:y|ies)|code ?bases?|workspaces?)(?: (?:of (?:mine|"
    r"ours)|(?:that )?(?:i|we) (?:have|own|work (?:on|in)|maintain|touch|start)))?"
)
_UNIVERSAL = re.compile(
    rf"\b(?:in|for|across|with|on|to|throughout)? ?{_EVERY_PROJECT}(?![\w-])|\b(?:no matter|regardless of|"
    rf"independent of|whatever|whichever)"
    r"(?: in)?(?: which| what| the)? (?:project|repo(?:sitory)?|code ?base)\b|\b(?:everywhere|wherever) (?:i|we) "
    r"(?:work|code|program|go)\b|\beverywhere\b|\bproject[- ]independent(?:ly)?\b|\bglobally, (?:in|for|across)\b",
    re.IGNORECASE,
)
#: A universal rule worded as an order, before or after the words for all projects.
_UNIVERSAL_RULE = re.compile(
    rf"^(?:please )?(?:(?:in|for|across|throughout) {_EVERY_PROJECT}|(?:everywhere|wherever)(?: (?:i|we) (?:work|"
    rf"code|go))?)[,:]? "
    r"(?:please )?(?:(?:i|we|you) (?:want|use|expect|prefer|need|must|should)|use|write|keep|put|run|add|sign|format|"
    r"name|avoid|answer|prefer|commit|document|test|make|set|call|call me|speak|explain|start|end|do|go with|stick|"
    r"no )\b|"
    rf"^(?:please )?(?:use|write|keep|run|sign|format|name|answer|commit|document|speak|stick to|go with)\b(?! "
    rf"(?:the|this|that|our|it)\b).{{1,80}}\b(?:(?:in|for|across|throughout) {_EVERY_PROJECT}|everywhere(?: (?:i|we) "
    rf"(?:work|code|go))?)[.!]?$",
    re.IGNORECASE,
)
#: Names of naming styles, which are no symbols of a project.
_CASES = re.compile(r"\b(?:camelCase|snake_case|PascalCase|kebab-case|SCREAMING_SNAKE_CASE|UPPER_CASE)\b")
#: Habits that belong to the person rather than to the project.
_HABIT = re.compile(
    r"\b(?:commits?|committing|push|prs?|pull requests?|branch(?:es)?|tests?|tdd|comments?|docs?|explain\w*|answers?|"
    r"repl(?:y|ies)|language|english|german|french|spanish|emojis?|dashes|plans?|ask|questions?|subagents?|agents?|"
    r"models?|style|naming|names?|verbose|concise|short|summar\w+|format\w*|markdown|review|refactor\w*|dependenc\w+|"
    r"secrets?|write|code)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Directive:
    """A rule of the user."""

    #: The user's sentence, as one line.
    bite: str
    kind: Kind
    scope: Scope
    #: True if it is worded as lasting ("always", "we use"), not as an order for now.
    is_lasting: bool


def directives(typed: str, project: str = "") -> list[Directive]:
    """Return the rules in a text that the user typed; questions and orders for now are none.

    Args:
        typed: What the user typed, without anything pasted, quoted or relayed.
        project: Display name of the project; a sentence that names it holds for this project only.
    """
    rules = []
    statements = (statement.text for statement in split(typed) if statement.block is not Block.ROW)
    for sentence in (sentence for statement in statements for sentence in languages.sentences_of(statement)):
        if not MIN_WORDS <= languages.word_count(sentence) <= MAX_WORDS:
            continue
        if is_directive(sentence):
            lasting = (_LASTING, _STANDING, _UNIVERSAL_RULE, languages.LASTING, languages.DECIDES)
            is_lasting = any(rule.search(sentence) for rule in lasting)
            is_decision = _DECIDES.search(sentence) or languages.DECIDES.search(sentence)
            kind = Kind.DECISION if is_decision else Kind.PREFERENCE
            rules.append(Directive(cut(sentence), kind, scope_of(sentence, project), is_lasting))
    return rules


def is_directive(sentence: str) -> bool:
    """Return True if a typed sentence states a rule for later."""
    if sentence.rstrip().endswith(("?", "？")) or _PASSING.search(sentence) or _CLOCK.search(sentence):
        return False
    if any(rule.search(sentence) for rule in (_LASTING, _STANDING, _ORDER, _UNIVERSAL_RULE)):
        return True
    others = (languages.LASTING, languages.ORDER, languages.DECIDES)
    return any(rule.search(sentence) for rule in others) and not languages.PASSING.search(sentence)


def scope_of(sentence: str, project: str = "") -> Scope:
    """Return global for a habit or a rule for all projects that names nothing of this project, else project."""
    if project and project.lower() in sentence.lower():
        return Scope.PROJECT
    rest, count = _UNIVERSAL.subn(" ", sentence)
    rest, count_elsewhere = languages.UNIVERSAL.subn(" ", rest)
    count += count_elsewhere
    if count:
        # A tool in backticks may belong to any project; a path, a file or a symbol belongs to this one.
        rest = _CASES.sub(" ", rest.replace("`", ""))
    if _LOCAL.search(rest) or languages.LOCAL.search(rest) or not (count or _HABIT.search(rest)):
        return Scope.PROJECT
    return Scope.GLOBAL
