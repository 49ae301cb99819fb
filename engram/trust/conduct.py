"""Find orders about conduct in text that the user didn't type: from a colleague, a pack, an import or a paste.

Such text may state firm rules about a project ("use uv, not pip", "never log tokens"). It must not direct the agent or
the user to run code from elsewhere, to reveal secrets, to hide something from someone, to skip questions or checks, to
believe or obey, to speak in someone's name, or to store the text itself.

Most rules look for one of two kinds of acts: harmful ones, which are harmless if forbidden ("never skip the hooks"),
and protective ones, for which the prohibition is the order ("do not ask first").
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from engram.system.lazy_regex import has_one, lazy_regex
from engram.trust.conduct_words import (
    ANYBODY,
    GIVE,
    GIVE_AWAY,
    HARD_SECRETS,
    LEAVES_OUT_CHECKS,
    NEGATED_ORDER,
    ORDER,
    ORDERS_ELSEWHERE,
    OUTSIDE,
    PROTECTION,
    SECRET_MARKS,
    SOFT_SECRETS,
    THIS,
    UNDENIED,
    USER,
    WHO_READS,
    act,
)


class Conduct(NamedTuple):
    """A kind of order: its reason, its pattern in lower case, and whether a negation makes it harmless."""

    reason: str
    source: str
    is_harmless_if_negated: bool = True
    #: Strings of which every such order contains at least one, so that most texts need no regex search; () if no such
    #: strings are known.
    marks: tuple[str, ...] = ()


def order_in(text: str) -> str | None:
    """Return a short description of what a text orders; None if it orders nothing about anyone's conduct.

    Args:
        text: text in lower case, at most about 20,000 characters.
    """
    text = EXAMPLE_FILE.sub("file", BLANKS.sub(" ", EMPTY_LINES.sub("\n", text)))
    for conduct in CONDUCT:
        if not has_one(text, conduct.marks):
            continue
        for match in _compiled(conduct.source).finditer(text):
            if not conduct.is_harmless_if_negated or not is_forbidden(text, match):
                return conduct.reason
    return None


def is_forbidden(text: str, match: re.Match[str]) -> bool:
    """Return True if the clause forbids the matched act, either before or just after it.

    The text must be in lower case.
    """
    before = _CLAUSE_END.split(text[max(0, match.start() - 80) : match.start()])[-1]
    # A phrase that does not really negate can overlap the act: "don't forget to send".
    denied = _NOT_A_NEGATION.sub(lambda hollow: " " * len(hollow[0]), before + match.group()[:24])[: len(before)]
    behind = _CLAUSE_END.split(text[match.end() : match.end() + 60])[0]
    return bool(_compiled(_NOT).search(denied) or _compiled(_FORBIDDEN).search(behind))


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return lazy_regex(source, re.MULTILINE)


#: Example files, which list variables without values.
EXAMPLE_FILE = lazy_regex(r"\.env\.(?:example|sample|template|dist|test|ci)\b")
BLANKS, EMPTY_LINES = lazy_regex(r"[^\S\n]+"), lazy_regex(r"\s*\n\s*")
_CLAUSE_END = lazy_regex(
    r"[.!?;:\n](?=\s|$)|,\s|\b(?:and|then|but|instead|rather|und|sondern|aber|mais|et|sino|pero|y)\b"
)
_NOT = (
    r"\b(?:never|not|cannot|avoid|refuses?|forbid(?:s|den)?|prohibit\w*|disallow\w*|neither|nor|no longer|stop|"
    r"nie|niemals|nicht|kein\w*|ohne|jamais|nunca|jamás|mai|nooit|niet|geen|não|nem|nigdy|asla)\b|n['’]t\b|\bdont\b|"
    r"^\W*(?:no|non|ne|nie)\s|\bne\s|никогда|\bне\s|不|别|禁止|勿|严禁"
)
#: Phrases that look like negations but do not negate anything.
_NOT_A_NEGATION = lazy_regex(
    r"\b(?:(?:do not|don['’]?t|never|not|must not|should not) (?:hesitate|forget|fail|neglect|omit|be afraid|"
    r"worry)|not (?:only|just|a problem|an issue|necessary|needed|wrong|forbidden)|no(?:t)? (?:longer )?(?:need|reason)"
    r"\w*|why not|is(?:n['’]t)? it not|isn['’]t it|"
    r"if (?:it is |they are |you are |that is )?not\b)"
)
_FORBIDDEN = (
    r"\b(?:(?:is|are|was|were|stays?|remains?) (?:strictly |explicitly )?(?:not allowed|forbidden|prohibited|banned|"
    r"never|blocked|rejected|disallowed|not)|ist verboten|sind verboten|est interdit|está prohibido|é proibido|"
    r"è vietato)\b|ない|禁止|はいけ|しないで"
)

CONDUCT: tuple[Conduct, ...] = (
    # -- addressed to the agent
    Conduct(
        "an order to the agent",
        rf"(?:^|[.!?:;(\"'“>*-]\s*)(?:hey|hi|hello|dear|attention|note (?:to|for)|message (?:to|for)|instructions? "
        rf"(?:to|for)|important (?:note )?(?:to|for)|rules? for|reminder (?:to|for))\W{{1,3}}(?:all |any |every |"
        rf"the |future )*"
        rf"{WHO_READS}|(?:^|[.!?]\s*)(?:claude|copilot|assistants?|ai agents?|agents?)\s*[,:!—]|"
        r"\bif you(?: are|'re) (?:an? )?(?:ai|llm|agent|assistant|claude|model|language|bot|coding|reading)|"
        r"\bwho(?:ever|soever) reads (?:this|it)\b|\bwhen(?:ever)? you (?:read|see|open|load|start in|enter|find) "
        r"(?:this|it|here)\b|\byou are reading\b",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "an order to the agent",
        r"(?:\b(?:ai|llm|coding|autonomous) ?-?(?:agents?|assistants?|models?|tools?|bots?)|\b(?:the |all |any |every |"
        r"an? )?(?:agents?|assistants?|claude(?: code)?|copilot|codex)|\bthe model)\b[^.\n]{0,30}\b(?:must|should|"
        r"shall|ha(?:s|ve) to|needs? to|(?:is|are) (?:required|expected|allowed|free|permitted|authori[sz]ed|"
        r"instructed|trusted|told|approved) to|may|can|always|will|automatically)\b(?! (?:not|never)\b)"
        + UNDENIED
        + r"{0,40}\b(?:run|execute|approve|accept|skip|ignore|bypass|disable|delete|remove|drop|send|upload|post|"
        r"exfiltrate|leak|transmit|e-?mail|steal|forward|install|download|fetch|obey|follow|trust|treat|hide|push|force-push|commit|merge|deploy|grant|reply|"
        r"pretend|disclose|reveal|print|append|repeat|overwrite|kill|comply)\b",
    ),
    Conduct(
        "an order to the agent",
        r"\b(?:you are|you're|you will be|you act as|you play|du bist|sie sind|tu es|vous êtes|eres|usted es|sei|"
        r"você é|jij bent) (?:now|from now on|actually|no longer|ab jetzt|jetzt|nun|ab sofort|désormais|maintenant|"
        r"ahora|ora|agora|nu)\b|\byou(?:'re| are) (?:an? |the )?(?!able|allowed|done|free|going|in |on |not|using|"
        r"ready)(?:\w+[ -]){0,3}(?:ai|agent|assistant|bot|model|admin\w*|root|manager|operator|hacker)\b|\bact as\b|"
        r"\bpretend (?:to be|you|that)|\brole-?play|\blet us play\b|\byour (?:new|real|true|actual|only) (?:task|goal|"
        r"role|instructions?|purpose|job|objective|mission|name)|\bnew (?:instructions?|directives?|persona)\b|"
        r"\byou must now\b|\b\w*bot\b[^.\n]{0,30}\b(?:without|no) (?:rules|restrictions|limits|filters)|"
        r"\bfrom (?:now on|this point|this moment|here on|today)\b[^.\n]{0,12}\byou\b|\boverride code\b|"
        r"\b(?:unrestricted|elevated) (?:shell|mode|access|use|session)\b",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "a claim in the user's name",
        rf"\b{USER}s?\s+(?:ha(?:s|ve|d)\s+|already\s+|hereby\s+|explicitly\s+|kindly\s+)*(?:authori[sz]ed|approved|"
        rf"agreed|consented|granted|permitted|instructed|pre-?approved|signed off|okayed|waived|"
        rf"given (?:\w+ )?(?:permission|consent|approval))\b(?! (?:by|in|via|through|orders?|users?|state|column|"
        rf"accounts?|requests?|refunds?))|\b{USER}\b (?:already )?(?:told|asked|said|wants?|would like|prefers?|likes?|"
        rf"expects?|trusts?|demands?|requests?|requires?|decided|allows?|is (?:fine|ok|okay|happy|aware)|insists?|"
        rf"won['’]t mind|will not mind|does(?: not|n['’]t) (?:mind|want|care|need)|knows)\b(?: that\b|"
        rf"[^.\n]{{0,60}}\b(?:you|assistants?|agents?|claude|every (?:change|commit|command)|to (?:skip|bypass|disable|"
        rf"force|push|be asked)|without (?:asking|review|confirm\w+|approval)|never ask|not be (?:asked|told|bothered)|"
        rf"straight|directly to|permissions?|confirmations?|secrets?|production)\b)|\byou (?:have|have got|got|"
        rf"were given) (?:\w+ )?(?:permission|authority|clearance|authori[sz]ation)\b|\byou(?:['’]re| are) (?:hereby |"
        rf"now )?(?:authori[sz]ed|cleared|permitted) to\b|\bas (?:\w+ )?(?:agreed|discussed|arranged|decided|approved|"
        rf"authori[sz]ed|confirmed|requested|instructed) (?:with|by) {USER}\b|\bwith {USER}(?:['’]s)? (?:consent|"
        rf"permission|approval|blessing|agreement)|\b(?:on behalf of|in the name of) the user\b|\bas the user(?=\s*,|"
        rf"\s+i\b)|\bi,? the user\b|\bthis is (?:the user|your user|the owner)\b|\bi am (?:the|your) (?:user|owner|"
        rf"admin\w*|developer|boss)|\b(?:user|owner|developer)['’]?s? (?:preference|wish|directive|consent)\s*:|"
        rf"\bpre-?(?:approved|authori[sz]ed)\b|\bmy (?:rule|preference|instruction) (?:is|for you)|\b(?:discussed|"
        rf"agreed|settled|cleared|arranged) (?:it |this |that )?(?:already )?with (?:the )?(?:user|owner|developer|"
        rf"maintainer|human)\b|\bas agreed,",
        is_harmless_if_negated=False,
    ),
    # -- secrecy
    Conduct(
        "secrecy towards the user",
        rf"{NEGATED_ORDER}[^.\n]{{0,24}}\b(?:(?:tell(?:ing)?|inform(?:ing)?|let)\b[^.\n]{{0,16}}\b{ANYBODY}\b|"
        rf"(?:notify(?:ing)?|alert(?:ing)?|warn(?:ing)?|show(?:ing)?|reveal(?:ing)?|report(?:ing)?|"
        rf"mention(?:ing)?)\b[^.\n]{{0,40}}\b{ANYBODY}\b[^.\n]{{0,20}}\b{THIS}|(?:mention(?:ing)?|report(?:ing)?|"
        rf"disclos(?:e|ing)|reveal(?:ing)?|bring(?:ing)? up|talk(?:ing)? about|discuss(?:ing)?|document(?:ing)?|"
        rf"point(?:ing)? out|acknowledg(?:e|ing)|show(?:ing)?|admit(?:ting)?)\s+{THIS}\b|(?:mention|report|list|"
        rf"include|note|say)(?:ing)?\b[^.\n]{{0,60}}\b(?:to {ANYBODY}|in (?:your|the) (?:summary|answers?|repl(?:y|"
        rf"ies)|report|response|final message))\b|bring(?:ing)? (?:it|this|that) up|draw(?:ing)? attention|"
        rf"(?:a )?(?:mention|word|trace|comment)\b)|\b(?:leave|keep) "
        rf"(?:this|it|that|them|{THIS}|(?:the|this|these|that|those) (?:instruction|note)s?|(?:this|these|that|those) "
        rf"(?:orders?|memor(?:y|ies)|requests?|texts?)) "
        rf"(?:(?:out of|from|"
        rf"away from) (?:your (?:\w+ )?\w+|the (?:summary|answer|report|reply|commit message|review)|{ANYBODY})\b|"
        rf"(?:to yourself|secret|hidden|quiet|confidential|between us)\b)|\bkeep (?:quiet|silent|mum)\b|"
        rf"\b(?:between us|off the record|for your eyes only|unbeknownst)\b|\bmention (?:this |it )?(?:nowhere|"
        rf"to no ?-?one|nothing)\b|\b(?:logs?|history|diff|summary|report)\b (?:do(?:es)?(?: not|n['’]t)|must(?: not|"
        rf"n['’]t)|should(?: not|n['’]t)|never) (?:show|contain|mention|list|include)s? {THIS}\b",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "secrecy towards the user",
        rf"\b(?:so|such a way|sure|such) that (?:no ?-?one|nobody|no (?:user|reviewer|human|developer)|"
        rf"{USER} (?:does not|doesn['’]t|won['’]t|can(?:not|['’]t)))\b[^.\n]{{0,20}}\b(?:sees?|notices?|knows?|finds?|"
        rf"learns?|suspects?)\b|\b(?:no ?-?one|nobody) (?:must|should|needs? to|has to|may|is to|ought to) (?:know|see|"
        rf"notice|find out|be told|learn|hear)\b|\b{USER} (?:must|should|need|does|will|can)(?:n['’]?t|"
        rf" not) (?:to )?(?:know|notice|be told|learn|find out|hear)\b|\b(?:tell|inform) (?:no ?-?one|nobody)\b|"
        rf"{act('hide|conceal|obscure|cover up|disguise')}\s+(?:{THIS}\b|(?:\w+ ){{0,4}}from (?:the )?(?:user|human|"
        rf"reviewer|developer|owner|maintainer|team|anyone|everyone)\b)|\b(?:secretly|covertly|stealthily|"
        rf"surreptitiously|behind (?:his|her|their|the user['’]s) back)\b|{ORDER}(?:quietly|silently|discreetly|"
        rf"unobtrusively)\s+(?!\w+(?:s|ing|ed)\b)\w",
        is_harmless_if_negated=False,
    ),
    # -- skipping questions and checks
    Conduct(
        "acting without asking",
        rf"{NEGATED_ORDER}\s+(?:\w+ )?(?:ask(?:ing)?(?: back| again| first| before| for (?:permission|confirmation|"
        rf"approval|consent)| (?:the )?(?:user|developer|human|owner)| me| anyone| anybody| questions| about| whether|"
        rf" if)?(?=\W|$)|(?:confirm(?:ing)?|check(?:ing)?|consult(?:ing)?|verify(?:ing)?|clear(?:ing)? (?:it|"
        rf"this))\s+(?:back )?(?:with|before)\b|consult(?:ing)? {ANYBODY}|wait(?:ing)? for (?:\w+ )?(?:approval|"
        rf"confirmation|permission|consent|an? (?:answer|ok|review)|{USER})|seek(?:ing)? (?:permission|approval|"
        rf"confirmation|consent)|request(?:ing)? (?:permission|approval|confirmation)|(?:refus|declin|question|doubt|"
        rf"object|second-guess|challeng)(?:e|es|ing)?\b|prompt(?:ing)? (?:the user|for (?:permission|confirmation|"
        rf"approval)))",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "acting without asking",
        rf"\bwithout (?:any |a |an |the |further |prior |first |explicit |even |having )*(?:asking|telling|informing|"
        rf"mentioning|consent|permission|notifying|bringing|prompting|approval from|checking with|oversight|"
        rf"supervision|{USER}['’]s|{USER} (?:knowing|noticing|seeing))\b",
    ),
    Conduct(
        "acting without asking",
        # This matches what someone should do, not what something is: "a call that is made without a check" is not an
        # order, but "may be run without confirmation" is.
        rf"(?:(?:{ORDER}(?!(?:the|an?|our|its?|their|this|that|these|those|we|they|i)\b)|{WHO_READS}[^.\n]{{0,40}}\s)"
        rf"(?:(?!(?:is|are|was|were|can|may|could|will|has|have|had)\b)\w+[ -]){{1,8}}|"
        rf"\b(?:may|can|should|must|shall) be \w+(?:ed|run|built|sent|done|made) )without (?:any |a |an |the |further |"
        rf"prior |code |explicit )*(?:review|approval|confirmation|confirming|verification|checks?|tests?|"
        rf"permission)\b",
    ),
    Conduct(
        "weakening protection",
        rf"{NEGATED_ORDER}\s+(?:\w+ )?(?:verify|check|validate|compare)(?:ing)?\b[^.\n]{{0,20}}\b(?:checksums?|"
        rf"signatures?|hashes|certificates?|integrity|fingerprints?|provenance)\b",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "weakening protection",
        rf"\bdangerously-?(?:skip|disable|allow|bypass)|\bbypasspermissions\b|\bauto-?(?:approv|accept|confirm)\w*|"
        rf"--(?:no-verify|yolo|allow-all|full-auto)\b|\b(?:reviews?|approvals?|confirmations?|permissions?|sandbox\w*|"
        rf"verification)\b[^.\n]{{0,24}}\b(?:is|are|was|were|be|gets?|been|can be|may be|will be|"
        rf"stays?)\s+(?:\w+ly )?(?:skipped|disabled|bypassed|off|not (?:needed|required|necessary)|unnecessary|"
        rf"optional|waived|granted|lifted|turned off|switched off|implied|raised)\b|\b(?:no|"
        rf"without) {PROTECTION}[^.\n]{{0,12}}\b(?:is |are )?(?:needed|required|necessary|wanted|takes place)\b|"
        rf"\bneeds? no (?:\w+ )?{PROTECTION}|\b(?:full|unrestricted|root|unlimited|complete) (?:access|rights|"
        rf"permissions?|control)\b(?=[^.\n]{{0,30}}(?:\byou\b|grant|given|assistant|agent|session))|\bgrants? "
        r"(?:\w+ )?(?:full|unrestricted|root|all|complete)\b|\b(?:your|previous|prior|earlier|above|all) (?:\w+ "
        r")?(?:guidelines|instructions|rules|"
        rf"restrictions|constraints|orders)\b[^.\n]{{0,20}}\b(?:(?:no longer|do(?:es)? not|don['’]t) (?:apply|hold|"
        rf"count|bind)|(?:are|were|have been) (?:replaced|void|lifted|suspended|revoked|cancelled|invalid))|\b(?:rules|"
        rf"instructions|guidelines) above (?:are|were|have been)\b|\b(?:anything|everything|whatever|"
        rf"what) {USER} (?:says?|said|asks?|writes?|wrote|types?|typed)\b[^.\n]{{0,40}}\b(?:ignored|disregarded|a test|"
        rf"not count|invalid|a joke)\b",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "weakening protection",
        act("push|commit|merge|deploy|release")
        + r" (?:\w+ ){0,2}(?:straight|directly|right) (?:in)?to (?:main|master|prod\w*)|"
        + act("approve|merge|accept")
        + r"[^.\n]{0,40}\b(?:automatically|blindly|unseen|unread)\b|"
        + act("set|export|use|point|change")
        + r"[^.\n]{0,24}\b(?:(?:anthropic|openai|claude)_(?:base_)?(?:api_)?url|https?_proxy|node_tls_reject|"
        r"http://\d)|\b(?:reverse|bind) shell\b|\bsudo for (?:everything|all)|\b(?:sessionstart|sessionend|pretooluse|"
        r"posttooluse|userpromptsubmit) hooks?\b|\bhooks?\b[^.\n]{0,24}\b(?:uploads?|sends?|posts?|curls?)\b|"
        + act("grant|give")
        + r"[^.\n]{0,50}\b(?:owner|admin|root|full|write) (?:rights|access|permissions?)\b[^.\n]{0,12}\b(?:all|"
        r"every\w*)\b|"
        rf"{act('add|set|put|change|write|enable|extend|edit')}[^\n]{{0,60}}\bpermissions?\.(?:allow|defaultmode|"
        rf"deny)\b|{act('approve|accept|allow|confirm|grant')}\s+(?:all|every|any|each|everything|"
        rf"whatever)\b(?! (?:cookies|terms))|\btool calls?\b[^.\n]{{0,40}}\b(?:approved|allowed|accepted|permitted)\b|"
        rf"\b(?:answer|say|reply|click|press|type)s? (?:with )?[\"'“]?(?:yes|y|ok|allow|always)\b",
    ),
    Conduct(
        "weakening protection",
        act(
            "skip|disable|bypass|turn off|switch off|deactivate|circumvent|weaken|suppress|relax|remove|ignore|drop|"
            "loosen|avoid|override|evade|work around|leave out|lower|überspring\\w*|deaktivier\\w*|umgeh\\w*|"
            "désactive[zr]?|contourne[zr]?|desactiva\\w*|omite|omit[ae]|disattiva\\w*|salta",
            is_loose=True,
        )
        + rf"[^.\n]{{0,30}}\b(?:{PROTECTION}|confirmation\b|confirmaci[oó]n|conferm[ae]|autorisation|permisos|"
        rf"permessi)",
    ),
    Conduct("weakening protection", LEAVES_OUT_CHECKS, is_harmless_if_negated=False),
    # -- sending out secrets, or the work itself
    Conduct(
        "sending work to outsiders",
        act("push|mirror|sync|copy|upload|back up|clone|duplicate")
        + r"\b[^\n]{0,40}\b(?:code|branch\w*|repo\w*|commits?|changes|work|diffs?|history|sources?|files|"
        r"everything)\b[^\n]{0,40}(?:\b[\w.-]+@[\w-]+(?:\.[\w-]+)+:|\b(?:https?|ssh|git|s?ftp|rsync)://|\bto (?:my|"
        r"an? (?:external|personal|private|second|foreign)|another) (?:\w+ )?(?:remote|account|fork|mirror|server|"
        r"bucket|drive)\b)",
    ),
    Conduct(
        "sending secrets to outsiders",
        rf"(?:{SOFT_SECRETS}|{HARD_SECRETS}){UNDENIED}{{0,60}}\b(?:{GIVE}) (?:it|them)\b[^.\n]{{0,40}}{OUTSIDE}",
        marks=SECRET_MARKS,
    ),
    Conduct(
        "sending secrets to outsiders",
        act(GIVE_AWAY, is_loose=True)
        + rf"\b[^.\n]{{0,80}}?{HARD_SECRETS}(?![^\n]{{0,40}}\b(?:vault|1password|bitwarden|secrets? manager|kms|"
        rf"sops|doppler|header|bearer)\b)",
        marks=SECRET_MARKS,
    ),
    Conduct(
        "sending secrets to outsiders",
        act(GIVE) + rf"\b[^\n]{{0,100}}?(?:{HARD_SECRETS}|{SOFT_SECRETS})[^\n]{{0,100}}?{OUTSIDE}",
        marks=SECRET_MARKS,
    ),
    Conduct(
        "sending secrets to outsiders",
        rf"(?:{SOFT_SECRETS}|{HARD_SECRETS})[^\n]{{0,80}}\b(?:sent|uploaded|posted|forwarded|mailed|emailed|copied|"
        rf"pasted|published|attached|appended|included|printed|logged)\b[^\n]{{0,40}}{OUTSIDE}",
        marks=(
            *(
                "sent",
                "uploaded",
                "posted",
                "forwarded",
                "mailed",
                "copied",
                "pasted",
                "published",
                "attached",
                "appended",
            ),
            *("included", "printed", "logged"),
        ),
    ),
    Conduct(
        "sending secrets to outsiders",
        rf"\b(?:commit messages?|answers?|repl(?:y|ies)|summar(?:y|ies)|pull requests?)\b[^.\n]{{0,30}}\b(?:must|"
        rf"should|shall|ha(?:s|ve) to|needs? to) (?:contain|include|end|begin|start|carry|"
        rf"have)\b[^.\n]{{0,60}}(?:{SOFT_SECRETS}|{HARD_SECRETS})|{HARD_SECRETS}[^.\n]{{0,40}}\bto [\w.+-]+@[\w-]+\.\w|"
        rf"\b(?:wants?|would like|needs?|gets?|expects?) a copy of {HARD_SECRETS}|\basks? for (?:the |a |your |any |"
        rf"his |her )?(?:\w+ )?{SOFT_SECRETS}[^.\n]{{0,20}}\b(?:give|tell|send|hand|provide)\b|{ORDER}commit (?:the |"
        rf"your |all )?(?:\w+ )?(?:{HARD_SECRETS}|secrets?\b)",
        marks=SECRET_MARKS,
    ),
    Conduct(
        "sending secrets to outsiders",
        act(
            "read|open|cat|view|show|collect|gather|list|scan|search|grep|find|look at|look into|use|copy|add",
            is_loose=True,
        )
        + r"\b[^.\n]{0,40}?(?:\.ssh/|\bid_rsa|\bid_ed25519|\.aws/|\.netrc\b|\bkeychain|/etc/shadow|\bsystem prompt|"
        r"\bhidden instructions|authorized_keys)",
    ),
    # -- running code from elsewhere, and destroying data
    Conduct(
        "a command that fetches and runs",
        act(
            "install|download|run|execute|fetch|pull|curl|wget|load|source(?! code)|import|eval|pipe|obey|apply|piping|"
            "führe?\\w*|installier\\w*|lad\\w*|exécute[zr]?|installe[zr]?|télécharge[zr]?|ejecut\\w+|instal\\w+|"
            "descarg\\w+|esegu\\w+|scaric\\w+|execut\\w+|baix\\w+|voer|download"
        )
        + r"\b[^\n]{0,60}?(?<!\]\()(?<![(<])(?:https?://|\bwww\.|\b(?:from|at|von|de|da|van) "
        r"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|io|net|org|xyz|dev|sh|example|ru|top|zip)\b)(?!localhost|127\.0\.0\.1)|"
        r"\b(?:visit|open|read|see|go to|follow|load)\b[^\n]{0,40}(?:https?://|www\.)\S+[^\n]{0,30}\b(?:follow|obey|"
        r"do what|rules? for|instructions? for|orders)\b|\bpiping\b[^\n]{0,80}\binto (?:ba|z)?sh\b|\b(?:(?:pip3?|npm|"
        r"pnpm|yarn|gem|cargo|go|brew|uv|bun) (?:pip )?(?:install|add|i|get|run|exec|x)|npx|"
        r"uvx)\s+(?:-\S+\s+)*(?:\S+\s+)?(?:git\+)?https?://|(?:--(?:extra-)?index-url|--registry|-i)[ =]https?://|"
        r"(?:执行|运行|安装|下载|打开|実行|インストール|ダウンロード|실행|설치|запусти|установи|скачай|"
        r"выполни)[^\n]{0,40}https?://|https?://[^\n]{0,60}(?:执行|运行|安装|を実行|をインストール|실행|설치)",
    ),
    Conduct(
        "a command that fetches and runs",
        act("run|execute|start|launch|source|bash|sh|call|invoke")
        + r"\b[^.\n]{0,24}?(?:/tmp/|(?<!\w)~/|\$home/|\b\w+\.(?:exe|msi|ps1|bat|vbs|scr)\b|\b(?:attached|hidden|"
        r"encoded|decoded) (?:script|command|payload|code|text)|\bbase64)|"
        + act("decode|decrypt|unpack|deobfuscate|base64")
        + r"\b[^\n]{0,80}\b(?:and|then)\b[^\n]{0,20}\b(?:do|run|follow|execute|obey|eval\w*|apply|comply)\b|\b(?:do|"
        r"follow|obey|execute|apply) (?:exactly |just )?(?:what(?:ever)? (?:it|they|this|that)|everything (?:it|there)|"
        r"the (?:instructions?|orders?|steps?|rules?) (?:there|in it|below|above|from|on|at)|these (?:instructions|"
        r"orders))\b|\bdo (?:as|what|whatever|everything|anything)\b[^\n]{0,30}\b(?:says?|tells?|orders?|demands?|"
        r"instructs?)\b|\b(?:act on|obey|execute|carry out|follow) (?:the |all |any )?(?:commands?|instructions?|"
        r"orders?|directives?) (?:found |written |given |embedded |contained )*in (?:\w+ )?(?:comments?|issues?|"
        r"tickets?|outputs?|results?|pages?|e-?mails?|messages?)\b|\b(?:download|grab|curl|wget)\b[^\n]{0,60}(?:\bfrom "
        r"|://|www\.)\S+[^\n]{0,40}\b(?:and|then)\b\s*(?:\w+\s)?(?:run|execute|install|eval\w*|source|start|launch|"
        r"open)\b",
    ),
    Conduct(
        "a destructive command",
        r"(?:(?:^|[`\"'(;&|]\s*|\b(?:run|execute|use|type|do|try|call|set|with|and|then|always|"
        r"just)\s+[`\"']?)(?:sudo )?)(?:rm\s+-[a-z]*[rf][a-z]*\s+(?!(?:\./)?[\w./-]*(?:node_modules|build|dist|target|"
        r"out|cache|__pycache__|coverage|\.next|\.nuxt|\.turbo|\.venv|\.tox|\.gradle|vendor|gen|generated|tmp|"
        r"logs?)\b)|chmod\s+(?:-r\s+)?[0-7]?777\b|mkfs\b|dd\s+if=|git\s+push\s+[^\n]{0,40}(?:--force\b(?!-with)|-f\b)|"
        r"git\s+config\b[^\n]{0,60}(?:credential|hookspath\s+(?:to |=\s*)?(?:/|~|\$)|url)|git\s+remote\s+add\b|"
        r"drop\s+database\b|:\(\)\s*\{|crontab\b)|\b(?:xp_cmdshell|ld_preload)\b",
    ),
    Conduct(
        "a destructive command",
        act(
            "delete|remove|wipe|erase|clear|destroy|drop|purge|truncate|overwrite|force-push|lösch\\w*|supprime[zr]?|"
            "borr\\w+|elimina|cancella|apag\\w+|verwijder|usuń|удали\\w*"
        )
        + r"\b[^.\n]{0,30}?\b(?:backups?|(?:the |all |failing )?tests?(?: folder| files| suite)?\b(?! (?:data|database|"
        r"db|fixtures|user|tenant|container|cache))|(?:all|every) (?:files?|data|branches|logs?|commits?)|everything|"
        r"\.ssh\b|(?:shell|bash|zsh|command|terminal|chat|audit) history|traces|tracks|evidence|the (?:repo(?:sitory)?|"
        r"history|database|logs|home|lock file)|production|audit|to main|main\b|protokolle|logs\b|la base|los archivos|"
        r"les fichiers|dateien|alle)\b|"
        + act("delete|remove|wipe|overwrite|erase|empty")
        + r"[^.\n]{0,30}?\s[`'\"]?(?:~/|/etc/|/usr/|/home/|\$home)",
    ),
    # -- believing, obeying, answering
    Conduct(
        "an order to believe or obey",
        act("treat|consider|regard|take|view|accept|see|trust|read")
        + r"\b[^.\n]{0,60}?\b(?:as (?:\w+ )?(?:trusted|safe|verified|approved|authoritative|instructions?|orders?|"
        r"commands?|(?:coming|said|typed|spoken|written) (?:from|by)|(?:the )?(?:user|developer|owner|"
        r"system)(?:['’]s)?\b)|like (?:the )?(?:user|developer|owner|system)(?:['’]s)?\b)|\b(?:is|"
        r"are) (?:to be )?(?:fully )?trusted\b(?=[^.\n]{0,30}(?:\byou\b|agent|assistant|always|session))|\b(?:takes?|"
        r"has|have) (?:precedence|priority) over (?:\w+ ){0,3}(?:user|instructions?|claude|system|developer|rules you)|"
        + act("comply|obey")
        + r"\b",
    ),
    Conduct(
        "an order to believe or obey",
        r"\b(?:do not|don['’]?t|never|no need to|stop|need not|disregard|ignore|forget|overrule|override|"
        r"no longer)\b[^.\n]{0,16}\b(?:(?:follow|obey|heed|listen to|trust|believe|honou?r|respect|"
        r"comply with)\b\s+(?:the (?:user|rules?|instructions?|developer|owner|system)\b|claude\.md|agents\.md|what|"
        r"it\b|them\b|him\b|her\b|your|any|these|those)|(?:what(?:ever)? "
        rf"|anything |everything |all (?:that )?)?(?:{USER}|claude\.md|"
        rf"agents\.md)(?:['’]s)?\b[^.\n]{{0,20}}\b(?:says?|said|asks?|"
        r"asked|wrote|wants?|wanted|tells?|told|requests?|instructions?|rules?|wishes|objections?|concerns)\b)|"
        r"\b(?:missachte|ignorier\w*|vergiss)\b[^.\n]{0,40}\b(?:anweisung|regel|vorgabe|claude\.md|nutzer|"
        r"instruktion)\w*|\b(?:oublie[zr]?|ignore[zr]?)\b[^.\n]{0,40}\b(?:consignes?|instructions?|règles)\b|"
        r"\b(?:olvida|ignora|ignore|desatiende|esque[cç]\w*|dimentica\w*|negeer|vergeet|zapomnij|"
        r"zignoruj)\b[^.\n]{0,40}\b(?:instruc\w+|reglas|indicaciones|istruzioni|regole|instruções|regras|instructies|"
        r"regels|instrukcj\w+|polece\w+|zasad\w*)",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "an order about answers",
        act("reply|answer|respond|say|claim|report|state|pretend|assert|confirm|write|speak|tell \\w+(?: \\w+)?")
        + r"\s+(?:(?:only |always |just )?(?:with |in )?(?:(?:the )?words?\b|[\"'“]?(?:ok|yes|no|done)(?=[\"'”.!,]|$)|"
        r"capital|all caps|upper ?case)|that (?:everything|all|it|they|the|this|no|there|nothing|we|you)\b)|\b(?:every|"
        r"each|all|your) (?:single )?(?:answers?|repl(?:y|ies)|messages? to the user)\b[^.\n]{0,20}\b(?:must|should|"
        r"shall|ha(?:s|ve) to|needs? to|begins?|ends?|starts?|contains?|includes?)\b|\b(?:start|begin|end|finish|"
        r"close) (?:of )?(?:every|each|all|your) (?:answers?|repl(?:y|ies)|responses?|messages?)\b|"
        r"\bbefore (?:answering|replying|responding|you (?:answer|reply|respond|do anything|start working|begin))|"
        r"\bbefore (?:doing )?anything else\b|\bbefore you do anything\b|\bas (?:your|the) (?:very )?first (?:action|"
        r"step|thing|command)\b|\bbefore (?:you begin with )?(?:any|every|each) (?:task|session|answer|reply)\b|"
        r"\b(?:at|from) the (?:start|beginning|end) of (?:each|every|your|any) (?:session|conversation|chat|answer|"
        r"reply|turn)s?\b[^.\n]{0,24}\b(?:run|execute|send|post|read|say|ask|tell|you|agent|assistant)|\bafter (?:each|"
        r"every) (?:turn|answer|reply)\b",
    ),
    Conduct(
        "an order about answers",
        act("report|mark|present|declare|claim|describe|show|list|count")
        + r"\b[^.\n]{0,40}\bas (?:passed|passing|green|successful|done|complete\w*|fixed|ok|clean|safe|reviewed|"
        r"approved|tested|verified)\b[^.\n]{0,12}\b(?:even (?:if|when|though)|although|regardless|no matter|"
        r"whether or not|anyway)\b",
    ),
    Conduct(
        "weakening protection",
        r"\byour (?:\w+ )?(?:guidelines|instructions|rules|orders|prompt|training)\b[^.\n]{0,12}\b(?:is|are|were) "
        r"(?:outdated|out of date|obsolete|wrong|superseded|stale|expired|overridden|deprecated|incomplete|invalid)\b",
        is_harmless_if_negated=False,
    ),
    Conduct(
        "a command that fetches and runs",
        act("run|execute|paste|eval|evaluate|carry out")
        + r"\b[^.\n]{0,30}\b(?:commands?|scripts?|code|snippets?|one-?liners?|whatever|anything)\b[^.\n]{0,30}\b(?:in|"
        r"from|of|inside|within) (?:the |an? |any |every |each |its |their )?(?:\w+ ){0,2}?(?:issues?|tickets?|"
        r"comments?|e-?mails?|web ?pages?|chats?|posts?|pull requests?|pr descriptions?|bug reports?)\b",
    ),
    Conduct(
        "an order about answers",
        r"\b(?:if|when(?:ever)?|should|in case) (?:the |any |a )?(?:user|human|developer|reviewer|anyone|anybody|"
        r"someone|somebody|they|he|she|people)s? (?:ever )?(?:asks?|wants? to know|wonders?|questions?|complains?|"
        r"notices?|objects?)\b[^.\n]{0,60}?,? (?:then |just |simply )?(?:say|tell (?:them|him|her|the user)|answer|"
        r"reply|respond|claim|pretend|deny|blame|point (?:them|him|her))\b|\bwenn (?:der nutzer|die nutzerin|"
        r"der benutzer|jemand|er|sie) (?:\w+ ){0,5}(?:fragt|nachfragt|wissen will),? (?:dann )?(?:sag|antworte|"
        r"behaupte|erkläre?)\b|\bsi (?:l['’]utilisateur|quelqu['’]un|on te) (?:\w+ ){0,2}demande\b[^.\n]{0,40},? "
        r"(?:dis|réponds|répondez|dites)\b|\bsi (?:el usuario|alguien) (?:\w+ ){0,2}pregunta\b[^.\n]{0,40},? (?:di|"
        r"diga|responde|contesta)\b|\bse (?:l['’]utente|qualcuno) (?:\w+ ){0,2}chiede\b[^.\n]{0,40},? (?:di['’]?|"
        r"rispondi|dì)|\bse (?:o usuário|o utilizador|alguém) (?:\w+ ){0,2}perguntar?\b[^.\n]{0,40},? (?:diga|diz|"
        r"responda|responde)\b",
    ),
    # -- storing the text itself
    Conduct(
        "an order about memory",
        act(
            "remember|memori[sz]e|save|store|record|persist|keep|add|write|note|put|insert|retain|learn|append|copy|"
            "paste|place|set|change|edit|modify|update|include|overwrite|replace"
        )
        + r"\b[^.\n]{0,60}?(?:\b(?:your|long-?term|permanent|persistent|claude['’]?s?|the agent['’]s?|engram['’]?s?|"
        r"this) memor(?:y|ies)|\binto memory\b|\bin memory for\b|\bto memory\b|claude\.md\b|agents\.md\b|gemini\.md\b|"
        r"\.cursorrules|copilot-instructions|\.claude/|\bsettings(?:\.local)?\.json\b[^\n]{0,60}(?:permission|hook|"
        r"allow)|\.(?:bashrc|zshrc|profile|bash_profile|zprofile)\b|\bauthorized_keys|/etc/(?:sudoers|passwd|shadow|"
        r"hosts|cron)|\blaunchagents|\blogin items?|\bcrontab\b|\.git/hooks|\bfor (?:all |every )?future (?:sessions?|"
        r"conversations?|chats?|agents?)|\bin (?:all|every) (?:future|following|later) (?:sessions?|conversations?|"
        r"chats?)|\bforever\b|\bpermanently in (?:mind|memory)|\byour (?:notes|context|rules|instructions|"
        r"knowledge)\b)|"
        + act("call|use|run|invoke")
        + r" (?:the tool )?\W?memory_(?:save|forget|correct|pin)\b|\bfuture (?:sessions|agents|"
        r"assistants)\b[^.\n]{0,30}\b(?:follow|obey|know|must|should|read|remember|keep)|\bremember (?:that |this |to |"
        r"the following |it )?(?:for all|for every|forever|permanently|from now on)\b",
    ),
    *(Conduct(reason, source, is_spared) for reason, source, is_spared in ORDERS_ELSEWHERE),
)
