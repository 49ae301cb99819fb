"""Recognise sentences in which the user takes back, corrects or doubts what they have just said.

The second part is for rules: how a later sentence limits or ends an earlier rule.

Every module that keeps or quotes the user's words checks here whether the user withdrew them. Pure functions.
Other languages than English are in ``languages.py``.
"""

from __future__ import annotations

import functools
import re

from engram.system.lazy_regex import any_case, lazy_regex
from engram.text import languages
from engram.text.language_cues import LANGUAGES
from engram.text.words import content_words, prefixes

# --- What takes back what was said ------------------------------------------------------------------------------------

_PLACE = r"(?:window|chat|tab|terminal|project|repo|session|channel|thread|person)"
#: Sentences that say that the preceding text was meant for another place or only for the current task, or is not to be
#: done.
_WHOLE_SENTENCES = (
    r"^(?:(?:oops|sorry|ups|ah|oh|uh|no|wait|hold on|hm+|my bad)\W+)*(?:(?:that|this|it)(?:'?s| is|"
    rf" was) (?:meant )?(?:for )?)?(?:wrong {_PLACE}(?=[,.;:!–—])|(?:the )?(?:wrong|other|another) {_PLACE}"
    r"(?:\W+(?:sorry|my bad|oops|ignore (?:it|that)))*(?=\W*$))",
    r"^(?:(?:no|oh|well|sorry|but|and|i mean|i meant|that'?s|that is|that was|it'?s|this is)\W+)*(?:only|just) "
    r"(?:for|in|on) (?:this|that|the current) (?:one|file|branch|test|commit|pr|pull request|change|task|step|ticket|"
    r"issue|sprint|release|demo|week|session)(?:\W+(?:i mean|i meant|though|sorry|please))*\W*$",
    r"^(?:no|nope|stop)\b[,.! ]*(?:please )?(?:don'?t|do not)(?: do (?:that|it|this))?\W*$",
)
#: Wordings that say that the preceding text should not be kept.
_NOT_TO_BE_KEPT = (
    r"(?:just |only )testing(?: you)?(?=\W*$)",
    r"cancel (?:that|this|my (?:last|previous)\b.{0,20})(?=\W*$|[,.!;] )",
    r"(?:delete|remove|erase|drop) (?:that|the|this|my) (?:[\w-]+ ){0,2}(?:memory|rule|preference|note)"
    r"(?=\W*$| (?:about|on|for|that)\b)",
    r"(?<!\bi )(?:don'?t|do not|no need to) (?:remember|memori[sz]e|keep|save|note) (?:that|this|it)"
    r"(?: down)?(?: as an? (?:\w+ )?(?:rule|preference|memory|convention))?(?: please)?(?=\W*$)",
    r"(?:that|this|it)(?:'?s| is| was)(?:n'?t| not| never) (?:meant (?:as|to be) )?(?:an? |any )?"
    r"(?:general |permanent |standing |real )?(?:rule|preference|convention)\b",
)
#: Wordings that withdraw what was said, anywhere in a sentence in lower case. Matching without regard to case, and
#: looking for the beginning of a word once for each wording, took four times as long.
_TAKES_BACK = lazy_regex(
    r"\b(?=\w)(?:(?<!don't )(?<!dont )(?<!do not )(?<!never )(?<!not )(?:(?:scratch|strike|disregard) (?:that|this|it|"
    r"all|everything|what|the|my|those)|(?:just |only )?kidding|jk|j/k|psych(?=\W*$|[!.,])|(?:just |only )?(?:messing|"
    r"playing|toying|joking) with you|(?:just |only )?teasing(?: you)?(?=\W*$|[!.,])|(?:just )?pulling your leg|"
    r"april fools?|forget (?:that(?! \w+ (?:is|are|was|has|have)\b)|it|this|all|everything|about (?:that|it|the|my|"
    r"what)|what i(?:'ve| have)?(?: just)? (?:said|wrote|told|asked|typed)|i (?:ever )?said|(?:the|my|"
    r"that) (?:[\w-]+ ){0,2}(?:rule|preference|convention|instruction|policy|thing)|my last|the last)|ignore (?:that|"
    r"what i|my (?:last|previous|earlier)|the (?:last|previous) (?:rule|message|sentence|instruction))|(?:i |i'll |"
    r"let me |i hereby |i'd like to )?(?:take|took|taking) (?:that |this |it |those |all that |everything )?back|"
    r"i (?:take|took|withdraw|revoke|retract) (?:back )?(?:that|what|the|my)|i(?:'ve| have)? changed my mind|nvm|"
    r"(?:scrap|drop|cancel|lose|skip|undo|ditch) (?:the|that|my) (?:[\w-]+ ){0,3}(?:rule|thing|convention|policy|"
    r"preference)(?=\W*$|[,;!]| (?:about|on|for|again|please)\b)|scrap (?:that|it|this)(?=\W*$)|"
    r"that rule (?:is |was |holds |"
    r"applies )?(?:only|just) for (?:today|now|this|the)|(?:on|after) second thoughts?|(?:that|it|this) was (?:only |"
    r"just )?(?:a joke|sarcas\w+|ironic|a mistake|wrong|nonsense)|i(?:'m| am| was) (?:only |just )?(?:joking|kidding|"
    r"sarcastic)|i was (?:wrong|too (?!\w+ to\b))|not (?:really|seriously|serious)(?=[.!,]|$)|"
    r"undo (?:that|the) rule|"
    r"(?:that|this|it) was an? (?:bad|dumb|stupid|silly|terrible|poor) idea|"
    r"(?:that|the|my) rule (?:about .{1,40})?(?:no longer|doesn'?t|does not) (?:hold|appl\w+|count)\w*|lol,? no|"
    r"haha,? no|i didn'?t mean (?:that|it)|don'?t (?:do|follow) what i (?:just )?said|that'?s not what i (?:meant|"
    r"want\w*))\b|(?:wasn'?t|not) meant for (?:you|here|this)\b|"
    r"never ?mind(?=\W*$|[.,;!]| (?:that|about|what|my|the (?:[\w-]+ ){0,2}(?:rule|convention|preference))\b)|"
    + "|".join(_NOT_TO_BE_KEPT)
    + ")|"
    + "|".join(_WHOLE_SENTENCES),
)
#: Wordings that correct the text just before them.
_CORRECTS = any_case(
    r"(?:^|[.,;:!–—-]\s*|\()(?:oh|hm+|ah|oops|uh|um|er|well|actually|sorry|but|no|nope|wait|hold on|"
    r"hang on)?[,.!… ]*(?:no,? wait|wait,? no|wait,? that'?s not (?:right|true)|(?:wait|hold on)[,.!…]|"
    r"no,(?! not even)|nope\b|"
    r"sorry,? (?:i|no|not|that)|i (?:meant|mean)\b|correction\b|on reflection\b|come to think of it\b|"
    r"(?:now that i )?think(?:ing)? (?:about|of) it\b|let me rephrase\b|actually,? (?:no|not|don'?t|let'?s|use|it'?s|"
    r"make|keep|never ?mind|scratch)\b|or rather\b|make that\b|(?:go |switch |let'?s go )?back to (?!(?:the|my|our|"
    r"this|that|work|it)\b)[^\W\d_]+(?: please)?(?=\W*$)|rather not\b|better not\b|no[,.!]? (?:use|make|do|"
    r"not(?! even)|"
    r"don'?t|let'?s)\b|actually,? (?:[\w-]+ ){1,3}please\b)"
)
#: Words at the end of a clause that extend a withdrawal beyond the last rule.
_ALL_OF_IT = any_case(
    r"\b(?:all|everything|both|these|those)(?: (?:of|it|that|this|these|those|them|the|my|two|three|i|i'?ve|you|just|"
    r"said|wrote|told|asked|back|above|please|again|rules?|conventions?|preferences?|instructions?|so far))*"
    r"(?=\W*$|[,.;:!])"
)
_SUBJECT_TEXT = r"((?:\([^()]{0,200}\)|[^,;:!?(])*)"
#: Wordings by which a later withdrawal names its subject; without a subject, it withdraws nothing.
_SUBJECT = any_case(
    r"\b(?:about|regarding|concerning|rule (?:on|for|that|with|to)|back (?:the|my|what)|forget (?:the|my|that)|"
    rf"withdraw|revoke|retract|said (?:about|on|that|to))\b{_SUBJECT_TEXT}"
)
#: For each other language, the words that withdraw something, and those that introduce its subject. They are kept
#: apart, because "o" introduces a subject in Polish but is an article in Portuguese.
_IN_OTHER_LANGUAGES = [
    (languages.pattern_of(each, each.takes_back), languages.pattern_of(each, each.about, _SUBJECT_TEXT))
    for each in LANGUAGES.values()
    if each.about
]
#: What specifies the subject further, after a comma or a colon: ", the one about …".
_THAT_IS = any_case(
    r"\s{0,3}[,;:(–—-]{1,3}\s{0,3}(?:i\.e\.|namely|that is|meaning|(?:i mean )?the (?:one|rule|thing)|about|"
    r"regarding|sobre|über|"
    r"d\.h\.)\W(?P<more>[^;:!?]*)"
)
#: The actual subject after a pronoun or an interjection: "about this: …", "about, well, …".
_MEANT = any_case(r"\s{0,3}(?:,\s{0,3}(?:well|uh+|um+|er+|you know|like|ähm?)\s{0,3},|:)(?P<more>[^;:!?]*)")
_AND = r"(?:and|or|und|oder|et|ou|y|o|e|en|of)"
#: The rest of a list of subjects: ", commit messages and pushing".
_LISTED = any_case(
    r"(?:,\s*(?!(?:use|always|never|please|let|it|they|we|i|just|do|don't|keep|leave|go|instead|from)\b)[\w'’-]+"
    rf"(?: (?!{_AND}\b)[\w'’-]+){{0,2}}){{1,9}},? {_AND} [\w'’-]+(?: [\w'’-]+){{0,2}}(?=\W*$)"
)
_ITEM_END = any_case(rf",| {_AND} ")
#: Words in a withdrawal that don't name its subject.
_EMPTY_WORDS = (
    "forget said say take back rule rules scratch strike never mind about what told tell wrote preference convention "
    "instruction anymore longer like whenever actually wait sorry meant mean just kidding before earlier last previous "
    f"always from ignore disregard that thing olvida vergiss {languages.EMPTY_WORDS}"
)


