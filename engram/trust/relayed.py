"""Recognise sentences that relay someone else's words: "the README says …", "…, sagt der Chef".

English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, Russian, Japanese and Chinese are known.
"""

from __future__ import annotations

from engram.system.lazy_regex import lazy_regex
from engram.trust.pasted_letters import ENDING

#: Owners whose rules are the user's own ("our app's"), words that name no owner ("here's"), and owners that are other
#: people, even if they are "my vendor".
_OWN = (
    r"(?:team|project|repo\w*|company|codebase|app|application|service|backend|frontend|server|site|product|workspace|"
    r"here|let|it|that|what|there|today)['’]"
)
_OTHERS = (
    r"vendors?|suppliers?|providers?|customers?|clients?|partners?|boss(?:es)?|managers?|chief|c[eto]o|leads?|"
    r"colleagues?|co-?workers?|teammates?|reviewers?|authors?|maintainers?|contributors?|contractors?|consultants?|"
    r"auditors?|lawyers?|teachers?|professors?|friends?|employers?|competitors?|upstream|bank|agency|someone|somebody"
)
_RULES = r"\s+(?:[\w-]+\s+){0,3}(?:rules?|polic(?:y|ies)|guide(?:lines?)?|conventions?|contract|standards?)\s*:\s"
#: Programs, which are told nothing that is relayed: "the flag tells the compiler to inline".
_PROGRAMS = (
    r"(?:(?:the|our|your|this|that|every|each|any) )?(?:\w+ )?(?:compiler|linter|formatter|bundler|parser|browser|"
    r"server|framework|library|program|process|script|loader|runner|worker|engine|editor|shell|kernel|runtime|"
    r"crawlers?|git|npm|docker|python|node|webpack|eslint|typescript|tsc|pytest)\b"
)
#: What makes "claims" a noun: "the claims in a token".
_CLAIMS = r"(?<!the )(?<!our )(?<!its )(?<!all )(?<!these )(?<!those )(?<!jwt )(?<!token )(?<!\bid )(?<!custom )"
_RELAYED = lazy_regex(
    r"(?i)(?:\b(?:the|this|that|his|her|their|its|my|our|a|an|some)\s+(?:[\w.'-]+\s+){0,4}|\b(?!(?:nobody|"
    r"none)\b)(?<!\bno )[\w.-]+\s+)(?:says(?! nothing\b)|said|stated|states that|wrote(?=\s+(?:that|to|this|in)\b|"
    r"\s*[:,])|writes(?=\s+(?:that|this)\b|\s*[:,])|(?:e-?mailed|posted|messaged)(?=\s+(?:that|me|us|this)\b|\s*:)|"
    rf"tells(?! (?:{_PROGRAMS}))|"
    r"told(?= (?:me|us|him|her|them|you|everyone|everybody|people|\w+ to|(?:the|his|her|our|their|my) "
    r"(?:team|dev\w*|users?|customers?|clients?|agents?|assistants?|ai|bots?)|claude)\b)|"
    rf"{_CLAIMS}(?:claims|claimed)(?! (?:must|should|are|is|was|were|need|have|has|can|may|will)\b)|"
    r"recommends|recommended|"
    r"suggests|suggested|instructs|instructed|demands|demanded|insists|insisted|advises|advised|mentions that|"
    r"mentioned that|asks|asked|announced|goes(?=\s*[:,–—]|\s+(?:(?:like|that|on "
    r"about|never|always|don['’]t)\b|[\"“„«‘'-]))|"
    r"states?(?=\s*[:,])|reads[\s:,]+[\"'“])\b|\b(?:they|people|"
    r"docs?(?! say nothing)|guidelines?|rules|colleagues?|developers|maintainers|instructions|comments?|"
    r"notes?)\s+(?:say|recommend|suggest|state|ask|require|tell|demand|insist)\b|(?<![Uu]pdate the )(?<!fix the "
    r")(?<!edit the )\b(?:README|CONTRIBUTING|CLAUDE|AGENTS|[\w./-]+\.(?:md|txt|rst|json|ya?ml|toml|py|ts|js|go|"
    r"rs))\s*:\s|\baccording to (?!(?:our|my|this|your|what i)\b)|\b(?:quote|zitat|citation|cita|citazione|citação|"
    r"citaat|cytat|цитата)\s?:|\b(?:message|banner|notice|warning|sign|footer) reads\s*:|\bas per (?!(?:our|my|"
    r"your)\b)|\b(?:from|quoting) (?:the |a |their |his |her )?(?:[\w.-]+ ){0,2}(?:docs?|documentation|readme|wiki|rfc|"
    r"spec|guide|handbook|manual|e-?mail|ticket|issue|thread|changelog|confluence|"
    r"slack)(?:,? [\w.-]+){0,3}\s*[:–—-]\s|\b(?:via|per) (?:slack|teams|discord|chat|"
    r"e-?mail|phone|jira|whatsapp|(?-i:[A-Z])[\w.-]+)\s*:\s|"
    r"\btl;?dr (?:of|from) [^:\n]{1,40}:\s|\b(?:(?:PEP|RFC|ISO)(?=[ -]?\d| section)|WCAG|OWASP|MISRA)"
    r"[ -]?[\d.-]*(?: ?section [\d.]+)?\s*:\s|"
    rf"\b(?:their|his|her|(?!{_OWN})[\w.-]+['’]s)\s+"
    r"(?:[\w-]+\s+){0,3}(?:advice|motto|opinion|docs|documentation|handbook|manual|spec)\s*:\s|"
    rf"\b(?:(?:their|his|her)|(?:{_OTHERS})['’]s?){_RULES}|"
    # Any owner with a name. In lower case and after another word, it is a thing of the user's: "our new app's".
    rf"(?<![\w.@/-])(?!{_OWN})(?:(?-i:[A-Z])[\w.-]*|(?:(?<!\w\s)(?<!\s\s)|"
    rf"(?<=\bper )|(?<=\bsee )|(?<=\bby )|(?<=\bfrom )|(?<=\bfollow )|(?<=\band ))[^\W\d_]+)['’]s{_RULES}"
)
_SAYERS = (
    r"chatgpt|copilot|gemini|claude|cursor|readme|wiki|confluence|jira|doku\w*|handbuch|anleitung|richtlinie\w*|ticket|e-?mail|vertrag|chef\w*|kolleg\w+|"
    r"kund\w+|team|linter|compiler|meldung|banner|doc|documentation|guide|manuel|wiki|chef|patron|collègues?|clients?|"
    r"équipe|message|règlement|documentación|guía|manual|jef[ea]|compañer[oa]s?|colegas?|clientes?|equipo|mensaje|"
    r"cartel|documentazione|guida|manuale|capo|collega|colleghi|clienti?|messaggio|documentação|guia|chefe|equipe|"
    r"equipa|mensagem|aviso|manuale|[\w./-]+\.(?:md|txt|rst)"
)
#: A named person or a text says something, in German, French, Spanish, Italian and Portuguese.
_RELAYED_ELSEWHERE = lazy_regex(
    rf"(?i)\b(?:{_SAYERS})\b\s+(?:[\w'’-]+\s+){{0,3}}?(?:(?:hat|haben)\s+(?:[\w'’-]+\s+){{0,3}}?(?:gesagt|geschrieben|"
    r"gemeint|empfohlen|verlangt|gebeten|geschickt)|sag(?:t|te|ten)|schreib(?:t|en)|schrieb(?:en)?|steht|stand|"
    r"heißt es|meint|meinte|empfiehlt|verlangt|fordert|behauptet|(?:a |ont |m['’]a )?(?:dit|écrit|écrivent|disent|"
    r"demandé?e?|recommande|exige|conseille|répondu?)|(?:ha |han )?(?:dice|dicen|dijo|dicho|escribió|escrito|escribe|"
    r"pide|pidió|recomienda|exige|pone)|(?:ha |hanno )?(?:dice|dicono|detto|scritto|scrive|chiede|chiesto|raccomanda|"
    r"consiglia|risposto)|"
    r"(?:diz|dizem|disse|escreveu|escreve|pede|pediu|recomenda|exige|mandou))\b|\b(?:laut|gemäß)\s+(?!(?:mir|uns|und|"
    r"unsere\w*|meine\w*)\b)\w|\b(?:selon|d['’]après)\s+(?!(?:moi|nous|nos|notre|mes|mon|ma)\b)\w|\bsegún\s+(?!(?:yo|"
    r"nosotros|nuestr\w*|mis?|tú)\b)\w|"
    rf"\b(?:secondo|segundo)\s+(?:(?:la|il|lo|i|gli|le|o|a|os|as)\s+|l['’])(?:[\w'’-]+\s+){{0,2}}?(?:{_SAYERS})\b"
)
#: The same in Dutch, Polish, Russian, Japanese and Chinese.
_RELAYED_FARTHER = lazy_regex(
    rf"(?i)\b(?:{_SAYERS}|klant\w*|baas|handleiding|szef\w*|koleg\w+|klient\w*|instrukcja|dokumentacja|"
    r"начальник|коллега|клиент|заказчик|документация|инструкция)\b\s+(?:[\w'’-]+\s+){0,3}?(?:zegt|zei|schrijft|schreef|"
    r"meldt|wil|mówi|pisze|napisał\w*|twierdzi|chce|говорит|пишет|написал\w*|сообщает|гласит|требует)\b|\b(?:in (?:de|"
    r"het)|w|we|в) [\w./-]+ (?:staat|jest napisane|napisano|написано|сказано|говорится)\b|\b(?:volgens (?!(?:mij|ons|"
    r"onze|mijn)\b)|według (?!(?:mnie|nas)\b)|zdaniem |согласно |по словам )\w|[^。\n]{0,200}(?:によると|"
    r"と書いて(?:ある|あります|いる)|に書かれて|と言ってい|とのこと)|(?:文档|说明|手册|readme|同事|老板|客户|邮件|工单|"
    r"规范)[^\n，。]{0,8}(?:写着|写道|说|提到|要求|表示)"
)
#: The same with the verb before the speaker: "dice el wiki que …", "…, sagt der Chef".
_RELAYED_VERB_FIRST = lazy_regex(
    r"(?i)(?:^|[,.;:(¿¡–—-])\s*(?:(?:sag(?:t|te)|schreibt|schrieb|meint|meinte|findet|empfiehlt|verlangt|fordert|dit|"
    r"écrit|disent|recommande|exige|dice|dicen|dijo|escribió|escribe|pide|recomienda|pone|dicono|scrive|raccomanda|"
    r"consiglia|chiede|diz|dizem|disse|escreveu|recomenda|pede)|steht)\s+(?:(?:en|in|im|no|na|nel|nella|dans|"
    r"auf)\s+)?(?:(?:der|die|das|dem|ein\w*|mein\w*|unser\w*|le|la|les|mon|ma|notre|el|los|las|mi|nuestr[oa]|il|lo|i|"
    r"gli|o|a|os|as|(?:o )?meu|(?:a )?minha|(?:il )?mio|(?:la )?mia)\s+|l['’])?"
    rf"(?:[\w'’-]+\s+){{0,2}}?(?:{_SAYERS})\b|"
    r"^\s*(?:as (?:is )?(?:stated|described|written|noted|explained|specified|required) (?:in|by) (?!our\b|my\b)\w|"
    r"wie (?:im|in der|in den|in dem) \S+ (?:\w+ )?(?:beschrieben|steht|gefordert|erklärt)|comme (?:indiqué|écrit|"
    r"décrit|expliqué|précisé|stipulé|le dit)|como (?:se )?(?:dice|indica\w*|pone|indicado|descrito|diz|consta) (?:en|"
    r"no|na|el|la|o|a) |come (?:indicato|scritto|descritto|richiesto|dice) )|,\s*(?:as (?:they|people|he|she|(?:the|my|"
    r"our) (?:\w+ ){1,2}) ?(?:say|says|said|puts? it)|wie man (?:so )?sagt|comme on dit|como (?:dicen|se dice|dizem|"
    r"se diz)|come si dice)[.!]?\s*$|,\s*(?:says|said|writes|wrote|recommends|insists|thinks)\s+(?:(?:the|my|our|a|"
    r"an|his|"
    r"her|their|one of)\s+|(?-i:(?=[A-Z])))(?:[\w'’-]+\s+){0,3}[\w'’-]+[.!]?\s*$|[.!?…\"”]\s*(?:[–—~]\s?|-{1,2}(?=\S))"
    rf"(?!(?:{ENDING}|please|ok(?:ay)?|no|yes|always|never|really|seriously|period|important|urgent|bitte|prego|"
    rf"por favor)(?:,? claude)?\W*$)"
    r"(?-i:[A-Z][\w.'-]+(?: [A-Z][\w.'-]+)?)(?:,? (?:from|in|at|of) [\w ]{1,20})?\s*$"
)
_SELF = lazy_regex(
    r"(?i)\b(?:i|we|i've|we've|i'd)\s+(?:\w+\s+)?(?:said|told|asked|mentioned|say|wrote|suggest\w*|recommend\w*|"
    r"state)\b|\b(?:ich|wir)\s+(?:\w+\s+){0,4}(?:sag\w*|schr\w+|gesagt|geschrieben)\b|\bj['’]ai (?:dit|écrit)\b|"
    r"\b(?:he|hemos|ho|abbiamo) (?:dicho|escrito|detto|scritto)\b|\beu (?:disse|escrevi)\b"
)
#: What refers to somebody's words without repeating them, within the user's own sentence: "do what the README says". At
#: the beginning, such words are its subject, and what they said follows: "What the boss said is …".
_REFERS = lazy_regex(
    r"(?i)\w\W+(?<!\band )(?<!\bbut )(?<!\bso )(?<!\balso )"
    r"(?:(?<!['’]s )(?<!\bis )(?<!\bwas )what(?:ever)?|everything|anything|nothing|how|than)\s+"
    r"(?:[\w.'-]+\s+){0,2}$"
)
#: What follows a verb of saying if the words are repeated after all: "what the README says: …".
_REPEATS = lazy_regex(
    r"(?i)\s*,|[:\"“„«‘–—]|\s['-]|\b(?:that|never|always|must|should|don['’]t|from now on|no longer)\b"
)
#: What may stand between the verb of saying and the words, and how a line refers to words that don't follow.
_POINTS_ON = lazy_regex(
    r"(?i)(?:\s+(?:this|that|the following|(?:to )?(?:me|us)|das|dies|folgendes|mir|uns|ça|ceci|cela|esto|nos|questo|"
    r"isso|isto|dit|mij|ons)){0,2}[\s:：.…]*$"
)
_AS_SAID = lazy_regex(
    r"(?i)(?<!\w)(?:as|like|if|when|once|unless|wie|was|wenn|comme|ce que|como|lo que|come|quello che|o que|zoals|wat)"
    r"(?!\w)"
)


