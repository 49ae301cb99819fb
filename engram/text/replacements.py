"""Recognise what the user says has taken the place of something, or no longer applies: "we moved from npm to pnpm".

Such a sentence ends the rules to use the old thing. If it names only the new one ("switch everything to pnpm"), the old
one is any of its rivals. Two rules that name rivals can't both be followed, which does not end either of them. Pure
functions. Callers limit the length of a sentence, because some of the patterns take more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from engram.system.cached import cached_by_text
from engram.system.lazy_regex import any_case
from engram.text.withdrawals import subject_words
from engram.text.words import UNSPACED_LETTERS, content_words, prefixes


class Replacement(NamedTuple):
    """The thing that a sentence says was replaced, and its replacement, if any, as prefixes of their words."""

    #: The name of the thing; for one that is not named, the names of all that it may be.
    names: tuple[str, ...]
    old: frozenset[str]
    new: frozenset[str]
    #: False for an order that may be meant only for now, so that it makes no rule although it ends one.
    is_lasting: bool = True
    #: False if the thing is not named. Then only rules to use it for everything end, as others may mean another thing.
    is_told: bool = True


#: Tools and habits of which a project uses one, so that another one takes its place, and words for what they are
#: for. Databases are not among them: one may be for production, and another for tests.
_KINDS = (
    ("npm pnpm yarn bun", "package packages manager managers dependency dependencies install installs installing node"),
    ("pip poetry uv pipenv pdm conda", "package packages manager dependency dependencies install installing python"),
    ("flake8 pylint ruff", "lint linting linter python"),
    ("black yapf autopep8", "format formats formatting formatter python"),
    ("eslint tslint biome", "lint linting linter"),
    ("prettier biome", "format formats formatting formatter"),
    ("jest vitest mocha jasmine", "test tests testing unit runner framework suite"),
    ("pytest unittest nose", "test tests testing unit runner framework suite python"),
    ("cypress playwright selenium puppeteer", "e2e end-to-end browser test tests testing framework"),
    ("webpack vite rollup parcel", "bundle bundles bundling bundler build builds building"),
    ("prisma drizzle typeorm sequelize knex", "orm database db"),
    ("redux zustand mobx", "state management store"),
    ("moment dayjs date-fns luxon", "date dates time times"),
    ("requests httpx aiohttp", "http request calls client python"),
    ("axios ky superagent", "http request requests calls client"),
    ("jenkins travis circleci", "ci pipeline pipelines"),
    ("maven gradle", "build builds building"),
    ("docker podman", "container containers"),
    ("javascript typescript", "language code file files"),
    ("tabs spaces", "indent indents indenting indentation"),
)
_RIVALS = tuple(frozenset(names.split()) for names, _ in _KINDS)
#: Words that do not limit a rule to a part of the work.
_UNLIMITED = frozenset(
    "always use uses used using only just please everywhere everything here all every whole project projects repo "
    "repos repository code codebase team default standard choice tool moved switched migrated prefer stick run "
    "instead rather now today rule remember note never wir verwenden benutzen nutzen nehmen verwende benutze nutze "
    "immer bitte toujours utilise utilisez utilisons usa usamos siempre sempre usiamo usate gebruik gebruiken altijd "
    "zawsze używaj używamy мы всегда используем используй".split()
)


#: The name of a tool or a habit: a word or two, without an article. "the files" and "the logo" are things in the code.
_NAME = (
    r"(?!(?:the|our|an?|one|de[rnms]|die|das|la|le|les|el|los|il|lo|gli|os?|as?|het|een|it|my|that|this|all|half|some|most|"
    r"parts?)\b)[\w.+#@/-]{2,40}"
)
_OLD = (
    rf"(?P<old>{_NAME}(?: (?!(?:to|auf|zu|durch|gegen|à|vers|a|para|pra|por|par|naar|na|with|by|for)\b)"
    r"[\w.+#@/-]{1,40})??)"
)
_NEW = rf"(?P<new>{_NAME})"
_LATIN = r"[A-Za-z0-9][A-Za-z0-9.+#@/_-]{1,39}"
#: What may precede the words about the whole team, and follow the new thing: "btw", "last week", "so use it".
_BEGINS = (
    r"^\W*(?:(?:fyi|btw|by the way|heads up|note|ok(?:ay)?|so|and|also|hey|update|übrigens|also|au fait|por cierto|"
    r"a propósito|tra l['’]altro|trouwens|przy okazji|кстати)[,:!. –—-]+){0,3}"
)
_JUST = (
    r"(?:(?:just|now|recently|finally|already|all|completely|fully|officially|jetzt|nun|inzwischen|mittlerweile|endlich|"
    r"gerade|gestern|komplett|letzte woche|maintenant|enfin|récemment|nu|inmiddels|właśnie|już|уже|недавно|наконец) )"
    r"{0,2}"
)
_ENDS = (
    r"(?:,? (?:(?:late )?(?:last|this) (?:week|month|year|night|sprint|morning)|yesterday|today|now|recently|already|"
    r"everywhere|here|completely|for good|hace \w+ \w+|la semana pasada|ayer|hoy|hier|la semaine dernière|"
    r"aujourd['’]hui|ieri|oggi|la settimana scorsa|ontem|hoje|(?:na )?semana passada|gisteren|vorige week|wczoraj|"
    r"вчера|сегодня|на прошлой неделе)){0,2}"
    r"(?=[\s.!;)]*$|[,;:.–—-]+ ?(?:so|(?:and )?(?:please )?(?:use|always|from now on)|also|donc|así que|quindi|então|"
    r"dus|więc|поэтому)\b)"
)
#: Words for later, without those that can mean this moment only, as "now" can; and all of them.
_LASTING = (
    r"(?:from now on|going forward|as of (?:today|now)|ab (?:jetzt|sofort|heute)|von jetzt an|künftig|désormais|"
    r"dorénavant|[àa] partir de maintenant|a partir de ahora|de ahora en adelante|d['’]ora in poi|da oggi|"
    r"a partir de agora|vanaf nu|od teraz|с этого момента)"
)
_LATER = rf"(?:{_LASTING}|jetzt|maintenant|ahora|adesso|ora|agora|nu|teraz|теперь)"
#: States that people, not projects, are "on".
_NO_STATE = (
    r"(?!(?:vacation|holidays?|leave|call|duty|break|lunch|pto|hold|track|schedule|strike|time|site|board|fire|it|top|"
    r"main|master|prod(?:uction)?|staging|urlaub|reisen?|dienstreise|achse|kurs|linie)\b)"
)
#: The team switched from one thing to another. The sentence must begin with these words and say nothing else, because
#: additional words often mean that the switch was only in one place, by somebody else, long ago, or never made.
_MOVED = tuple(
    any_case(rf"{_BEGINS}{form}")
    for form in (
        rf"we(?:['’]ve| have)? {_JUST}(?:moved|switched|migrated|changed)(?: over| away)? from {_OLD} "
        rf"(?:over )?to {_NEW}{_ENDS}",
        rf"we(?:['’]ve| have)? {_JUST}(?:(?:replaced|swapped) {_OLD} (?:with|by|for)|"
        rf"(?:dropped|ditched|abandoned) (?P<left>{_NAME}) (?:for|in favou?r of)) {_NEW}{_ENDS}",
        rf"(?:please )?(?:don['’]?t|do not|stop|no longer) us(?:e|ing) {_OLD} (?:any ?more|any longer)[,;:.–—-]? ?"
        rf"(?:(?:and|but|please|always) ){{0,3}}use {_NEW}{_ENDS}",
        rf"wir sind {_JUST}von {_OLD} (?:auf|zu) {_NEW} (?:umgestiegen|gewechselt|migriert|umgezogen){_ENDS}",
        rf"wir haben {_JUST}{_OLD} (?:durch|gegen) {_NEW} (?:ersetzt|getauscht|ausgetauscht){_ENDS}",
        rf"wir haben {_JUST}von {_OLD} auf {_NEW} (?:umgestellt|gewechselt|migriert){_ENDS}",
        rf"(?:on est|nous sommes|on a|nous avons) {_JUST}(?:(?:pass|migr|chang)és? de {_OLD} (?:à|vers)|"
        rf"remplacé (?P<left>{_NAME}) par) {_NEW}{_ENDS}",
        rf"(?:hemos )?(?:pasamos|pasado|migramos|migrado|cambiamos|cambiado) de {_OLD} a {_NEW}{_ENDS}",
        rf"(?:siamo passati|siamo migrati|abbiamo migrato) da {_OLD} a {_NEW}{_ENDS}",
        rf"(?:nós )?(?:mudamos|migramos|trocamos|passamos) de {_OLD} (?:para|pra|por) {_NEW}{_ENDS}",
        rf"(?:we|wij) zijn {_JUST}van {_OLD} naar {_NEW} (?:overgestapt|overgegaan){_ENDS}",
        rf"przeszliśmy {_JUST}z {_OLD} na {_NEW}{_ENDS}",
        rf"(?:мы )?{_JUST}(?:перешли|переехали|мигрировали) с {_OLD} на {_NEW}{_ENDS}",
        # What the team left, without a word about what it uses now.
        rf"we(?:['’]ve| have)? {_JUST}(?:dropped|ditched|abandoned|removed|got(?:ten)? rid of) {_OLD}{_ENDS}",
        # "redis is gone" alone may report that it has crashed.
        rf"we(?:['’]ve| have)? {_JUST}(?:moved|switched|migrated)(?: over)? to [^,;:.?]{{2,40}}[,;.–—-]+ ?(?:so )?"
        rf"{_OLD} is gone{_ENDS}",
        # "Redis is out" may report the same.
        rf"we(?:['’]re| are) (?:all )?(?:now )?(?:on|using) {_NO_STATE}{_NAME}(?: {_NAME})?? now[,;.–—-]+ ?(?:so )?"
        rf"{_OLD} is gone{_ENDS}",
        rf"{_OLD} is gone[,;.–—-]+ ?(?:so )?(?:please )?(?:use\b|we(?:['’]re| are)(?: all)?(?: now)? (?:on|using) "
        rf"{_NO_STATE}{_NAME} now\W*$)",
        rf"wir sind (?:jetzt|nun) (?:auf|bei) {_NO_STATE}{_NAME}[,;.–—-]+ ?(?:also )?{_OLD} ist "
        rf"(?:raus|Geschichte){_ENDS}",
        # "No more tests, let's ship" ends only the work of today.
        rf"(?:please )?no more {_OLD}(?: please)?(?:[,;.–—-]+ ?(?:just |only )?[\w.+#@/-]{{2,40}}(?: {_NAME})?)?,? "
        rf"{_LASTING}\W*$",
        rf"{_LASTING},? (?:please )?no more {_OLD}(?: please)?\W*$",
        rf"{_LASTING},? (?:bitte )?keine?n? {_OLD} mehr(?: bitte)?\W*$",
        rf"(?:bitte )?keine?n? {_OLD} mehr {_LASTING}\W*$",
        rf"(?:please )?stop using {_OLD}(?P<part> for [^,;:.?]{{2,40}})?[,;:.–—-]+ ?(?:(?:and|but|please|always) )"
        rf"{{0,3}}use {_NEW}(?P<of> for [^,;:.?]{{2,40}}?)?(?:,? (?P<lasting>{_LASTING}))?\W*$",
        rf"{_OLD} is (?:history|not used any ?more|no longer used){_ENDS}",
        rf"wir (?:ver|be)?(?:wenden|nutzen|nehmen) {_JUST}(?:keine?n? {_OLD} mehr|(?P<left>{_NAME}) nicht mehr){_ENDS}",
        rf"(?:on|nous) n['’e] ?utilis(?:e|ons) plus {_OLD}{_ENDS}",
        rf"(?:ya no (?:usamos|utilizamos)|non usiamo più|(?:já )?não (?:usamos|utilizamos) mais) {_OLD}{_ENDS}",
        rf"(?:we|wij) gebruiken {_JUST}(?:geen {_OLD} meer|(?P<left>{_NAME}) niet meer){_ENDS}",
        rf"(?P<old>{_LATIN})\s?はもう使(?:わない|いません|っていません|ってない)\W*$",
        rf"(?P<old>{_LATIN})\s?から\s?(?P<new>{_LATIN})\s?に(?:移行|切り替え|乗り換え)(?:しました|ました|した|た)\W*$",
        rf"(?:我们)?(?:已经)?从\s?(?P<old>{_LATIN})\s?(?:切换|换|迁移|迁)(?:成|到|为)了\s?(?P<new>{_LATIN})\W*$",
    )
)
_ALL = (
    r"(?:everything|it all|all of (?:it|this)|(?:the (?:whole |entire )?|this (?:whole )?|our )"
    r"(?:project|repo\w*|code ?base))"
)
#: The whole project was or shall be changed over to something. What it used before is not named.
_SWITCHES = tuple(
    any_case(rf"{_BEGINS}{one}")
    for one in (
        rf"we(?:['’]ve| have)? {_JUST}(?:moved|switched|migrated)(?: over)? to {_NEW}{_ENDS}",
        rf"(?:please |let['’]s ){{0,2}}(?:switch|move|migrate|convert|port|change) {_ALL}(?: over)? to {_NEW}"
        rf"(?: please)?{_ENDS}",
        rf"(?:bitte )?stell\w{{0,2}} (?:bitte )?(?:alles|das (?:ganze )?(?:projekt|repo)) auf {_NEW} um{_ENDS}",
        rf"(?:passe|migre|bascule)[sz]? tout(?: le (?:projet|dépôt))? (?:à|vers|sur) {_NEW}{_ENDS}",
        rf"(?:cambia|pasa|migra) todo(?: el (?:proyecto|repo))? a {_NEW}{_ENDS}",
        rf"(?:passa|migra|sposta) tutto(?: il (?:progetto|repo))? (?:a|su) {_NEW}{_ENDS}",
        rf"(?:mud[ae]|migr[ae]|pass[ae]) tudo (?:para|pra) {_NEW}{_ENDS}",
        rf"zet alles (?:over|om) naar {_NEW}{_ENDS}",
        rf"(?:przenieś|przestaw|zmień) wszystko na {_NEW}{_ENDS}",
        rf"(?:переведи|перенеси|переключи)(?:те)? вс[её] на {_NEW}{_ENDS}",
        rf"(?:全部|すべて|全て)を?\s?(?P<new>{_LATIN})\s?に(?:切り替え|移行し|乗り換え|変更し|し)てください\W*$",
        rf"(?:请)?把?(?:全部|所有|一切)[^，。]{{0,6}}?(?:换|改|切换|迁移|迁)(?:成|到|为)\s?(?P<new>{_LATIN})\W*$",
        rf"(?:전부|모두|다)\s?(?P<new>{_LATIN})(?:으로|로)\s?(?:바꿔|전환해|옮겨)\w{{0,4}}(?: ?주세요| ?줘)?\W*$",
    )
)
_HERE = (
    rf"(?:(?:,? (?:{_LATER}|in all (?:my |our )?(?:projects|repos\w*)|here|everywhere|now|hier|ici|aquí|"
    r"qui|aqui|тут))(?!\w)){0,2}"
)
#: The team uses one thing from now on, instead of another one, which may be left unsaid.
_INSTEAD = any_case(
    rf"{_BEGINS}(?:(?:moving|switching|migrating) to [\w.+#@/-]{{2,40}}\W{{1,3}})?(?:{_LATER},? (?:"
    rf"(?:verwenden|benutzen|nutzen|nehmen) wir|gebruiken we)|(?:{_LATER},? )?(?:please )?(?:always )?(?:"
    r"we(?:['’]re| are)? (?:all )?(?:now )?us(?:e|ing)|(?P<order>use)|wir (?:verwenden|benutzen|nutzen|nehmen)|"
    r"(?:on|nous) utilis(?:e|ons)|usamos|utilizamos|usiamo|we gebruiken|używamy|(?:мы )?используем))"
    rf"{_HERE} {_NEW}{_HERE}"
    r"(?:(?:,? (?:instead of|in place of|rather than|statt|anstatt|anstelle von|au lieu de|à la place de|en vez de|"
    r"en lugar de|invece di|al posto di|em vez de|ao invés de|in plaats van|zamiast|вместо)|"
    r", (?:and )?(?:not|no longer|nicht mehr|plus|ya no|non più|niet meer)) "
    rf"{_OLD}{_HERE})?[\s.!;)]*$"
)
#: Words that say from when on something applies; and those of them that last.
_CHANGED = any_case(rf"(?<!\w)(?:{_LATER}|now)(?!\w)")
_FROM_NOW_ON = any_case(rf"(?<!\w){_LASTING}(?!\w)")
#: Words of a question, a plan or a supposition, or of a switch that was undone.
_UNSETTLED = any_case(
    r"[?？]|\b(?:if|when|once|until|before|unless|whether|maybe|perhaps|should|would|could|might|almost|nearly|never|"
    r"yet|back|again|revert\w*|undone|temporar\w+|for now|says?|said|thinks?|sagt|meint|dit|dice|diz|zegt|mówi|говорит|"
    r"wenn|falls|ob|sobald|vielleicht|si|quand|peut-être|cuando|quizás?|quando|forse|se|talvez|als|misschien|jeśli|gdy|"
    r"może|если|когда|может)\b|もし|なら|如果|要是|也许"
)
#: Words of a rule about what to work with.
_USES = any_case(
    r"\b(?:with|mit|avec|con|com|met|us(?:e|es|ing|a|ad|amos|ar|iamo|are)|prefer\w*|go with|stick to|"
    r"run \S{2,40} for|(?:ver|be)?(?:wend|nutz)\w+|nimm|nehmen|utili[sz]\w+|gebruik\w*|używa\w*|stosuj\w*|"
    r"использу\w+)\b|使|用|사용|쓰|써"
)
#: A letter of a name, and what follows a name in a rule unless the name is part of a longer one.
_LETTER = r"[A-Za-z0-9\u00c0-\u024f\u0400-\u04ff+#@/_-]"
_GOES_ON = any_case(
    r"[\s.!)'\"`”]*(?:$|[,;:(–—]|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]|\b(?:for|in|with|here|as|to|on|when|at|by|"
    r"everywhere|only|now|always|and|instead|unless|if|because|since|before|after|whenever|every|bevor|vor|nach|avant|"
    r"après|antes|después|prima|dopo|depois|für|zum|zur|als|im|bei|mit|hier|überall|und|wenn|"
    r"verwenden|benutzen|nutzen|nehmen|pour|dans|comme|ici|partout|avec|et|para|en|aquí|como|con|y|siempre|per|qui|"
    r"come|nel|aqui|voor|om|gebruiken|do|w|jako|tutaj|для|в|как|здесь|тут|и)\b)"
)
#: What follows a name in a rule that applies in one place, to one purpose or in one case.
_IN_PART = any_case(
    r"^\W*(?:as|at|by|when|whenever|if|unless|because|with|als|wenn|bei|mit|comme|quand|si|avec|como|cuando|con|come|"
    r"quando|se|jako|как|"
    r"(?:in|on|im|dans|en|nel|em|w|в)(?! (?:(?:this|all|every|the|our|my|whole|diesem|allen|ce|tous|este|todos) )*"
    r"(?:repo\w*|projects?|projekt\w*|projets?|proyectos?|code ?bases?)\b)|"
    r"(?:for|to|für|zum|zur|pour|para|per|voor|do|для) (?:the|our|this|that|these|those|an?|my|one|"
    r"de[rnms]|die|das|la|le|les|los|las|el|il|i|gli|o|os|as|het|prod\w*|staging|local\w*|dev\w*|ci|config\w*)"
    r")\b|\b(?:only|nur|seulement|solo|sólo|só|alleen|tylko|только)\b"
)
#: Words that introduce what a rule says not to use.
_BUT_NOT = any_case(
    r"(?<!\w)(?:not|never|no|don['’]?t|instead of|rather than|over|statt|anstatt|nicht|nie|kein\w*|au lieu d|pas|"
    r"jamais|en vez de|en lugar de|nunca|no|invece|mai|em vez de|não|in plaats|niet|geen|nie|zamiast|не|вместо)(?!\w)|"
    r"而不|不要|别|ではなく|ないで|말고"
)
_ABOUT = r"(?P<about>[^,.;:!?]{2,60}?)"
#: Wordings in other languages than English that say that a named rule no longer applies.
_ENDED = tuple(
    any_case(rf"{_BEGINS}(?:{form})[\s.!)]*(?:$|[,;])")
    for form in (
        rf"(?:das|die (?:regel|sache|vorgabe)) (?:mit|über|zu[mr]?|für|von|bei) {_ABOUT} "
        r"(?:gilt|zählt) nicht mehr",
        rf"(?:la règle|le truc|l['’]histoire|ça) (?:sur|de|des|du|pour|avec|d['’]) ?{_ABOUT} "
        r"(?:ne s['’]applique plus|n['’]est plus (?:valable|d['’]actualité)|ne (?:vaut|tient) plus)",
        rf"(?:la (?:regla|norma)|lo) (?:del?|sobre|con) {_ABOUT} ya no (?:vale|aplica|se aplica|rige)",
        rf"(?:la regola|quella|il discorso) (?:d[ie]l*\w?|su\w*|con) {_ABOUT} non (?:vale|si applica) più",
        rf"(?:a regra|isso|aquilo) (?:d[eoa]s?|sobre) {_ABOUT} (?:já )?não (?:vale|se aplica)",
        rf"(?:de regel|dat) (?:over|met|van|voor) {_ABOUT} geldt niet (?:meer|langer)",
        rf"(?:zasada|reguła) (?:o|dotycząca|z) {_ABOUT} (?:już nie obowiązuje|nie obowiązuje już)",
        rf"правило (?:про|об?|насчёт|с) {_ABOUT} (?:больше не действует|отменяется|отменено)",
        rf"(?:(?:その|この|あの)\s?)?{_ABOUT}\s?(?:の|を使う|という|に関する)(?:ルール|規約|決まり|方針|件)は、?\s?"
        r"(?:もういい|(?:(?:もう|今後|これから)\s?)?(?:なし|無効|不要|廃止|終わり|撤回|取り消し|[要い]らない|[要い]りません|"
        r"必要(?:ない|ありません|なくな)|忘れて|やめ))"
        r"(?:に|と|なった|なりました|った|りました|します|しました|ました|ください|です|だ|よ|ね)"
        r"{0,3}。?",
        rf"(?:[그이저] )?{_ABOUT}\s?(?:규칙|원칙|컨벤션|규약)[은는을를이가]?\s?"
        r"(?:(?:이제|더 ?이상|더는|앞으로)\s?){0,2}"
        r"(?:(?:필요 ?없|폐기|취소|무효|철회|없애|잊어)(?!.{0,8}(?:지 ?(?:마|말|않|못|는)|안 ?[돼됩되]|금지))|"
        r"적용하지 ?(?:마|말|않)|적용 안 |지키지 않아도 [돼됩되])"
        r"\w{0,8}(?: \w{1,6})?",
        rf"(?:关于)?{_ABOUT}的(?:规则|规定|约定)(?:不再适用|作废|取消了)",
    )
)
#: Words that don't identify a thing ("the old one", "the new API"), and articles.
_VAGUE = content_words(
    "old new first second other last previous current one ones same thing alte neue this that them der die das den dem "
    "des le la les du des el los las del il lo gli os as do da dos das no na het een de en per with"
)


def replacement_in(sentence: str) -> Replacement | None:
    """Return what a sentence says was replaced by what; None if it doesn't say so clearly."""
    if _UNSETTLED.search(sentence):
        return None
    match = next((match for pattern in (*_MOVED, *_SWITCHES) if (match := pattern.search(sentence))), None)
    if match is None and _CHANGED.search(sentence):
        match = _INSTEAD.search(sentence)
    if match is None:
        return None
    named = match.groupdict()
    name, new_name = (named.get("old") or named.get("left") or "").rstrip("./-"), (named.get("new") or "").rstrip("./-")
    old, new = _words(name), _words(new_name)
    if name and named.get("lasting", True):
        return Replacement((name,), old, new) if old - new and (new - old or "new" not in named) else None
    # Said without the old thing, or perhaps only for now, it ends no more than rules to use a rival of the new one.
    rivals = frozenset[str]().union(*(group for group in _RIVALS if new_name.lower() in group)) - {new_name.lower()}
    names = rivals & {name.lower()} if name else rivals
    is_lasting = bool(_FROM_NOW_ON.search(sentence))
    is_partly = bool(named.get("part") or named.get("of"))  # "Stop using npm for this one"
    if not names or is_partly or (named.get("order") and not is_lasting):
        return None
    if not name and mentions_any(sentence[match.end("new") :], names):
        return None  # "We moved to pnpm, so use npm for the docs": this says both.
    return Replacement(tuple(sorted(names)), _words(" ".join(names)), new, is_lasting, is_told=bool(name))