@functools.cache
def _empty_words() -> frozenset[str]:
    return content_words(_EMPTY_WORDS)


def subject_words(text: str) -> frozenset[str]:
    """Return the content words of a withdrawal that may name its subject."""
    return content_words(text) - _empty_words()


def withdrawal_in(sentence: str) -> re.Match[str] | None:
    """Return the words of a sentence that withdraw what was said before, in lower case; None if there are none."""
    low = _lower(sentence)
    return _TAKES_BACK.search(low) or languages.TAKES_BACK.search(low)


def _lower(sentence: str) -> str:
    # İ is the only letter whose lower case is longer, so that the places in both texts are the same.
    return sentence.replace("İ", "I").lower()


def takes_back(sentence: str) -> bool:
    """Return True if a sentence withdraws what was said before."""
    return withdrawal_in(sentence) is not None


def takes_all_back(sentence: str) -> bool:
    """Return True if a sentence withdraws everything that was said before."""
    return takes_back(sentence) and _ALL_OF_IT.search(sentence) is not None


def correction_in(sentence: str) -> re.Match[str] | None:
    """Return the words of a sentence that correct the one before it, or its own beginning; None if there are none."""
    return _CORRECTS.search(sentence)


def withdrawn_subject(sentence: str) -> frozenset[str]:
    """Return the first letters of the words that specify what a sentence withdraws; empty if there are none."""
    return frozenset[str]().union(*withdrawn_subjects(sentence))


