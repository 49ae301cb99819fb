"""Cue words: wordings that indicate a decision, a cause, a fix or chatter, and the kind of a passage by them."""

from __future__ import annotations

import re

from engram.enums import Importance, Kind
from engram.extraction import languages
from engram.transcripts.record import Turn

_ANY = re.IGNORECASE


def _words(alternatives: str) -> re.Pattern[str]:
    """Return a case-insensitive pattern of whole words or phrases, separated by " | "."""
    phrases = [" ".join(phrase.split()) for phrase in alternatives.split(" |")]
    return re.compile(r"(?<![\w-])(?:" + "|".join(phrases) + r")(?![\w-])", _ANY)


#: A cause or reason.
CAUSE = _words(
    r"""
    because | since | due to | caused by | so that | the reason | root cause | culprit | stems? from |
    comes? from | therefore | which means | that means | this means | as a result | leads? to | led to |
    otherwise | why
    """
)
#: A problem.
PROBLEM = _words(
    r"""
    bugs? | issues? | problems? | broken | breaks? | broke | fails? | failed | failing | failure |
    missing | lacks? | lacked | wrong | incorrect(?:ly)? | invalid | never | stale | leaks? | race |
    overw(?:rote|rites?|ritten) | lost | los(?:es|ing) | crash(?:es|ed)? | hardcoded | mismatch |
    regression | flaky | silently | doesn't | don't | isn't | wasn't | didn't | not | cannot | can't |
    unable | no longer | without
    """
)
#: A repair.
REPAIR = _words(
    r"""
    fix(?:ed|es)? | resolved? | corrected | repaired | the fix | solved | works now | handled
    """
)
#: A choice or a replacement.
CHOICE = _words(
    r"""
    instead(?: of)? | rather than | decided | decision | chose | chosen | opted | prefer(?:s|red)? |
    recommend(?:ed|ation)? | agreed | approach | keep(?:s|ing)? | kept | replac(?:ed|es|ing) |
    switch(?:ed)? | moved? | renamed? | dropped? | removed? | no need | single source | trade-?offs? |
    deliberate(?:ly)? | on purpose | by design | intentional(?:ly)? | only
    """
)
#: A rule.
RULE = _words(
    r"""
    must(?: not)? | should(?: not)? | shouldn't | mustn't | always | never | only when | only if |
    required? | requires | needs? to | ha(?:s|ve) to | by default | defaults? to | not allowed |
    unless | as long as
    """
)
#: How something works.
MECHANISM = _words(
    r"""
    stores? | stored | returns? | reads? | writes? | uses? | calls? | creates? | contains? | holds? |
    supports? | checks? | runs? | triggers? | fires? | handles? | means | lives? in | is set |
    points? to | falls? back | maps? | tracks? | skips? | ignores? | defined | each | per | when | if |
    before | after | once | while | where | via | named? | called
    """
)
#: A change that was made.
CHANGE = _words(
    r"""
    added? | adds | changed? | updated? | implement(?:ed|s)? | refactored | introduced | created |
    extended | extracted | wired | rewrote | rewritten | now | new | merged | committed | pushed | set |
    made | enabled? | disabled? | exposed? | wrapped | covers? | bumped
    """
)
#: Something tried and abandoned.
DEAD_END = _words(
    r"""
    tried | attempt(?:ed)? | didn't work | doesn't work | did not work | does not work | won't work |
    gave up | given up | abandoned | reverted | rolled back | ruled out | rejected | dead end |
    not feasible | impossible | infeasible | too (?:heavy|slow|complex|risky|fragile) | not worth |
    backed out | unworkable | different approach | not real | turned out | turns out
    """
)
#: A finding.
FINDING = _words(
    r"""
    found | confirmed | verified | discovered | the issue is | the problem is | the bug is |
    i see the (?:issue|problem|bug) | actually | key (?:finding|insight|point) | in fact |
    it is because | that's because | the difference | measured | reproduced? | conclusion | verdict |
    important(?:ly)? | note | caveat | however | but
    """
)
#: Open work.
OPEN = _words(
    r"""
    remain(?:s|ing)? | left | open | pending | todo | follow-?up | not yet | still | later | next |
    separate pr | out of scope | deferred | uncommitted | unpushed | not pushed | complete[d]? | done
    """
)
#: Narration of what the speaker is about to do; never a memory.
NARRATION = re.compile(
    r"(?:^|[.!:;,—-]\s+|\b(?:and|so|but|then)\s+)"
    r"(?:now[, ]+|next[, ]+|first[, ]+|ok(?:ay)?[, ]+|(?:good|great|perfect)[.,!]?\s+)*"
    r"(?:wait\b|hmm+|oops|while (?:the |that |this )?(?:\w+ )?(?:builds?|runs?|is running)\b|"
    r"let me|let's|i'?ll|i will|i'm going to|i am going to|i need to|i should|i want to|i can see|now i|now let|"
    r"now,? (?:fix|run|add|update|check|create|write|remove|implement|commit|verify|test|rebuild|build|replace|make|do|"
    r"look|read|wire|move|change|refactor|push|rerun|re-run|format|install)|"
    r"time to|checking|looking at|running|reading|starting|moving on|continuing|proceeding|waiting)\b",
    _ANY,
)
#: Reports of a passing state.
STATUS = _words(
    r"""
    all (?:\w+ )?tests (?:now )?(?:are )?pass(?:ing|ed|es)? | tests? pass(?:es|ed|ing)? | all green |
    all pass(?:ing|es|ed)? | lint(?:er|ing)?(?: is)?(?: also)? (?:clean|pass(?:es|ed)?) |
    0 (?:issues|failures|errors) | no (?:issues|errors|failures) | build (?:succeeds|succeeded|passes) |
    clean | \d+ (?:tests?|passed|pass) | successfully | up to date | everything (?:passes|works|looks) |
    all checks | typecheck | background (?:task|command|process|agent)s? | no longer exists |
    already (?:done|passed|committed)
    """
)
#: Chatter about the conversation itself.
CHATTER = _words(
    r"""
    here's | here is | here are | summary of | would you like | want me to | shall i | let me know |
    ready | you're right | good (?:question|point|catch|idea) | great | perfect | excellent | done |
    sure | thanks | i understand | got it | sounds good | happy to | feel free | looks good | i see |
    in progress | you can (?:now )?(?:run|test|try|see) | if you(?:'d)? (?:want|like|prefer) | sorry
    """
)
#: The user's wish or rule.
WISH = _words(
    r"""
    i(?:'d| would) (?:like|prefer|rather) | i want | we want | i think | we should | should | can we |
    could we | can you | let's | lets | please | why (?:is|are|isn't|aren't|not|do|don't|did|didn't) |
    i don't | don't | do not | make sure | need(?:s)? to | instead | rather | prefer | better |
    ideally | always | never | only | also | from now on | no need | must | remember | yes | no |
    agree | i'll | as well
    """
)
#: Headings that say what follows.
TOPIC_CAUSE = _words(
    r"""
    root cause | causes? | problems? | bugs? | issues? | why | findings? | diagnosis | gaps? | risks?
    """
)
TOPIC_CHOICE = _words(
    r"""
    decisions? | design | trade-?offs? | recommendations? | approach | options? | verdict | conclusion |
    key
    """
)
TOPIC_CHANGE = _words(
    r"""
    changes? | changed | what (?:i|was|changed) | fix(?:es|ed)? | implement(?:ed|ation) | done | added |
    updated | new
    """
)
TOPIC_FILES = _words(
    r"""
    files? | modified | created | sources? | references | key files | critical files
    """
)
TOPIC_CHECK = _words(
    r"""
    verification | verified | tests? | testing | validation | checks? | results? | status |
    how to test
    """
)
TOPIC_NEXT = _words(
    r"""
    next | remaining | open | todo | follow-?ups? | not done | left | plan | steps? | pending |
    limitations? | caveats? | notes?
    """
)
#: Headings and leads that say nothing by themselves.
GENERIC = re.compile(
    r"^(?:\W|\d)*(?:"
    r"(?:a |the |quick |brief |final |complete |full |short |overall )?(?:summary|changes?|overview|results?|details?)|"
    r"what (?:was|i|we|changed|it|this)\b.{0,30}|here(?:'s| is| are)\b.*|key (?:changes|points|files|features)|"
    r"files?(?: (?:changed|modified|created|updated))?|new files?|modified files?|notes?|next steps?|"
    r"verification|tests?|testing|implementation|fix|the fix|solution|done|sources?|changes? (?:made|summary)|"
    r"(?:the )?(?:following|commit)\b.*|(?:this|it|that|they|which)\b.*|plan|context|goal|steps?|code changes|"
    r"documentation|tl;?dr|answer|status|updates?|recap|analysis|findings|in short|what|how|why"
    r")(?: of (?:the )?changes?)?\W*$",
    _ANY,
)


