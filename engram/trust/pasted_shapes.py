"""Recognise pasted text by its shape, and the lines with which a user introduces somebody else's text. Pure.

Shapes are SQL, results of tests, lists of commits or requirements, and scenarios. Unlike a log, text of such a shape
ends where the shape does, so the line after it may be typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from engram.system.lazy_regex import lazy_regex
from engram.trust.relayed import ends_relaying

#: Elements of web pages. They indicate that a person pasted code or is asking about it.
_MARKUP = frozenset(
    "a abbr article aside audio b blockquote body br button canvas circle code col dd details dialog div dl dt em "
    "fieldset figure footer form g h1 h2 h3 h4 h5 h6 head header hr html i iframe img input label legend li link main "
    "meta nav ol optgroup option p path picture pre rect script section select small span strong style sub summary sup "
    "svg table tbody td template textarea tfoot th thead title tr u ul video xml".split()
)
#: The name of a component, as in JSX, or of a type.
_COMPONENT = lazy_regex(r"[A-Z]|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*")
#: Words of a sentence, with no further tag.
_SENTENCE = lazy_regex(r"\s+[^\W\d_A-Z][^<>]*$")
#: The beginning of an SQL statement. In a sentence about SQL, two of its words are rarely in capitals.
_STATEMENT = lazy_regex(
    r"\s*(?:EXPLAIN\s+(?:\(?[A-Z, ]{3,40}\)?\s+)?)?(?:SELECT\b.*(?:\bFROM\b|,\s*$)|SELECT\s*(?:\*|\w+(?:\.\w+)?)?\s*$|"
    r"INSERT\s+(?:OR \w+ )?INTO\b|UPDATE\s+[\w.\"`]+(?:\s+SET\b|\s*$)|DELETE\s+FROM\b|"
    r"(?:CREATE|ALTER|DROP)\s+(?:OR REPLACE |UNIQUE |TEMP(?:ORARY)? |MATERIALIZED )*(?:TABLE|INDEX|VIEW|TRIGGER|"
    r"FUNCTION|SCHEMA|DATABASE|TYPE|ROLE|USER|SEQUENCE|EXTENSION)\b|WITH\s+\w+\s+AS\s*\(|TRUNCATE\s+TABLE\b|GRANT\b.*\bON\b|"
    r"PRAGMA\s+\w+)"
)
#: A text in quotation marks and a comment of a statement, and what makes the rest of such a line a sentence about SQL:
#: "DROP TABLE is never allowed".
_QUOTED_IN_STATEMENT = lazy_regex(r"'[^']*'|\"[^\"]*\"|`[^`]*`|--.*")
_IS_ABOUT_SQL = lazy_regex(r"\b(?:is|are|must|may|should|shall|needs?|never|always|statements?|queries)\b")
_STATEMENT_END = lazy_regex(r";\s*(?:--.*)?$")
#: An ``UPDATE`` without the rest of the statement, which may be part of a sentence, and the line that must follow it.
_BARE_UPDATE = lazy_regex(r"\s*UPDATE\s+\S+\s*$")
_SET = lazy_regex(r"\s*SET\b")
#: A line with the result of a test, a file or a target, and nothing else.
_RESULT = lazy_regex(
    r"\s*(?:---\s)?(?:PASS|FAIL|SKIP|XFAIL|XPASS|PASSED|FAILED|SKIPPED|ERROR|not ok|ok)(?:\s*[:\]]?\s+)"
    r"(?:\d+ - \S.*|\S*[./:]\S+(?: [>›] .+)?)(?:\s+\(?[\d.]+ ?m?s\)?)?\s*$"
)
#: A line of ``git log --oneline`` or ``git rebase -i``, and a line that begins with the number of a requirement or
#: ticket, but not with the name of a standard. One such line may be typed.
_COMMIT = lazy_regex(
    r"[\s*|\\/]{0,12}(?:(?:pick|squash|fixup|reword|drop|edit) )?(?=\w*\d)[0-9a-f]{7,12} (?:\([^()]*\) )?\S"
)
_NUMBERED = lazy_regex(
    r"\s*(?:[-*]\s)?\[?(?!(?:AES|ECMA|IEEE|ISO|PEP|RFC|RSA|SHA|TLS|UTF)-)[A-Z][A-Z\d]{1,9}-\d{1,6}\b\]?[:.)–—-]?\s+\S"
)
_ROWS = 2
#: The heading of a scenario for an acceptance test, and its steps.
_SCENARIO = lazy_regex(r"\s*(?:Feature|Background|Scenario(?: Outline)?):\s*\S?")
_STEP = lazy_regex(r"\s*(?:(?:Given|When|Then|And|But|Examples?:?)\b|\*\s|\||@\w)|\s{2,}\S")
_IS_STEP = lazy_regex(r"\s*(?:Given|When|Then|@\w)\b|\s*(?:Scenario|Background)\b")


def is_markup(name: str) -> bool:
    """Return True for the name of an element of a web page or of a component, rather than of a program's own tags."""
    return name.lower() in _MARKUP or _COMPONENT.fullmatch(name) is not None


