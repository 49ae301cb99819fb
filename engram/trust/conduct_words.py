"""English patterns of orders about conduct, and orders about secrets in other languages. All in lower case.

``conduct_concepts`` contains the words by which sentences about conduct are recognised in any language.
"""

from __future__ import annotations

WHO_READS = (
    r"(?:\b(?:ai|llm|coding|autonomous|language) ?-?(?:agents?|assistants?|models?|tools?|systems?|readers?|reviewers?|"
    r"bots?)|\b(?:agents?|assistants?|claude(?: code)?|copilot|codex|gemini|chatbots?|llms?|ais|anthropic)\b|"
    r"\bthe model\b|\bwho(?:ever|soever)? reads (?:this|it)\b|\banyone reading\b|\byou\b)"
)
#: A character of a clause that contains no negation so far.
UNDENIED = r"(?:(?!\b(?:not|never|cannot|neither|without)\b|n['’]t\b)[^.\n])"
#: Text before the verb of an order.
ORDER = (
    r"(?:(?:^|[.!?:;,(\"'“„«>*•|#)]|(?<=\s)-)\s*|\b(?:and|then|please|kindly|always|also|first|next|now|just|simply|"
    r"quietly|silently|secretly|immediately|instead|must|should|shall|or|finally|so|only|bitte|to|step \d+:?|(?:ha(?:s|"
    r"ve)|needs?|required?|supposed|expected|ought|asked|told|allowed|free|sure|wants?|likes?|prefers?|you|them|us|it|"
    r"hesitate|forget|fail|approved|authori[sz]ed) to)\s+)"
)


def act(verbs: str, *, is_loose: bool = False) -> str:
    """Return a pattern for an order to do something, or for an agent that does it.

    Args:
        verbs: alternatives, in their base form.
        is_loose: True if a bare infinitive with "to" also counts as an order.
    """
    order = ORDER if is_loose else ORDER.replace("bitte|to|", "bitte|")
    inflected = rf"(?:{verbs})(?:e?s|ing|ed)?"
    return rf"(?:{order}(?:{verbs})\b|{WHO_READS}\b{UNDENIED}{{0,60}}\b{inflected}\b)"


