"""Cue words in languages other than English, as data.

Each language has only the few that are needed to find rules; ``languages.py`` makes patterns of them. Add a language by
adding an entry to ``LANGUAGES``. Do not add words that are also English words.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Parts of a program. A request to make one, named without an article, is followed by requirements for that part.
_THING = (
    r"(?:[\w-]{1,30} )?\w{0,30}(?:seite|formular|maske|dialog|fenster|knopf|button|liste|tabelle|menü|skript|dienst|"
    r"app|page|formulaire|bouton|fenêtre|écran|página|formulario|botón|diálogo|ventana|lista|tabla|menú|pantalla|"
    r"pagina|modulo|pulsante|bottone|finestra|tabella|schermata|formulário|botão|janela|tabela|tela|"
    r"formulier|knop|venster|lijst|tabel|menu|scherm|(?:stron|przycisk|okn|ekran|страниц|форм|кнопк|окн|экран)\w{0,4})"
    r"(?!\w| (?:für|pour|para|per|voor|dla|для)\b)"
)


@dataclass(frozen=True, slots=True)
class Language:
    """Alternatives for regular expressions. In scripts with spaces, only whole words match."""

    #: Words for something that is meant to last: always, never, convention. They also occur in other sentences.
    lasting: str
    #: Words for what applies from now on, or to everything that the team does.
    later: str
    #: The beginning of an order to make something, up to its article: implement, build a, write the.
    builds: str
    #: A prohibition or preference that may be meant only for the moment.
    order: str
    #: Words for how the team does something: we use.
    decides: str
    #: An order to remember the statement that follows, and the beginning of a note for later.
    remember: str
    noted: str
    #: The beginning of a prohibition after an order to remember.
    denies: str
    #: The word "now", which may mean the moment or "from now on"; and words for a state that is only momentary.
    now: str
    passing: str
    #: Words that withdraw what was said before.
    takes_back: str
    #: What introduces the subject of a withdrawal: about, the rule on. A language that puts the subject first has none.
    about: str
    #: Other words in a withdrawal, which don't name its subject: articles, I said, the rule.
    empty: str
    #: Words that tie a sentence to this code base.
    local: str
    #: Words that mean all of the user's projects.
    universal: str
    is_spaced: bool = True


LANGUAGES = {
    "de": Language(
        lasting=r"immer|nie(?:mals)?|stets|jedes ?mal|dauerhaft|ausnahmslos|pflicht|verboten|nicht mehr",
        later=r"(?:ab|von) (?:jetzt|sofort|heute|nun|morgen)|(?:zu)?künftig|in zukunft|"
        r"grundsätzlich|generell|bei uns|"
        r"\w*(?:konvention|regel|standard|richtlinie)\w*",
        builds=r"implementiere?|(?:schreibe?|baue?|erstelle?|entwickle?|programmiere?|mache?) "
        r"(?:mir |uns )?(?:eine?[nms]?|de[nmr]|die|das|dies\w*)|"
        rf"(?:erstelle?|entwickle?|programmiere?|füge?|ergänze?) (?:eine?[nms]? )?{_THING}",
        order=r"bitte (?:kein\w*|nicht|verwende|benutze|nimm)|(?:verwende|benutze|nutze|nimm) .{2,60} (?:statt|anstatt|"
        r"anstelle)|vermeide|achte darauf|stell(?:e)? sicher|ich (?:bevorzuge|möchte lieber|will kein\w*)",
        decides=r"wir (?:verwenden|benutzen|nutzen|setzen|nehmen|haben uns)|"
        r"dass wir (?:\S+ ){1,4}?(?:verwenden|benutzen|nutzen|nehmen|einsetzen)",
        remember=r"merke?(?: dir)?|denke? (?:dran|daran)|vergiss nicht|behalte? im (?:kopf|hinterkopf|gedächtnis)",
        noted=r"(?:notiz |zur info )?für (?:später|die zukunft)",
        denies=r"kein\w*|nicht|nichts",
        now=r"jetzt",
        passing=r"gerade|momentan|zurzeit|im (?:augenblick|moment)|derzeit|heute|morgen|"
        r"(?:(?:ist|sind) (?:\w+ )?)?(?:down|kaputt|"
        r"offline|abgestürzt|fertig)(?: (?:ist|sind))?|(?:rot|grün) (?:ist|sind)|(?:ist|sind) (?:rot|grün)",
        takes_back=r"korrektur(?=:)|doch lieber|ach n(?:ee|ein)|nein,? nicht (?:immer|nie)|"
        r"vergiss(?: bitte| einfach| mal)*,? (?:(?:das|es)(?=\W*$|[,.;:!]| (?:mit|von|wieder|"
        r"bitte|lieber|erst|mal|einfach)\b)|was|die regel)|quatsch|nein,? warte|warte,? nein|doch nicht|"
        r"war (?:nur )?(?:ein )?(?:spaß|scherz|witz)|"
        r"(?:nur )?(?:spaß|scherz|witz)|ich mein(?:t)?e|nehme ich zurück|nehme (?:das|die \w+|es) zurück|"
        r"stimmt (?:gar )?nicht|streich das|wenn ich (?:es )?mir (?:es )?(?:recht |genau )?überlege|bei (?:näherer|"
        r"genauer\w*) \w+|besser doch|falsche[rs]? (?:fenster|chat|projekt|terminal|tab)|war falsch|kommando zurück|"
        r"ich habe mich (?:geirrt|vertan)|sehe ich anders",
        about=r"über|mit|zu[mr]?|bezüglich|regel (?:für|gegen|von|vom)",
        empty="das der die den dem des ein eine einen einer ich dir euch habe hab gesagt geschrieben sagte regel",
        local=r"hier|dies\w* (?:projekt|repo\w*|datei|code)|unser\w*",
        universal=r"(?:in |für |bei )?(?:all(?:en?)?|jedem|jedes) (?:meine[rn]? |unserer )?(?:\w+)?(?:projekt\w*|"
        r"repo\w*)|überall,? wo ich arbeite|egal in welchem (?:projekt|repo\w*)",
    ),
    "es": Language(
        lasting=r"siempre|nunca|jamás|(?:cada|toda) vez que|prohibid\w+|sin excepci[óo]n|nada de|acordamos",
        later=r"(?:a partir de|desde|de) (?:ahora|hoy)|en (?:el futuro|adelante)|"
        r"en el equipo|convenci[óo]n\w*|reglas?|norma",
        builds=r"implementa|(?:escribe|crea|construye|desarrolla|haz)(?:me|nos)? "
        r"(?:una?|el|la|los|las|est\w+)|"
        rf"(?:crea|construye|desarrolla|añade|agrega) (?:una? )?{_THING}",
        order=r"por favor,? no \w+|^no (?:uses|hagas|pongas|toques|cambies|escribas|agregues|añadas|subas|borres|"
        r"edites)|(?:usa|utiliza) .{2,60} en (?:vez|lugar) de|evita|asegúrate|prefiero|no quiero",
        decides=r"(?:usamos|utilizamos|preferimos|decidimos)",
        remember=r"recuerda|acuérdate(?: de)?|no (?:te )?olvides|ten (?:en cuenta|presente)|toma nota(?: de)?",
        noted=r"(?:nota )?para (?:el futuro|más adelante)",
        denies=r"no|nada|ningun[ao]?|ningún",
        now=r"ahora(?! mismo)",
        passing=r"ahora mismo|en este momento|hoy|mañana|fallan?|"
        r"est[áa]n? (?:\w+ )?(?:caíd[ao]s?|rot[ao]s?|en (?:rojo|verde))",
        takes_back=r"corrección(?=:)|no,? no siempre|(?:ay|ah),? no|olvida (?:eso|esto|lo (?:que|anterior|de)|"
        r"la regla)|olvídalo|"
        r"no,? espera|espera,? no|perdón|quise decir|quería decir|(?:es|era) (?:una )?broma|mejor no(?=\W*$|[,.;:!])|"
        r"retiro (?:lo|la|"
        r"eso|esa)|me equivoqué|cambié de (?:idea|opinión)|borra eso|no estoy de acuerdo|pensándolo (?:bien|mejor)|"
        r"ahora que lo pienso|(?:ventana|chat|proyecto|terminal) equivocad[oa]",
        about=r"sobre|acerca de|respecto a|regla (?:del?|para|con)",
        empty="el la lo los las un una que de del en dije he dicho te regla",
        local=r"aquí|est[ae] (?:proyecto|repo\w*|archivo|código)|nuestr\w+",
        universal=r"(?:en )?todos (?:los|mis) (?:\w+ )?(?:proyectos|repo\w*)|"
        r"en cualquier(?:a de mis)? (?:proyectos?|repo\w*)",
    ),
    "fr": Language(
        lasting=r"toujours|jamais|(?:à )?chaque fois|par défaut|sans exception|interdit\w*|plus de|on a décidé",
        later=r"d[ée]sormais|dor[ée]navant|[àa] (?:partir de (?:maintenant|aujourd['’]hui)|l['’]avenir)|chez nous|"
        r"conventions?|règles?",
        builds=r"implémente|(?:écris|crée|construis|développe|fais)(?:-moi|-nous)? "
        rf"(?:une?|le|la|les|l['’]|ce\w*)|(?:crée|développe|ajoute) (?:une? )?{_THING}",
        order=r"n['’](?:utilise|ajoute|écris|efface)z? pas|ne (?:fais|mets|touche|modifie|change|supprime|pousse|"
        r"commite) pas|(?:utilise|prends) .{2,60} (?:au lieu|plutôt que|à la place)|évite|veille à|assure-toi|"
        r"je préfère|je ne veux pas",
        decides=r"(?:nous (?:utilisons|préférons|avons décidé|n['’]utilisons)|on (?:utilise|préfère|a décidé|"
        r"n['’]utilise))",
        remember=r"(?:souviens|rappelle)-toi|n['’]oublie pas|retiens|garde (?:à l['’]esprit|en tête)",
        noted=r"(?:note )?pour (?:plus tard|la suite|l['’]avenir)",
        denies=r"pas|rien|aucune?|ne",
        now=r"maintenant",
        passing=r"en ce moment|actuellement|aujourd['’]hui|demain|(?:est|sont) (?:\w+ )?(?:en panne|cassée?s?|rouges?|"
        r"verte?s?)",
        takes_back=r"(?:ah|oh|euh),? non|non,? pas (?:toujours|forcément)|(?<!n['’])oublie(?:z)?(?: (?:ça|cela|ce que|"
        r"la règle|tout)|(?=\W*$))|laisse tomber|non,? attends|attends,? non|(?:en fait|finalement),? (?:non|oublie)|"
        r"non,? (?:en fait|finalement)|je (?:rigole|plaisante|blague)|c['’]était (?:une )?(?:blague|plaisanterie|"
        r"erreur)|je voulais dire|je me suis trompée?|je retire|j['’]ai changé d['’]avis|mauvaise fenêtre|"
        r"réflexion faite|à la réflexion|je ne suis pas d['’]accord",
        about=r"sur|concernant|(?:à propos|au sujet) d(?:es?|u)?|règle (?:d(?:es?|u)?|pour)",
        empty="le la les un une que de du des ai dit disais te règle",
        local=r"ici|ce (?:projet|dépôt|repo\w*|fichier|code)|notre|nos",
        universal=r"(?:dans |pour |sur )?(?:tous (?:les|mes|nos) (?:\w+ )?(?:projets|dépôts|repos)|chaque projet|"
        r"n['’]importe quel projet)|partout où je travaille",
    ),
    "it": Language(
        lasting=r"sempre|mai|(?:ogni volta|tutte le volte) che|vietat\w+|"
        r"senza eccezioni|niente più|di default",
        later=r"(?:d['’]|da )(?:ora|adesso|oggi) in (?:poi|avanti)|in futuro|da noi|"
        r"convenzion\w+|regol\w+",
        builds=r"implementa|(?:scrivi|crea|costruisci|sviluppa|fai)(?:mi|ci)? "
        r"(?:un[ao]?|il|l[ao]|gli|i|quest\w+)|"
        rf"(?:crea|costruisci|sviluppa|aggiungi) (?:un[ao]? )?{_THING}",
        order=r"non (?:usare|usa|modificare|toccare|scrivere|aggiungere|cancellare)|(?:usa|utilizza) .{2,60} "
        r"(?:invece (?:di|del\w*)|al posto (?:di|del\w*)|anziché)|evita|assicurati|preferisco|non voglio",
        decides=r"(?:usiamo|utilizziamo|preferiamo|abbiamo deciso)",
        remember=r"ricorda(?:ti)?|non dimenticare|tieni (?:a mente|presente|conto)|prendi nota",
        noted=r"(?:nota )?per (?:il futuro|dopo)",
        denies=r"non|niente|nessun\w*",
        now=r"ora|adesso",
        passing=r"in questo momento|attualmente|oggi|domani|(?:è|sono) (?:\w+ )?(?:giù|rott[aeio]|ross[aeio]|verd[ei])",
        takes_back=r"correzione(?=:)|(?:ah|oh),? no|no,? non sempre|lascia (?:stare|perdere)|dimentica(?:lo|"
        r" (?:quel(?:lo)?|ciò|quanto|questo|tutto|la regola))|no,? aspetta|"
        r"aspetta,? no|anzi,? no|scherz(?:o|avo)|era (?:uno scherzo|una battuta)|volevo dire|mi sono sbagliat[oa]|"
        r"ci ho ripensato|ripensandoci|ritiro (?:tutto|quello)|(?:finestra|chat) sbagliata|non sono d['’]accordo",
        about=r"su|sul(?:l[aeo]?)?|sui|sugli|riguardo|regola (?:di|del(?:l[aeo]?)?|dei|degli|per)",
        empty="il lo la gli le un una al alla ai alle agli che di del della dei delle ho detto ti regola",
        local=r"quest[oa] (?:progetto|repo\w*|file|codice)|nostr\w+",
        universal=r"(?:in |per )?tutti i (?:miei |nostri )?(?:progetti|repo\w*)|(?:in |per )?ogni progetto|"
        r"ovunque lavor[io]",
    ),
    "pt": Language(
        lasting=r"sempre|nunca|jamais|(?:de )?(?:cada|toda) vez que|combinado|proibid\w+|"
        r"sem exceç(?:ão|ões)|nada de",
        later=r"(?:a partir d[eo]|de) (?:agora|hoje)(?: em diante)?|da(?:qui|í) (?:em|para?|pra) (?:a? ?)(?:diante|"
        r"frente)|doravante|no futuro|convenç(?:ão|ões)|regras?|padrão",
        builds=r"implement[ae]|(?:escrev[ae]|cri[ae]|constr(?:ói|ua)|desenvolv[ae]|fa[zç]a?)(?:-me)? "
        r"(?:uma?|[oa]s?|est[ae]s?)|"
        rf"(?:cri[ae]|desenvolv[ae]|adicion[ae]) (?:uma? )?{_THING}",
        order=r"não (?:uses?|mexas?|mexa|alter(?:es?)|apagu(?:es?)|escrev(?:as?)|faças?|adicion(?:es?))|"
        r"(?:us[ae]|utiliz[ae]) .{2,60} (?:em vez d[eoa]|ao invés d[eoa]|no lugar d[eoa])|evit[ae]|prefiro|não quero|"
        r"por favor,? não \w+",
        decides=r"(?:usamos|utilizamos|preferimos|decidimos|a gente usa)",
        remember=r"lembr[ea](?:-(?:te|se))?(?: de)?|não (?:te |se )?esque[çc]as?(?: de)?|(?:tenha|tem) em (?:mente|"
        r"conta)",
        noted=r"(?:nota )?para (?:o futuro|mais tarde)",
        denies=r"não|nada|nenhuma?",
        now=r"agora(?! mesmo)",
        passing=r"agora mesmo|neste momento|no momento|hoje|amanhã|"
        r"est(?:á|ão) (?:\w+ )?(?:caíd[ao]s?|quebrad[ao]s?|fora do ar|vermelh[ao]s?)",
        takes_back=r"correção(?=:)|(?:ah|oh),? não|não,? nem sempre|(?<!não )esque[çc][ae](?: (?:isso|isto|o que|tudo|"
        r"a regra)|(?=\W*$))|deixa (?:pra lá|para lá|isso|estar)|não,? espera|espera,? não|(?:estou|tô|"
        r"estava) (?:a )?brinca\w*|era (?:brincadeira|piada)|quis dizer|queria dizer|enganei-me|me enganei|"
        r"mudei de ideia|pensando (?:bem|melhor)|retiro (?:o que|isso)|janela errada|chat errado|não concordo|"
        r"melhor não(?=\W*$|[,.;:!])",
        about=r"sobre|acerca d[aeo]s?|quanto (?:a|ao|à)s?|regra (?:d[aeo]s?|para)",
        empty="os as um uma que de do da dos das na no eu disse falei te regra",
        local=r"aqui|[nd]?est[ea] (?:projeto|repo\w*|arquivo|ficheiro|código)|noss[oa]s?",
        universal=r"(?:em |para )?todos os (?:meus |nossos )?(?:projetos|projectos|repo\w*)|"
        r"(?:em |para )?(?:qualquer|cada) projeto",
    ),
    "ja": Language(
        lasting=r"必ず|常に|いつも|絶対|決して|毎回|ずっと|禁止|統一",
        later=r"今後|これから|以後|以降|うちで?は|ルール|規約|方針|原則",
        builds=r".{2,60}(?<!ブランチ)(?<!コミット)(?<!PR)(?:を実装|を作(?:って|成)|を書いて|を開発)",
        order=r"しないで|使わないで|書かないで|ようにして|ではなく|の代わりに|禁止|避けて",
        decides=r"(?:使います|使っています|採用しました|に決めました|にしました)",
        remember=r"(?:覚え(?:ておい)?て(?:ください|ね)?|(?:今後のために)?メモ)[、,：:]|"
        r".{6,400}覚えておいて(?:ください|ね)?[。.!！]?$",
        noted=r"後のために[、,：:]",
        denies=r".{0,200}(?:ない|禁止)",
        now=r"今は",
        passing=r"現在|今日|明日|落ちて",
        takes_back=r"やっぱり|冗談|忘れて(?!は)|撤回|取り消|いや、|間違え(?!な)|間違いでした|じゃなくて|訂正",
        about="",
        empty="",
        local=r"この(?:プロジェクト|リポジトリ|ファイル|コード)|ここでは",
        universal=r"(?:すべて|全て|全部|どの)の?プロジェクト",
        is_spaced=False,
    ),
    "ko": Language(
        lasting=r"항상|언제나|늘|절대|매번|반드시|무조건|금지",
        later=r"앞으로|(?:이제|지금|오늘|다음)부터|우리|규칙|원칙|컨벤션",
        builds=r".{2,60}(?<!브랜치)(?<!브랜치를)(?<!커밋을)(?<!PR)(?: ?)(?:구현해|만들어|작성해|개발해)",
        order=r"지 ?(?:마|말아|말고|않았으면)|대신 .{1,40}(?:사용|써|쓰)|피해 ?줘|선호|원하지 않",
        decides=r"우리는? .{1,40}(?:사용|쓰기로|하기로|채택)\w*",
        remember=r"기억해(?: ?(?:둬|두세요|줘|주세요))?[,:]|"
        r".{6,400}기억해(?: ?(?:둬|두세요|줘|주세요))?[.!]?$",
        noted=r"나중을 위해[,:]",
        denies=r".{0,200}(?:지 ?마|말고|말아|금지)",
        now=r"지금",
        passing=r"오늘|내일|현재",
        takes_back=r"취소(?=할|해|합|함|요|\W*$)|농담|아니(?:다|야|,)|잊어(?= ?(?:줘|버려|주세요)|\W*$)|철회|"
        r"잘못 (?:말|보냈|썼)|실수(?=였|야|예|입|했|로 (?:보|썼|쓴))|다시 생각|생각해 ?보니|정정",
        about="",
        empty="",
        local=r"이 (?:프로젝트|저장소|리포|코드)|여기",
        universal=r"모든 (?:내 |우리 )?(?:프로젝트|저장소|리포)",
        is_spaced=False,
    ),
    "nl": Language(
        lasting=r"altijd|nooit|telkens|(?:elke|iedere) keer|niet meer|geen \w+ meer|zonder uitzondering",
        later=r"voortaan|(?:vanaf|van) (?:nu|vandaag)|in het vervolg|in de toekomst|"
        r"bij ons|afspraak|regel|conventie|standaard",
        builds=r"implementeer|(?:schrijf|bouw|ontwikkel|programmeer|maak) (?:me |ons )?(?:een|de|het|dit|deze)|"
        rf"(?:ontwikkel|programmeer|maak|voeg) (?:een )?{_THING}",
        order=r"gebruik .{2,60} in plaats van|alsjeblieft (?:geen|niet)|vermijd|zorg (?:ervoor|dat)|"
        r"ik (?:wil geen|wil liever|heb liever|geef de voorkeur)",
        decides=r"(?:we|wij) (?:gebruiken|hebben (?:besloten|gekozen)|kiezen)|dat (?:we|wij) (?:\S+ ){1,4}?gebruiken",
        remember=r"onthoud(?:en)?|vergeet niet|denk er ?aan|hou(?:d)? er rekening mee",
        noted=r"(?:notitie )?voor (?:later|de toekomst)",
        denies=r"geen|niet|niets",
        now=r"nu",
        passing=r"momenteel|op dit moment|vandaag|morgen|(?:(?:is|zijn|ligt) (?:\w+ )?)?(?:plat|down|"
        r"kapot|stuk)(?: (?:is|zijn|ligt|liggen))?|(?:rood|groen) (?:is|zijn)|(?:is|zijn) (?:rood|groen)",
        takes_back=r"correctie(?=:)|(?:o|oh|ah),? nee|nee,? niet altijd|vergeet (?:(?:dat|het|dit)(?=\W*$|"
        r"[,.;:!]| (?:maar|weer)\b)|(?:wat|de regel)(?! niet))|laat maar(?! weten)|toch (?:maar )?niet|nee,? wacht|"
        r"wacht,? nee|grapje|was een grap|ik bedoel(?:de)?|neem (?:dat|het|de \w+) terug|ik vergis(?:te)? me|"
        r"bij nader inzien|ik heb me vergist|(?:verkeerde?) (?:venster|chat|project|terminal)|streep dat door|"
        r"ben het er niet mee eens",
        about=r"over|omtrent|regel (?:van|voor)",
        empty="de het een dat ik je heb zei gezegd regel",
        local=r"(?:dit|deze) (?:project|repo\w*|bestand|code)|onze?",
        universal=r"(?:in |voor |bij )?(?:al (?:mijn|onze)|alle) (?:projecten|repo\w*)|"
        r"(?:in |voor |bij )?elk project|overal waar ik werk",
    ),
    "pl": Language(
        lasting=r"zawsze|nigdy|za każdym razem|bez wyjątk\w+|"
        r"zabronion\w+|nie wolno|umowa",
        later=r"od (?:teraz|dziś|dzisiaj)|odtąd|na przyszłość|w przyszłości|u nas|konwencj\w+|"
        r"zasad\w+|reguł\w+",
        builds=rf"zaimplementuj|napisz|zbuduj|stwórz|utwórz|zaprogramuj|dodaj {_THING}",
        order=r"nie (?:używaj|rób|dotykaj|zmieniaj|pisz|dodawaj|usuwaj|pushuj|commituj|edytuj)(?:cie)?|"
        r"(?:używaj|użyj|stosuj)(?:cie)? .{2,60} zamiast|unikaj|upewnij się|wolę|nie chcę|proszę,? nie",
        decides=r"(?:używamy|stosujemy|korzystamy|zdecydowaliśmy|wybraliśmy)",
        remember=r"(?:za)?pamiętaj(?:cie)?|nie zapominaj|miej na uwadze",
        noted=r"(?:notatka )?na (?:później|przyszłość)",
        denies=r"nie|nic|żadn\w+",
        now=r"teraz",
        passing=r"dziś|dzisiaj|jutro|obecnie|nie działa(?:ją)?",
        takes_back=r"(?:korekta|poprawka)(?=:)|(?:o|ach),? nie|a nie(?=\W*$|[,.;!])|nie,? nie zawsze|(?<!nie )zapomnij|"
        r"nieważne(?=\W*$|[.;!])|"
        r"jednak nie|nie,? (?:czekaj|zaczekaj)|czekaj,? nie|żart\w*|"
        r"chodziło mi|miał[ea]m na myśli|cofam|pomyłka|pomylił[ea]m|zmienił[ea]m zdanie|po namyśle|nie to okno|"
        r"nie zgadzam się",
        about=r"o(?! t(?:ym|o)(?!\w))|na temat|odnośnie|zasad[aęy] (?:dla|z)",
        empty="to tym co ja ci mówiłem mówiłam powiedziałem powiedziałam zasada zasadę zasady",
        local=r"tutaj|(?:ten|tym|tego|tej|ta) (?:projek\w+|repo\w*|plik\w*|kod\w*)|nasz\w*",
        universal=r"(?:we |w |dla )?wszystkich (?:moich |naszych )?(?:projekt\w+|repo\w*)|w każdym (?:moim |naszym )?"
        r"(?:projekcie|repo\w*)|gdziekolwiek pracuję",
    ),
    "ru": Language(
        lasting=r"всегда|никогда|каждый раз|без исключений|запрещ\w+|принято|"
        r"больше не",
        later=r"отныне|впредь|с (?:этого момента|сегодняшнего дня)|на будущее|в будущем|у нас|"
        r"правил\w+|соглашени\w+|конвенци\w+",
        builds=rf"реализуй|напиши|создай|построй|разработай|запрограммируй|добавь {_THING}",
        order=r"не (?:используй|трогай|меняй|пиши|добавляй|удаляй|пушь|коммить|редактируй|делай)(?:те)?|"
        r"(?:используй|бери)(?:те)? .{2,60} вместо|избегай|предпочитаю|не хочу|пожалуйста,? не",
        decides=r"мы (?:используем|применяем|решили|выбрали)|^используем",
        remember=r"(?:за)?помни(?:те)?|не заб(?:удь|ывай)(?:те)?|име(?:й|йте) в виду|учти(?:те)?",
        noted=r"(?:заметка )?на (?:будущее|потом)",
        denies=r"не|ничего|никак\w+",
        now=r"теперь",
        passing=r"сейчас|сегодня|завтра|упал[аои]?|лежит",
        takes_back=r"(?:исправление|поправка)(?=:)|(?:а|ой|ах),? нет|нет,? не (?:всегда|надо)|(?<!не )забудь(?:те)?|"
        r"неважно(?=\W*$|[.;!])|проехали|хотя,? нет|нет,? (?:стой|подожди|погоди)|(?:стой|подожди|"
        r"погоди),? нет|шучу|шутка|(?:я )?имел[аи]? в виду|беру (?:свои )?(?:слова|это)|передумал\w*|ошиб(?:ся|лась)|"
        r"не (?:то окно|тот чат)|если подумать|не согласен|не согласна",
        about=r"про(?! то(?!\w))|об?(?! том(?!\w))|насч[её]т|правил[оа] (?:для|с)",
        empty="то том это что вам тебе говорил говорила сказал сказала правило правила",
        local=r"здесь|тут|эт(?:от|ом|ого|ой) (?:проект\w*|репо\w*|файл\w*|код\w*)|наш\w*",
        universal=r"(?:во |для )?всех (?:моих |наших )?(?:проект\w+|репо\w*)|в (?:каждом|любом) "
        r"(?:(?:моём|моем|нашем) )?(?:проекте|репо\w*)|везде,? где я работаю",
    ),
    "zh": Language(
        lasting=r"总是|始终|永远|绝不|决不|绝对|从不|切勿|务必|一定要|一律|每次|必须|禁止|统一|不许|不准|都[要用得]",
        later=r"从(?:现在|今天)(?:开始|起)|今后|以后|规定|规范|约定|规则",
        builds=r"(?:请|帮我|给我)*(?:实现|写一?个|做一?个|创建|开发)(?!.{0,6}(?:分支|提交|PR))",
        order=r"不要(?![でなだ。とに])|别[用再动改写]|请勿|避免|而不是|代替|我(?:更喜欢|偏好|不想|不希望)",
        decides=r"我们(?:现在)?(?:使用|用|采用|决定|选择)|本项目(?:使用|采用)",
        remember=r"(?:另外|还有|请|也|要)*记住(?![了吗这那它]|\W*$)|"
        r".{4,400}[，,]\s*记住[。.!！]?$|记得(?=.{0,200}(?:用|不要|别|总是|每次))",
        noted=r"备忘[，,：:]",
        denies=r".{0,200}(?:不|别|勿|禁止)",
        now=r"现在",
        passing=r"目前|今天|明天|正在|挂了",
        takes_back=r"[哦噢啊]不|不用了(?!的)|更正|纠正|忘了吧|忘掉(?=吧|它|这|那|我|\W*$)|算了|还是不|(?<![以今]后)还是用|开玩笑|"
        r"撤回|[说搞弄]错(?=了|\W*$)|收回|改(?:变)?主意|不对(?=[，。！,]|$)|"
        r"等等[，,]|我的意思是|发错|不同意",
        about=r"关于|有关",
        empty="的规则",
        local=r"这里|[这本此该]个?(?:项目|仓库|文件|代码)|我们",
        universal=r"(?:所有|每个|任何|全部)(?:的|我的|我们的)?(?:项目|仓库)",
        is_spaced=False,
    ),
}