def begins_sentence(behind: str) -> bool:
    """Return True if the text behind a tag makes the tag the subject of a sentence: "<div> never closes here"."""
    return _SENTENCE.match(behind) is not None


def shape_end(lines: Sequence[str], at: int) -> int:
    """Return the line after a pasted text of a fixed shape that begins with line ``at``; ``at`` if none does."""
    line = lines[at]
    if _STATEMENT.match(line) and not _is_about_sql(line) and (end := _end_of_statement(lines, at)) > at:
        return end
    if _RESULT.match(line) and len(lines) > 1:  # a prompt such as "ok main.py" is an answer
        return _after_indented(lines, at + 1)
    for rows in (_COMMIT, _NUMBERED):
        end = _end_of_rows(lines, at, rows)
        if end - at >= _ROWS:
            return end
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if _SCENARIO.match(line) and _IS_STEP.match(following):
        end = at + 1
        while end < len(lines) and (_STEP.match(lines[end]) or _SCENARIO.match(lines[end])):
            end += 1
        return end
    return at


def _is_about_sql(line: str) -> bool:
    """Return True if a line that begins like a statement is a sentence."""
    return _IS_ABOUT_SQL.search(_QUOTED_IN_STATEMENT.sub("", line)) is not None


def _end_of_statement(lines: Sequence[str], at: int) -> int:
    """Return the line after an SQL statement and the indented lines below it, such as its plan.

    A statement without a semicolon ends at a blank line.
    """
    is_bare = _BARE_UPDATE.match(lines[at]) is not None
    if is_bare and not any(_SET.match(line) for line in lines[at + 1 : at + 2]):
        return at
    end = at
    while end < len(lines) and lines[end].strip():
        end += 1
        if _STATEMENT_END.search(lines[end - 1]):
            return _after_indented(lines, end)
    return end


def _end_of_rows(lines: Sequence[str], at: int, row: re.Pattern[str]) -> int:
    end = at
    while end < len(lines) and row.match(lines[end]):
        end += 1
    return end


def _after_indented(lines: Sequence[str], at: int) -> int:
    """Return the first line from ``at`` on that is not indented."""
    while at < len(lines) and lines[at].strip() and lines[at][:1].isspace():
        at += 1
    return at


# -- Lines that introduce somebody else's text: "here is the log:", "translate this".