def withdrawn_subjects(sentence: str) -> list[frozenset[str]]:
    """Return what a sentence withdraws, as ``withdrawn_subject`` does, with an element for each item of a list."""
    subject = _subject_in(sentence)
    if subject is None:
        return []
    if listed := _LISTED.match(sentence, subject.end()):
        named = [subject[1], *_ITEM_END.split(listed[0])]
    else:
        more = _THAT_IS.match(sentence, subject.end())
        if more is None and not _names(subject[1]) and not subject[0].lower().startswith("forget"):
            more = _MEANT.match(sentence, subject.end())
        named = [f"{subject[1]} {more['more'] if more else ''}"]
    return [names for names in map(_names, named) if names]


def _subject_in(sentence: str) -> re.Match[str] | None:
    """Return the words that name the subject of a withdrawal, with the subject as the first group."""
    low = _lower(sentence)
    if match := _TAKES_BACK.search(low):
        return _SUBJECT.search(sentence, match.start())
    if languages.TAKES_BACK.search(low):
        for takes_back_in, about in _IN_OTHER_LANGUAGES:
            match = takes_back_in.search(low)
            if match and (subject := about.search(sentence, match.start())):
                return subject
    return None


def _names(words: str) -> frozenset[str]:
    return prefixes(subject_words(words))


