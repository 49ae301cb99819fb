"""Patterns for English sentences with which the user limits, ends, lifts or replaces an earlier rule.

What takes back the sentence before it is in ``engram.text.withdrawals``. ``user_rules.py`` and ``rule_endings.py`` use
these patterns.
"""

from __future__ import annotations

from engram.system.lazy_regex import any_case
from engram.text.words import content_words

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