#: A lead-in that states a purpose, such as "to understand:", and so introduces no paste.
_PURPOSE = lazy_regex(
    r"(?i)\b(?:to|please|and)\s+(?:understand|know|do|ensure|check|verify|make|add|change|fix|implement|create|"
    r"update|consider)(?:\s+(?:the following|this|it|that|sure))?\s*:\s*$"
)
#: A request about a text that follows, on several lines.
_REQUEST = lazy_regex(
    r"(?i)[^\n]{0,40}\b(?:summari[sz]e|review|explain|translate|rewrite|proofread|improve|convert|parse|format|"
    r"analy[sz]e|check|read|look at|what does|what is|what do you|thoughts on|opinion on|is|are|about|have|got|"
    r"found)\b[^\n]{0,60}\b(?:this|these|below|following|attached)\b[^\n]{0,40}$"
)
#: A lead-in to a text whose unquoted lines answer the quoted ones.
_CORRESPONDENCE = lazy_regex(r"(?i)\b(?:e-?mail|mail|message|reply|answer|thread|letter|nachricht|antwort)")
#: A separator line, and a request whose text may follow below it.
_SEPARATOR = lazy_regex(r"\s{0,3}([-=_*~])\1{2,}\s*$")
_SEPARATED = lazy_regex(
    r"(?i)(?:[^\n]{0,80}\b(?:please|can you|could you|you to|help me)(?: \w+)? |\W*)(?:summari[sz]e|review|explain|"
    r"translate|proofread|analy[sz]e|answer|reply to) (?:this|that|these|it)\b(?! (?:before|when))"
)
_REQUESTED_LINES = 3  # with fewer lines of text after it, such a request does not introduce pasted text
#: A request about a text that follows, however short: "translate to German".
_TEXT_REQUEST = lazy_regex(
    r"(?i)\s*(?:(?:please|pls|can you|could you) )*(?:translate|proofread|paraphrase|rephrase|reword|tl;?dr|eli5|"
    r"(?:check|fix) (?:the )?(?:grammar|spelling))(?: (?:this|it|that|please|for me))*(?: (?:in)?to \w+| in \w+)?"
    r"(?: please)?\s*[?:.!]{0,3}\s*$"
)
#: A request about a text that begins on the same line: "what does this say: …", "translate this to German: …".
_ABOUT_TEXT_BEHIND = lazy_regex(
    r"(?i)\s*(?:(?:please|pls|ok(?:ay)?|hey|can you|could you|bitte|kannst du|peux-tu|puedes|puoi|podes)[, ]+)*"
    r"(?:(?:explain|summari[sz]e|translate|proofread|paraphrase|rephrase|reword|what (?:does|do)\b[^:\n]{0,30}"
    r"\b(?:say|mean)|erklär\w*|übersetz\w*|fass\w*|was (?:heißt|bedeutet)|explique\w*|tradui[st]|résume\w*|"
    r"que (?:veut dire|signifie|significa|dice|quiere decir)|traduce|resume|explica|spiega|traduci|riassumi|"
    r"cosa (?:significa|dice|vuol dire)|traduz\w*)\b[^:\n]{0,40}|"
    r"(?:check|review|read|analy[sz]e|look at|improve|rewrite|thoughts on|opinion on|what do you (?:think of|make of)|"
    r"prüf\w*|lies|schau\w* dir|was (?:hältst|sagst) du (?:von|zu)|vérifie|lis|revisa|lee|mira|controlla|leggi|revê)"
    r"\b[^:\n]{0,20}\b(?:this|these|that|following|below|diese[nrms]?|das|folgende\w*|ce(?:ci|la|tte|s)?|ça|est[aoe]s?|"
    r"quest[aoei]|ist?o|est[ae])\b[^:\n]{0,30}):\s+(?=\S)"
)
_POINTS = lazy_regex(r"(?i)\b(?:this|it|that)\b|:\s*$")  # words in such a request that point to the text
#: Beginnings of rules. A rule directly below such a request is the user's own unless the request points to the text.
_BEGINS_RULE = lazy_regex(
    r"(?i)\s*(?:[-*+]\s+)?(?:(?:and|also|please|ok(?:ay)?|important|note)[,:]?\s+)*(?:from (?:now|here|today)|"
    r"(?:going|moving) forward|in (?:the )?future|always|never|remember|do(?:n['’]t| not)|(?:every|each) time|whenever|"
    r"(?:our|my) \w+|ab (?:jetzt|sofort|heute)|künftig|immer|nie(?:mals)?|à partir de|désormais|dorénavant|toujours|"
    r"jamais|a partir de|(?:de|desde) ahora|siempre|nunca|d['’]ora in|sempre|vanaf nu|altijd|nooit)\b"
)
_LEAD_IN = lazy_regex(
    r"(?i)(?:\b(?:here(?:'s|’s| is| are| comes)(?! (?:my|our) (?:rules?|preferences?|conventions?|requirements?|"
    r"wishes)| (?:what|how|the way) (?:i|we)(?:['’]d)? (?:want|need|expect|like|prefer|work|do)\b)|below(?: is| are)?|"
    r"attached|pasted?|quot(?:e|ing)|forwarded|copied|for reference|fyi|gives?|shows?|prints?|returns?|contains?|"
    r"reads?|outputs?|i (?:get|got|see|found)|what i (?:get|got|see)|context|contents?)\b[^\n]{0,120}|\b(?:files?|"
    r"outputs?|logs?|errors?|messages?|e-?mails?|issue|ticket|comments?|readme|docs?|documentation|page|response|reply|"
    r"transcript|trace|stack ?trace|stack ?overflow|text|snippet|code|review|feedback|spec|plan|diff|patch|excerpt|"
    r"passage|contract|clause|article|post|thread|slack|config|description|report|results?|"
    r"(?:notes?|paragraphs?|chapters?|handbook|manual|minutes) (?:from|of|in|by)|(?:has|have) this paragraph|"
    r"instructions? (?:from|of|in|by)|policy|guide|prompt|rules? (?:from|of|in|by)|claude\.md|agents\.md)\b[^\n]{0,60}|"
    r"\b(?:says?|said|wrote|writes|replied|answered|told (?:me|us)|suggest(?:s|ed)|recommend(?:s|ed)|asks?|asked|"
    r"wants)\b[^\n]{0,40}):\s*$"
)
#: The user's own wishes ("meine Regeln"); a line that introduces them is not a lead-in.
_OWN_WISHES = lazy_regex(
    r"(?i)\b(?:meine?r?|unsere?|mes|nos|mis|nuestr[oa]s|(?:le )?mie|(?:i )?miei|nostr[ei]|(?:as )?minhas|(?:os )?meus|"
    r"noss[oa]s)\s+(?:regeln|wünsche|vorgaben|règles|souhaits|préférences|reglas|preferencias|regole|preferenze|"
    r"regras|preferências)\b"
)
#: Lead-ins in German, French, Spanish, Italian and Portuguese.
_LEAD_IN_ELSEWHERE = lazy_regex(
    r"(?i)(?:\b(?:hier(?: (?:ist|sind|kommt|kommen|der|die|das|ein|eine))?|anbei|unten|folgendes|voici|voilà|"
    r"ci-dessous|aquí|abajo|ecco|qui|di seguito|aqui|abaixo|segue|eis)\b[^\n]{0,120}|\b(?:readme|wiki|doku\w*|handbuch|"
    r"anleitung|fehler\w*|ausgabe|meldung|nachricht|e-?mail|ticket|kommentar\w*|protokoll|antwort|seite|text|"
    r"beschreibung|vertrag|fichier|erreur|sortie|message|courriel|commentaires?|réponse|page|texte|consigne|auszug|"
    r"zitat|extrait|citation|contrat|extracto|cita|contrato|trecho|excerto|estratto|brano|citazione|contratto|archivo|"
    r"fichero|salida|mensaje|correo|comentarios?|respuesta|página|texto|documento|errore|messaggio|commento|risposta|"
    r"pagina|testo|arquivo|ficheiro|erro|mensagem|comentários?|resposta)\b[^\n]{0,60}|\b(?:sagt|sagte|schreibt|schrieb|"
    r"steht|meint|geschrieben|geschickt|gesendet|weitergeleitet|dit|écrit|envoyé|dice|dijo|escribió|escrito|pone|mandó|envió|enviado|"
    r"scrive|scritto|detto|mandato|inviato|diz|disse|escreveu|mandou|enviou)\b[^\n]{0,40})\s?:\s*$"
)
#: The same in Dutch, Polish, Russian, Japanese and Chinese.
_LEAD_IN_FARTHER = lazy_regex(
    r"(?i)^[^\n]{0,40}(?:\b(?:hieronder|hier is|bericht|mail|e-mail|ticket|reactie|wiadomość|oto|poniżej|komentarz|"
    r"zgłoszenie|переслано|сообщение|письмо|вот|ниже|комментарий|тикет)\b|転送|メール|メッセージ|以下|引用|チケット|"
    r"コメント|转发|转自|以下|邮件|消息|工单|评论|引用)[^\n]{0,60}[:：]\s*$"
)
#: A separate line that names the origin of a text: "a colleague sent me this".
_HANDED_ON = lazy_regex(
    r"(?i)^[^\n]{0,80}\b(?:(?:this|that|it|these) (?:is|comes?|was|are) (?:taken |copied |quoted )?from|"
    r"(?:copied|pasted|got|took|have) (?:this|it|that|these) (?:\w+ )?from|"
    r"(?:sent|gave|forwarded|wrote|posted|mailed) (?:(?:me|us|to me|to us) )?(?:this|the following|that)(?: \w+)?"
    r"(?:[.:]?|,[^\n?]{0,60}\?)$|(?:das|dies) (?:ist|stammt|kommt|steht) (?:aus|von|im|in)|"
    r"(?:(?:mir|uns) )?(?:das|dies|folgendes) (?:\w+ )?(?:geschickt|geschrieben|gesendet|weitergeleitet)|"
    r"(?:m'a|nous a|m’a) (?:envoyé|écrit|transmis)|(?:ceci|ça|cela) vient (?:de|du)|"
    r"(?:me|nos) (?:ha |han )?(?:enviado|enviaron|envió|mandó|mandaron|escribió) (?:esto|lo siguiente)|"
    r"esto (?:es|viene) del?|mi ha(?:nno)? (?:mandato|inviato|scritto) (?:questo|quanto)|questo (?:è|viene) d[ae]\w*|"
    r"(?:me )?(?:mandou|enviou|escreveu|mandaram)(?:-me)? (?:isto|isso|o seguinte)|isto (?:é|vem) d[aoe])"
    r"[^\n.!?]{0,60}[.:]?\s*$"
)
#: Beginnings of lines after a blank one that show that the user is speaking again.
_FIRST_PERSON = lazy_regex(
    r"(?i)\s*(?:(?:so|now|and|but|please|ok(?:ay)?|also|und|nun|jetzt|aber|et|maintenant|y|ahora|pero|e|ora|ma|agora|"
    r"mas)[, ]+)?(?:i|i['’](?:m|d|ve|ll)|my|ich|meine?[rmns]?|je|j['’]\w+|mon|mes|moi|yo|mis?|io|mi[oa]|miei|eu|meus?|"
    r"minhas?|ik|mijn|creo|quiero|quisiera|penso|credo|vorrei|acho|quero)\b(?!\s*[:/.)])"
)