def _in_any_language(english: re.Pattern[str], other: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(f"{english.pattern}|{other.pattern}", _ANY)


CAUSE = _in_any_language(CAUSE, languages.CAUSE)
PROBLEM = _in_any_language(PROBLEM, languages.PROBLEM)
REPAIR = _in_any_language(REPAIR, languages.REPAIR)

#: Feature name → cue that is counted in the bite.
COUNTED: dict[str, re.Pattern[str]] = {
    "cause": CAUSE,
    "problem": PROBLEM,
    "repair": REPAIR,
    "choice": CHOICE,
    "rule": RULE,
    "mechanism": MECHANISM,
    "change": CHANGE,
    "dead_end": DEAD_END,
    "finding": FINDING,
    "open": OPEN,
    "narration": NARRATION,
    "status": STATUS,
    "chatter": CHATTER,
    "wish": WISH,
}
#: Feature name → cue that is searched for in heading and lead.
TOPICAL: dict[str, re.Pattern[str]] = {
    "topic_cause": TOPIC_CAUSE,
    "topic_choice": TOPIC_CHOICE,
    "topic_change": TOPIC_CHANGE,
    "topic_files": TOPIC_FILES,
    "topic_check": TOPIC_CHECK,
    "topic_next": TOPIC_NEXT,
}

#: Maximum number of entities of a candidate.
MAX_ENTITIES = 24
#: Quality from which on a decision or a fix is important.
HIGH_QUALITY = 0.5

_SYMBOL = re.compile(
    r"`([^`\n]{2,60})`|((?:[\w.~-]*[\w~-])?(?:/[\w.@-]+)+|\b[\w-]+\.[a-z]{1,5}\b|\b[a-z]+[A-Z]\w+|"
    r"\b[A-Z][a-z0-9]+[A-Z]\w*|\b[A-Za-z0-9]+_\w+)"
)
_DEAD = re.compile(
    r"\b(?:dead end|tried|gave up|given up|abandon|revert|rolled back|ruled out|rejected|"
    r"(?:did|does)(?:n't| not) work|unworkable|not feasible|infeasible|impossible|not worth|backed out)",
    re.IGNORECASE,
)
_BUG = re.compile(
    r"\b(?:bugs?|broken?|breaks|fail(?:s|ed|ing|ure)?|missing|lack(?:s|ed)|wrong(?:ly)?|incorrect(?:ly)?|invalid|"
    r"crash\w*|stale|overw\w+|los[te]s?|regress\w*|mismatch\w*|leak\w*|race|root cause|culprit|silently|never (?:set|"
    r"called|ran)|was(?:n't| not)|were(?:n't| not)|did(?:n't| not)|fixed)\b",
    re.IGNORECASE,
)
_LEFT = re.compile(
    r"\b(?:remain(?:s|ing)?|left open|pending|not (?:yet|pushed|committed)|uncommitted|unpushed|follow-?up|"
    r"todo|still (?:needs?|open|to do)|ready (?:for|to)|is complete|out of scope|deferred)\b",
    re.IGNORECASE,
)
_DECIDED = re.compile(
    r"\b(?:instead|rather than|decided|decision|chose|prefer|agreed|no longer|replaced|renamed|moved|removed|dropped|"
    r"must|always|never|only|should|by design|deliberate|keeps?|now)\b",
    re.IGNORECASE,
)


def kind_of(bite: str, label: str) -> Kind:
    """Return the kind of a passage of the assistant by its wording and its heading or lead.

    Args:
        bite: The passage.
        label: Heading and lead above it.
    """
    if _DEAD.search(bite):
        return Kind.DEAD_END
    if _BUG.search(bite) and (REPAIR.search(bite) or CAUSE.search(bite) or TOPIC_CAUSE.search(label)):
        return Kind.FIX
    if _LEFT.search(bite):
        return Kind.STATE
    return Kind.DECISION if len(_DECIDED.findall(bite)) + len(CHANGE.findall(bite)) >= 2 else Kind.FACT


def tells_fix(bite: str) -> bool:
    """Return True if a passage describes a problem or a repair."""
    return bool(_BUG.search(bite) or REPAIR.search(bite) or languages.PROBLEM.search(bite))


def importance_of(kind: Kind, quality: float) -> Importance:
    """Return high for decisions and fixes of high quality."""
    if kind in (Kind.DECISION, Kind.FIX) and quality >= HIGH_QUALITY:
        return Importance.HIGH
    return Importance.NORMAL


def entities_of(bite: str, turn: Turn) -> tuple[str, ...]:
    """Return symbols and files that the bite names, then the files and commits of the turn."""
    named = [a or b for a, b in _SYMBOL.findall(bite)]
    files = [f.replace("\\", "/").rsplit("/", 1)[-1] for f in turn.files]
    commits = [a.commit.split(" ", 1)[0] for a in turn.actions if a.commit]
    return tuple(dict.fromkeys(e for e in [*named, *files, *commits] if e))[:MAX_ENTITIES]