def is_used_in(rule: str, name: str, *, for_everything: bool = False) -> bool:
    """Return True if a rule says to use a thing.

    A rule about a part of it ("npm audit"), or one that prefers another thing, does not count.

    Args:
        for_everything: nor does a rule that uses it in one place or for one purpose ("black for the borders").
    """
    favoured = _BUT_NOT.split(rule)[0]
    named = re.search(rf"(?<!{_LETTER}){re.escape(name)}(?:\.js\b|(?!{_LETTER}))(?P<rest>.*)", favoured, re.IGNORECASE)
    if not named or not _USES.search(favoured) or not _GOES_ON.match(named["rest"]):
        return False
    if not for_everything:
        return True
    # The words of a script without spaces can't be told apart.
    is_limited = not re.search(f"[{UNSPACED_LETTERS}]", rule) and _limits_of(rule, name, _passed_for(name))
    return not (is_limited or _IN_PART.search(named["rest"]))


def says_to_return(sentence: str, replaced: Replacement) -> bool:
    """Return True if a sentence near the one about a replacement says that it was undone, or will be."""
    return bool(_UNSETTLED.search(sentence)) and mentions_any(sentence, replaced.names)


def mentions_any(text: str, names: Collection[str]) -> bool:
    return any(re.search(rf"(?<!{_LETTER}){re.escape(name)}(?!{_LETTER})", text, re.IGNORECASE) for name in names)


