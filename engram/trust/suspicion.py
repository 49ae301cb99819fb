"""Apply the rules against planted instructions: does text that would become a memory try to give orders?

No text may contain forged roles, hidden characters, orders to forget the rules, or commands that fetch and run code.
Pasted, quoted, relayed or imported text may say anything about a project, but must not direct the agent or the user
(`engram.trust.conduct`). Text from outside is judged as a whole, including its names.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote

from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import has_one, lazy_regex
from engram.trust.addressed import directs
from engram.trust.conduct import order_in
from engram.trust.display import hidden_characters

# -- The rules against planted instructions: reasons, patterns, and the texts to which they apply.


class Rule(NamedTuple):
    """A reason, its pattern, and the texts to which it applies: "all", or "relayed" for text not typed by the user."""

    reason: str
    #: A pattern in lower case; it matches letters of either case.
    source: str
    scope: str = "all"
    #: Strings in lower case, of which any match of the pattern contains at least one; () if unknown.
    marks: tuple[str, ...] = ()
    #: Strings; any match also contains at least one of them.
    also: tuple[str, ...] = ()

    def shows_in(self, text: str, lower: str | None = None) -> bool:
        """Return True if the pattern, which is compiled when first used, occurs in the text.

        Args:
            lower: the text in lower case (see ``lower_case``). A search that need not ignore case takes a third of the
                time, and a text that contains none of the marks is not searched at all.
        """
        if lower is None:
            return bool(_compiled(self.source, re.IGNORECASE).search(text))
        return has_one(lower, self.marks) and has_one(lower, self.also) and bool(_compiled(self.source).search(lower))


#: Letters that match a letter of the rules in a case-insensitive search, but that ``str.lower`` does not convert to it.
_FOLDED = lazy_regex("[\u0130\u0131\u017f\u1c80-\u1c88\u212a]")


def lower_case(text: str) -> str | None:
    """Return the text in lower case; None if a case-insensitive pattern would match different letters."""
    return None if not text.isascii() and _FOLDED.search(text) else text.lower()


@cache
def _compiled(source: str, flags: int = 0) -> re.Pattern[str]:
    return lazy_regex(source, flags | re.MULTILINE)


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
        r"\b(?:ignore|disregard|forget|override|overrule|bypass|circumvent|drop|discard|neglect|void|cancel|set aside|"
        r"pay no attention to|do not (?:follow|obey)|don't (?:follow|obey)|stop following|nullif(?:y|"
        r"ies))\b[^.\n]{0,40}\b(?:(?:previous|prior|earlier|above|preceding|existing|former|original|all|any|every|"
        r"your|system|initial|safety)\b[^.\n]{0,40}\b"
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
        r"ignorier\w* (?:alle|die|sämtliche)?\s*(?:vorherigen|bisherigen|obigen)|vergiss (?:alle|die) |"
        r"ignora (?:todas )?(?:las|le|tutte le) (?:instrucciones|istruzioni)|(?:ignore[zr]?|"
        r"oublie[zr]?) (?:toutes )?les (?:instructions|consignes)|ignore (?:todas )?as instruções|忽略.{0,8}(?:指令|"
        r"指示|规则|提示)|無視.{0,6}|(?:игнорируй|забудь|игнорировать).{0,24}(?:инструкц|указани|правил)|(?:指示|"
        r"命令).{0,6}無視|이전.{0,8}(?:지시|명령).{0,8}무시|zignoruj .{0,20}instrukcje|önceki talimatlar[ıi]",
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
        r"^\W{0,8}(?:system|assistant|developer)\s*(?:message|prompt|note|reminder|override|notice|update|"
        r"instructions?|alert)?\W{0,4}:|\b(?:begin|end|start|new|updated|real|actual|true|hidden|"
        r"secret)\s+(?:of\s+)?(?:the\s+)?(?:system|developer|admin)\s+(?:prompt|message|instructions?|override|note)|"
        r"\bsystem (?:override|notice|update|alert)\b|\bend of (?:the )?(?:memor(?:y|ies)|context|tool (?:result|"
        r"output)|user (?:input|message|prompt)|untrusted|quoted|document)\b|\bmessage from (?:the )?(?:system|"
        r"anthropic|developers?|admin\w*|security team)\b|\b(?:anthropic|openai) (?:policy|security|support|staff|"
        r"safety|admin)\b.{0,60}(?:require|must|instruct|authori[sz]|approved|override)",
        marks=("system", "assistant", "developer", "admin", "end of", "message from", "anthropic", "openai"),
    ),
    Rule(
        "a forged role or tag",
        r"^\W{0,8}(?:(?:user|human|me|operator|boss|claude|ai|assistant|agent)\W{0,3}[:>](?=\s*\w+[ ,])|(?:user|human|"
        r"operator|admin(?:istrator)?|owner|maintainer|boss|root|tool|claude|ai|agent|model|bot)\s*(?:says?|said|"
        r"message|prompt|note|request|instruction|directive|wrote|preference|rule)\W{0,3}[:>])",
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
        "sending secrets to outsiders",
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


#: Number of characters that are judged at a time; longer texts are judged in overlapping pieces.
_PIECE = 20_000


_CONFUSABLE = str.maketrans(
    "аеорсухіјѕһԁɡոⅼνοαειкмтвнАЕОРСУХІЅНКМТВΑΒΕΗΙΚΜΝΟΡΤΧΥΖıł", "aeopcyxijshdgnlvoaeikmtbhAEOPCYXISHKMTBABEHIKMNOPTXYZil"
)
#: Text that may contain combining characters.
_BEYOND_LATIN = lazy_regex(r"[^\x00-\u02ff]+")
_SPACED = lazy_regex(r"\b(?:\w[ .\-_*]){5,}\w\b")
_LEET = str.maketrans("013457@$", "oieastas")
_BASE64 = lazy_regex(r"[A-Za-z0-9+/_-]{20,}={0,2}")
#: ASCII text in hex digits, in which no byte is above 7f. A pattern that begins with a set is twice as fast.
_HEX = lazy_regex(
    r"[0-7](?:[0-9a-fA-F][ :,]?(?:[0-7][0-9a-fA-F][ :,]?){15,}|(?<=0)x[0-9a-fA-F]{2},? ?(?:0x[0-9a-fA-F]{2},? ?){7,})"
)
_HEX_ESCAPES = lazy_regex(r"(?:\\x[0-9a-fA-F]{2}){6,}")
_ESCAPES = lazy_regex(
    r"(?:\\u[0-9a-fA-F]{4}){4,}|(?:%[0-9a-fA-F]{2}){5,}|(?:&#x?[0-9a-fA-F]{2,6};){4,}|(?:\b[01]{8}\b ?){6,}|"
    r"(?:\\[0-7]{3}){6,}"
)
#: Strings; any match of ``_ESCAPES`` contains at least one of them, unless it contains eight bits.
_ESCAPE_MARKS, _BITS = ("\\", "%", "&#"), lazy_regex("[01]{8}")
#: A run of base64 or hex characters that is too long for a name.
_LONG = lazy_regex(r"[A-Za-z0-9+/]{60,}={0,2}")
#: The digest of a file, in hex or (sha512, sha384) in base64.
_DIGEST = lazy_regex(r"[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}|[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{86}==")
#: Separators of the words in a name.
_BETWEEN_WORDS, _CAMEL = lazy_regex(r"[ \t_.+-]+"), lazy_regex(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN_FOLDERS = lazy_regex(r"[/\\]+")
_TALKATIVE = lazy_regex(r"[A-Za-z]{2}[ ,.'/-]{1,3}[A-Za-z]{2}")


def why_suspect(text: str, *, is_typed: bool, is_assistant: bool = False) -> str | None:
    """Return, in a few words, why the text must not be injected as a memory; None if it may be.

    Args:
        text: the future memory, or the part of a prompt that it comes from.
        is_typed: True if the user typed it (see `split_typed`), in which case it may order anything.
        is_assistant: True if the assistant wrote it about its own work. Any other text is relayed, and must not order
            conduct.
    """
    hidden = hidden_characters(text)
    if hidden and hidden > _allowed_hidden(text):
        return "hidden characters"
    is_relayed = not (is_typed or is_assistant)
    for start in range(0, max(len(text), 1), _PIECE - 500):
        piece = text[start : start + _PIECE]
        for reading in _readings(piece):
            reason = _first_reason(reading, is_relayed=is_relayed)
            if reason:
                return reason
        reason = _encoded(piece, is_relayed=is_relayed)
        if reason:
            return reason
    return None


def why_any_suspect(texts: Iterable[str], names: Iterable[str] = (), *, is_assistant: bool = False) -> str | None:
    """Return why a memory from outside is suspect, judged as a whole; None if it is not.

    Args:
        texts: its summary, content, facts and questions.
        names: the names of the things that the memory is about, and of files, branches and projects.
        is_assistant: as for ``why_suspect``.
    """
    texts = [text for text in texts if text]
    said: list[str] = []
    for text in texts:
        # A summary is usually the beginning of the content, so it need not be judged twice.
        if not any(text in other for other in said):
            said = [other for other in said if other not in text]
            said.append(text)
    whole = "\n".join(said)
    reason = why_suspect(whole, is_typed=False, is_assistant=is_assistant)
    if reason is None and not is_assistant and any(map(directs, texts)):
        reason = "an order to whoever reads it"
    return reason or next((reason for name in names if (reason := why_name_suspect(name))), None)


#: Cached, because memories mention the same files and tools again and again.
@lru_cache_by_text(4_096)
def why_name_suspect(name: str) -> str | None:
    """Return why a name that reads like an order must not be shown; None if it may be shown.

    Args:
        name: the name of a file, a branch, a project or a thing; its words may be joined by any characters.
    """
    words = _BETWEEN_WORDS.sub(" ", _CAMEL.sub(" ", _BETWEEN_FOLDERS.sub("\n", name)))
    return why_suspect(name, is_typed=False) or (why_suspect(words, is_typed=False) if words != name else None)


def _allowed_hidden(text: str) -> int:
    """Return the number of harmless hidden characters: joiners, emoji selectors, and characters of icon fonts."""
    return sum(1 for c in text if c in "\ufe0f\ufe0e\u200d" or 0xE000 <= ord(c) <= 0xF8FF)


def _readings(text: str) -> Iterator[str]:
    """Yield the text unchanged, and with disguised letters replaced."""
    plain = unicodedata.normalize("NFKC", text)
    yield plain
    unmasked = html.unescape(plain)
    if not unmasked.isascii():
        unmasked = unmasked.translate(_CONFUSABLE)
        unmasked = _BEYOND_LATIN.sub(_without_combining, unicodedata.normalize("NFKD", unmasked))
    if unmasked != plain:
        yield unmasked
    joined = _SPACED.sub(lambda m: re.sub(r"[ .\-_*]", "", m.group()), unmasked)
    if joined != unmasked:
        yield joined
    if plain.count("%") >= 3:
        yield unquote(plain)
    if re.search(r"[A-Za-z][013457@$][A-Za-z]", unmasked):
        yield unmasked.translate(_LEET)


def _without_combining(match: re.Match[str]) -> str:
    return "".join(char for char in match.group() if not unicodedata.combining(char))


def _first_reason(text: str, *, is_relayed: bool) -> str | None:
    lower = lower_case(text)
    for rule in RULES:
        if (is_relayed or rule.scope == "all") and rule.shows_in(text, lower):
            return rule.reason
    return order_in(text.lower()) if is_relayed else None


def _encoded(text: str, *, is_relayed: bool) -> str | None:
    """Return "encoded text" if a text hides an order or, in relayed text, anything in an encoding; otherwise None."""
    for decoded in _decoded(text):
        if _TALKATIVE.search(decoded) and (is_relayed or _first_reason(decoded, is_relayed=True)):
            return "encoded text"
    if any(RULES[0].shows_in(turned, lower_case(turned)) for turned in (codecs.decode(text, "rot13"), text[::-1])):
        return "encoded text"
    if is_relayed and any(not _DIGEST.fullmatch(match.group()) for match in _LONG.finditer(text)):
        return "encoded text"
    return None


def _decoded(text: str) -> Iterator[str]:
    for match in _BASE64.finditer(text):
        body = match.group().replace("-", "+").replace("_", "/").rstrip("=")
        try:
            raw = base64.b64decode(body + "=" * (-len(body) % 4))
        except (binascii.Error, ValueError):
            continue
        yield from _as_text(raw)
    for match in chain(_HEX.finditer(text), _HEX_ESCAPES.finditer(text) if "\\x" in text else ()):
        digits = re.sub(r"\\x|0x|[^0-9a-fA-F]", "", match.group())
        yield from _as_text(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    may_have_escapes = any(mark in text for mark in _ESCAPE_MARKS) or _BITS.search(text)
    for match in _ESCAPES.finditer(text) if may_have_escapes else ():
        body = match.group()
        if body.startswith("%"):
            yield unquote(body)
        elif body.startswith("&"):
            yield html.unescape(body)
        elif body.startswith("\\u"):
            yield "".join(chr(int(code, 16)) for code in re.findall(r"\\u([0-9a-fA-F]{4})", body))
        elif body.startswith("\\"):
            yield "".join(chr(int(code, 8)) for code in re.findall(r"\\([0-7]{3})", body))
        else:
            yield "".join(chr(int(code, 2)) for code in body.split())


def _as_text(raw: bytes) -> Iterator[str]:
    for encoding in ("utf-8", "utf-16-le"):
        try:
            decoded = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if decoded.isascii() and sum(c.isprintable() or c in "\n\t" for c in decoded) >= 0.95 * len(decoded):
            yield decoded
