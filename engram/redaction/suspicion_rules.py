"""The rules against planted instructions: reasons, patterns, and the texts they apply to."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Rule(NamedTuple):
    """A reason, its pattern, and the texts it applies to: "all", or "relayed": those that nobody typed here."""

    reason: str
    #: A pattern in lower case; no letter of a text matters by its case.
    source: str
    scope: str = "all"
    #: Whatever the pattern finds has one of these in it, in lower case; () where that is not told.
    marks: tuple[str, ...] = ()
    #: It has one of these in it, too.
    also: tuple[str, ...] = ()

    def shows_in(self, text: str, lower: str | None = None) -> bool:
        """Return whether the rule applies to the text; the pattern is compiled at its first use.

        Args:
            text: any text.
            lower: the text in lower case (see ``lower_case``): a search that need not ignore case takes a third of
                the time, and a text without the marks is not searched at all.
        """
        if lower is None:
            return bool(_compiled(self.source, re.IGNORECASE).search(text))
        return has_one(lower, self.marks) and has_one(lower, self.also) and bool(_compiled(self.source).search(lower))


def has_one(text: str, marks: tuple[str, ...]) -> bool:
    """Return whether one of the marks, if there are any, is in the text."""
    for mark in marks:
        if mark in text:
            return True
    return not marks


#: Letters that a search that ignores case takes for a letter of the rules, and ``str.lower`` does not turn into it.
_FOLDED = re.compile("[\u0130\u0131\u017f\u1c80-\u1c88\u212a]")


def lower_case(text: str) -> str | None:
    """Return the text in lower case; None where a pattern that ignores case sees other letters than that."""
    return None if not text.isascii() and _FOLDED.search(text) else text.lower()


@cache
def _compiled(source: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(source, flags | re.MULTILINE)


_RULES_WORDS = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directives?|constraints?|polic(?:y|ies)|restrictions?|safeguards?|"
    r"guardrails?|training|orders|commands|system messages?|safety|programming)\b"
)
_SECRETS = (
    r"(?:\bsecrets?\b|api[ _-]?keys?|access keys?|\btokens?\b|passwords?|credentials?|\.env\b|environment variables?|"
    r"env vars?|\benv\b|ssh keys?|id_rsa|id_ed25519|private keys?|\.aws|\.ssh|\.netrc|\.npmrc|keychain|cookies?|"
    r"conversation|transcripts?|chat history|source code|system prompt|memory contents|customer data|repo(?:sitory)? "
    r"contents|whoami|/etc/passwd)"
)
_SECRETS_MARKS = (
    *("secret", "key", "token", "password", "credential", "env", "id_rsa", "id_ed25519", ".aws", ".ssh", ".netrc"),
    *(".npmrc", "cookie", "conversation", "transcript", "chat history", "source code", "system prompt"),
    *("memory contents", "customer data", "repo", "whoami", "/etc/passwd"),
)
RULES: tuple[Rule, ...] = (
    Rule(
        "orders to forget the rules",
        r"\b(?:ignore|disregard|forget|override|overrule|bypass|circumvent|drop|discard|neglect|void|cancel|set "
        r"aside|pay no attention to|do not (?:follow|obey)|don't (?:follow|obey)|stop following|nullif(?:y|"
        r"ies))\b[^.\n]{0,40}\b(?:(?:previous|prior|earlier|above|preceding|existing|former|original|all|any|every|"
        r"your|"
        r"system|initial|safety)\b[^.\n]{0,40}\b"
        + _RULES_WORDS
        + r"|(?:the|these|those|other)\b[^.\n]{0,24}\b(?:instructions|"
        r"rules|guidelines|directives|system prompt|restrictions|safeguards|guardrails)\b(?! (?:to|for) ))",
        marks=(
            *("ignor", "disregard", "forget", "overrid", "overrule", "bypass", "circumvent", "drop", "discard"),
            *("neglect", "void", "cancel", "set aside", "pay no attention", "do not", "don't", "stop following"),
            "nullif",
        ),
        also=(
            *("instruction", "rule", "prompt", "guideline", "directive", "constraint", "polic", "restriction"),
            *("safeguard", "guardrail", "training", "orders", "commands", "system message", "safety", "programming"),
        ),
    ),
    Rule(
        "orders to forget the rules",
        r"\b(?:supersed\w+|replac\w+|overrid\w+|takes? precedence over|outranks?)\b[^.\n]{0,24}\b(?:previous|prior|"
        r"earlier|preceding|all|any|every|your|system)\b[^.\n]{0,30}\b" + _RULES_WORDS,
        marks=("supersed", "replac", "overrid", "precedence", "outrank"),
    ),
    Rule(
        "orders to forget the rules",
        r"ignorier\w* (?:alle|die|sämtliche)?\s*(?:vorherigen|bisherigen|obigen)|vergiss (?:alle|die) |ignora "
        r"(?:todas )?(?:las|le|tutte le) (?:instrucciones|istruzioni)|(?:ignore[zr]?|oublie[zr]?) (?:toutes )?les "
        r"(?:instructions|consignes)|ignore (?:todas )?as instruções|忽略.{0,8}(?:指令|指示|规则|提示)|無視.{0,6}|"
        r"(?:игнорируй|"
        r"забудь|игнорировать).{0,24}(?:инструкц|указани|правил)|(?:指示|命令).{0,6}無視|이전.{0,8}(?:지시|명령).{0,8}무시|"
        r"zignoruj .{0,20}instrukcje|önceki talimatlar[ıi]",
        marks=("ignor", "vergiss", "oublie", "忽略", "無視", "игнор", "забудь", "무시", "talimat"),
    ),
    Rule(
        "a forged role or tag",
        r"<\s*/?\s*(?:system|assistant|human|developer|instructions?|important|memor(?:y|ies)|system[-_ ]\w+|"
        r"function_calls|function_results|invoke|tool_(?:result|use|call)\w*|admin|operator|anthropic\w*|claude\w*|"
        r"antml\w*|command-\w+|local-command-\w+|user[-_](?:prompt|message|input|preference)\w*|override|engram\w*|"
        r"recall\w*|additionalcontext)\b[^<>]{0,200}>",
        "relayed",
    ),
    Rule(
        "a forged role or tag",
        r"<(?:\|?(?:im_start|im_end|endoftext|system|user|assistant|eot_id|start_header_id|end_header_id|channel|"
        r"message)\|?>|\|[a-z_]{2,24}\|>|</?sys>>|\s*/?\s*(?:system|assistant|system[-_]reminder|memor(?:y|ies)|"
        r"function_calls|tool_result|antml:\w+|engram\w*)\b[^<>]{0,100}>)",
        marks=("<",),
    ),
    Rule(
        "a forged role or tag",
        r"\[(?:/?inst\]|/?(?:system|assistant|memory|system message|end of (?:memory|context|document|file|user "
        r"input))\])",
        marks=("[",),
    ),
    Rule(
        "a forged role or tag",
        r"^\W{0,8}(?:system|assistant|"
        r"developer)\s*(?:message|prompt|note|reminder|override|notice|update|instructions?|alert)?\W{0,4}:|"
        r"\b(?:begin|end|start|new|updated|real|actual|true|hidden|secret)\s+(?:of\s+)?(?:the\s+)?(?:system|"
        r"developer|admin)\s+(?:prompt|message|instructions?|override|note)|\bsystem (?:override|notice|update|"
        r"alert)\b|\bend of (?:the )?(?:memor(?:y|ies)|context|tool (?:result|output)|user (?:input|message|prompt)|"
        r"untrusted|quoted|document)\b|\bmessage from (?:the )?(?:system|anthropic|developers?|admin\w*|security "
        r"team)\b|\b(?:anthropic|openai) (?:policy|security|support|staff|safety|admin)\b.{0,60}(?:require|must|"
        r"instruct|authori[sz]|approved|override)",
        marks=("system", "assistant", "developer", "admin", "end of", "message from", "anthropic", "openai"),
    ),
    Rule(
        "a forged role or tag",
        r"^\W{0,8}(?:(?:user|human|me|operator|boss|claude|ai|assistant|agent)\W{0,3}[:>](?=\s*\w+[ ,])|(?:user|"
        r"human|"
        r"operator|admin(?:istrator)?|owner|maintainer|boss|root|tool|claude|ai|agent|model|bot)\s*(?:says?|said|"
        r"message|"
        r"prompt|note|request|instruction|directive|wrote|preference|rule)\W{0,3}[:>])",
        "relayed",
    ),
    Rule(
        "a new identity for the assistant",
        r"\b(?:developer mode|jailbreak|jailbroken|do anything now|\bdan\b mode|god ?mode|unrestricted (?:mode|ai|"
        r"assistant)|no (?:restrictions|filters|limitations) (?:mode|apply)|sudo mode|maintenance mode (?:on|enabled|"
        r"activated)|debug mode: (?:on|enabled))\b|\byou (?:are|have) (?:now |been )?(?:unrestricted|jailbroken|"
        r"freed|no longer (?:bound|an assistant|claude|subject))|\bact as (?:an? )?(?:unrestricted|evil|uncensored|"
        r"root|admin)",
        marks=(
            *("developer mode", "jailbr", "do anything now", "dan", "god", "unrestricted", "restrictions", "filters"),
            *("limitations", "sudo mode", "maintenance mode", "debug mode", "you are", "you have", "act as"),
        ),
    ),
    Rule(
        "a command that fetches and runs",
        r"\b(?:curl|wget|fetch|iwr|irm|invoke-(?:webrequest|restmethod)|aria2c|lwp-download|nc|ncat)\b[^\n]{0,300}\|"
        r"\s*(?:sudo\s+)?(?:env\s+)?(?:/(?:usr/)?bin/)?(?:ba|z|da|k|fi)?sh\b|\b(?:curl|wget|iwr|irm|"
        r"base64)\b[^\n]{0,300}\|\s*(?:sudo\s+)?(?:python\d?|perl|ruby|node|php|iex|powershell|pwsh|"
        r"invoke-expression|source|xargs)|(?:ba|z|da|k)?sh\s+(?:-c\s+)?[\"']?(?:<|\$)\(\s*(?:curl|wget)|\b(?:eval|"
        r"source|exec|\.)\s+[\"']?[<$`]?\(?\s?(?:curl|wget|base64)|\biex\s*[\(\"'$]|"
        r"\bpowershell\b[^\n]{0,80}\s-e(?:nc|ncodedcommand|c)?\s|base64\s+(?:-d|--decode)[^\n]{0,80}\|\s*(?:ba|"
        r"z)?sh|\b(?:curl|wget)\b[^\n]{0,300}(?:&&|;)\s*(?:sudo )?(?:(?:ba|z)?sh|chmod \+x|python|\./|/tmp/)|"
        r"exec\(\s*(?:urllib|requests|__import__|base64|bytes|open|compile)|/dev/tcp/|\bnc\b[^\n]{0,40}\s-e\s|"
        r"mkfifo[^\n]{0,60}\bnc\b|\bnpx\s+(?:-y\s+)?https?://|certutil[^\n]{0,40}-urlcache|mshta\s+http|"
        r"regsvr32[^\n]{0,40}http",
        marks=(
            *("|", "curl", "wget", "base64", "iex", "powershell", "exec(", "/dev/tcp/", "-e", "mkfifo", "npx"),
            *("certutil", "mshta", "regsvr32"),
        ),
    ),
    Rule(
        "sending secrets away",
        r"(?:https?://[^\s`]{0,160}(?:\$[({]|`|\$[a-z_])|(?:\bcurl\b|\bwget\b|\bnc\b)[^\n]{0,160}(?:\$\(|`|\$\{?|@|<\s?))"
        r"[^\n]{0,40}(?:"
        + _SECRETS
        + r"|cat\s|env\b|printenv|base64|token|key|secret)|!\[[^\]]{0,80}\]\(\s*https?://[^)]{0,200}(?:[?&=]|\{)",
        marks=(*_SECRETS_MARKS, "cat", "base64", "!["),
        also=(
            *("://", "@", "url", "webhook", "server", "endpoint", "pastebin", "gist", "channel", "attacker", ".com"),
            *(".io", ".net", ".xyz", ".ru", ".example", "requestbin", "ngrok", "$", "`", "<"),
        ),
    ),
)