def introduces(line: str) -> bool:
    """Return True if a line announces somebody else's text, such as "here is the output:" or "the README says:"."""
    if (_LEAD_IN.search(line) and not _PURPOSE.search(line)) or ends_relaying(line):
        return True
    lead_ins = (_LEAD_IN_ELSEWHERE, _LEAD_IN_FARTHER, _HANDED_ON)
    return any(form.search(line) for form in lead_ins) and not _OWN_WISHES.search(line)


def end_of_request(line: str) -> int:
    """Return where a request ends that asks about a text on the same line; 0 if the line is no such request."""
    request = _ABOUT_TEXT_BEHIND.match(line)
    return request.end() if request is not None else 0


def asks_about(lines: Sequence[str], at: int) -> bool:
    """Return True if the line asks about text that follows. Most requests count only if a blank line comes next."""
    if not lines[at].endswith("\n") and end_of_request(lines[at] + lines[at + 1]) == len(lines[at]):
        return True
    if _TEXT_REQUEST.match(lines[at].rstrip()):
        is_own = _BEGINS_RULE.match(lines[at + 1]) and not _POINTS.search(lines[at])
        return not is_own and any(lines[number].strip() for number in range(at + 1, len(lines)))
    if _SEPARATOR.match(lines[at + 1]) and _SEPARATED.match(lines[at]):
        return True
    if lines[at + 1].strip() or not _REQUEST.match(lines[at].rstrip()):
        return False
    following = (number for number in range(at + 1, len(lines)) if lines[number].strip())
    return sum(1 for _ in islice(following, _REQUESTED_LINES)) == _REQUESTED_LINES


def is_correspondence(line: str) -> bool:
    """Return True for a lead-in to a text such as a letter, in which unquoted lines answer the quoted ones."""
    return _CORRESPONDENCE.search(line) is not None


def begins_in_first_person(line: str) -> bool:
    """Return True if a line begins in a way that shows, after a blank line, that the user is speaking again."""
    return _FIRST_PERSON.match(line) is not None