def _passed_for(name: str) -> Collection[str]:
    """Return the words that do not limit a rule to use a thing."""
    words = " ".join(f"{names} {purposes}" for names, purposes in _KINDS if name.lower() in names.split())
    return {*words.split(), *_UNLIMITED}


def rivals_in(newer: str, older: str) -> tuple[str, str] | None:
    """Return what a rule says to use, and what an older one says to use in its place; None if both can be followed.

    They can if one of them is limited to something that the other one doesn't mention.
    """
    earlier = {kind: (used, limits) for kind, used, limits in _claims_of(older)}
    for kind, used, limits in _claims_of(newer):
        old, old_limits = earlier.get(kind, ((), None))
        if limits == old_limits and not set(used) & set(old):
            return used[0], old[0]
    return None


@cached_by_text
def _claims_of(rule: str) -> tuple[tuple[str, Sequence[str], frozenset[str]], ...]:
    """Return what a rule says to use, by kind, and the words that limit it to a part of the work."""
    found = []
    for names, purposes in _KINDS:
        if used := _used_of(names, rule):
            passed = {*names.split(), *purposes.split()} | _UNLIMITED
            found.append((names, used, _limits_of(rule, used[0], passed)))
    return tuple(found)


def names_a_rival(rule: str) -> bool:
    """Return True if a rule names anything that has rivals. This is quick, and decides whether to compare the rule."""
    return bool(_RIVAL_NAMES & {word.rstrip(".,;:!").lower() for word in rule.split()})


