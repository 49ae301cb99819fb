"""Recognise the lines with which a user introduces somebody else's text: "here is the log:", "translate this". Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from engram.system.lazy_regex import lazy_regex

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
    r"steht|meint|geschrieben|geschickt|gesendet|dit|écrit|envoyé|dice|dijo|escribió|escrito|pone|mandó|envió|enviado|"
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
    r"(?i)[^\n]{0,80}\b(?:(?:this|that|it|these) (?:is|comes?|was|are) (?:taken |copied |quoted )?from|"
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
    r"minhas?)\b(?!\s*[:/.)])"
)


def introduces(line: str) -> bool:
    """Return True if a line announces somebody else's text, such as "here is the output:" or "the README says:"."""
    if _LEAD_IN.search(line) and not _PURPOSE.search(line):
        return True
    elsewhere = _LEAD_IN_ELSEWHERE.search(line) or _LEAD_IN_FARTHER.search(line) or _HANDED_ON.match(line)
    return bool(elsewhere) and not _OWN_WISHES.search(line)


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