def relayed_in(text: str, at: int, cut: int) -> tuple[int, int] | None:
    """Return where someone else's words begin and end in the sentence ``text[at:cut]``; None if it has none.

    Usually, everything after these words may be relayed, too. Then the end is the end of the text.
    """
    if _SELF.search(text, at, cut):
        return None
    inverted = _RELAYED_VERB_FIRST.search(text[at:cut])
    if inverted:
        # If the attribution begins the sentence, the text after the sentence may be relayed, too; otherwise, only the
        # sentence itself is.
        return at, cut if inverted.start() else len(text)
    relayed = _RELAYED.search(text, at, cut)
    while relayed and _refers(text, at, relayed.start()) and not _REPEATS.search(text, relayed.end(), cut):
        relayed = _RELAYED.search(text, relayed.end(), cut)
    relayed = relayed or _RELAYED_ELSEWHERE.search(text, at, cut) or _RELAYED_FARTHER.search(text, at, cut)
    return (relayed.start(), len(text)) if relayed else None


def ends_relaying(line: str) -> bool:
    """Return True if the words follow that a line relays: after a verb of saying ("copilot suggested") or a colon."""
    if _AS_SAID.search(line) or _SELF.search(line):
        return False
    has_colon = line.endswith((":", "："))
    line = _POINTS_ON.sub("", line)
    forms = (_RELAYED, _RELAYED_ELSEWHERE, _RELAYED_FARTHER, _RELAYED_VERB_FIRST)
    return any(
        (has_colon or said.end() == len(line)) and not _refers(line, 0, said.start())
        for form in forms
        for said in form.finditer(line)
    )


def _refers(text: str, at: int, end: int) -> bool:
    # Only the last words are searched, so that a text full of such verbs takes linear time.
    return _REFERS.search(text, max(at, end - 80), end) is not None