# --- What doubts it ---------------------------------------------------------------------------------------------------

_WORTH = (
    r"(?:good|bad|right|wrong|true|correct|sensible|reasonable|wise|smart|outdated|normal|common|best|better|worth it|"
    r"sound|strict|overkill|fair|realistic)"
)
_KIND_OF_RULE = r"(?:rules?|ideas?|practices?|conventions?|polic(?:y|ies)|standards?|principles?|advice|habits?)"
_SO_AND = r"^\W*(?:(?:so|and|or|hm+|but|btw|claude)[, ]+)*"
_IS_THAT = r"(?:is|was|would|isn'?t) (?:that|this|it)(?: still| really| even| also| be)? (?:an? |the |too )?"
#: A question whether the preceding rule is a good one.
QUESTIONED = any_case(
    rf"{_SO_AND}(?:{_IS_THAT}(?:\w+ ){{0,2}}?(?:{_WORTH}|{_KIND_OF_RULE})(?: {_KIND_OF_RULE})?(?: (?:for|in) (?:a|an|"
    r"the|our|my|us|this) [^?,]{1,30}| (?:here|then|though|too|now|at all|any ?more|or (?:not|wrong|bad|too \w+)))*"
    r"\W*\?|(?:what|how) (?:do|would|are|is) (?:you|your) (?:think|feel|say|thoughts?|opinion|take)(?: (?:about|of|on) "
    rf"(?:that|this|it|(?:that|this|the|my) {_KIND_OF_RULE}))?\W*$|(?:any )?(?:thoughts|opinions?)(?: (?:about|of|on) "
    r"(?:that|this|it))?\W*\?|(?:do you )?(?:dis)?agree(?:d)?\s*\?|(?:true|right|good|yes) or (?:false|wrong|bad|no)\b|"
    rf"(?:good|bad) {_KIND_OF_RULE}(?: or (?:a )?\w+(?: {_KIND_OF_RULE})?)?\W*\?|true\s*\?|"
    r"not (?:so |too |really |quite |entirely )?sure(?: (?:though|yet|tbh|honestly|about (?:that|this|it)(?: one)?|"
    rf"(?:if|whether) (?:that|this|it)(?:'?s| is) (?:an? |the )?(?:\w+ )?{_WORTH}(?: {_KIND_OF_RULE})?))*\W*$)"
)
#: An announcement of a rule that asks whether it is a good one.
ANNOUNCES = any_case(
    rf"{_SO_AND}(?:{_IS_THAT}(?:\w+ ){{0,2}}?{_KIND_OF_RULE}\W*\?|(?:what|how) do you (?:think|feel) (?:about|of) "
    rf"(?:this|the following)(?: {_KIND_OF_RULE})?\W*$)"
)
#: A statement that the preceding text is wrong, or somebody else's opinion.
DISAGREES = any_case(
    # The text after it is someone else's and is left out: "that's what the linter says".
    r"\b(?:that|this)(?:'?s| is| was) what\W*$|\b(?:i (?:strongly |totally |completely )?(?:disagree|beg to differ)|"
    r"i (?:don'?t|do not) (?:agree|think so|believe (?:that|it|so)|see it that way|buy (?:it|that))|(?:that'?s|that is|"
    r"which is|this is) (?:just |plain |total |complete )?(?:wrong|nonsense|silly|stupid|bullshit|rubbish|not true|"
    r"a bad idea|overkill|ridiculous|too (?:strict|much))|not convinced|i'?m not a fan|what nonsense|(?:that|this|"
    r"which)(?:'s| is| was) (?:what|how) (?:the|my|our|their|they|he|she|his|her)\b[^.]{0,40}\b(?:did|does|do|said|"
    r"says?|wanted|wants?|thinks?|thought))\b"
)


