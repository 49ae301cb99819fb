"""Cue words of languages other than English, as data: a few per language, so that no rule or fix is missed.

Add a language by adding an entry to ``LANGUAGES``. Words that are also English words must not be here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from engram.system.lazy_regex import lazy_regex

#: Number of letters of a script without spaces that count as a word.
LETTERS_PER_WORD = 2

_UNSPACED = lazy_regex(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
#: The end of a sentence in a script without spaces.
_FULL_STOP = lazy_regex(r"(?<=[。！？])\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Language:
    """Alternatives of regular expressions. Words of a script with spaces are matched whole."""

    #: A lasting rule: always, never, from now on.
    lasting: str
    #: A rule about the team, or a prohibition or preference.
    order: str
    #: How the team does something: we use.
    decides: str
    #: Wordings that only apply to this moment, place or task, or that express doubt.
    passing: str
    #: Withdraws what was said before it.
    takes_back: str
    #: Somebody else's opinion, or a supposition.
    others: str
    #: Describes how something behaves.
    describes: str
    #: Requests something with such a property: "write a function that always returns a list".
    task: str
    #: What ties a sentence to this code base.
    local: str
    #: Means all of the user's projects.
    universal: str
    cause: str
    is_spaced: bool = True


LANGUAGES = {
    "de": Language(
        # Polish says "nie" for "not".
        lasting=r"immer|niemals|nie(?! (?:ma|mam|masz|jest|wiem|da|to|tak|trzeba|można|wolno|mogę|"
        r"chcę)\b)(?! \w+(?:[auiy]j|my|ę|ł[aoy]?)(?:cie)?\b)(?! [^.]*[ąćęłńśźż])(?: wieder)?|"
        r"ab (?:jetzt|sofort)|von (?:jetzt|nun) an|künftig|in zukunft|"
        r"grundsätzlich|jedes ?mal|merk dir|denke? (?:bitte )?(?:dran|daran)(?=:|, dass)",
        order=r"bitte (?:kein\w*|nicht|verwende|benutze|nimm)|(?:verwende|benutze|nutze|nimm) .{2,60} (?:statt|anstatt|"
        r"anstelle)|vermeide|achte darauf|stell(?:e)? sicher|ich (?:bevorzuge|möchte lieber|will kein\w*)",
        decides=r"wir (?:verwenden|benutzen|nutzen|setzen|nehmen|haben uns)",
        passing=r"(?:für|bei|in|während) de[nmrs] (?:hotfix|spike|prototyp\w*|sprint|poc)|(?:^bis|bis (?:wir|ich|"
        r"alles|er|sie|es|der|die|das))(?! (?:(?:die|der|das|alle) )?(?:tests?|ci|"
        r"checks?|"
        r"builds?|pipelines?|reviews?)\b)|vorerst|erst ?mal|für den moment|gerade|heute|morgen|jetzt erst|diesmal|"
        r"dieses mal|noch nicht|"
        r"ich weiß nicht|keine ahnung|bis (?:\w+ )?(?:morgen|montag|freitag|dann|dahin|release|fertig)|solange|während|"
        r"(?:in|für|bei|auf|an) dies\w+ (?!projekt|repo)\w+|nur (?:hier|jetzt|in|für|bei)|die (?:erste|zweite|dritte|"
        r"letzte|andere) (?:option|variante|lösung|möglichkeit)|einfach",
        takes_back=r"korrektur(?=:)|doch lieber|ach n(?:ee|ein)|nein,? nicht (?:immer|nie)|vergiss (?:das|es|was|"
        r"die regel)|"
        r"quatsch|nein,? warte|warte,? nein|doch nicht|"
        r"war (?:nur )?(?:ein )?"
        r"(?:spaß|scherz|witz)|(?:nur )?(?:spaß|scherz|witz)|ich mein(?:t)?e|nehme ich zurück|nehme (?:das|die \w+|"
        r"es) zurück|"
        r"stimmt (?:gar )?nicht|streich das|wenn ich (?:es )?mir (?:es )?(?:recht |genau )?überlege|"
        r"bei (?:näherer|genauer\w*) \w+|besser doch|falsche[rs]? (?:fenster|chat|projekt|terminal|tab)|"
        r"war falsch|kommando zurück|ich habe mich (?:geirrt|vertan)|sehe ich anders",
        others=r"(?:er|sie|man|jemand|kolleg\w+|freund\w*|architekt\w*|tester\w*|chef\w*|team|kund\w+|reviewer|leute|"
        r"manche|viele) (?:\w+ )?(?:sag\w*|"
        r"bevorzug\w*|mag|mögen|schwör\w*|besteh\w*|predig\w*|mein\w*|will|"
        r"wollen|"
        r"find\w*|glaub\w*|denk\w*|empfiehl\w*|empfehl\w*)|\w+ (?:sagt|sagte|meint|meinte|findet|glaubt|denkt|"
        r"empfiehlt|schreibt|will),? (?:dass|wir|man|immer|nie)|"
        r"(?<=, )(?:sagt|sagte|meint|meinte|findet|schreibt) (?:\w+ ){0,2}\w+[.!]?$|laut|angeblich|vielleicht|"
        r"ich (?:überlege|frage mich|weiß nicht)|ob (?:wir|man)|ich (?:glaube|denke|vermute|"
        r"finde)|"
        r"könnten?|sollten wir|(?:wenn|ginge|wäre) es nach|hätte ich die wahl|was wäre|wäre (?:es )?|entweder|"
        r"oder (?:immer|nie\w*|lieber|doch|nicht|so)",
        describes=r"wie immer|als nie|noch nie|ich (?:fand|hatte|mochte|wusste|war|hab\w*)|(?:schlägt|schlagen|"
        r"schlug) \w* ?\w* ?fehl|funktionier\w+|klappt\w*|scheiter\w+|stürzt|crasht|"
        r"failt|"
        r"passiert|kommt|hatte[n]?|war(?:en)?|wurde[n]?|"
        r"(?:(?:der|die|das|es|er|sie|ein\w*|mein\w*|unser\w*) (?:\S+ )?\S+|es|das|er|sie) "
        r"(?-i:wird|(?!(?:jetzt|mit|nicht|zuerst|erst|selbst|direkt|sonst|\w*test|\w*lint|script|commit|fest|"
        r"dort|oft)\b)[a-zäöüß]+t|sind|haben|werden|gehen) (?:\w+ ){0,3}(?:immer|niemals|nie)",
        task=r"^(?:bitte )?(?:schreib|bau|erstell|implementier|füg|mach|entwirf|programmier)\w* .*, (?:die|der|das|"
        r"welche[rs]?)",
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
        passing=r"(?:para|en|durante) (?:el|la) (?:hotfix|spike|prototipo|demo|sprint|poc)|por ahora|de momento|"
        r"por el momento|hoy|mañana|esta vez|todavía no|no sé|aún no|"
        r"hasta(?! que (?:\w+ )?(?:los |las |la |el )?(?:tests?|pruebas|ci|pasen))|mientras|"
        r"(?:en|para|de) est[aeo]s? (?!proyecto|repo)\w+|solo (?:aquí|ahora|en|para|por)|sólo (?:aquí|ahora|en|para|"
        r"por)|"
        r"la (?:primera|segunda|tercera|última|otra) (?:opción|variante|solución)",
        takes_back=r"corrección(?=:)|no,? no siempre|(?:ay|ah),? no|olvida (?:eso|esto|lo que|la regla)|olvídalo|"
        r"no,? espera|espera,? no|perdón|quise decir|"
        r"quería decir|"
        r"(?:es|era) (?:una )?broma|mejor no|retiro (?:lo|la|eso|esa)|me equivoqué|cambié de (?:idea|opinión)|"
        r"borra eso|"
        r"no estoy de acuerdo|pensándolo (?:bien|mejor)|ahora que lo pienso|(?:ventana|chat|proyecto|"
        r"terminal) equivocad[oa]",
        others=r"(?!(?:mi|nuestra) \w+)\w+ (?:dice|decía|dijo|insiste|opina|cree|quiere|recomienda),? (?:en )?que|"
        r"(?<=, )(?:dice|decía|dijo) (?:\w+ ){0,2}\w+[.!]?$|(?:él|ella|ellos|alguien|(?:el|la|mi|nuestr[oa]|"
        r"un[oa]?) (?:jef[ea]|revisora?|compañer[oa]|amig[oa]|arquitect[oa]|colega|"
        r"cliente|"
        r"equipo|profesora?)|la gente|algunos|muchos) (?:\w+ )?(?:dice\w*|decía\w*|prefier\w+|repite\w*|repetía\w*|"
        r"jura\w*|"
        r"piensa\w*|"
        r"cree\w*|quiere\w*|opina\w*|recomienda\w*|insiste\w*)|según|si (?:fuera|dependiera|pudiera)|tal vez|quizás?|"
        r"creo que|pienso que|podríamos|"
        r"deberíamos|sería|o (?:siempre|nunca|mejor|no)",
        describes=r"como siempre|que nunca|(?:nunca|siempre) (?:me|te|nos|le) \w+[óéí]|(?:nunca|siempre) he|"
        r"nunca (?:vi|supe|entendí)|^(?:el|la|este|esta) \S+ (?:nunca|siempre|jamás) (?:devuelve|da|sale|queda|lanza|"
        r"muestra|"
        r"carga|imprime|llega|cierra|responde|tira|falta)|^(?:el|la|los|las|un|una) \S+ (?:nunca|siempre|"
        r"jamás) (?:se|es|está|son|ha|fue)|"
        r"fall[ao]n?|"
        r"funciona\w*|ocurre\w*|pasa\w*|rompe\w*|tarda\w*|era[n]?|fue(?:ron)?|tení\w+",
        task=r"^(?:por favor,? )?(?:escrib\w+|crea|crear|haz|implementa\w*|añade|agrega|diseña) .{2,60} que",
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
        decides=r"(?:nous (?:utilisons|préférons|avons décidé|n['’]utilisons)|on (?:utilise|préfère|a décidé|"
        r"n['’]utilise))",
        passing=r"(?:pour|dans|pendant) l[ea] (?:hotfix|spike|prototype|démo|sprint|poc|correctif)|"
        r"pour (?:l['’]instant|le moment)|aujourd['’]hui|demain|cette fois|pas encore|je (?:ne )?sais pas|"
        r"jusqu['’]\w+(?! ce que (?:les |la |le )?(?:tests?|ci|pipeline|build))|tant que|pendant|(?:dans|pour|"
        r"sur) (?:ce|cet|cette|ces) (?!projet|dépôt|repo)\w+|"
        r"(?:seulement|juste|uniquement) (?:ici|maintenant|dans|pour|cette)|la (?:première|deuxième|seconde|troisième|"
        r"dernière|autre) (?:option|variante|solution)",
        takes_back=r"(?:ah|oh|euh),? non|non,? pas (?:toujours|forcément)|(?<!n['’])oublie(?:z)?(?: (?:ça|cela|ce que|"
        r"la règle|tout)|(?=\W*$))|laisse tomber|non,? attends|"
        r"attends,? non|"
        r"(?:en fait|finalement),? (?:non|oublie)|non,? (?:en fait|finalement)|je (?:rigole|plaisante|blague)|"
        r"c['’]était (?:une )?(?:blague|plaisanterie|erreur)|je voulais dire|je me suis trompée?|je retire|"
        r"j['’]ai changé d['’]avis|mauvaise fenêtre|réflexion faite|à la réflexion|je ne suis pas d['’]accord",
        others=r"(?!on )\w+ (?:dit|disait|veut|exige|insiste|recommande|préconise|conseille),? (?:que |qu['’]|pour que|"
        r"de (?:ne|toujours)|d['’])|(?<=, )(?:dit|disait|écrit) (?:\w+ ){0,2}\w+[.!]?$|(?:il|elle|ils|elles|"
        r"quelqu['’]un|(?:le|la|mon|ma|"
        r"notre|une?) (?:chef\w*|patron\w*|collègue|ami\w*|copain|architecte|"
        r"client\w*|équipe|"
        r"prof\w*)|les gens|certains|beaucoup) (?:\w+ )?(?:dit|disait|préfère\w*|répète\w*|répétait|jure\w*|"
        r"disent|pense\w*|croi\w*|veu\w*|trouve\w*|recommande\w*|insiste\w*)|selon|d['’]après|peut-être|"
        r"je (?:crois|pense|trouve) que|si (?:ça ne tenait|ça dépendait|c['’]était|je pouvais)|on (?:pourrait|"
        r"devrait)|ce serait|ou (?:toujours|jamais|plutôt|bien|pas)",
        describes=r"comme toujours|que jamais|(?:ai|avais|a|est) (?:jamais|toujours)|plante[nrs]?|échou\w+|marche\w*|"
        r"^(?:la|le|l['’]|cette|ce) ?\S+ (?:ne )?(?:renvoie|retourne|donne|affiche|charge|ferme|répond|lance|"
        r"reste) (?:toujours|"
        r"jamais)|fonctionn(?!al)\w+|arrive\w*|était|étaient|avai\w+|ça|"
        r"(?:est|sont|a|ont|n['’]est|ne sont) (?:toujours|jamais)|j['’]ai (?:toujours|jamais)",
        task=r"^(?:écri\w+|crée\w*|fais|implémente\w*|ajoute\w*|conçois) .{2,60} qui",
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
        passing=r"(?:per|nel|nella|durante) (?:l[\'’]|il |la |lo )?(?:hotfix|spike|prototipo|demo|sprint|poc)|"
        r"per (?:ora|adesso|il momento|oggi)|oggi|domani|stavolta|questa volta|non ancora|non (?:lo )?so|"
        r"fino a\w* (?!\d)|finché|mentre|durante|(?:in|per|su) quest[aoei] (?!progetto|repo)\w+|"
        r"solo (?:qui|ora|per|in)|la (?:prima|seconda|terza|ultima|altra) (?:opzione|variante|soluzione)",
        takes_back=r"correzione(?=:)|(?:ah|oh),? no|no,? non sempre|lascia (?:stare|perdere)|dimentica(?:lo|"
        r" (?:quello|questo|tutto|la regola))|no,? aspetta|"
        r"aspetta,? no|anzi,? no|scherz(?:o|avo)|era (?:uno scherzo|una battuta)|volevo dire|mi sono sbagliat[oa]|"
        r"ci ho ripensato|ripensandoci|ritiro (?:tutto|quello)|(?:finestra|chat) sbagliata|non sono d['’]accordo",
        others=r"\w+ (?:dice|diceva|vuole|insiste|consiglia|raccomanda),? (?:che|di (?:non|usare))|"
        r"(?<=, )(?:dice|diceva) (?:\w+ ){0,2}\w+[.!]?$|(?:lui|lei|loro|qualcuno|(?:il|la|un[oa]?) (?:mi[oa] |"
        r"nostr[oa] )?(?:capo|collega|amic[oa]|architett[oa]|cliente|team|"
        r"prof\w*|"
        r"revisore)|la gente|alcuni|molti) (?:\w+ )?(?:dice(?:va)?|dicono|preferisc\w+|ripete(?:va)?|giura\w*|pensa\w*|"
        r"cred\w+|vuole|vogliono|consiglia\w*|insist\w+)|secondo|forse|magari|se (?:fosse|dipendesse|potessi)|"
        r"credo che|penso che|potremmo|dovremmo|"
        r"sarebbe|oppure|o (?:sempre|mai|meglio)",
        describes=r"come sempre|che mai|(?:mi è|non ho|ho) (?:sempre|mai)|(?:non )?(?:viene|vengono|veniva)|"
        r"^(?:la|il|lo|questa|questo) \S+ (?:non )?(?:restituisce|ritorna|dà|mostra|carica|chiude|risponde|resta) "
        r"(?:sempre|mai)|fallisc\w+|funziona(?:no|va|vano)?|succede\w*|capita\w*|"
        r"rompe\w*|crasha\w*|era(?:no)?|aveva\w*|"
        r"(?:è|sono|ha|hanno|ho|abbiamo) (?:sempre|mai)",
        task=r"^(?:scrivi|crea|fai|implementa|aggiungi|progetta) .{2,60} che",
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
        passing=r"(?:para|n|durante) ?[oa] (?:hotfix|spike|protótipo|demo|sprint|poc)|por (?:agora|enquanto)|hoje|"
        r"amanhã|d?[en]?[sn]ta vez|ainda não|não sei|até (?!\d)|enquanto|durante|"
        r"(?:nest[ea]s?|dest[ea]s?|(?:para|em) est[ea]s?) (?!projeto|repo)\w+|só (?:aqui|agora|para|em)|"
        r"a (?:primeira|segunda|terceira|última|outra) (?:opção|variante|solução)",
        takes_back=r"correção(?=:)|(?:ah|oh),? não|não,? nem sempre|(?<!não )esque[çc][ae](?: (?:isso|isto|o que|tudo|"
        r"a regra)|(?=\W*$))|deixa (?:pra lá|para lá|"
        r"isso|estar)|"
        r"não,? espera|espera,? não|(?:estou|tô|estava) (?:a )?brinca\w*|era (?:brincadeira|piada)|quis dizer|"
        r"queria dizer|enganei-me|me enganei|mudei de ideia|pensando (?:bem|melhor)|retiro (?:o que|isso)|"
        r"janela errada|chat errado|não concordo|melhor não",
        others=r"\w+ (?:diz|disse|quer|insiste|recomenda|acha),? (?:em )?(?:que|para)|(?<=, )(?:diz|"
        r"disse) (?:\w+ ){0,2}\w+[.!]?$|(?:ele|ela|eles|elas|alguém|(?:[oa]|uma?) (?:meu |minha |"
        r"nosso |nossa )?(?:chefe|colega|amig[oa]|arquitet[oa]|cliente|"
        r"equip[ae]|"
        r"professora?|revisora?)|as pessoas|alguns|muitos) (?:\w+ )?(?:diz\w*|disse\w*|prefer\w+|repet\w+|jura\w*|"
        r"acha\w*|pensa\w*|quer\w*|recomenda\w*|insiste\w*)|segundo|talvez|se (?:fosse|dependesse|pudesse)|acho que|"
        r"penso que|poderíamos|podíamos|"
        r"deveríamos|devíamos|seria|ou (?:sempre|nunca|melhor|não)",
        describes=r"^[oa] \S+ (?:sempre|nunca) (?:devolve|retorna|dá|mostra|carrega|fecha|responde|fica)|"
        r"como sempre|que nunca|(?:nunca|sempre) (?:gostei|achei|vi|entendi|soube|tive)|falha\w*|"
        r"funciona\w*|acontece\w*|quebra\w*|demora\w*|nunca (?:é|são|está|foi|foram|fica)|era[m]?|"
        r"foi|foram|tinha\w*|"
        r"(?:está|estão|é|são|tem|têm|já|eu) sempre",
        task=r"^(?:por favor,? )?(?:escrev\w+|cri[ae]|faça|faz|implement[ae]|adicion[ae]) .{2,60} que",
        local=r"aqui|[nd]?est[ea] (?:projeto|repo\w*|arquivo|ficheiro|código)|noss[oa]s?",
        universal=r"(?:em |para )?todos os (?:meus |nossos )?(?:projetos|projectos|repositórios)|"
        r"(?:em |para )?(?:qualquer|cada) projeto",
        cause=r"por causa d[eoa]|devido a|por isso|o motivo|causad[oa] por",
    ),
    "ja": Language(
        lasting=r"必ず|常に|いつも|絶対に|決して|今後|これからは|これからも|毎回|以後",
        order=r"しないで|使わないで|書かないで|ようにして|ではなく|の代わりに|禁止|避けて",
        decides=r"(?:使います|使っています|採用しました|に決めました|にしました)",
        passing=r"(?:ホットフィックス|プロトタイプ|デモ|スプリント)(?:では|は|の間)|とりあえず|今は|今回|今日|明日|まだ|一旦|だけ|まで|間は|わからない|分からない|この(?!プロジェクト|"
        r"リポジトリ|"
        r"コードベース)\w",
        takes_back=r"やっぱり|冗談|忘れて|撤回|取り消|いや、|間違え|間違いでした|じゃなくて|訂正",
        others=r"さんが|と言って|と言った|らしい|だそう|によると|かもしれ|と思う|と思います|どうかな|でしょうか|ですか",
        describes=r"ありがとう|お世話|失敗|エラー|壊れ|落ち|遅い|出る|出ます|なる|なります|でした|いました",
        task=r"[るすくうい](?:関数|クラス|メソッド|スクリプト|コンポーネント|テスト|コマンド|機能)を(?:書|作|追加|実装)",
        local=r"この(?:プロジェクト|リポジトリ|ファイル|コード)|ここでは",
        universal=r"(?:すべて|全て|全部|どの)の?プロジェクト",
        cause=r"原因|ため|ので|から(?=、|。)|理由",
        is_spaced=False,
    ),
    "ko": Language(
        lasting=r"항상|언제나|절대(?:로|\b)|앞으로(?:는|도)?|(?:이제|지금|오늘|다음)부터|매번|반드시|무조건|"
        r"기억해 ?(?:줘|둬|두)",
        order=r"지 ?(?:마|말아|말고|않았으면)|대신 .{1,40}(?:사용|써|쓰)|피해 ?줘|선호|원하지 않",
        decides=r"우리는? .{1,40}(?:사용|쓰기로|하기로|채택)\w*",
        passing=r"지금은|일단|이번|오늘(?!부터)|내일|당분간|임시로|아직|잠깐|때까지|동안|나중에|"
        r"이 (?:파일|브랜치|함수|세션|작업|커밋|테스트|클래스|PR)|여기서만|(?:첫|두|세) ?번째|급하|시간 ?없",
        takes_back=r"취소|농담|아니(?:다|야|,)|잊어|철회|잘못 (?:말|보냈|썼)|실수|다시 생각|생각해 ?보니|정정",
        others=r"(?:라|다|자|냐)고 (?:했|한|하[는던]|말|생각|그|주장|들)|"
        r"(?:상사|팀장|동료|친구|고객|매니저|리뷰어|선배)(?:님)?[가는은이]|"
        r"에 따르면|것 같|일까|할까|을까|인가요|나요|습니까|모르겠|아마",
        describes=r"실패|에러|오류|깨[지진져]|느[리려]|안 ?[돼되됩]|나[와온옵]|납니다|생[겨긴]|발생|멈[춰추]|죽어|"
        r"였|(?<!기로 )(?<!기로)했[어다습네]|됐|네요|는데|고[마맙]|감사",
        task=r"(?:하는|되는|인) (?:함수|클래스|메서드|스크립트|컴포넌트|테스트|명령)\w* ?(?:작성|만들|추가|구현)",
        local=r"이 (?:프로젝트|저장소|리포|코드)|여기",
        universal=r"모든 (?:내 |우리 )?(?:프로젝트|저장소|리포)",
        cause=r"때문|원인|이유|덕분",
        is_spaced=False,
    ),
    "nl": Language(
        lasting=r"altijd|nooit|voortaan|vanaf (?:nu|vandaag)|van nu af aan|in het vervolg|in de toekomst|telkens|"
        r"elke keer (?:als|dat|wanneer)|onthoud(?: dat|:)",
        order=r"gebruik .{2,60} in plaats van|alsjeblieft (?:geen|niet)|vermijd|zorg (?:ervoor|dat)|"
        r"ik (?:wil geen|wil liever|heb liever|geef de voorkeur)",
        decides=r"(?:we|wij) (?:gebruiken|hebben (?:besloten|gekozen)|kiezen)",
        passing=r"(?:voor|in|tijdens) (?:de|het) (?:hotfix|spike|prototype|demo|sprint|poc)|voorlopig|voor nu|"
        r"vandaag(?<!vanaf vandaag)|morgen|(?:deze|dit) keer|nog niet|ik weet niet|"
        r"weet ik niet|tot(?! (?:(?:de|alle) )?(?:tests?|ci|checks?|builds?)\b)|zolang|terwijl|tijdens|"
        r"(?:in|voor|bij|op) (?:deze|dit) (?!project|repo)\w+|alleen (?:hier|nu|voor|in|bij|op)|"
        r"de (?:eerste|tweede|derde|laatste|andere) (?:optie|variant|oplossing)",
        takes_back=r"correctie(?=:)|(?:o|oh|ah),? nee|nee,? niet altijd|vergeet (?:dat|het|dit|wat|de regel)(?! niet)|"
        r"laat maar|toch (?:maar )?niet|nee,? wacht|"
        r"wacht,? nee|grapje|was een grap|ik bedoel(?:de)?|neem (?:dat|het|de \w+) terug|ik vergis(?:te)? me|"
        r"bij nader inzien|ik heb me vergist|(?:verkeerde?) (?:venster|chat|project|terminal)|streep dat door|"
        r"ben het er niet mee eens",
        others=r"(?<=, )(?:zegt|zei|vindt) (?:\w+ ){0,2}\w+[.!]?$|(?:hij|zij|ze|men|iemand|sommigen|(?:mijn|onze|de|"
        r"het|een) (?:baas|collega|vriend\w*|teamgenoot|architect|klant|team|chef|reviewer|"
        r"leraar)) (?:\w+ )?(?:zeg\w*|zei|wil\w*|vind\w*|denk\w*|raadt|beweer\w*|geeft de voorkeur)|"
        r"\w+ (?:zegt|zei|vindt|denkt|wil) (?:dat|we)|volgens(?! (?:onze|mijn)\b)|misschien|"
        r"ik (?:denk|geloof|vind)|zouden? we|als het aan|of (?:altijd|nooit|liever|niet)|blijkbaar|stel dat",
        describes=r"zoals altijd|dan nooit|ik (?:heb|had|vond|was)|faalt|falen|mislukt|crasht|werkt|gebeurt|waren|"
        r"had(?:den)?|werd(?:en)?|duurt|"
        r"(?:is|zijn|heeft|hebben|ben|heb) (?:\w+ ){0,2}(?:altijd|nooit)|"
        r"(?:(?:de|het|een|dit|dat|deze) \S+|het|dat|hij) (?!moet|mag|met|niet)\w+t (?:\w+ ){0,2}(?:altijd|nooit)",
        task=r"^(?:schrijf|maak|bouw|implementeer|voeg|ontwerp) .{2,60} (?:die|dat)",
        local=r"(?:dit|deze) (?:project|repo\w*|bestand|code)|onze?",
        universal=r"(?:in |voor |bij )?(?:al (?:mijn|onze)|alle) (?:projecten|repo\w*)|"
        r"(?:in |voor |bij )?elk project|overal waar ik werk",
        cause=r"omdat|doordat|vanwege|daarom|de oorzaak|de reden",
    ),
    "pl": Language(
        lasting=r"zawsze|nigdy|od teraz|od (?:dziś|dzisiaj)|odtąd|na przyszłość|w przyszłości|za każdym razem|"
        r"pamiętaj(?:cie)?(?:,? (?:że|żeby|aby)|:)|zapamiętaj",
        order=r"nie (?:używaj|rób|dotykaj|zmieniaj|pisz|dodawaj|usuwaj|pushuj|commituj|edytuj)(?:cie)?|"
        r"(?:używaj|użyj|stosuj)(?:cie)? .{2,60} zamiast|unikaj|upewnij się|wolę|nie chcę|proszę,? nie",
        decides=r"(?:używamy|stosujemy|korzystamy|zdecydowaliśmy|wybraliśmy)",
        passing=r"(?:dla|w|na) (?:hotfix\w*|spike\w*|prototyp\w*|dem[oa]|sprin\w+)|na razie|póki co|(?<!od )teraz|"
        r"(?<!od )dzi(?:ś|siaj)|jutro|tym razem|jeszcze nie|nie wiem|dopóki|"
        r"podczas|do (?:jutra|poniedziałku|piątku|końca|czasu)|(?:w|na|dla|przy) (?:tym|tej|tego|ten|tę) "
        r"(?!projek|repo)\w+|tylko (?:tu|tutaj|w|na|dla)|(?:pierwsz|drug|trzeci|ostatni|inn)\w+ "
        r"(?:opcj|wariant|rozwiązani)\w*",
        takes_back=r"(?:korekta|poprawka)(?=:)|(?:a|o|ach),? nie|nie,? nie zawsze|(?<!nie )zapomnij|nieważne|"
        r"jednak nie|nie,? (?:czekaj|zaczekaj)|czekaj,? nie|żart\w*|"
        r"chodziło mi|miał[ea]m na myśli|cofam|pomyłka|pomylił[ea]m|zmienił[ea]m zdanie|po namyśle|nie to okno|"
        r"nie zgadzam się",
        others=r"(?<=, )(?:mówi|twierdzi|uważa) (?:\w+ ){0,2}\w+[.!]?$|(?:on|ona|oni|ktoś|szef\w*|koleg\w+|koleżanka|"
        r"przyjaciel|znajom\w+|architekt|"
        r"klient\w*|zespół|recenzent\w*) (?:\w+ )?(?:mówi\w*|"
        r"powiedział\w*|twierdzi\w*|chc\w+|uważa\w*|sądzi\w*|wol[ią]|[pz]aleca\w*|poleca\w*)|"
        r"\w+ (?:mówi|twierdzi|uważa|sądzi|chce),? (?:że|żeby)|zdaniem|według|podobno|może|chyba|"
        r"(?:myślę|sądzę|uważam|wydaje mi się),? że|powinniśmy|moglibyśmy|gdyby\w*|"
        r"(?:albo|czy) (?:zawsze|nigdy|lepiej|powinniśmy)",
        describes=r"jak zawsze|niż (?:wcale|nigdy)|(?:nigdy|zawsze) (?:nie )?\w+(?:łem|łam|liśmy)|działa\w*|pada\w*|"
        r"zawiesza\w*|wywala\w*|zdarza\w*|dzieje|był[aoy]?|miał[aoy]?|trwa|"
        r"(?:zawsze|nigdy(?: nie)?) (?:jest|są|rozumiał\w*)|(?:jest|są) (?:zawsze|nigdy)",
        task=r"^(?:napisz|utwórz|stwórz|zrób|zaimplementuj|dodaj|zaprojektuj) .{2,60} któr\w+",
        local=r"tutaj|(?:ten|tym|tego|tej|ta) (?:projek\w+|repo\w*|plik\w*|kod\w*)|nasz\w*",
        universal=r"(?:we |w |dla )?wszystkich (?:moich |naszych )?(?:projekt\w+|repo\w*)|w każdym (?:moim |naszym )?"
        r"(?:projekcie|repo\w*)|gdziekolwiek pracuję",
        cause=r"ponieważ|dlatego|z powodu|przyczyn\w+|powodem",
    ),
    "ru": Language(
        lasting=r"всегда|никогда|отныне|впредь|с этого момента|с сегодняшнего дня|на будущее|в будущем|каждый раз|"
        r"запомни(?:те)?|помни(?:те)?,? что",
        order=r"не (?:используй|трогай|меняй|пиши|добавляй|удаляй|пушь|коммить|редактируй|делай)(?:те)?|"
        r"(?:используй|бери)(?:те)? .{2,60} вместо|избегай|предпочитаю|не хочу|пожалуйста,? не",
        decides=r"мы (?:используем|применяем|решили|выбрали)|^используем",
        passing=r"(?:для|в|на) (?:хотфикс\w*|прототип\w*|демо|спринт\w*)|пока(?: что)?|сейчас|сегодня|завтра|"
        r"[нв]а? этот раз|ещё не|еще не|не знаю|до (?:завтра|понедельника|"
        r"пятницы|релиза|конца)|во время|(?:в|на|для|при) (?:этой|этом|этого|эту|этот) (?!проект|репо|момент)\w+|"
        r"только (?:здесь|тут|сейчас|в|на|для)|(?:перв|втор|трет|последн|друг)\w+ (?:вариант|опци|решени)\w*",
        takes_back=r"(?:исправление|поправка)(?=:)|(?:а|ой|ах),? нет|нет,? не (?:всегда|надо)|(?<!не )забудь(?:те)?|"
        r"неважно|проехали|хотя,? нет|нет,? (?:стой|подожди|погоди)|(?:стой|подожди|"
        r"погоди),? нет|шучу|шутка|(?:я )?имел[аи]? в виду|беру (?:свои )?(?:слова|это)|передумал\w*|ошиб(?:ся|лась)|"
        r"не (?:то окно|тот чат)|если подумать|не согласен|не согласна",
        others=r"(?<=, )(?:говорит|считает|сказал\w*) (?:\w+ ){0,2}\w+[.!]?$|(?:он|она|они|кто-то|шеф|начальник|друг|"
        r"приятель|архитектор|"
        r"коллега|коллеги|клиент\w*|команда|ревьюер|заказчик) (?:\w+ )?"
        r"(?:говор\w+|сказал\w*|хоч\w+|хот\w+|счита\w+|дума\w+|предпочита\w+|рекоменду\w+|совету\w+|утвержда\w+)|"
        r"\w+ (?:говорит|считает|думает|хочет|сказал\w*),? (?:что|чтобы)|по (?:словам|мнению)|согласно|может быть|"
        r"возможно|наверное|(?:думаю|считаю|полагаю),? что|нам (?:следует|стоит)|стоит ли|нужно ли|если бы|"
        r"или (?:всегда|никогда|лучше|не)",
        describes=r"как всегда|чем никогда|я (?:никогда|всегда)(?: не)? \w+ла?|(?:он|она|оно|они|"
        r"это) (?:\w+ )?(?:всегда|никогда)|пада(?:ет|ют|л\w*)|лома(?:ет|ют|л\w*)\w*|"
        r"работа(?:ет|ют|л\w*)|случа\w+|происход\w+|был[аио]?|"
        r"завис(?:ает|ают|ло|ла|ал\w*)|вылета\w+|никогда не (?:понимал\w*|видел\w*)",
        task=r"^(?:напиши|создай|сделай|реализуй|добавь|спроектируй)(?:те)? .{2,60} котор\w+",
        local=r"здесь|тут|эт(?:от|ом|ого|ой) (?:проект\w*|репо\w*|файл\w*|код\w*)|наш\w*",
        universal=r"(?:во |для )?всех (?:моих |наших )?(?:проект\w+|репо\w*)|в (?:каждом|любом) "
        r"(?:(?:моём|моем|нашем) )?(?:проекте|репо\w*)|везде,? где я работаю",
        cause=r"потому что|из-за|поэтому|причин\w+|так как",
    ),
    "zh": Language(
        lasting=r"总是|始终|永远|绝不|决不|绝对不|从不|切勿|务必|一律|从现在(?:开始|起)|今后|以后[都请不]|每次|记住|请记得",
        order=r"不要(?![でなだ。とに])|别[用再动改写]|请勿|避免|而不是|代替|我(?:更喜欢|偏好|不想|不希望)",
        decides=r"我们(?:使用|用|采用|决定|选择)|本项目(?:使用|采用)",
        passing=r"(?:热修复|原型|演示|冲刺)(?:中|里|时|阶段)|暂时|目前|现在(?!开始|起)|今天|这[一]?次|本次|还没|不知道|直到|期间|在[这该当](?:个|前|一)?(?!项目|仓库|代码库)"
        r"|这个(?!项目|仓库|代码库)\w|[只仅](?:在|限|是)|第[一二三四]个",
        takes_back=r"[哦噢啊]不|不用了|更正|纠正|忘了吧|忘掉|算了|还是不|还是用|开玩笑|撤回|说错|搞错|弄错|收回|改(?:变)?主意|不对(?=[，。！,]|$)|"
        r"等等[，,]|我的意思是|发错|不同意",
        others=r"(?:他|她|们|老板|经理|朋友|架构师|同事|客户|团队|有人|[小老]\w)(?:总|一直|常)?(?:说|认为|觉得|想要|希望|建议|要求|主张)|"
        r"据说|根据(?!我们)|文档[说建]|也许|(?<!尽)可能(?![なでにだ性])|或许|我(?:觉得|认为|想)|应该.{0,30}[吗嘛]|"
        r"是不是|是否|要不要|要么",
        describes=r"往常|一如既往|谢谢[。！]?$|我从[不来]|^[它他她这那].{0,6}(?:总是|从不|永远|始终|每次)|失败|报错|崩溃|出错|很慢|坏了|不工作|会(?:崩|失|报|出)|"
        r"了[。！]?$|总是(?:会|有|很|在|失|报)|"
        r"从不(?:会|失)",
        task=r"^请?(?:帮我)?(?:写|实现|创建|添加|加|做)一?[个段条].*的",
        local=r"这里|[这本此该]个?(?:项目|仓库|文件|代码)|我们",
        universal=r"(?:所有|每个|任何|全部)(?:的|我的|我们的)?(?:项目|仓库)",
        cause=r"因为|由于|所以|原因|导致",
        is_spaced=False,
    ),
}


def pattern(choose: Callable[[Language], str]) -> re.Pattern[str]:
    """Return the pattern of one kind of cue in every language."""
    parts = [
        rf"(?<!\w)(?:{choose(language)})(?!\w)" if language.is_spaced else f"(?:{choose(language)})"
        for language in LANGUAGES.values()
    ]
    return lazy_regex("|".join(parts), re.IGNORECASE)


LASTING = pattern(lambda language: language.lasting)
ORDER = pattern(lambda language: language.order)
DECIDES = pattern(lambda language: language.decides)
PASSING = pattern(lambda language: language.passing)
TAKES_BACK = pattern(lambda language: language.takes_back)
OTHERS = pattern(lambda language: language.others)
DESCRIBES = pattern(lambda language: language.describes)
LOCAL = pattern(lambda language: language.local)
UNIVERSAL = pattern(lambda language: language.universal)
TASK = pattern(lambda language: language.task)
CAUSE = pattern(lambda language: language.cause)


def word_count(text: str) -> int:
    """Return the number of words; letters of a script without spaces count as half a word."""
    letters = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + -(-letters // LETTERS_PER_WORD) if letters else len(text.split())


def sentences_of(statement: str) -> list[str]:
    """Return the sentences of a statement in a script without spaces; any other statement is one sentence."""
    return [part.strip() for part in _FULL_STOP.split(statement) if part.strip()]