_RIVAL_NAMES = frozenset[str]().union(*_RIVALS)
#: The end of the clause with a name, and what limits a rule after that.
_CLAUSE_END = any_case(r"[,;:(–—]|[.!](?:\s|$)| (?:because|since|so that|weil|damit|parce que|porque|perché) ")
#: What a rule applies to, in a few words: "we use npm (legacy)".
_LABEL = any_case(r"\((?!(?:not|never|no|nicht|kein\w*|pas|non|niet)\b)[^\s()]+(?: [^\s()]+){0,2}\)")
_GO_WITH = any_case(r"\bgo with\b")
#: Words of a rule that allows something, and demands nothing.
_PERMITS = any_case(
    r"\b(?:may|can|could|kann\w*|können|darf\w*|dürfen|peut|peux|peuvent|pouvez|pued\w+|può|puoi|pod[ei]\w*|mag|kan|"
    r"może\w*|можно|можешь|может)(?!\w)"
)
_LIMITING = any_case(
    r"\b(?:only|but|except|unless|if|when|for|in|on|nur|außer|für|im|bei|seulement|sauf|pour|dans|solo)\b"
)


def _used_of(names: str, rule: str) -> list[str]:
    """Return which of some things a rule says to use."""
    if not any(name in rule.lower() for name in names.split()):
        return []
    replaced = replacement_in(rule)
    taken = replaced.new if replaced else frozenset[str]()
    # A clause may say what to use after another one has said what not to use.
    parts = [part for part in (rule, *_CLAUSE_END.split(rule)) if not _PERMITS.search(part)]
    return [name for name in names.split() if taken == _words(name) or any(is_used_in(part, name) for part in parts)]


