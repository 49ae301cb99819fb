"""Cue words of languages other than English, as data: a few for each, so that no rule and no fix is lost.

Add a language by adding an entry to ``LANGUAGES``. Words that are also English words must not stand here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: Number of letters of a script without spaces that count as a word.
LETTERS_PER_WORD = 2

_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
#: The end of a sentence in a script without spaces.
_FULL_STOP = re.compile(r"(?<=[。！？])\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Language:
    """Alternatives of regular expressions. Words of a script with spaces are matched whole."""

    #: A lasting rule: always, never, from now on.
    lasting: str
    #: A rule about the team, or a prohibition or preference.
    order: str
    #: How the team does it: we use.
    decides: str
    #: Wordings that hold for this moment, place or task only, or of somebody who does not know.
    passing: str
    #: Takes back what was said before it.
    takes_back: str
    #: Somebody else's opinion, or a supposition.
    others: str
    #: Tells how something behaves.
    describes: str
    #: What binds a sentence to this code base.
    local: str
    #: All projects of the user.
    universal: str
    cause: str
    is_spaced: bool = True


LANGUAGES = {
    "de": Language(
        lasting=r"immer|niemals|nie(?: wieder)?|ab (?:jetzt|sofort)|von (?:jetzt|nun) an|künftig|in zukunft|"
        r"grundsätzlich|jedes ?mal|merk dir|denke? (?:bitte )?(?:dran|daran)(?=:|, dass)",
        order=r"bitte (?:kein\w*|nicht|verwende|benutze|nimm)|(?:verwende|benutze|nutze|nimm) .{2,60} (?:statt|anstatt|"
        r"anstelle)|vermeide|achte darauf|stell(?:e)? sicher|ich (?:bevorzuge|möchte lieber|will kein\w*)",
        decides=r"wir (?:verwenden|benutzen|nutzen|setzen|nehmen|haben uns)",
        passing=r"(?:^bis|bis (?:wir|ich|alles|er|sie|es|der|die|das))(?! (?:(?:die|der|das|alle) )?(?:tests?|ci|"
        r"checks?|"
        r"builds?|pipelines?|reviews?)\b)|vorerst|erst ?mal|für den moment|gerade|heute|morgen|jetzt erst|diesmal|"
        r"dieses mal|noch nicht|"
        r"ich weiß nicht|keine ahnung|bis (?:\w+ )?(?:morgen|montag|freitag|dann|dahin|release|fertig)|solange|während|"
        r"(?:in|für|bei|auf|an) dies\w+ (?!projekt|repo)\w+|nur (?:hier|jetzt|in|für|bei)|die (?:erste|zweite|dritte|"
        r"letzte|andere) (?:option|variante|lösung|möglichkeit)|einfach",
        takes_back=r"vergiss (?:das|es|was|die regel)|quatsch|nein,? warte|warte,? nein|doch nicht|"
        r"war (?:nur )?(?:ein )?"
        r"(?:spaß|scherz|witz)|(?:nur )?(?:spaß|scherz|witz)|ich mein(?:t)?e|nehme ich zurück|nehme (?:das|die \w+|"
        r"es) zurück|"
        r"stimmt (?:gar )?nicht|streich das|wenn ich (?:es )?mir (?:es )?(?:recht |genau )?überlege|"
        r"bei (?:näherer|genauer\w*) \w+|besser doch|falsche[rs]? (?:fenster|chat|projekt|terminal|tab)|"
        r"war falsch|ich habe mich (?:geirrt|vertan)|sehe ich anders",
        others=r"(?:er|sie|man|jemand|kolleg\w+|chef\w*|team|kund\w+|reviewer|leute|manche|viele) (?:\w+ )?(?:sag\w*|"
        r"bevorzug\w*|mag|mögen|schwör\w*|besteh\w*|predig\w*|mein\w*|will|"
        r"wollen|"
        r"find\w*|glaub\w*|denk\w*|empfiehl\w*|empfehl\w*)|\w+ (?:sagt|sagte|meint|meinte|findet|glaubt|denkt|"
        r"empfiehlt|schreibt|will),? (?:dass|wir|man|immer|nie)|laut|angeblich|vielleicht|ich (?:glaube|denke|vermute|"
        r"finde)|"
        r"könnten?|sollten wir|(?:wenn|ginge|wäre) es nach|hätte ich die wahl|was wäre|wäre (?:es )?|entweder|"
        r"oder (?:immer|nie\w*|lieber|doch|nicht|so)",
        describes=r"(?:schlägt|schlagen|schlug) \w* ?\w* ?fehl|funktionier\w+|klappt\w*|scheiter\w+|stürzt|crasht|"
        r"failt|"
        r"passiert|kommt|hatte[n]?|war(?:en)?|wurde[n]?|"
        r"(?:(?:der|die|das|es|er|sie|ein\w*|mein\w*|unser\w*) (?:\S+ )?\S+|es|das|er|sie) "
        r"(?-i:(?!(?:jetzt|mit|nicht|zuerst|erst|selbst|direkt|sonst|\w*test|\w*lint|script|commit|fest|"
        r"dort|oft)\b)[a-zäöüß]+t|sind|haben|werden|gehen) (?:\w+ ){0,3}(?:immer|niemals|nie)",
        local=r"hier|dies\w* (?:projekt|repo\w*|datei|code)|unser\w*",
        universal=r"(?:in |für |bei )?(?:allen|jedem|jedes) (?:meiner |meinen |unserer )?(?:projekt\w*|repo\w*)|"
        r"überall,? wo ich arbeite",
        cause=r"weil|ursache|deshalb|dadurch|aufgrund|grund (?:war|ist)|lag an|liegt an",
    ),
    "es": Language(
        lasting=r"siempre|nunca|jamás|a partir de ahora|de ahora en adelante|en el futuro|cada vez que|recuerda que",
        order=r"por favor,? no \w+|^no (?:uses|hagas|pongas|toques|cambies|escribas|agregues|añadas|subas|"
        r"borres|edites)|"
        r"(?:usa|utiliza) .{2,60} en (?:vez|lugar) de|evita|asegúrate|prefiero|no quiero",
        decides=r"(?:usamos|utilizamos|preferimos|decidimos)",
        passing=r"por ahora|de momento|por el momento|hoy|mañana|esta vez|todavía no|no sé|aún no|"
        r"hasta(?! que (?:\w+ )?(?:los |las |la |el )?(?:tests?|pruebas|ci|pasen))|mientras|"
        r"(?:en|para|de) est[aeo]s? (?!proyecto|repo)\w+|solo (?:aquí|ahora|en|para|por)|sólo (?:aquí|ahora|en|para|"
        r"por)|"
        r"la (?:primera|segunda|tercera|última|otra) (?:opción|variante|solución)",
        takes_back=r"olvida (?:eso|esto|lo que|la regla)|olvídalo|no,? espera|espera,? no|perdón|quise decir|"
        r"quería decir|"
        r"(?:es|era) (?:una )?broma|mejor no|retiro (?:lo|la|eso|esa)|me equivoqué|cambié de (?:idea|opinión)|"
        r"borra eso|"
        r"no estoy de acuerdo|pensándolo (?:bien|mejor)|ahora que lo pienso|(?:ventana|chat|proyecto|"
        r"terminal) equivocad[oa]",
        others=r"(?:él|ella|ellos|alguien|(?:el|la|mi|nuestr[oa]|un[oa]?) (?:jef[ea]|revisora?|compañer[oa]|colega|"
        r"cliente|"
        r"equipo|profesora?)|la gente|algunos|muchos) (?:\w+ )?(?:dice\w*|decía\w*|prefier\w+|repite\w*|repetía\w*|"
        r"jura\w*|"
        r"piensa\w*|"
        r"cree\w*|quiere\w*|opina\w*|recomienda\w*|insiste\w*)|según|si (?:fuera|dependiera|pudiera)|tal vez|quizás?|"
        r"creo que|pienso que|podríamos|"
        r"deberíamos|sería|o (?:siempre|nunca|mejor|no)",
        describes=r"fall[ao]n?|funciona\w*|ocurre\w*|pasa\w*|rompe\w*|tarda\w*|era[n]?|fue(?:ron)?|tení\w+",
        local=r"aquí|est[ae] (?:proyecto|repo\w*|archivo|código)|nuestr\w+",
        universal=r"(?:en )?todos (?:los|mis) (?:proyectos|repositorios)|en cualquier proyecto",
        cause=r"porque|debido a|ya que|por eso|la causa|el motivo|causad[oa] por",
    ),
    "fr": Language(
        lasting=r"toujours|jamais|d[ée]sormais|dor[ée]navant|[àa] partir de maintenant|[àa] l['’]avenir|"
        r"(?:à )?chaque fois que|(?:souviens|rappelle)-toi que|n['’]oublie pas que|retiens que",
        order=r"n['’](?:utilise|ajoute|écris|efface)z? pas|ne (?:fais|mets|touche|modifie|change|supprime|pousse|"
        r"commite) pas|(?:utilise|prends) .{2,60} (?:au lieu|plutôt que|à la place)|évite|veille à|assure-toi|"
        r"je préfère|je ne veux pas",
        decides=r"(?:nous (?:utilisons|préférons|avons décidé)|on (?:utilise|préfère|a décidé))",
        passing=r"pour (?:l['’]instant|le moment)|aujourd['’]hui|demain|cette fois|pas encore|je (?:ne )?sais pas|"
        r"jusqu['’]\w+(?! ce que (?:les |la |le )?(?:tests?|ci|pipeline|build))|tant que|pendant|(?:dans|pour|"
        r"sur) (?:ce|cet|cette|ces) (?!projet|dépôt|repo)\w+|"
        r"(?:seulement|juste|uniquement) (?:ici|maintenant|dans|pour|cette)|la (?:première|deuxième|seconde|troisième|"
        r"dernière|autre) (?:option|variante|solution)",
        takes_back=r"oublie(?:z)? (?:ça|cela|ce que|la règle|tout)|laisse tomber|non,? attends|attends,? non|"
        r"(?:en fait|finalement),? (?:non|oublie)|non,? (?:en fait|finalement)|je (?:rigole|plaisante|blague)|"
        r"c['’]était (?:une )?(?:blague|plaisanterie|erreur)|je voulais dire|je me suis trompée?|je retire|"
        r"j['’]ai changé d['’]avis|mauvaise fenêtre|réflexion faite|à la réflexion|je ne suis pas d['’]accord",
        others=r"(?:il|elle|ils|elles|quelqu['’]un|(?:le|la|mon|ma|notre|une?) (?:chef\w*|patron\w*|collègue|"
        r"client\w*|équipe|"
        r"prof\w*)|les gens|certains|beaucoup) (?:\w+ )?(?:dit|disait|préfère\w*|répète\w*|répétait|jure\w*|"
        r"disent|pense\w*|croi\w*|veu\w*|trouve\w*|recommande\w*|insiste\w*)|selon|d['’]après|peut-être|"
        r"je (?:crois|pense|trouve) que|si (?:ça ne tenait|ça dépendait|c['’]était|je pouvais)|on (?:pourrait|"
        r"devrait)|ce serait|ou (?:toujours|jamais|plutôt|bien|pas)",
        describes=r"plante[nrs]?|échou\w+|marche\w*|fonctionn(?!al)\w+|arrive\w*|était|étaient|avai\w+|ça|"
        r"(?:est|sont|a|ont|n['’]est|ne sont) (?:toujours|jamais)|j['’]ai (?:toujours|jamais)",
        local=r"ici|ce (?:projet|dépôt|repo\w*|fichier|code)|notre|nos",
        universal=r"(?:dans |pour |sur )?(?:tous (?:les|mes|nos) (?:projets|dépôts|repos)|chaque projet|"
        r"n['’]importe quel projet)|partout où je travaille",
        cause=r"parce que|à cause de|c['’]est pourquoi|la raison|dû à",
    ),
    "it": Language(
        lasting=r"sempre|non (?:\w+ ){1,4}mai|mai (?:più|\w+(?:are|ere|ire))|d['’]ora in (?:poi|avanti)|"
        r"da (?:ora|adesso|oggi) in (?:poi|avanti)|in futuro|ogni volta che|ricorda(?:ti)? (?:che|di)",
        order=r"non (?:usare|usa|modificare|toccare|scrivere|aggiungere|cancellare)|(?:usa|utilizza) .{2,60} "
        r"(?:invece (?:di|del\w*)|al posto (?:di|del\w*)|anziché)|evita|assicurati|preferisco|non voglio",
        decides=r"(?:usiamo|utilizziamo|preferiamo|abbiamo deciso)",
        passing=r"per (?:ora|adesso|il momento|oggi)|oggi|domani|stavolta|questa volta|non ancora|non (?:lo )?so|"
        r"fino a\w* (?!\d)|finché|mentre|durante|(?:in|per|su) quest[aoei] (?!progetto|repo)\w+|"
        r"solo (?:qui|ora|per|in)|la (?:prima|seconda|terza|ultima|altra) (?:opzione|variante|soluzione)",
        takes_back=r"lascia (?:stare|perdere)|dimentica(?:lo| (?:quello|questo|tutto|la regola))|no,? aspetta|"
        r"aspetta,? no|anzi,? no|scherz(?:o|avo)|era (?:uno scherzo|una battuta)|volevo dire|mi sono sbagliat[oa]|"
        r"ci ho ripensato|ripensandoci|ritiro (?:tutto|quello)|(?:finestra|chat) sbagliata|non sono d['’]accordo",
        others=r"(?:lui|lei|loro|qualcuno|(?:il|la|un[oa]?) (?:mi[oa] |nostr[oa] )?(?:capo|collega|cliente|team|"
        r"prof\w*|"
        r"revisore)|la gente|alcuni|molti) (?:\w+ )?(?:dice(?:va)?|dicono|preferisc\w+|ripete(?:va)?|giura\w*|pensa\w*|"
        r"cred\w+|vuole|vogliono|consiglia\w*|insist\w+)|secondo|forse|magari|se (?:fosse|dipendesse|potessi)|"
        r"credo che|penso che|potremmo|dovremmo|"
        r"sarebbe|oppure|o (?:sempre|mai|meglio)",
        describes=r"fallisc\w+|funziona(?:no|va|vano)?|succede\w*|capita\w*|rompe\w*|crasha\w*|era(?:no)?|aveva\w*|"
        r"(?:è|sono|ha|hanno|ho|abbiamo) (?:sempre|mai)",
        local=r"qui|quest[oa] (?:progetto|repo\w*|file|codice)|nostr\w+",
        universal=r"(?:in |per )?tutti i (?:miei |nostri )?(?:progetti|repo\w*)|(?:in |per )?ogni progetto|"
        r"ovunque lavor[io]",
        cause=r"perché|a causa di|poiché|per questo|il motivo|dovut[oa] a",
    ),
    "pt": Language(
        lasting=r"sempre|a partir de agora|de agora em diante|daqui (?:em|para a?) (?:diante|frente)|doravante|"
        r"no futuro|(?:de )?cada vez que|toda vez que|lembr(?:a-te|e-se|a|e) (?:de )?que",
        order=r"não (?:uses?|mexas?|mexa|alter(?:es?)|apagu(?:es?)|escrev(?:as?)|faças?|adicion(?:es?))|"
        r"(?:us[ae]|utiliz[ae]) .{2,60} (?:em vez d[eoa]|ao invés d[eoa]|no lugar d[eoa])|evit[ae]|prefiro|não quero|"
        r"por favor,? não \w+",
        decides=r"(?:usamos|utilizamos|preferimos|decidimos|a gente usa)",
        passing=r"por (?:agora|enquanto)|hoje|amanhã|d?[en]?[sn]ta vez|ainda não|não sei|até (?!\d)|enquanto|durante|"
        r"(?:nest[ea]s?|dest[ea]s?|(?:para|em) est[ea]s?) (?!projeto|repo)\w+|só (?:aqui|agora|para|em)|"
        r"a (?:primeira|segunda|terceira|última|outra) (?:opção|variante|solução)",
        takes_back=r"(?<!não )esque[çc][ae] (?:isso|isto|o que|tudo|a regra)|deixa (?:pra lá|para lá|isso|estar)|"
        r"não,? espera|espera,? não|(?:estou|tô|estava) (?:a )?brinca\w*|era (?:brincadeira|piada)|quis dizer|"
        r"queria dizer|enganei-me|me enganei|mudei de ideia|pensando (?:bem|melhor)|retiro (?:o que|isso)|"
        r"janela errada|chat errado|não concordo|melhor não",
        others=r"(?:ele|ela|eles|elas|alguém|(?:[oa]|uma?) (?:meu |minha |nosso |nossa )?(?:chefe|colega|cliente|"
        r"equip[ae]|"
        r"professora?|revisora?)|as pessoas|alguns|muitos) (?:\w+ )?(?:diz\w*|disse\w*|prefer\w+|repet\w+|jura\w*|"
        r"acha\w*|pensa\w*|quer\w*|recomenda\w*|insiste\w*)|segundo|talvez|se (?:fosse|dependesse|pudesse)|acho que|"
        r"penso que|poderíamos|podíamos|"
        r"deveríamos|devíamos|seria|ou (?:sempre|nunca|melhor|não)",
        describes=r"falha\w*|funciona\w*|acontece\w*|quebra\w*|demora\w*|era[m]?|foi|foram|tinha\w*|"
        r"(?:está|estão|é|são|tem|têm|já|eu) sempre",
        local=r"aqui|[nd]?est[ea] (?:projeto|repo\w*|arquivo|ficheiro|código)|noss[oa]s?",
        universal=r"(?:em |para )?todos os (?:meus |nossos )?(?:projetos|projectos|repositórios)|"
        r"(?:em |para )?(?:qualquer|cada) projeto",
        cause=r"por causa d[eoa]|devido a|por isso|o motivo|causad[oa] por",
    ),
    "ja": Language(
        lasting=r"必ず|常に|いつも|絶対に|決して|今後|これからは|これからも|毎回|以後",
        order=r"しないで|使わないで|書かないで|ようにして|ではなく|の代わりに|禁止|避けて",
        decides=r"(?:使います|使っています|採用しました|に決めました|にしました)",
        passing=r"とりあえず|今は|今回|今日|明日|まだ|一旦|だけ|まで|間は|わからない|分からない|この(?!プロジェクト|リポジトリ|"
        r"コードベース)\w",
        takes_back=r"やっぱり|冗談|忘れて|撤回|取り消|いや、|間違え|間違いでした|じゃなくて|訂正",
        others=r"さんが|と言って|と言った|らしい|だそう|によると|かもしれ|と思う|と思います|どうかな|でしょうか|ですか",
        describes=r"失敗|エラー|壊れ|落ち|遅い|出る|出ます|なる|なります|でした|いました",
        local=r"この(?:プロジェクト|リポジトリ|ファイル|コード)|ここでは",
        universal=r"(?:すべて|全て|全部|どの)の?プロジェクト",
        cause=r"原因|ため|ので|から(?=、|。)|理由",
        is_spaced=False,
    ),
}


def pattern(choose: Callable[[Language], str]) -> re.Pattern[str]:
    """Return the pattern of one kind of cue in every language."""
    parts = [
        rf"(?<!\w)(?:{choose(language)})(?!\w)" if language.is_spaced else f"(?:{choose(language)})"
        for language in LANGUAGES.values()
    ]
    return re.compile("|".join(parts), re.IGNORECASE)


LASTING = pattern(lambda language: language.lasting)
ORDER = pattern(lambda language: language.order)
DECIDES = pattern(lambda language: language.decides)
PASSING = pattern(lambda language: language.passing)
TAKES_BACK = pattern(lambda language: language.takes_back)
OTHERS = pattern(lambda language: language.others)
DESCRIBES = pattern(lambda language: language.describes)
LOCAL = pattern(lambda language: language.local)
UNIVERSAL = pattern(lambda language: language.universal)
CAUSE = pattern(lambda language: language.cause)


def word_count(text: str) -> int:
    """Return the number of words; letters of a script without spaces count as half a word."""
    letters = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + -(-letters // LETTERS_PER_WORD) if letters else len(text.split())


def sentences_of(statement: str) -> list[str]:
    """Return the sentences of a statement in a script without spaces; any other statement is one sentence."""
    return [part.strip() for part in _FULL_STOP.split(statement) if part.strip()]
