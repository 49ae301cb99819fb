"""Propose memories proven by commands: commands that failed and later passed, and commits that give reasons."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from typing import NamedTuple

from engram.enums import Kind
from engram.extraction.candidate import Candidate, is_own
from engram.extraction.local.sentences import ended, excerpt, fitting, points_back, quotable_sentences, supporting, sure
from engram.extraction.user_rules import typed_prompt
from engram.system.lazy_regex import any_case, lazy_regex
from engram.text.shell import (
    entered_folders,
    git_calls,
    hides_status,
    normal_command,
    part_with_known_status,
    tells_passing,
    without_assignments,
)
from engram.text.splitting import Block, plain, sentences, split
from engram.text.words import content_words, prefixes
from engram.transcripts.calls import read_message
from engram.transcripts.turns import Action, Role, TextBlock, Turn
from engram.trust.display import capitalised
from engram.trust.suspicion import why_suspect
from engram.trust.voice import typed_text

#: How certain a fix and a commit are, compared with other memories of a session, from 0 to 1.
FIX_QUALITY, COMMIT_QUALITY = 0.85, 0.8
#: Maximum length of a command and maximum number of files in a summary.
MAX_COMMAND_CHARACTERS, MAX_FILES = 60, 3
#: Number of turns before a commit in which to look for messages that say the same.
MAX_TURNS_BACK = 8
#: Minimum number of words that a cause stated after the pass must share with the command, its error and the files.
MIN_SHARED_WORDS = 2
#: Number of characters at the start of a prompt that are searched for a statement that it is not fixed.
MAX_DENIAL_CHARACTERS = 400
#: Minimum number of words, without stop words, in a remedy that is included although it names no symbol.
MIN_REMEDY_WORDS = 4

#: Commands that are informative if they fail or pass: tests, builds, checks, and runs of the program.
_TELLING = lazy_regex(
    r"\b(?:tests?|spec|pytest|jest|vitest|tox|nox|rspec|phpunit|ctest|build|compile|check|lint\w*|vet|mypy|ruff|tsc|"
    r"clippy|typecheck|verify|make|mise|cargo|go|npm|pnpm|yarn|bun|npx|mix|gradle\w*|mvn|dotnet|swift|python3?|node|"
    r"deno|uv|just|git (?:push|commit|merge|rebase)|docker|terraform|pre-commit)\b"
)

#: A sentence that gives a cause.
_CAUSE = any_case(
    r"\b(?:because|since (?!then\b|we\b)|due to|caused by|root cause|culprit|the (?:actual |real |underlying |"
    r"only )?(?:issue|problem|reason|bug|cause|error|failure) (?:is|was) (?:that |the |a |in |with |not )?|as a result|"
    r"which (?:means|meant|caused|causes|made|makes|breaks|broke|led|is why|leads)|that's why|(?<=, )so (?!far|that|"
    r"much|on|i\b|let|now)\w|(?:does|did|is|was|were|are|has|had)(?:n't| not) (?:\w+ ){0,3}?(?:set|include|exclude|"
    r"have|exist|match|handle|support|know|configured|exported|imported|defined|registered|called|passed|initialized|"
    r"installed|import|export|define|contain|accept|allow|part|available|account|expect|reset|cover|mock)\w*|requires?|"
    r"expects?|(?:is|was|are|were) (?:still |named .{3,40}, not )?(?:missing|checking|looking|using|pointing|calling|"
    r"expecting|returning|passing|trying|reading|stale|outdated|wrong|hard-?coded|too (?:old|strict|long|short|small|"
    r"low))|(?:can't|cannot) (?!be sure)|already (?:exists?|defined|declared|taken|in use)|conflicts? with|(?:needs?|"
    r"lacks?|expected|wants?) (?!to (?:be )?(?:check|look|see|verify|run|fix|update|add|read|find|make)\b))"
)
_LABEL = any_case(r"^(?:the )?(?:root |real |actual )?(?:cause|problem|issue|reason|bug)\s*[:—–-]\s+")
#: The sentence after a cause that says what fixed it.
_REPAIR = any_case(r"(?:the (?:fix|solution|remedy)\b|fixed (?:it )?by\b|fixed in\b)")
#: A sentence after a cause in which the assistant says what it must do about it, naming a symbol.
_NEEDED = any_case(
    r"(?:so )?(?:i|we) (?:need|have) to (?:use|set|add|pass|call|move|rename|replace|remove|return|register|import|"
    r"export|include|exclude|install|define|change|wrap|mock|escape|reset|update|pin|upgrade|switch|make)\b[^`]*`[^`]+`"
)
#: A sentence after a cause that says what was done about it, naming something.
_REMEDY = any_case(
    r"(?:so |now )?(?:(?:(?:i|we)(?:['’]ve| have)? (?:now |just |also )?)?(?:added|passed|moved|renamed|replaced|"
    r"removed|returned|registered|imported|exported|included|excluded|installed|defined|changed|wrapped|mocked|escaped|"
    r"updated|pinned|upgraded|switched|made|created|gave|given|limited|raised|lowered|increased)|"
    r"(?:it|they|(?:the |`)[^,.]{1,40}) now (?!(?:i|we|let|pass\w*|works?|runs?|succeed\w*)\b)\w+) "
)
#: A guess, a question, a plan or a momentary status report.
_UNSURE = any_case(
    r"\b(?:might|may|maybe|perhaps|probably|possibly|likely|seems?|appears?|looks? like|suspect|guess|i think|"
    r"i believe|should (?:be|work|fix)|could be|let me|let's|let us|i'll|i will|i need|we need|i should|i can|i'm "
    r"(?:going|not sure)|want me|next,|if (?:this|that|it)|whether|check(?:ing)? (?:if|what|how|why|the)|debug|"
    r"the (?:simplest|cleanest|best|easiest|right|quickest) (?:fix|way|solution|approach|option)|unrelated|"
    r"pre-?existing|not related|you(?:'re| are| can| may| want| should)?|first|we can see)\b|\?"
)
#: Words that deny what was said before.
_CONTRADICTS = any_case(
    r"\b(?:wait|hmm+|actually(?=,| (?:the|it|that|this|no))|turns out|(?:is|was|'s|are|were)(?:n't| not) (?:the|"
    r"actually|really) (?:the )?(?:\w+ )?(?:issue|problem|cause|reason|culprit|case)|i was wrong|i misread|misread|"
    r"my mistake|that didn't (?:work|help|fix)|still fail\w*|still (?:broken|not|the same)|same error|"
    r"different (?:error|issue|reason)|not because|wrong (?:about|assumption)|revert)\b"
)
#: The beginning of a prompt in which the user says that it is not fixed.
_UNMENDED = any_case(
    r"^\W*(?:no|nope|that'?s not|that is not|wrong|not quite|revert|undo)\b|\b(?:still (?:fail\w*|broken|not|doesn'?t|"
    r"the same|getting|see\w*)|(?:does|did)(?:n'?t| not) (?:work|help|fix)|same (?:error|issue|problem))\b"
)
#: Words that take back a cause that was stated before, if their sentence names it.
_TAKES_BACK = any_case(
    r"\b(?:i was (?:wrong|mistaken)|i mis(?:read|diagnosed|understood)|my mistake|(?:diagnosis|explanation|theory|"
    r"conclusion|assumption) (?:was|is) (?:wrong|incorrect|mistaken)|(?:is|was|were|are)(?:n['’]t| not| never) "
    r"(?:actually |really )?(?:the )?(?:real |actual |root )?(?:cause|culprit|problem|issue|reason|to blame)\b"
    r"(?! (?:here |now )?(?:any ?more|any longer|now|yet)\b)|(?:had|has|have) nothing to do with|"
    r"(?:was|were)(?:n['’]t| not) (?:actually |really )?(?:the(?! (?:only|whole|first|last|same))|because|due|"
    r"caused)\b)"
)
#: A part of such a sentence that names the cause in its place.
_IN_ITS_PLACE = any_case(
    r"\b(?:because|due to|caused by|(?:cause|culprit|problem|issue|reason) (?:is|was)|(?:is|was|were|are) (?:really |"
    r"actually )?(?:the (?:real |actual |root )?(?:cause|culprit|problem|issue|reason)|to blame)|"
    r"it(?:['’]s| is| was))\b"
)
_PART_ENDS = any_case(r"[,;:—–]|\bbut\b|\band\b|\binstead\b")
#: Words of such a sentence that don't name a cause.
_TAKING_BACK = content_words(
    "because wrong mistaken mistake diagnosis explanation theory conclusion assumption cause issue problem reason "
    "culprit real actual earlier first turns out never part failure failing error bug test"
)
#: Words that mark a sentence in a commit's body as a reason: something fails or is impossible, or the change is
#: interim. What the change ensures, enables or does instead is not a reason.
_REASON = any_case(
    r"\b(?:otherwise|leaking|leaving|breaking|hiding|losing|forcing|blocking|(?:do|does|is|are|has|have)(?:n't| not)|"
    r"can't|cannot|can not|never|silently|too (?:late|early|long|large|small)|by design|deliberately|on purpose|"
    r"intentionally|caus(?:es|ing)|fails?|crash(?:es)?|hangs?|requires?|expects?|lacks?|source of truth|"
    r"takes? precedence|must(?:n't)?|(?:interim|stop-?gap|temporary) (?:fix|measure|solution) (?:to|for|until)|"
    r"(?:interim|stop-?gap|temporary|for now)\b.{0,120}\buntil)\b"
)
#: Conjunctions that introduce a cause, and those that introduce a consequence.
_BECAUSE = any_case(r"\b(?:because|due to)\b")
_SO = any_case(
    r", so (?!(?:far|that|much|on|i|it|they|let|now)\b)(?=\w)|\bwhich (?:means|makes|breaks|leads|leaves|causes)\b"
)
#: Begins a sentence about the change itself: "This lets …", "Keep the …", "Falls back …".
_OF_CHANGE = any_case(
    r"(?:(?:this|these|it|also|now|both|none|not|breaking|the (?:fix|change|new)|(?:add|allow|appl[iy]|bump|chang|"
    r"clear|convert|creat|detect|drop|embed|enabl|ensur|extend|fill|fix|handl|implement|improv|includ|introduc|keep|log|"
    r"mak|mov|pass|prevent|reduc|reject|remov|renam|replac|requir|resolv|return|reus|rewrit|set|show|skip|stor|support|"
    r"surfac|switch|track|treat|updat|us|wir|wrap)"
    r"(?:e?[sd]?|p?ped)(?! (?:of|from|in|are|is|never|must|can|cannot|don't|fail)\b)|"
    r"graceful\w*|best-effort|optional\w*|only)\b|[a-z]+[^s\W]s (?:back|gracefully|backwards?)|"
    r"(?!(?:because|since|when(?:ever)?|if|while|with(?:out)?|as|at|by|for|from|in|on|to|under|over|after|before|once|"
    r"until|unless|where|even|unlike|[a-z]+ing)\b)[a-z]+ (?:the|an?|all|any|each|every)\b)(?!.*\b(?:because|due to)\b)"
)
#: Words of a sentence that compares the change with the earlier state, or reports how it was checked.
_REPORTS = any_case(
    r"\b(?:(?<!for )now|no longer|unchanged|unaffected|verified|regressions?|(?:tests?|\d+) (?:pass|fail|cover)\w*)\b"
)
#: Past-tense verbs, which describe a state that the commit ended: those whose form shows the tense, and those whose
#: position does.
_WAS = any_case(
    r"\b(?:(?:was|were|had|did)(?:n't)?|could(?:n't| not| never)|before this|broke|ran|wrote|took|gave|came|went|began|"
    r"spoke|froze|fell|stood|grew|knew|saw|threw|(?<!\bhas )(?<!\bhave )(?<!\bbeen )(?<!\bbe )(?<!\bis )(?<!\bare )"
    r"(?:(?:never|always|silently|which|it|they) [a-z]+ed|(?:failed|crashed|stopped|happened)(?: (?:at|before|if|in|on|"
    r"there|to|when|with)|(?=[.,;]|$))|(?!(?:need|feed|seed|embed|exceed)\b)(?:[a-z]{2,}ed|built|left|led|lost|kept|"
    r"made|meant|got) (?:the|an?|one|its?|them|this|that|every|each|all|no|any|their|\w+ing)))\b"
)
_IN_BRACKETS = lazy_regex(r" \([^()]*\)")
#: An error of a compiler, a type checker or a linter, which names the place and the fault again whenever it returns.
_NAMED_BY_CHECK = lazy_regex(r"\[build failed\]|\berror(?: TS|\[E)\d|:\d+:\d+(?::| -) ")
#: A test file. If only a test was wrong, the fix is useless to a later session.
_TEST_FILE = any_case(r"(?:^|[_.-])(?:tests?|spec)(?:[_.-]|$)")
_TEST_IS_WRONG = any_case(r"(?:the (?:issue|problem) is that )?(?:the|this|one|two) (?:[\w-]+ ){0,2}tests?\b")
_OF_TEST = any_case(r"\b(?:tests?|mocks?|fixtures?|assert\w*|expect\w*)\b")
#: Types of commits that change nothing that a later session would ask about.
_IDLE_TYPES = ("docs", "doc", "style", "chore", "ci", "test", "tests", "lint", "release")
_IDLE_SUBJECT = any_case(
    r"^release v?\d|^\w+ (?:[\w-]+ ){0,2}(?:tests?\b|Test[A-Z_]\w+|comments?\b|docs\b|readme\b|changelog\b)"
)
_REFERS_TO_LIST = lazy_regex(r"(?::|(?:^|[:;,.] )\(?\d+[.)])$")
#: Calls of git after which ``HEAD`` is the same commit, and calls that may bring back a commit that was undone.
_KEEP_HEAD = frozenset("add diff log show status rm mv config blame grep ls-files rev-parse".split())
_MAY_RESTORE = frozenset("revert cherry-pick merge rebase pull am".split())
#: Names of the last commit and of the one before it.
_HEAD, _BEFORE_HEAD = {"HEAD", "@", "HEAD~0"}, {"HEAD~1", "HEAD~", "HEAD^", "HEAD^1", "@~1", "@~", "@^"}
#: The type of a conventional commit; its scope is kept.
_TYPE = lazy_regex(r"^(?P<type>[a-z]+)(?:\((?P<scope>[^)]+)\))?!?:\s+")


class FixMemory(NamedTuple):
    """A command that failed, and then passed after files were changed."""

    #: The calls that failed first and last, and the call that passed.
    first: Action
    last: Action
    passed: Action
    #: Files changed in between, without duplicates.
    files: tuple[str, ...]
    #: Number of the turn in which the command passed.
    turn: int
    #: The commit that followed in the same turn: "sha subject"; "" for none.
    commit: str


def fix_memories(turns: Sequence[Turn]) -> list[FixMemory]:
    """Return every failing command that passes after a file was changed, across all turns, in the order of passing.

    A command that passes without a change in between was merely rerun. A command with a status hidden by a pipe has
    neither failed nor passed (``part_with_known_status``).
    """
    #: Name of a command → when it failed first, and the calls that failed first and last.
    failed: dict[str, tuple[int, Action, Action]] = {}
    edits: list[tuple[int, Action]] = []
    memories: list[FixMemory] = []
    steps = [(number, action) for number, turn in enumerate(turns) for action in turn.actions]
    for index, (number, action) in enumerate(steps):
        if action.is_edit and not action.is_error:
            edits.append((index, action))
        name = normal_command(action.command)
        if not name or not _TELLING.search(name) or action.is_refused:
            continue
        if action.is_error and not hides_status(action.command, has_failed=True):
            began, first, _ = failed.get(name, (index, action, action))
            failed[name] = (began, first, action)
        elif action.is_error is False and name in failed and tells_passing(action.command, failed[name][2].command):
            began, first, last = failed.pop(name)
            later_edits = edits[bisect_right(edits, began, key=itemgetter(0)) :]
            if files := tuple(dict.fromkeys(file for _, edit in later_edits for file in edit.files)):
                actions = turns[number].actions
                later = (other.commit for other in actions[actions.index(action) :] if other.commit)
                memories.append(FixMemory(first, last, action, files, number, next(later, "")))
    return memories


def fixes(turns: Sequence[Turn]) -> Iterator[Candidate]:
    """Yield a candidate for each proven fix for which the assistant stated the cause, in the order of passing.

    The cause is the last one stated between the last failure and the end of the turn in which the command passed. A
    cause that a later sentence of the session withdraws, or that the user denies afterwards, doesn't count. The same
    cause is used only once. Errors that a compiler or linter names are left out.
    """
    places = {entry.uuid: (number, entry.offset) for number, turn in enumerate(turns) for entry in turn.entries}
    takings_back = _takings_back(turns, places)
    told: set[str] = set()
    for memory in fix_memories(turns):
        if _NAMED_BY_CHECK.search(memory.last.error_line):
            continue
        said, cause = _cause(turns, memory, places)
        if said is None or cause in told or _is_denied(turns, memory, places):
            continue
        passed, words = places.get(memory.passed.uuid, (memory.turn, 0)), prefixes(content_words(cause))
        if any(place > passed and 2 * len(named & words) > len(named) for place, named in takings_back):
            continue
        told.add(cause)
        yield _fix(turns[memory.turn], memory, said, _LABEL.sub("", cause))


def _is_denied(turns: Sequence[Turn], memory: FixMemory, places: Mapping[str, tuple[int, int]]) -> bool:
    """Return True if the user says that it is not fixed: in the same turn after the pass, or in the next prompt."""
    passed = places.get(memory.passed.uuid, (memory.turn, 0))
    after = [typed_text(said.text) for said in turns[memory.turn].users_texts if places.get(said.uuid, passed) > passed]
    after.append(next(filter(None, map(typed_prompt, islice(turns, memory.turn + 1, None))), ""))
    return any(_UNMENDED.search(typed[:MAX_DENIAL_CHARACTERS]) for typed in after)


def _takings_back(
    turns: Sequence[Turn], places: Mapping[str, tuple[int, int]]
) -> list[tuple[tuple[int, int], frozenset[str]]]:
    """Return where the assistant or the user says that something was not the cause, and the words that name it."""
    found = []
    for number, turn in enumerate(turns):
        for said in turn.said:
            if said.role not in (Role.USER, Role.ASSISTANT) or is_own(said.text) or not _TAKES_BACK.search(said.text):
                continue
            text = typed_text(said.text) if said.role is Role.USER else said.text
            for sentence in sentences(plain(text)):
                if named := _taken_back_in(sentence):
                    found.append((places.get(said.uuid, (number, 0)), named))
    return found


def _taken_back_in(sentence: str) -> frozenset[str]:
    """Return the words that name the cause that a sentence takes back; empty if it takes back none."""
    if not _TAKES_BACK.search(sentence):
        return frozenset()
    parts = [part for part in _PART_ENDS.split(sentence) if _TAKES_BACK.search(part) or not _IN_ITS_PLACE.search(part)]
    return prefixes(content_words(" ".join(parts)) - _TAKING_BACK)


def _fix(turn: Turn, memory: FixMemory, said: TextBlock, cause: str) -> Candidate:
    names = list(dict.fromkeys(map(_name, memory.files)))
    changed = ", ".join(names[:MAX_FILES]) + (f" and {len(names) - MAX_FILES} more" if len(names) > MAX_FILES else "")
    proof = f"It passed after a change of {changed}."
    repair = [after for before, after in pairwise(quotable_sentences(said.text)) if before.endswith(cause)][:1]
    repair = [sentence for sentence in repair if _tells_remedy(sentence)]
    summary = fitting([f"`{short_command(memory.first.command)}` failed: {cause}", *repair, proof])
    return sure(
        Kind.FIX,
        turn,
        summary,
        [said.text],
        (said.uuid, memory.first.uuid, memory.passed.uuid),
        quality=FIX_QUALITY,
        facts=(
            *(action.error_line[:200] for action in (memory.last, memory.first)),
            *(memory.first.command[:120], f"changed: {changed}", memory.commit[:120]),
        ),
        files=memory.files,
        said=[said],
    )


def _tells_remedy(sentence: str) -> bool:
    is_named = "`" in sentence or len(content_words(sentence)) >= MIN_REMEDY_WORDS
    is_done = is_named and _REMEDY.match(sentence)
    return bool(_REPAIR.match(sentence) or _NEEDED.match(sentence) or is_done)


def _name(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1]


def short_command(command: str) -> str:
    """Return the first line of a command, shortened to a few words and without assignments and quoted texts."""
    name = without_assignments(normal_command(command.partition("\n")[0])).replace("`", "")
    kept = ""
    for word in name.split():
        longer = f"{kept} {word}".strip()
        if kept and (len(longer) > MAX_COMMAND_CHARACTERS or word.startswith(('"', "'", "&&", "<<"))):
            break
        kept = longer
    return re.sub(r"(?: -\S*)+$", "", kept)


def _cause(
    turns: Sequence[Turn], memory: FixMemory, places: Mapping[str, tuple[int, int]]
) -> tuple[TextBlock | None, str]:
    """Return the last sentence that states the cause, with its message; (None, "") if there is none.

    A cause stated after the command passed counts only if it shares words with the command, its error or the files.

    Args:
        places: id of an entry → number of its turn, and its position in the source.
    """
    start, passed = places.get(memory.last.uuid), places.get(memory.passed.uuid)
    if start is None or passed is None:
        return None, ""
    known = (memory.first.command, memory.last.error_line, *map(_name, memory.files))
    about = prefixes(content_words(" ".join(known)))
    is_of_tests = all(_TEST_FILE.search(_name(file)) for file in memory.files)
    found: tuple[TextBlock | None, str] = (None, "")
    for number, turn in enumerate(turns[start[0] : memory.turn + 1], start[0]):
        for said in turn.said:
            place = places.get(said.uuid, (number, 0))
            if said.role is not Role.ASSISTANT or place <= start or is_own(said.text):
                continue
            is_before = place <= passed
            for sentence in quotable_sentences(said.text):
                if _CONTRADICTS.search(sentence):
                    found = (None, "")
                    continue
                words = prefixes(content_words(sentence))
                # After the command has passed, the cause may be summarised, or stated for the first time.
                is_restated = len(words & prefixes(content_words(found[1]))) > MIN_SHARED_WORDS
                is_about = is_restated or len(words & about) >= (1 if is_before else MIN_SHARED_WORDS)
                is_idle = _TEST_IS_WRONG.match(sentence) or (is_of_tests and _OF_TEST.search(sentence))
                is_open = is_before or is_restated or found[0] is None
                if is_about and is_open and not is_idle and _states_cause(sentence):
                    found = (said, sentence)
    return found


def _states_cause(sentence: str) -> bool:
    return bool(_CAUSE.search(sentence)) and not _UNSURE.search(sentence) and not points_back(sentence)


def commits(turns: Sequence[Turn]) -> Iterator[Candidate]:
    """Yield a candidate for each commit of a session with a message that gives a reason, in order.

    The summary consists of the subject and the sentences of the body that give a reason, without lists of changes.
    Commits that the session took back are left out.
    """
    last_commit = -1
    undone = _undone_commits(action for turn in turns for action in turn.actions)
    for number, turn in enumerate(turns):
        for action in turn.actions:
            if not _has_committed(action) or action.uuid in undone:
                continue
            subject, body = read_message(action.command)
            kind = _TYPE.match(subject)
            is_idle = _IDLE_SUBJECT.match(subject) or (kind and kind["type"] in _IDLE_TYPES)
            summary = "" if is_idle or not subject else _with_reasons(subject, _reasons(body))
            if summary:
                start = max(last_commit, number - MAX_TURNS_BACK, 0)
                yield _commit(turns[start : number + 1], action, subject, body, summary)
            last_commit = number if subject else last_commit


def _has_committed(action: Action) -> bool:
    """Return True if a commit is proven by the output of its command or, if that is hidden, by its exit status."""
    return bool(action.commit) or (_has_passed(action) and not hides_status(action.command))


def _has_passed(action: Action) -> bool:
    return action.is_error is False and not action.is_refused


def _undone_commits(actions: Iterable[Action]) -> frozenset[str]:
    """Return the ids of the calls whose commits the session reverted, or discarded by a hard reset.

    A commit is meant if its id is named, or if it was the last one and nothing in between moved ``HEAD`` or entered
    another folder. A later call that may have brought such commits back counts as having done so.
    """
    named: dict[str, frozenset[str]] = {}
    undone, latest, folders = frozenset[str](), frozenset[str](), list[str]()
    for action in (action for action in actions if action.command):
        calls = list(git_calls(action.command)) if "git" in action.command else []
        entered = [name for name in (action.place, *entered_folders(action.command)) if name not in ("", ".")]
        if entered != folders and (entered or calls):
            latest, folders = frozenset(), entered
        passed = list(git_calls(part_with_known_status(action.command))) if calls and _has_passed(action) else []
        for words in calls:
            if words[0] in _KEEP_HEAD or (words[0] == "commit" and "--amend" in words):
                continue
            is_hard = words[0] == "reset" and "--hard" in words
            meant = latest if is_hard and _BEFORE_HEAD & set(words) else frozenset()
            if words[0] == "revert":
                ids = (ids for sha, ids in named.items() if any(word.startswith(sha) for word in words))
                meant = frozenset().union(latest if _HEAD & set(words) else (), *ids)
            if meant and words in passed:
                undone |= meant
            elif is_hard or words[0] in _MAY_RESTORE:
                undone = frozenset()
            latest = frozenset()
        if _has_committed(action) and read_message(action.command)[0]:
            latest |= {action.uuid}
            if sha := action.commit.partition(" ")[0]:
                named[sha[:7]] = latest
    return undone


def _reasons(body: str) -> list[str]:
    """Return the sentences of a body from the first to the last that gives a reason, and what the first refers to."""
    prose = [s.text for s in split(body) if s.block is Block.PROSE and not _REFERS_TO_LIST.search(s.text)]
    giving = [number for number, text in enumerate(prose) if _gives_reason(text)]
    if not giving:
        return []
    first = max(0, giving[0] - 1)
    if not points_back(prose[giving[0]]) and (_OF_CHANGE.match(prose[first]) or _REPORTS.search(prose[first])):
        first = giving[0]
    return [ended(text) for text in prose[first : giving[-1] + 1]]


def _gives_reason(sentence: str) -> bool:
    """Return True if a sentence gives a reason that still holds after the commit.

    A fault described in the past tense is over. If there is a "because" or "so", only the words after it are checked.
    """
    is_whole = sentence.count("(") == sentence.count(")") and not sentence.startswith((".", "…"))
    if not is_whole or _OF_CHANGE.match(sentence) or _REPORTS.search(sentence):
        return False
    sentence = _IN_BRACKETS.sub("", sentence)
    if link := _BECAUSE.search(sentence) or _SO.search(sentence):
        return not _WAS.search(sentence, link.end())
    return bool(_REASON.search(sentence)) and not _WAS.search(sentence)


def _with_reasons(subject: str, reasons: Sequence[str]) -> str:
    """Return the subject of a commit followed by as many reasons as fit, in order; "" if not even one fits."""
    kind = _TYPE.match(subject)
    head = _TYPE.sub("", subject)
    head = ended(f"{kind['scope']}: {head}" if kind and kind["scope"] else capitalised(head))
    starts = (number for number, text in enumerate(reasons) if not number or _gives_reason(text))
    return next((told for start in starts if (told := fitting([head, *reasons[start:]])) != head), "")


def _commit(turns: Sequence[Turn], action: Action, subject: str, body: str, summary: str) -> Candidate:
    """Return the candidate for a commit; ``turns`` are those that may support it, the commit's own last."""
    turn = turns[-1]
    kind = _TYPE.match(subject)
    is_fix = (kind and kind["type"] == "fix") or subject.lower().startswith(("fix", "correct", "repair"))
    replies = (
        said for earlier in turns for said in earlier.said if said.role is Role.ASSISTANT and not is_own(said.text)
    )
    supports = supporting(f"{subject} {body}", replies)
    return sure(
        Kind.FIX if is_fix else Kind.DECISION,
        turn,
        summary,
        [f"{subject}\n\n{body}", *(excerpt(said, summary) for said in supports)],
        (action.uuid, *(said.uuid for said in supports)),
        quality=COMMIT_QUALITY,
        facts=(action.commit[:120],),
        files=turn.files,
        suspect=why_suspect(f"{subject}\n{body}", is_typed=False, is_assistant=True) or "",
    )