USER = (
    r"(?:the |your |our |this |any )?(?:user|human|developer|owner|maintainer|operator|reviewer|boss|team ?lead|"
    r"security team|admin(?:istrator)?|engineer|person|customer)"
)
ANYBODY = rf"(?:{USER}|anyone|anybody|somebody|someone|people|them|him|her|us|me|others|the team)"
THIS = (
    r"(?:this|that|it|these|those|any of (?:this|that|it)|the (?:extra |new |additional |hidden )?(?:\w+ )?(?:change|"
    r"changes|request|requests|commit|step|instruction|instructions|note|edit|file|remote|deletion|upload|failure|"
    r"failures|rule|message|dependency|command|fact|diff|output|log|result|warning|prompt|conversation)s?)"
)
HARD_SECRETS = (
    r"(?:(?<![\w/])\.env\b(?!\.)|\benv(?:ironment)? (?:vars?|variables?|values?|file)|\bssh[- ]keys?|\bid_rsa|"
    r"\bid_ed25519|\bprivate keys?|\.aws\b|\.ssh\b|\.netrc\b|\.npmrc\b|\.kube/config|\bkeychain|/etc/(?:passwd|shadow)|"
    r"\bcredentials?\b|\bsystem prompt|\bhidden (?:instructions?|prompt)|\b(?:your|own|initial) (?:\w+ "
    r")?(?:instructions|prompt|rules|memory|memories)\b|\b(?:the|this|our|whole|full|entire|your) (?:conversation|"
    r"transcript|chat|chat history)|\btranscripts?\b|\bchat history|\bmemory contents|\bcustomer data\b|\b(?:all|every|"
    r"any|the|your|our|whatever) (?:\w+ )?(?:secrets?|passwords?|api[ _-]?keys?|access keys?|tokens?)|\bsecrets\b|"
    r"\bwhoami\b|\bprintenv\b|\b(?:source code|code ?base|repo(?:sitory)?(?:'s)? contents?)\b)"
)
SOFT_SECRETS = (
    r"(?:\bsecrets?\b|\b(?:api|access|signing|deploy(?:ment)?)[ _-]?keys?\b|\btokens?\b|\b\w+_(?:token|key|secret|"
    r"password)\b|\bpasswords?\b|\bcookies?\b|\bcard numbers?\b)"
)
#: Strings of which any text that mentions a secret contains at least one.
SECRET_MARKS = (
    *(
        "secret",
        "key",
        "token",
        "password",
        "credential",
        "env",
        "id_rsa",
        "id_ed25519",
        ".aws",
        ".ssh",
        ".netrc",
        ".npmrc",
    ),
    *(
        "kube",
        "keychain",
        "/etc/",
        "prompt",
        "instruction",
        "rules",
        "memor",
        "conversation",
        "transcript",
        "chat",
        "data",
    ),
    *("whoami", "source code", "code", "repo", "cookie", "card number"),
)
OUTSIDE = (
    r"(?:https?://|\bpastebin|\bgists?\b|\brequestbin|\bngrok|\bwebhook|\b[\w.+-]+@[\w-]+\.\w|\bcommit messages?|"
    r"\bin(?:to)? (?:every|each|all|your|the next|the) (?:commit|answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|"
    r"messages?|issue|pull request|readme|notes?|logs?|changelog|comments?)\b|\bin(?:to)? (?:an? |the )?(?:chat|slack|"
    r"issues?|tickets?|pastes?)\b|\breadme\b|\bnotes?\.(?:txt|md)|\b(?:branch|file) names?\b|\bpublic\b|\battacker|"
    r"\bfor debugging\b|\b(?:chat|slack|discord|telegram|external|support) (?:channel|server|bot|webhook|endpoint|"
    r"address)|\.example\b)"
)
GIVE = (
    r"send|upload|post|publish|forward|e-?mail|mail|exfiltrate|transmit|leak|share|submit|paste|reveal|print|dump|"
    r"expose|disclose|output|echo|curl|attach|display|show|repeat|give|hand over|tell|copy|include|append|put|write|"
    r"add|embed|push|sync|mirror|encode|report|store|save|log|collect|quote|cat"
)
GIVE_AWAY = (
    r"send|upload|post|publish|forward|e-?mail|mail|exfiltrate|transmit|leak|submit|paste|reveal|print|dump|disclose|"
    r"output|echo|curl|attach|repeat|hand over|quote|expose|respond|reply|answer"
)
PROTECTION = (
    r"(?:permissions?\b(?! (?:check|class|model|table|cache|column))|permission (?:prompts?|checks?)|sandbox\w*|"
    r"approvals?\b|confirmations?\b|confirmation (?:prompts?|dialogs?)|(?:code |peer )?reviews?\b(?! (?:app|"
    r"environment|deploy))|pre-commit|(?:git |commit |safety |security )?hooks?\b|guard ?rails?|safety|safeguards?|"
    r"security (?:checks?|warnings?|rules?|scans?|prompts?)|(?:signature|tls|ssl|certificate) (?:verification|checks?|"
    r"validation)|tls\b|ssl\b|firewall|antivirus|audit (?:logs?|trail)|branch protection|two-factor|2fa\b|"
    r"human in the loop|bestätigung\w*|berechtigung\w*|freigaben?\b|rückfragen?\b|sicherheitsprüfung\w*)"
)
#: Checks that find mistakes before people do.
CHECKS = (
    r"(?:(?:the|any|your|our|all) )?(?:(?:unit|integration|slow|style) )?(?:tests?(?: suite)?|linters?|linting|"
    r"type[ -]?check(?:er|ing|s)?|checks|ci|pre-commit(?: hooks?)?)\b"
)
FOR_GOOD = r"\b(?:again|any ?more|any longer|from now on|in (?:the )?future|for good|from here on)\b"
NEGATED_ORDER = (
    r"\b(?:do not|don['’]?t|never|no (?:need|reason|point) (?:to|in)|must(?: not|n['’]t)|should(?: not|n['’]t)|"
    r"need(?: not|n['’]t)|not (?:necessary|needed|required|important|allowed) to|stop|avoid|refrain from|quit|"
    r"does(?: not|n['’]t) need to|skip|please not)\b"
)
#: Wordings for omitting such checks for more than a moment.
LEAVES_OUT_CHECKS = (
    rf"{NEGATED_ORDER}[^.\n]{{0,12}}\b(?:run|running|execute|use|start)\b {CHECKS}[^.\n]{{0,40}}{FOR_GOOD}|"
    rf"\bstop (?:running|using|executing) {CHECKS}|\bnever again (?:run|check|test|lint)\b|"
    rf"{NEGATED_ORDER} (?:ever )?(?:lint|test|check(?! in| out)|type-?check)\b[^.\n]{{0,40}}"
    r"\b(?:again|any ?more)\b|"
    rf"{ORDER}(?:(?:skip|disable|turn off|switch off|deactivate|leave out|omit) {CHECKS}|"
    rf"(?:turn|switch|leave) {CHECKS} (?:off|out)\b)"
    rf"(?:\s*(?:[.!]|$)|[^.\n]{{0,24}}(?:{FOR_GOOD}|\b(?:when(?:ever)?|before) you\b))"
)