# --- What limits, ends, lifts or replaces an earlier rule, in English -------------------------------------------------

#: A dismissal that begins like a prohibition.
DISMISSES = any_case(r"^\W*(?:(?:ok(?:ay)?|please|oh|and|but|so|well)[, ]+)*never ?mind\b")
#: A sentence that only limits the one before it: "Just for this script though." "Just in case." gives a reason instead.
LIMITS = any_case(
    r"^\W*(?:(?:but|and|well|i mean|ok(?:ay)?)[, ]+)*(?:only|just|at least)[, ]+"
    r"(?!in (?:case|general|principle)\b|on principle\b|for (?:(?:the|your|good|my own) )?(?:record|measure|"
    r"information|reference|clarity|consistency|safety|completeness|context)\b)(?:"
    r"(?:for|in|on|until|till|during|while)\b|(?:here|there|now|today)\b|(?:this|that) (?:once|time|one)\b)"
    r"(?:\W+[\w'’./-]+){0,7}\W*$"
)
#: The beginning of an objection, in any of the languages; it casts doubt on what was said last.
OBJECTS = any_case(
    r"^\W*(?:(?:ok(?:ay|é)?|ah|oh|uh|hm+|ugh|wait)[,. ]+)*(?:(?:no|nope|nah|nee|nein|non|não|stop|стоп|sorry|oops|oeps|"
    r"ups|hoppla|esquece|не|нет)(?=\s?[,.!;:…–-]|\W*$)|いや、|不对|等等|아니,)"
)
#: Wordings that end an earlier rule if they mention it.
LIFTS = any_case(
    r"^(?:(?:ok(?:ay)?|please|actually|well|now|and|but)[, ]+)*(?:stop \w+ing|no need to|no longer|(?:you|we) (?:may|"
    r"can) \w+ .*\b(?:again|after all|anyway|as well|of course|too)|you don'?t (?:have|need) to)\b|^actually,? "
    r"(?:you (?:may|can)|it'?s (?:ok|okay|fine))\b"
)
#: A permission ("ORMs are fine"). "The tests are fine" describes the state of particular things instead.
PERMITS = any_case(
    r"(?:^|[,.;:–—]\s*|\b(?:so|but|and|because|then) )(?!(?:the|this|that|these|those|your|my|our|it|all|everything)\b)"
    r"(?P<about>[^,.;:–—]+?) (?:is|are|was|were) (?:actually |totally |perfectly |just |also )?(?:fine|ok(?:ay)?|"
    r"allowed|acceptable|good enough)\b"
)
#: A statement that something was better than what a rule demands.
WAS_BETTER = any_case(r"(?:^|[,.;:–—]\s*)(?P<about>[^,.;:–—]+) were better\W*$")
#: A statement that something is better than what a rule demands.
IS_BETTER = any_case(r"\b(?:is|are|was|were) better (?:\w+ ){0,3}?than (?P<about>(?:[\w-]+ ){0,2}[\w-]+)\W*$")
#: Wordings that say that something no longer applies, whenever it was stipulated.
OVER = any_case(
    r"\b(?:we|you|i) (?:no longer|(?:don'?t|do not) (?:\w+ ){1,12}?(?:any ?more|any longer)|(?:(?:have |'ve )?"
    r"(?:stopped|given up|gave up|quit) \w+ing|(?:have |'ve )?(?:got rid of|moved away from|said goodbye to)))\b|"
    r"\b(?:there is |there'?s )?no (?:longer a )?need (?:to|for) .*(?:any ?more|any longer)\b"
)
_RULE = r"(?:rule|convention|policy|requirement)"
_A_NAMED_RULE = rf"(?:the|our|my|that) (?:(?!(?:of|from|in)\b)[\w'’-]+ ){{1,4}}{_RULE}"
#: Wordings that say that a named rule no longer applies.
RULE_OVER = any_case(
    rf"\b(?:we|i)(?: have|'ve)? (?:dropped|lifted|abolished|retired|scrapped|abandoned|revoked) {_A_NAMED_RULE}"
    r"(?=\W*$|[,.;!]| (?:about|on|for|that|now|any ?more|again|last|since|because|as|and|so)\b)|"
    rf"^\W*(?:please )?ignore {_A_NAMED_RULE}\W*$|\b{_A_NAMED_RULE} (?:is|was) (?:gone|over|history|obsolete|off|void|"
    rf"dropped|lifted|withdrawn|cancelled)\b|\b{_RULE} (?:no longer|doesn'?t|does not) (?:hold|appl\w+|count)"
)
#: The verb by which a rule can be called: "always squash the merges" is "the squash rule".
WHAT_IT_DOES = any_case(r"\b(?:always|never) (?P<verb>\w+)")
#: Wordings that say that something is no longer forbidden.
ALLOWED_AGAIN = any_case(
    r"\b(?:you|we) (?:may|can|are allowed to) (?:now )?(?:\w+ ){1,8}?again\b|"
    r"\bit(?:'?s| is) (?:ok|okay|fine|allowed) (?:now )?to (?:\w+ ){1,8}?again\b|"
    r"\b(?:you|we) (?:may|can|are allowed to) (?:[\w-]+ ){1,8}?from now on\b|"
    r"\bfrom now on,? (?:(?:you|we) (?:may|can|are allowed to)|(?:[\w-]+ ){1,8}?(?:is|are) (?:ok|okay|fine|allowed))\b|"
    r"\b(?:is|are) allowed (?:again|from now on)\b|"
    # "The mapping is fine again" describes a state; "mapping by hand is fine again" permits something.
    r"^\W*(?:(?:ok(?:ay)?|so|and|but)[, ]+)*(?:(?P<actually>actually),? )?[a-z-]+ing (?:[\w-]+ ){1,6}?(?:is|are) "
    r"(?:ok|okay|fine) (?:again|from now on|(?(actually)now|(?!)))\b"
)
#: Words that only say that something no longer applies, without naming a subject.
OVER_WORDS = content_words(
    "no longer anymore any more stopped using used use need needs have given gave quit rid moved away want allowed "
    "dropped lifted abolished retired scrapped abandoned revoked ignore gone over history obsolete off void withdrawn "
    "cancelled hold holds apply applies count counts requirement policy "
    "again may can now okay fine said goodbye actually from"
)
#: A rule that forbids something, or one thing in favour of another.
DENIES = any_case(
    r"\b(?:not|never|no|avoid|stop|don'?t|doesn'?t|won'?t|mustn'?t|without|instead of|rather than|in place of)\b"
)
#: A rule that demands one thing by forbidding another without it.
DEMANDS = any_case(r"\b(?:never|no|not|don'?t)\b.*\bwithout\b")