def _limits_of(rule: str, used: str, passed: Collection[str]) -> frozenset[str]:
    """Return the words, letters and numbers that limit a rule to a part of the work, such as "C" and "service 2"."""
    if replacement_in(rule):
        return frozenset()  # Such a sentence says nothing else.
    start = rule.lower().index(used.lower())
    end = _CLAUSE_END.search(rule, start)
    said, rest = (rule[: end.start()], rule[end.end() :]) if end else (rule, "")
    is_limiting = _LIMITING.search(rest) or (end and _LABEL.match(rule, end.start()))
    limited = _GO_WITH.sub(" ", f"{said} {rest}" if is_limiting else said)
    # "4 spaces" says how many, not where.
    signs = re.findall(rf"(?<![\w'’.])([b-hj-z]|\d[\d.]*)(?![\w'’]| +{re.escape(used)}\b)", limited, re.IGNORECASE)
    return prefixes(content_words(limited) - frozenset(passed)) | frozenset(map(str.lower, signs))


def ended_in(sentence: str) -> frozenset[str]:
    """Return the subject of a rule that a sentence, not in English, says is over; empty if there is none."""
    if _UNSETTLED.search(sentence):
        return frozenset()
    match = next((match for pattern in _ENDED if (match := pattern.search(sentence))), None)
    return _words(match["about"]) if match else frozenset()


def _words(text: str) -> frozenset[str]:
    return prefixes(subject_words(text) - _VAGUE)