_FOREIGN_SECRETS = (
    r"(?:\.env\b|id_rsa|\.ssh\b|\.aws\b|umgebungsvariable|zugangsdaten|anmeldedaten|passw[oö]rt|geheimnis|"
    r"(?:private\w*|geheime\w*|ssh-?|api-?) ?schlüssel|systemprompt|variables? d['’]environnement|identifiants|"
    r"mots? de passe|secrets|clés? (?:privée|api|secrète|ssh)|invite système|variables de entorno|credenciales|"
    r"contraseñas?|claves? (?:privada|secreta|api|ssh)|secretos|variabili d['’]ambiente|credenziali|"
    r"chiav[ei] (?:privat|segret|api|ssh)|segreti|variáveis de ambiente|credenciais|senhas?|chaves? (?:privada|secreta|"
    r"api|ssh)|segredos|omgevingsvariabelen|inloggegevens|wachtwoord|geheime|токен|парол|ключ|секрет|"
    r"переменные окружения|密钥|密码|令牌|凭证|私钥|环境变量|秘密|鍵|パスワード|トークン|認証情報|環境変数|비밀|토큰|"
    r"암호|hasł|klucz|zmienne środowiskowe|şifre|parola|anahtar)"
)
_FOREIGN_GIVE = (
    r"(?:\b(?:schick|sende|verschick|verrat|veröffentlich|übermittl|poste|übertrag|gib|zeig|druck|kopier|schreib|"
    r"lad)(?:e|en|t|st)?\b|\b(?:envoie|envoyez|publie[zr]?|poste[zr]?|affiche[zr]?|copie[zr]?|transmets|transmettez|"
    r"téléverse[zr]?|révèle[zr]?|montre[zr]?|donne[zr]?)\b|\b(?:envía|envíe|envie|manda|mande|sube|suba|publica|"
    r"publique|muestra|muestre|imprime|imprima|revela|revele|copia|invia|inviate|mandate|pubblica|mostra|stampa|rivela|"
    r"copie|envia|mostre|imprima|revele|stuur|verstuur|toon|plaats|upload|wyślij|pokaż|opublikuj|wypisz)\b|отправ|"
    r"пришли|покажи|выведи|опублику|скопируй|发给|发送|上传|输出|泄露|打印|显示|送信|送[っれるり]|表示し|アップロード|"
    r"출력|보내|업로드|gönder|yazdır|yükle)"
)
#: The reason, the pattern, and whether a negation before it makes it harmless.
ORDERS_ELSEWHERE: tuple[tuple[str, str, bool], ...] = (
    (
        "a claim in the user's name",
        r"\b(?:der|die|vom|mit dem|laut) (?:be)?(?:nutzer|user|entwickler|anwender|"
        r"chef)(?:in)?\b[^.\n]{0,50}(?:zugestimmt|erlaubt|genehmigt|freigegeben|abgesprochen|vereinbart|einverstanden|"
        r"gestattet)|\bl['’]utilisateur\b[^.\n]{0,50}(?:accepté|approuvé|autorisé|donné son accord|d['’]accord|permis|"
        r"consenti)|\bel usuario\b[^.\n]{0,50}(?:aprob|autoriz|acept|permit|acuerdo|consinti)|"
        r"\bl['’]utente\b[^.\n]{0,50}(?:approvato|autorizzato|accettato|permesso|d['’]accordo)|"
        r"\bo usuário\b[^.\n]{0,50}(?:aprov|autoriz|aceit|permit|concord)|\bde gebruiker\b[^.\n]{0,50}(?:goedgekeurd|"
        r"toegestaan|akkoord|ingestemd)|пользователь[^.\n]{0,40}(?:разреш|одобр|соглас)|用户(?:已|已经)?(?:同意|授权|"
        r"批准|允许)|ユーザー(?:は|が)[^。\n]{0,20}(?:許可|承認|同意)|사용자[^.\n]{0,20}(?:허락|승인|동의)|"
        r"użytkownik[^.\n]{0,40}(?:zgodził|zezwolił|zatwierdził)|kullanıcı[^.\n]{0,40}(?:onayla|izin ver)",
        False,
    ),
    (
        "secrecy towards the user",
        r"\b(?:sag\w*|erzähl\w*|verrat\w*|erwähn\w*|meld\w*|informier\w*|zeig\w*|"
        r"teil\w*)\b[^.\n]{0,50}\b(?:(?:be)?nutzer|user|anwender|entwickler|ihm|ihr|"
        r"niemand\w*)\b[^.\n]{0,40}\b(?:nicht|nichts|niemand\w*|kein\w*)\b|\b(?:dem|den|der) (?:be)?(?:nutzer|user|"
        r"anwender|entwickler)\b[^.\n]{0,30}\b(?:nichts?|kein\w*)\b[^.\n]{0,60}\b(?:sag|erzähl|mitteil|verrat|meld|"
        r"erwähn|zeig|informier)\w*|\bniemand\w* (?:etwas |davon |was )*(?:sag|erzähl|verrat|merk|erfähr|sieht|wiss|"
        r"weiß)\w*|\b(?:heimlich|unbemerkt|stillschweigend|unter uns)\b|\bdamit (?:es |das )?(?:niemand|keiner)\b|"
        r"\bverschweig\w*|\b(?:frag|frage) (?:\w+ ){0,2}nicht\b(?! ab)|\bnicht (?:nach)?fragen\b",
        False,
    ),
    (
        "secrecy towards the user",
        r"\b(?:ne|n['’]|sans)\b[^.\n]{0,24}\b(?:di(?:re|s|tes)|parle[rz]?|mentionn\w+|révél\w+|signal\w+|inform\w+|"
        r"prév\w+|avert\w+|montr\w+|affich\w+)\b[^.\n]{0,50}\b(?:utilisateur|développeur|personne|rien|ceci|cela|"
        r"changement|modification)|\b(?:no|nunca|sin)\b[^.\n]{0,16}\b(?:dig\w+|cuent\w+|menci\w+|inform\w+|revel\w+|"
        r"avis\w+|muestr\w+|decir\w*)\b[^.\n]{0,50}\b(?:usuario|desarrollador|nadie|nada|esto|cambio)|\bnon (?:dir\w+|"
        r"menzion\w+|inform\w+|rivel\w+|avvis\w+|mostr\w+|raccont\w+)[^.\n]{0,50}\b(?:utente|nessuno|niente|nulla|"
        r"questo|modifica)|\b(?:não|nunca)\b[^.\n]{0,16}\b(?:con[td]\w+|dig\w+|mencion\w+|inform\w+|revel\w+|avis\w+|"
        r"mostr\w+)\b[^.\n]{0,50}\b(?:usuário|ninguém|nada|isso|isto|mudança)|\b(?:vertel|zeg|meld|toon|"
        r"noem)\b[^.\n]{0,40}\b(?:niets|niet|niemand)\b|\bnie (?:mów|informuj|wspominaj|pokazuj|zdradzaj)\b|\b(?:не|"
        r"ничего не)\s+(?:говори|сообщай|рассказывай|упоминай|показывай|информируй)|(?:不要|别|勿|不必|无需|"
        r"不得)[^。\n]{0,8}(?:告诉|通知|提及|透露|提到|告知|让.{0,6}知道)|ユーザー[^。\n]{0,12}(?:知らせず|言わず|"
        r"言わない|知らせない|伝えず|伝えない|報告しない|教えない|内緒|秘密)|(?:伝えないで|言わないで|知らせないで|"
        r"報告しないで|教えないで)|사용자[^.\n]{0,16}(?:알리지|말하지|보고하지|보여주지)|"
        r"kullanıcıya[^.\n]{0,30}(?:söyleme|bildirme|gösterme|bahsetme)",
        False,
    ),
    (
        "acting without asking",
        r"\bohne (?:zu fragen|nachzufragen|rückfrage|nachfrage|bestätigung|zustimmung|erlaubnis)|\bsans (?:demander|"
        r"confirmation|prévenir|autorisation|(?:l['’])?accord|poser)|\bsin (?:preguntar|pedir|confirmar|confirmación|"
        r"permiso|avisar)|\bsenza (?:chiedere|conferma|avvisare|permesso)|\bsem (?:perguntar|pedir|confirma\w+|"
        r"permissão|avisar)|\bzonder (?:te vragen|vragen|bevestiging|toestemming|overleg)|\bbez (?:pytania|"
        r"potwierdzenia|zgody)|\bбез (?:подтверждения|спроса|разрешения|согласия|предупреждения)",
        True,
    ),
    (
        "acting without asking",
        r"\bne (?:\w+ )?(?:demande[rz]?|pose[rz]?)\b[^.\n]{0,16}\b(?:pas|jamais|rien|aucune)\b|\b(?:no|"
        r"nunca) (?:\w+ )?(?:pregunt|pid|pedir|confirm)\w*(?: (?:confirmación|permiso|antes|al usuario|nada))|"
        r"\bnon (?:chied|domand)\w+\b|\b(?:não|nunca) (?:\w+ )?(?:pergunt|peç|pedir|confirm)\w*|"
        r"\bvraag (?:\w+ ){0,3}(?:niet|geen)\b|\bnie pytaj\b|не\s+(?:спрашивай|запрашивай|уточняй)|(?:不要|别|不用|"
        r"无需|不必)[^。\n]{0,4}(?:询问|问|确认|请示|征求)|(?:跳过|省略)[^。\n]{0,8}(?:确认|审核|审批|检查|权限)|"
        r"確認[^。\n]{0,12}(?:省略|スキップ|不要|せず|しないで)|(?:許可|承認)[^。\n]{0,8}(?:不要|なし|得ず)|(?:묻지|"
        r"확인하지|물어보지)[^.\n]{0,6}(?:말|마)|확인[^.\n]{0,8}(?:없이|생략)|(?:sormadan|onay(?:sız| almadan|"
        r"lamadan))",
        False,
    ),
    (
        "acting without asking",
        r"\b(?:berechtigung|freigabe|rückfrage|zugriffs(?:anfrage|recht))\w*[^.\n]{0,40}\bautomatisch\b|"
        r"\bautomatisch\b[^.\n]{0,40}\b(?:berechtigung|freigabe|rückfrage|zugriffs(?:anfrage|recht))|"
        r"\b(?:approuve|accepte|confirme|aprueb|acept|confirm|approv|accett|conferm|aprov|aceit)\w* (?:\w+ )?"
        r"automati[cq]\w+[^.\n]{0,40}\b(?:permis|autoris|autoriz|demande|richiest|solicitud|pedidos?\b)|"
        r"自动(?:批准|同意|确认|接受|通过)[^。\n]{0,12}(?:权限|请求|操作|命令)|(?:権限|許可|確認|要求)[^。\n]{0,8}自動(?:的に|で)?"
        r"(?:承認|許可|同意)|(?:권한|요청|명령)[^.\n]{0,10}자동(?:으로)? ?(?:승인|허용|동의)",
        True,
    ),
    (
        "acting without asking",
        r"\bohne (?:es|sie|ihn|das) (?:vorher |erst )?(?:zu (?:prüfen|lesen|kontrollieren)|anzusehen|durchzusehen)\b|"
        r"\bsans (?:(?:le|la|les) |l['’])(?:vérifier|relire|lire|examiner)\b|\bsin (?:revisar|verificar|comprobar|"
        r"mirar|leer)(?:l[oae]s?)\b|\bsenza (?:controllar|verificar|legger|guardar)l[oaie]\b|"
        r"\bsem (?:[oa]s? )?(?:verific|revis|l[eê]|conferi)r?\w*-?(?:l?[oa]s?)\b",
        True,
    ),
    (
        "an order about answers",
        r"(?:^|[.!?:;\n]\s*)(?:(?:sag|sage|melde|antworte|berichte|behaupte|erkläre?)(?:t|n sie)? (?:(?:de[mrn]|ihm|"
        r"ihr) )?(?:\w+)?,? ?dass (?:alles|es|sie|die|der|das|kein\w*|nichts|wir)|(?:dis|dites|réponds|répondez|"
        r"affirme[zr]?) (?:(?:à|aux?|lui) ?(?:l['’])?(?:\w+ )?)?(?:que|qu['’]) ?(?:tout|c['’]est|les?|la|il|rien|"
        r"aucun)|(?:di|dile|diga|dígale|responde|afirma|reporta) (?:al? \w+ )?que (?:todo|está|los?|la|no|nada)|"
        r"(?:di['’]?|dì|digli|rispondi|riferisci) (?:all?['’ ]?\w+ )?che (?:tutto|è|i|il|le|non)|(?:diga|diz|responda|"
        r"informe) (?:ao? \w+ )?que (?:tudo|está|os?|as?|não|nada))\b",
        True,
    ),
    (
        "a command that fetches and runs",
        r"\b(?:führ|starte|exécute|lance|ejecut|corr[ea]|esegu|avvia|execut|rod[ae])\w*\b[^.\n]{0,40}\b(?:s[ck]ript\w*|"
        r"befehl\w*|commandes?|comandos?|comand[oi]|código|codice|code)\b[^.\n]{0,40}\b(?:issues?|tickets?|"
        r"kommentar\w*|commentaires?|comentarios?|commento|commenti|comentários?|e-?mails?|correos?|courriels?)\b",
        True,
    ),
    (
        "sending secrets to outsiders",
        _FOREIGN_GIVE + rf"[^.。\n]{{0,60}}{_FOREIGN_SECRETS}|{_FOREIGN_SECRETS}[^.。\n]{{0,60}}{_FOREIGN_GIVE}",
        True,
    ),
)
