"""The rules against planted instructions: reasons, patterns, and the texts they apply to."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Rule(NamedTuple):
    """A reason, its pattern, and the texts it applies to: "all", "assistant" and pasted, or "pasted" alone."""

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
    r"guardrails?|training|orders?|commands?|system messages?|safety|programming|memor(?:y|ies))\b"
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
_SEND_MARKS = (
    *("send", "post", "upload", "forward", "mail", "exfiltrate", "transmit", "leak", "copy", "share", "submit"),
    *("report", "push", "publish", "put", "append", "include", "paste", "write", "embed", "encode", "curl", "sync"),
    *("mirror", "attach", "cat", "print", "reveal", "dump", "expose", "disclose"),
)
_SEND = (
    r"(?:send|post|upload|forward|e-?mail|exfiltrate|transmit|leak|copy|share|submit|report|push|publish|put|"
    r"append|include|paste|write|embed|encode|curl|sync|mirror|attach|cat|print|reveal|output|dump|expose|disclose)"
)
RULES: tuple[Rule, ...] = (
    Rule(
        "orders to forget the rules",
        r"\b(?:ignore|disregard|forget|override|overrule|bypass|circumvent|drop|discard|neglect|void|cancel|set "
        r"aside|pay no attention to|do not (?:follow|obey)|don't (?:follow|obey)|stop following|nullif(?:y|"
        r"ies))\b[^.\n]{0,40}\b(?:previous|prior|earlier|above|preceding|existing|former|original|all|any|every|your|"
        r"system|other|initial|safety|these|those|the)\b[^.\n]{0,40}\b" + _RULES_WORDS,
        marks=(
            *("ignor", "disregard", "forget", "overrid", "overrule", "bypass", "circumvent", "drop", "discard"),
            *("neglect", "void", "cancel", "set aside", "pay no attention", "do not", "don't", "stop following"),
            "nullif",
        ),
        also=(
            *("instruction", "rule", "prompt", "guideline", "directive", "constraint", "polic", "restriction"),
            *("safeguard", "guardrail", "training", "order", "command", "system message", "safety", "programming"),
            "memor",
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
        r"antml\w*|command-\w+|local-command-\w+|user[-_](?:prompt|message|input|preference)\w*|policy|rules?|hidden|"
        r"secret|override|context|engram\w*|recall\w*|additionalcontext|user|prompt)\b[^<>]{0,200}>",
        "pasted",
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
        r"^\W{0,8}(?:user|human|me|operator|admin(?:istrator)?|owner|maintainer|boss|root|tool|claude|ai|agent|model|"
        r"bot)\s*(?:says?|said|message|prompt|note|request|instruction|directive|wrote|preference|rule)?\W{0,3}[:>]",
        "pasted",
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
        "a new identity for the assistant",
        r"\byou are (?:now|actually|really|no longer)\b|\byou(?:'re| are) an? (?:ai|assistant|agent|model|helpful|"
        r"autonomous|expert|bot|unrestricted|different)|\bact as\b|\bpretend (?:to be|you|that)|\brole-?play|\byou "
        r"must now\b|\byour (?:new|real|true|actual|only) (?:task|goal|role|instructions?|purpose|job|objective|"
        r"mission|name)|\bnew (?:instructions?|rules?|role|task|directives?|objective|persona)\b|\bfrom (?:now on|"
        r"this point|here on)\b|\bgoing forward\b|\bhenceforth\b|\bfor (?:all|every) (?:future|subsequent|following|"
        r"later)\b|\bin (?:all|every) (?:future|subsequent) ",
        "pasted",
        marks=(
            *("you are", "you're a", "act as", "pretend ", "play", "you must now", "your new"),
            *("your real", "your true", "your actual", "your only", "new instruction", "new rule", "new role"),
            *("new task", "new directive", "new objective", "new persona", "from now on", "from this point"),
            *("from here on", "going forward", "henceforth", "for all", "for every", "in all", "in every"),
        ),
    ),
    Rule(
        "secrecy towards the user",
        r"\b(?:do not|don't|never|without|avoid|refrain from|must not|should not|no need to)\b[^.\n]{0,24}\b(?:tell|"
        r"telling|mention|mentioning|reveal|revealing|inform|informing|notify|notifying|show|showing|disclos\w+|"
        r"alert\w*|warn\w*|let)\b[^.\n]{0,24}\b(?:the )?(?:user|human|developer|owner|anyone|them|him)\b|\b(?:hide|"
        r"conceal|keep) (?:this|it|that|these)?\s?(?:secret|hidden|quiet|silent)?\s?from (?:the )?(?:user|human|"
        r"developer|owner|them)|\bkeep (?:this|it) (?:secret|hidden|quiet|confidential|between us)|\bthe user "
        r"(?:must|should|need|does|will|can)(?:n't| not) (?:know|see|notice|be told|learn|find)|\bunbeknownst\b",
        marks=("user", "human", "developer", "owner", "anyone", "them", "him", "keep ", "unbeknownst"),
        also=(
            *("do not", "don't", "never", "without", "avoid", "refrain", "must not", "should not", "no need", "hide"),
            *("conceal", "keep ", "the user", "unbeknownst"),
        ),
    ),
    Rule(
        "secrecy towards the user",
        r"\b(?:silently|secretly|quietly|covertly|stealthily|in the background)\b|\bwithout (?:asking|confirm\w+|"
        r"permission|approval|telling|prompting|notif\w+|a prompt|any (?:confirmation|prompt))",
        "pasted",
        marks=("silently", "secretly", "quietly", "covertly", "stealthily", "in the background", "without "),
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
        "a command that fetches and runs",
        r"\b(?:download|fetch|get|grab|pull|curl|wget|clone)\b[^.\n]{0,120}\b(?:and|then|,)\s*(?:\w+\s)?(?:run|"
        r"execute|install|eval\w*|source|start|launch|follow|apply|obey)\b|\b(?:pip3?|npm|pnpm|yarn|gem|cargo|go|"
        r"brew|npx|uvx?)\s+(?:\w+\s+)?(?:-\S+\s+)*(?:git\+)?https?://|\b(?:run|execute|eval\w*|"
        r"source)\b[^.\n]{0,60}https?://",
        "pasted",
        marks=("download", "fetch", "get", "grab", "pull", "curl", "wget", "clone", "://"),
        also=(
            *("run", "execute", "install", "eval", "source", "start", "launch", "follow", "apply", "obey"),
            "://",
        ),
    ),
    Rule(
        "sending secrets away",
        r"\b"
        + _SEND
        + r"\w*\b[^\n]{0,120}"
        + _SECRETS
        + r"[^\n]{0,120}(?:https?://|\bto\b[^\n]{0,30}(?:@[\w-]+\.|url|webhook|server|endpoint|pastebin|gist|channel|"
        r"attacker|\.(?:com|io|net|xyz|ru|example)\b)|requestbin|ngrok)|(?:https?://|\bcurl\b|\bwget\b|"
        r"\bnc\b)[^\n]{0,160}(?:\$\(|`|\$\{?|@|<\s?)[^\n]{0,40}(?:"
        + _SECRETS
        + r"|cat\s|env\b|printenv|base64|token|key|secret)|!\[[^\]]{0,80}\]\(\s*https?://[^)]{0,200}(?:[?&=]|\{)",
        marks=(*_SECRETS_MARKS, "cat", "base64", "!["),
        also=(
            *("://", "@", "url", "webhook", "server", "endpoint", "pastebin", "gist", "channel", "attacker", ".com"),
            *(".io", ".net", ".xyz", ".ru", ".example", "requestbin", "ngrok", "$", "`", "<"),
        ),
    ),
    Rule(
        "sending secrets away",
        r"\b"
        + _SEND
        + r"\w*\b[^.\n]{0,80}"
        + _SECRETS
        + r"|!\[[^\]]{0,80}\]\(\s*https?://|"
        + _SECRETS
        + r"[^.\n]{0,60}\b(?:to|into|via) (?:https?|the (?:url|server|webhook|endpoint))",
        "pasted",
        marks=(*_SECRETS_MARKS, "!["),
        also=(*_SEND_MARKS, "://", " http", "the url", "the server", "the webhook", "the endpoint"),
    ),
    Rule(
        "weakening protection",
        r"dangerously-?skip-?permissions|\bbypasspermissions\b|\bauto-?approv\w+|\b(?:skip|disable|bypass|turn off|"
        r"switch off|remove|deactivate|weaken|ignore)\b[^.\n]{0,50}\b(?:permissions?|sandbox\w*|security|safety|"
        r"approval|authenti\w+|authori[sz]ation|firewall|antivirus|signature|tls|ssl|certificate|verification|verify|"
        r"hooks?|guard\w*|confirmations?|csrf|audit\w*|logging|review)\b",
        "pasted",
        marks=(
            *("dangerously", "bypasspermissions", "approv", "skip", "disable", "bypass"),
            *("turn off", "switch off", "remove", "deactivate", "weaken", "ignore"),
        ),
        also=(
            *("permission", "sandbox", "security", "safety", "approv", "authenti", "authori", "firewall", "antivirus"),
            *("signature", "tls", "ssl", "certificate", "verif", "hook", "guard", "confirmation", "csrf", "audit"),
            *("logging", "review"),
        ),
    ),
    Rule(
        "a destructive command",
        r"\brm\s+-[a-z]*[rf][a-z]*\b",
        "pasted",
        marks=("rm",),
        also=("-",),
    ),
    Rule(
        "a destructive command",
        r"\bchmod\s+(?:-r\s+)?[0-7]?777\b|\bmkfs\b|\bdd\s+if=|:\(\)\s*\{|"
        r"git\s+push\s+[^\n]{0,40}(?:--force|-f\b)|git\s+reset\s+--hard|\bdrop\s+(?:table|database)\b|"
        r"authorized_keys|/etc/(?:sudoers|passwd|shadow|hosts|cron)|crontab\s|--no-verify|\bgit "
        r"config\b[^\n]{0,60}(?:credential|hookspath|url)|\bld_preload\b|\.(?:bashrc|zshrc|profile|bash_profile)\b|"
        r"\bxp_cmdshell\b|os\.system\(|subprocess\.|child_process",
        "pasted",
        marks=(
            *("chmod", "mkfs", "if=", ":()", "--force", "-f", "--hard", "drop", "authorized_keys", "/etc/"),
            *("crontab", "--no-verify", "git config", "ld_preload", ".bashrc", ".zshrc", ".profile", ".bash_profile"),
            *("xp_cmdshell", "os.system(", "subprocess.", "child_process"),
        ),
        also=(
            *("-", "777", "mkfs", "if=", ":()", "table", "database", "authorized_keys", "/etc/", "crontab", "url"),
            *("credential", "hookspath", "ld_preload", ".bashrc", ".zshrc", ".profile", ".bash_profile"),
            *("xp_cmdshell", "os.system(", "subprocess.", "child_process"),
        ),
    ),
    Rule(
        "a claim in the user's name",
        r"\b(?:the |this |your )?(?:user|owner|developer|maintainer|team lead|admin\w*|boss|customer|human|operator|"
        r"engineer)\s+(?:has\s+|have\s+|had\s+|already\s+|hereby\s+|explicitly\s+)*(?:prefers?|wants?|likes?|"
        r"expects?|requires?|requests?|requested|asked|asks|authori[sz]\w+|approv\w+|agreed|agrees|consent\w*|"
        r"confirm\w*|grant\w*|allow\w*|permit\w*|instruct\w*|decided|said|says|trusts?|demands?|mandate\w*|always|"
        r"never)\b|\bon behalf of the user\b|\bas the user\b|\buser(?:'s)? (?:preference|wish|rule|directive|"
        r"instruction|decision|request)s?\b|\bpre-?(?:approved|authori[sz]ed)\b|\bi,? the user\b|\bthis is (?:me|the "
        r"user|your user|the owner)\b|\bi am the (?:user|owner|admin\w*|developer)|\bmy (?:rule|preference|"
        r"instruction) (?:is|for you)",
        "pasted",
        marks=(
            *("user", "owner", "developer", "maintainer", "team lead", "admin", "boss", "customer", "human"),
            *("operator", "engineer", "approved", "authori", "this is me"),
            *("my rule", "my preference", "my instruction"),
        ),
    ),
    Rule(
        "an order about memory",
        r"\b(?:remember|memori[sz]e|save|store|record|persist|keep|add|write|note|log|put|insert|retain|"
        r"learn)\b[^.\n]{0,60}\b(?:memor(?:y|ies)|claude\.md|agents\.md|long[- ]term|permanently|for (?:all |every "
        r")?(?:future|later|next)|in mind|your (?:notes|context|rules|instructions|knowledge))|\bmemory_(?:save|"
        r"recall|forget)\b|\bremember (?:that|this|to|the following|forever)\b",
        "pasted",
        marks=(
            *("memor", "remember", "claude.md", "agents.md", "term", "permanently", "future"),
            *("later", "next", "in mind", "your notes", "your context", "your rules", "your instructions"),
            "your knowledge",
        ),
    ),
    Rule(
        "a link in relayed text",
        r"https?://|\bwww\.[a-z0-9-]+\.|\b(?:ftps|ftp|files|file|data|javascript|ssh|git|wss|ws):(?://|[a-z]+[/,])|"
        r"\]\([^)\s]+\)|"
        r"hxxps?:|\b[a-z0-9-]+(?:\[\.\]|\(dot\)| dot )(?:com|io|net|org|xyz)",
        "pasted",
        marks=(
            *("://", "www.", "](", "hxxp", "[.]", "(dot)", " dot ", "ftp:", "ftps:", "file:", "files:", "data:"),
            *("javascript:", "ssh:", "git:", "ws:", "wss:"),
        ),
    ),
    Rule(
        "an order in relayed text",
        r"\b(?:always|never|must(?:n't)?|do not|don'?t|shall|mandatory|required to|make sure|ensure|be sure|be "
        r"careful to|it is (?:important|critical|essential|vital|imperative)|you (?:should|need|have to|will|can|may|"
        r"ought|are (?:required|expected|allowed|to))|we (?:always|never)|under no circumstances|no matter what|at "
        r"all times|whenever you|when(?:ever)? (?:asked|you|the (?:assistant|agent|user|model))|if you are (?:an? "
        r")?(?:ai|llm|agent|assistant|claude|model|language)|please|kindly|attention|important|urgent|critical|"
        r"warning to|note to|hello) ?\b|\b(?:claude|copilot|cursor|assistants?|(?:ai|llm|coding|"
        r"autonomous) (?:agents?|assistants?|models?|tools?|systems?|readers?|bots?)|language models?|llms?|agents? "
        r"reading)\b",
        "pasted",
        marks=(
            *("always", "never", "must", "do not", "don", "shall", "mandatory", "required to", "sure", "be careful"),
            *("it is ", "you ", "under no circumstances", "no matter what", "at all times", "whenever you"),
            *("we always", "when asked", "when you", "when the ", "whenever the ", "whenever asked"),
            *("please", "kindly", "attention", "important", "urgent", "critical", "warning to", "note to"),
            *("hello", "claude", "copilot", "cursor", "assistant", "ai ", "llm", "coding ", "autonomous "),
            *("language model", "agent"),
        ),
    ),
    Rule("an order in relayed text", r"\b(?:dear|hey|hi) ?\b", "pasted"),
    Rule(
        "an order in relayed text",
        r"(?:^|[.!?:;\"'“(\-*>•]\s*|\b(?:and|then|first|next|now|finally|also|just|to|step \d+:?)\s+)(?:run|execute|"
        r"install|use|add|delete|remove|disable|enable|set|replace|commit|push|call|invoke|respond|reply|answer|"
        r"output|print|say|save|store|write|treat|consider|stop|skip|trust|approve|grant|allow|change|update|insert|"
        r"include|prefer|switch|start|begin|open|visit|read|follow|go|copy|send|post|upload|fetch|download|load|"
        r"import|eval|evaluate|decode|translate|repeat|forget|ignore|assume|pretend|create|make|modify|edit|drop|"
        r"kill|reset|revert|merge|deploy|publish|give|take|put|keep|do|perform|apply|obey|comply|confirm|verify|"
        r"check|proceed|continue|switch|turn|configure|export|append|prepend|reveal|show|tell|tag|transfer|pay|buy|"
        r"whitelist|click|enter|type|paste|pip|npm|curl|wget|sudo|git)\b(?!\s*[=:(]|ing|ed)",
        "pasted",
    ),
)
