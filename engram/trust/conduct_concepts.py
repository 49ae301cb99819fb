"""The concepts in sentences about someone's conduct: words for persons, for checks and secrets, and for acts.

English words are kept apart from those of other languages, because a word may mean something else in another language.
Patterns are in lower case.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engram.system.lazy_regex import lazy_regex


def words(listed: str, patterns: str = "") -> re.Pattern[str]:
    """Return a pattern for any of the words.

    Args:
        listed: words in lower case; "*" matches any ending, "_" a blank or a hyphen.
        patterns: additional patterns, for scripts without spaces between words and for anything that is not a word.
    """
    source = "|".join(listed.split()).replace("*", r"\w*").replace("_", "[ -]")
    return lazy_regex(rf"(?<![\w/-])(?:{source})(?!\w|-\w)" + (f"|{patterns}" if patterns else ""))


class Concept(NamedTuple):
    """A concept that a sentence may mention: its wording in English, and in other languages."""

    english: re.Pattern[str]
    elsewhere: re.Pattern[str]


CONCEPTS: dict[str, Concept] = {
    # -- who
    "reader": Concept(
        words(r"agent agents assistant assistants claude(?!\.md) copilot codex chatgpt llms? ais? bots?"),
        words(
            """
        agent agente agenten agentes assistent* ki asistente* assistant* assistente* claude copilot
        """,
            "助手|智能体|ассистент|агент|アシスタント|エージェント",
        ),
    ),
    # People who decide or check, and people in general.
    "people": Concept(
        words(
            """
        humans? persons? (?:no|any|some|every)body anyone someone everyone no_one whoever people reviewers?
        boss(?:es)? management colleagues? teammates? auditors? lawyers? contractors? interns? hr ceo cto supervisors?
        stakeholders? regulators? legal_team journalists? vendors (?:the|by_the)_vendor agency
        """,
            r"\b(?:security|platform) team\b",
        ),
        words(
            """
        kollege* chefs? niemand* jemand* vorgesetzte* prüfer* personne quelqu['’]un relecteur* nadie alguien jefe
        revisor* nessuno qualcuno capo revisori ninguém alguém iemand nikomu
        """,
            "任何人|誰|никому",
        ),
    ),
    # The people whom a program serves, who may include the person at the keyboard.
    "user": Concept(
        words("users? customers? owners? managers? developers? maintainers?", r"\busers?['’]"),
        words(
            """
        nutzer* benutzer* anwender* kunden? utilisateur* client usuario* cliente utente usuário* utilizador*
        gebruiker* użytkownik*
        """,
            "用户|ユーザー|пользовател",
        ),
    ),
    # -- what
    "oversight": Concept(
        words(r"""
        code_reviews? peer_reviews? reviewing (?:no|a|the|any)_review approvals? sign-offs? permission_prompts?
        confirmations? consent guard_?rails? safeguards? supervision asking confirming claude\.md agents\.md scrutiny
        inspections? four-eyes vetting qa_gate branch_protection
        """),
        words(
            """
        prüfung* hinweis* warnung* bestätigung* rückfrage* anfrage* abfrage* anweisung* regeln? vorgabe* sicherheits*
        zertifikat* signatur* scanner* freigabe* tests? befehle? protokolle* kommentar* revue* avertissement*
        vérification* confirmation* consigne* instruction* règles? sécurité approbation* demandes? journaux
        revisi[oó]n* advertencia* pruebas? confirmaci[oó]n* instrucci* reglas? seguridad verificaci* permisos?
        registros? avvis[oi] revision* verific* conferm* istruzion* regol[ae] sicurezza permess[oi] avisos? revis[ãõ]*
        confirma* instruç* regras? segurança testes? permiss* waarschuwing* controles? bevestiging* instructies?
        regels? ostrzeże* potwierdz* polece* zasad* zapyta* zabezpiecz* hooks?
        """,
            "确认|审查|测试|警告|指示|指令|权限|提示|日志|確認|検査|テスト|警告|проверк|подтвержд|предупрежд|инструкц|запрос",
        ),
    ),
    # Things that may be mentioned, but not omitted.
    "control": Concept(
        words(
            """
        reviews? audits? permissions? monitoring 2fa mfa two-factor antivirus opt-outs? selinux complaints?
        restrictions? incidents? outages? signatures? tls ssl certificates? questions? dialogs? security
        secret_detection spending_limits? provenance quotas? compliance verification verify verified scans? scanners?
        instructions? guidelines? polic(?:y|ies) alerts? alarms? firewalls? sandbox(?:ing)? history backups? checking
        assertions? prompts?
        """
        ),
        words("-"),
    ),
    # Checks that may be omitted in some places; code or a part of the project specifies the place.
    "checks": Concept(
        words("""
        checks? tests? warnings? hooks? pre-commit linters? lint linting type_checkers? rules? diffs?
        """),
        words("linter"),
    ),
    "secret": Concept(
        words(
            """
        passwords? passphrases? credentials? secrets? tokens? cookies? keychain id_rsa wallets? mailbox(?:es)? keys
        key environment_variables card_numbers personal_data customer_data logins
        """,
            r"\b\w+_(?:url|token|key|secret|password)\b|~/\.(?:ssh|aws|config|netrc|gnupg|kube)|"
            r"(?<![\w/])(?<!to )(?<!as )(?<!into )\.(?:env|ssh|aws|netrc)\b(?!\.)",
        ),
        words(
            """
        passw[oö]rt* kennwort* zugangsdat* schlüssel geheimnis* mots?_de_passe identifiants clés? secrets contraseña*
        credencial* claves? secretos llaves chiav[ei] credenzial* segret[oi] acceso accès zugang senhas? chaves?
        wachtwoord* sleutel* hasł[ao]*
        """,
            r"(?<![\w/])\.(?:env|ssh|aws|netrc)\b(?!\.)|密码|密钥|凭据|令牌|パスワード|秘密鍵|トークン|парол|ключ",
        ),
    ),
    "private": Concept(
        words("""
        conversations? transcripts? chat_history chat_logs? system_prompt (?:every|each|all|your)_prompts? prompts?_of
        private_messages diffs? source_code working_tree (?:database_)?dumps? browser_history keystrokes? screenshots?
        session_history the_history clipboard shell_history dotfiles contents copy_of copies_of environment_of
        what_the_user what_the_person
        """),
        words(
            """
        gespräch* verlauf sitzung* code conversation* historique conversación* historial volcado código conversazion*
        cronologia conversa* histórico gesprek*
        """,
            "会话|对话|聊天|会話|履歴|日志|переписк",
        ),
    ),
    # -- what is done
    "you": Concept(words("you yours yourself"), words("vous usted")),
    # Verbs for communication that only persons can receive.
    "tell": Concept(
        words("""
        tell tells telling told mention* inform informing informed disclos* reveal* admit* confess* announc* bother*
        disturb* escalat* discuss*
        """),
        words("-"),
    ),
    "say": Concept(
        words("""
        tell* told mention* inform informs informed informing notify notifies notified disclos* reveal* admit*
        confess* hear hears heard learns? knows? ask asks asked asking notices? noticed wonder* complain*
        (?:find|finds|found)_out objects? objections? reply replies reports? reported reporting says? said discuss*
        warn warns warned announc* escalat* consult* bother* disturb* pester* talk word explain* shown? shows? show
        flag flagged raise[ds]? aware communicat* heads-up bring_up brought_up point_out loop_in
        """),
        words(
            """
        beschwer* bescheid auskunft hinweis* erklär* verrat* zeig* nachfrag* frag* rückfrag* sag* erzähl* erwähn*
        meld[et]* gemeldet mitteil* informier* gefragt warn* demand* dire dis dites prévien* prévenir inform* mention*
        signal* avert* répon* montr* pregunt* decir di diga cuent* avis* mencion* pedir pida* pidas respond* chied*
        avvis* menzion* segnal* parl* conte pergunt* rispond* vertel* zeg* vraag* mów* mówi* powie* pyta*
        """,
            "告诉|报告|汇报|透露|提及|言わ|報告|知らせ|伝え|говор|сообща|спрашива|рассказ|упомин",
        ),
    ),
    "allow": Concept(
        words(r"""
        allow allows allowed authori[sz]e[sd]? approves? approving consent\w* agree[ds]? agreement we_trust trusts
        trusted trustworthy waive* exempt* entitle* blessing granted clearance unsupervised unattended self-approv*
        expected precedence priority supersede* prevail* trumps? wins? deserves? duty rights privileges okay ok fine
        implied standing blanket pre-?granted pre-?approved pre-?cleared encouraged liberty leeway carte_blanche
        green_light empower* entrust* tolerat* condon* normal_practice acceptable harmless safe safely confidence
        responsib* favour favor recommends? by_default yes
        """),
        words(
            """
        unbedenklich vorrang zählt gilt gelten erlaub* genehmig* freigegeben berechtig* zustimm* zugestimmt
        beschlossen geeinigt vereinbart vertrau* darf dürfen befugt bestätig* akzeptier* erteilt prime[nt]? prévaloir
        accord* autoris* approuv* permis droit décidé convenu accept* autoriz* aprob* acord[óo]* concedid* confía*
        acepta* decidió permess[oi] autorizz* accett* concord* fidar* autorizad* aprov* aceit* toestemming goedgekeurd
        afgesproken accepteer* bevestig* zatwierdz* akcept* potwierdzaj*
        """,
            "授权|许可|批准|同意|允许|разреш|одобр|подтвержд|принима|許可|承認",
        ),
    ),
    "do without": Concept(
        words("""
        skip* bypass* ignor* disregard* disabl* omit* suppress* mutes? muted silenc* unnecessary needless optional
        pointless superfluous no_need noise wastes? formality outdated obsolete void circumvent* get_around
        work_around no_longer loosen* relax* weaken* lowers? evad* forget* no-verify (?:doesn|don)['’]t_matter
        turn(?:s|ed|ing)?_off switch(?:es|ed|ing)?_off off leave_out left_out leaves_out leaving_out
        comment(?:s|ed|ing)?_out get_commented_out implied
        not_(?:verified|checked|reviewed|required|needed|necessary|reported|mentioned) nothing refus* reject* deny
        denied denies contradict* overwrit* approve_their approve_its to_auto yourself itself contrary wasted?
        exceptions? slow_us forgo* dispense* sidestep* overlook* suspend* lifted rubber-stamp* wave[ds]? dodg*
        redundant overkill bureaucra* theatre burden delays? excused? neglect* for_show
        """),
        words(
            """
        verzicht* abkürz* erspar* unterbleib* umsonst entfäll* entfallen nebensach* überspring* übersprung* umgeh*
        umgangen ignorier* deaktivier* ab(?:zu)?schalt* abgeschaltet ausschalt* ausgeschaltet weglass* weggelassen
        unnötig überflüssig unterlass* vergess* lösch* gelöscht entfern* automatisch ne_compte* négliger passer_outre
        désactiv* saut* contourn* supprim* oubli* effac* inutile* omett* ignor[eéa]* automatique* desactiv* saltar*
        omit* innecesari* olvid* borr* elimin* suprim* hace_falta ignora* automática* disattiv* saltare salta inutil*
        dimentic* cancell* desativ* pular desnecessári* esque* negeer* negeren overslaan uitschakel* pomi* wyłącz*
        """,
            "跳过|忽略|无需|关闭|无视|一律|スキップ|無視|無効|省略|削除|пропуска|игнорир|отключ|без |все",
        ),
    ),
    "give": Concept(
        words(r"""
        send* sent posts? posted posting upload* forward* mails? mailed mailing emails? emailed shares? shared copies
        copied copy pastes? pasted mirror* publish* submit* attach* ships? shipped goes belongs? travels? appears?
        hard-?cod\w* hands handed (?<!by_)hand gives? given giving collect* prints? printed dumps? dumped logs? logged
        repeat* quotes? puts? exports? stream* include[ds]? push\w* transfer* syncs? record[s]? stores? read loads?
        loaded transmit* leak* relay* deliver* pass(?:es|ed)?_on cc bcc feeds? expos* deposit* lands? ends?_up placed
        backed_up
        """),
        words(
            """
        übermittel* übertrag* mitgeschickt schick* geschickt send* gesendet gesandt hochlad* hochgeladen lad[et]?
        kopier* einfüg* geteilt veröffentlich* weiterleit* gib gelesen envoy* envoi* envoie* copi* publi* partag*
        transm* donn* env[ií]* subir sub[ae]* compart* pega[rn]* manda* da_acceso copia* invi[ao]* pubblic* condivid*
        caric* envi* partilh* stuur* verstuur* kopieer* wyślij wysył*
        """,
            "发送|上传|发给|提交|交给|送信|アップロード|отправ|загруз",
        ),
    ),
    "away": Concept(
        words(
            """
        gists? pastebin slack chat channel tickets? commit_messages? wiki answers? reply replies summary summaries
        readme query_string branch_names? screenshots? to_(?:me|us|him|her|them|whoever|anyone) vendor
        external_(?:server|host|party|drive|address|account) public drop_box shared_(?:drive|folder) inbox
        attachments? support telegram discord drop-?box google_drive third_party outside competitor partner agency
        in_an_issue (?:in|into)_issues trello jira confluence notion spreadsheet hard-?coded plain_text cleartext
        world-readable
        """,
            r"[\w.+-]{1,64}@[\w-]+\.\w|~/|(?<!\w)/tmp/|/etc/|#[a-z-]+|\b(?:our|my|their|a) (?:\w+ )?(?:server|"
            r"bucket|share|fork|channel|inbox)\b",
        ),
        words(
            r"""
        server servers? slack chat support öffentlich* antwort\w* réponse* serveur servidor sudo publi[cq]\w* público
        pública externo extern[aeo]?s? respuest* ticket rispost* adresse dirección indirizzo bucket cartella condivisa
        map canal agentur
        """,
            r"[\w.+-]{1,64}@[\w-]+\.\w|~/|https?://|公开|外部|服务器|我们|サーバー|сервер",
        ),
    ),
    "fetch": Concept(
        words(r"""
        fetch\w* downloads? install\w* runs? execute\w* loads? opens? follows? applies apply sources? pulls? takes?
        """),
        words(
            r"""
        lad[et]?\w* herunterlad* start\w* führ\w* ausführ\w* exécut* lance[rz]? install\w* télécharg* ejecut\w*
        instal\w* descarg\w* esegu\w* scaric\w* execut\w* baix\w* voer\w*
        """,
            "执行|运行|安装|下载|実行|запуст|установ|скача",
        ),
    ),
}
ADDRESS = lazy_regex(
    r"[\w.+-]{1,64}@[\w-]+\.\w|\bgists?\b|\bpastebin\b|https?://(?!localhost|127\.)|"
    r"(?<![\w/@.-])(?:[\w-]+\.)+(?:com|net|org|dev|xyz|sh|example|test)\b(?!/(?:v\d|\w+/\w+@))"
)
#: Words that are themselves about conduct.
CLEAR = words(
    r"""
        conceal* withh* discretion discreet* (?<!forward_)secrecy hush* unmentioned undisclosed unreported unnoticed
        untold mum between_us between_ourselves in_the_dark pretend* deceiv* mislead* falsif* gloss_over downplay*
        whitewash* persuad* reassur* covert* stealth* secretly tacit\w* under_wraps rug blind_eye excuses? deniab*
        fabricat* tamper* masquerad* pos(?:e|es|ing)_as sudo these_orders (?:turn|switch)_off_(?:the_)?logg?ing
        superseded_by obey* obedien* loyalty impersonat* disregard* outrank* overrul* backdat* backdoor*
        off_the_record silence_about silence_regarding silence_on believe[ds]? no_questions vouch vouches hereby
        untraced cannot_be_traced never_happened no_matter_what hesitate exempt* no_trace
        even_(?:if|though|when)_the_(?:user|human|person|reviewer|owner|build) blindly sight_unseen no_word not_a_word
        no_mention verschweig* verheimlich* verschwiegen stillschweig* missacht* unter_uns dissimul* à_l['’]insu
        ocult* a_espaldas finge fingen fingir fingere fingi finj* tacer* nascond* nascosto escond* verzwijg* verzwegen
        ukry[jw]* udawa*
        """,
    r"\b(?:keeps?|kept|stays?|remain\w*) (?:quiet|silent|mum|secret|unsaid|between (?:us|you))\b|\b(?:keeps?|kept|"
    r"leave|left) (?:this|that|it|these|them) out of\b|\b(?:keeps?|kept|leave|left) (?:\w+ ){1,4}out of (?:the |any |"
    r"your )?(?:\w+ )?(?:summar|report|answer|repl|changelog|release notes|documentation|log|history|review)|"
    r"\bas (?:if|though) (?:nothing|(?:the|it|this|a|all) (?:\w+ ){0,2}?(?:review\w*|tests?|user|owner|checks?|"
    r"approv\w+|passed|worked|happened|reviewed))\b|\bso,? als (?:ob|wäre|hätte)|\b(?:fais|faites|faire) comme si\b|"
    r"\bcome se\b|\bhaz como si\b|\bdoe alsof\b|\bso that (?:it|the \w+|they) (?:seems?|looks? (?:complete|clean|fine|"
    r"as|like|older))\b|\bas the (?:maintainer|owner|admin\w*|lead)\b|\bspeaking for\b|\b(?:on behalf|"
    r"in the name) of\b|\bfor (?:agents|assistants|bots) only\b|\bhouse rules?\b|\bexceptions? to the rule\b|"
    r"\b(?:answers?|repl(?:y|ies)|suggestions?|advice|recommendations?) to the (?:user|customer|person)\b|\b(?:this|"
    r"these) (?:memor(?:y|ies)|notes?|pack)\b|\b(?:comments?|issues?|messages?|lines?|notes?|"
    r"tickets?)\b[^.\n]{0,40}\b(?:are|is) (?:to be )?(?:executed|obeyed|followed|carried out)\b(?! by)|\bcarry (?:it|"
    r"them|that|this) out\b|\bfollow what\b|\b(?:sag\w*|zeg\w*|dis|dites|di|diga|dile|dica|"
    r"erzähl\w*)\b[^.\n]{0,40}\b(?:dass|dat|que|che)\b|\b(?:accept|approve|trust|believe|confirm|"
    r"click)(?:ing)? (?:every|any|all|each|whatever)\b|\bself-approv|\bwhether (?:it|they) (?:is|are|was|were|"
    r"did) or not\b|\bno (?:\w+ ){0,2}?(?:look|check|review|approval|question|confirmation|permission|consent|asking|"
    r"sign-off)\w*(?: \w+){0,3} (?:is|are) (?:needed|required|necessary|wanted)\b|\bnobody (?:will|needs?|has|must|"
    r"should|wants?)\b|\bno one (?:will|needs?|has|must|should|wants?)\b|\bnormal practice\b|\b(?:à cacher|cacher|"
    r"cachez)\b|\balles? (?:in ordnung|gut|grün|geklappt)\b|\btout va bien\b|\btodo (?:está|funciona|va)\b|"
    r"\btutto (?:va|è|bene)\b|内緒|秘密に|隐瞒|瞒着|保密|假装|скрыва|скрыть|скрой|умалчива|притвор|黙って|ふりを|"
    r"\b(?:delet|remov|eras|wip|purg|drop)\w*(?: of)? (?:the |all |any |every |failing |red |old |"
    r"entries of )*(?:tests?|audit\w*|logs?|history|backups?|assertions?|checks?|warnings?|hooks?|"
    r"evidence)\b(?! (?:data|file|folder|table|user|fixture|database|container|older|after))|\b(?:tests?|audit\w*|"
    r"assertions?|checks|backups?)\b[^.\n]{0,40}\b(?:be|are|is|get|gets) (?:deleted|removed|erased|wiped|dropped)\b|"
    r"\bwithout (?:an? |any |the |further |prior )*(?:review|approval|confirmation|supervision|question|sign-off|"
    r"consent|look)|\b(?:fail\w*|crash\w*|errors?|red|broken|outage|incident|scan|migration|"
    r"audit)\b[^.\n]{0,60}\bas (?:an? )?(?:pass\w*|success\w*|green|done|ok|fine|clean|tested|reviewed|complete)\b|"
    r"\b(?:report|say|state|claim|mark|show)\w*\b[^.\n]{0,30}\b(?:success|pass\w*|green|done)\b[^.\n]{0,20}\b(?:even|"
    r"although|regardless)\b|\brm -\w*[rf]\w* (?!\W*(?:node_modules|dist|build|target|out))|\bchmod (?:-r )?0?777|"
    r"\b(?:would|could|can|will|won['’]t) you\b|\b(?:not an?|no) reason (?:to (?:stop|ask|wait|tell|worry)|"
    r"for (?:stopping|asking))\b|\bneeds? no (?:look|check|review|question|approval|further)\b|\b(?:say|says|said|"
    r"saying) nothing\b|\b(?:answer|reply|respond)\w* with [\x22“‘']",
)
NEGATION = words(
    """
        not never no nothing none nobody no_one without cannot neither nor hardly nicht nichts kein* nie niemand* ohne
        ne pas rien jamais personne sans nunca nada nadie sin non mai niente nessuno senza não nem ninguém sem niet
        niets geen nooit zonder niczego bez
        """,
    r"n['’]t\b|不|别|勿|ない|ません|(?<!\w)не\b|ни ",
)
#: Words for protecting secrets, or for describing them.
CARE = words("""
        rotat* encrypt* hash hashes hashed hashing mask* redact* revok* expires? expired vault kms sops sealed
        validate* decod* compar* scoped? headers? bearer httponly refresh* short-lived issue[sd]? prefix* salt* deriv*
        opaque lexer parser tokenizer argon2* bcrypt injected mount* come comes come_from stored kept lives? is are
        was were signs? signed payload as_a_file not never read reads parse* count* limit* has have
        """)
CARE_ELSEWHERE = lazy_regex(
    r"vault|argon2|bcrypt|kms|header|verschlüssel|gehasht|rotier|\b(?:nie|nicht|niemals|kein\w*|jamais|ne|nunca|"
    r"jamás|no|non|mai|não|niet|nooit|geen)\b|chiffr|cifra|存储|加密|不|ない|никогда"
)
#: Words that request oversight, or describe where it takes place.
ASKED = words("""
        ask* get gets request* require[sd]? required wait* obtain* run runs add adds keep* enable[sd]? follow*
        respect* needs? needed must should has have live lives stored named computed derived checked happens? happen
        enforce[sd]? pass passes covers? before with confirm* two-step validate* verif* sign* handled handles written
        resolved kept in_the contains? shows? defined sent set send store[sd]? expires? come comes return[s]? not
        never stay[s]? test* belongs?
        """)
#: Verbs with which a sentence without an article may begin an order.
VERBS = frozenset(
    """
    accept act add adjust agree alert allow announce answer append apply approve ask assign assume assure attach
    authenticate avoid backdate batch begin behave believe block book borrow bother break bring build bump
    bypass cache call cancel care carry catch change charge check choose clean clear clone close collect come
    comment commit compare compile complain comply compress compute conceal configure confirm connect consult
    continue convert convince copy create cut deactivate debug decide declare decline decode define delay
    delegate delete deny deploy describe destroy disable disclose discuss display dismiss disregard disturb
    divide document download drop dump edit email embed emit empty enable encode encrypt end enforce ensure
    enter erase escalate escape evade exclude excuse execute exempt expect explain export expose extend extract
    fake fall feed feel fetch fill filter find finish fix flush fold follow force forge forget format forward
    generate get give go grant group grow guess guide hand handle hash help hide hold hurry identify ignore
    impersonate import include increase index inform inject insert insist inspect install invite invoke join
    jump keep kill know label launch lay lead learn leave lend let lie limit list listen load lock log look loop
    lower maintain make manage map mark mask measure mention merge migrate mirror mislead mock model modify
    monitor mount move mute name nest note notify obey obtain offer omit open optimize order override overrule
    overwrite own paginate parse pass paste patch pause pay persuade pick pin pipe place plan play point poll
    post prefer prepare present preserve press pretend prevent print process produce prove provide publish pull
    purge push put query queue quote raise read reassure rebase rebuild recommend record redact redirect reduce
    refactor refer refuse register reject relax release reload rely remember remind remove rename render repeat
    replace reply report request require rerun reset resolve respect respond restart restore restrict retry
    return reuse reveal revert review revoke rewrite roll rotate round route run save say scan schedule search
    see select send separate serve set share ship show sign silence simulate skip soften sort speak split squash
    stack start state stay stop store stream strip submit suggest suppress swap switch sync tag take talk tell
    terminate test think throw tidy touch track transfer translate transmit treat trigger trim trust try turn
    type unlock unset update upgrade upload use validate vary verify view visit vouch wait waive warn watch wipe
    withhold work wrap write zip
    """.split()
)
#: Things that projects are made of, in the singular; words ending in -y, -e or -s are also listed without that ending.
PROJECT = frozenset(
    """
    abstraction accessor adapter alias alpine anchor anonymous ansible api app application architecture argument
    array artifact asset async attribut attribute aws azure backend backup badge banner baseline bash bastion
    batch benchmark binary black blob block board body boolean bootstrap boundary box branch breakpoint browser
    buffer bug build builder bundle bundler button byte ca cach cache callback canvas card caret case cdn celery
    cell cent certificate char chart checkbox checksum chunk ci class cleanup cli client clock cluster code
    codebase codec codecov codegen coercion collection color colour column comma command comment commit compiler
    component composer composition comprehension condition config configuration connection connector constant
    constraint constructor container context contract controller conversion converter cookie copyright core
    coroutine counter coverage cpu crash crate cron css csv currency cursor cypress dart dashboard data databas
    database dataframe dataset date datetime deadlock debug debugger decimal declaration decorator default
    dependenc dependency deploy deployment deprecation descriptor design desktop diagram dialog dictionary diff
    directive directory django doc docker dockerfile docstring doctest documentation domain dot double download
    draft driver dropdown dto duplicate duration editor element email embedding emitter emoji encoder encoding
    endpoint engine entity entries entry enum env environment error escape eslint eval event example exception
    exchange exit export expression extension facade factory fallback feature field file filename filter fixture
    flag flask float fold folder font footer form format formatter fragment framework frontend function functor
    fuzz gateway generator generic getter git github gitlab global go gradle grafana grammar graph graphql grid
    group grpc guide handler hash header heading helm helper hook host html http https icon id idempotent
    identifier image import indent index inheritance initializer inject inline input insert installer instance
    integer integration interceptor interface internal interpreter invalidation invariant invoice isolation item
    iteration iterator java javascript jest job join json junit kafka kernel key keyword kotlin kubernetes label
    lambda language latency layer layout lazy leaf ledger library licence license limit line link lint linter
    list listener literal loader local locale lock lockfile log logger logging loop machine macro main makefile
    manifest map markdown master memoiz merge mesh message metadata method metric middleware migration milestone
    minor mixin mobile mock modal mode model module money monorepo mount mutex mypy mysql name namespace naming
    network newline nginx node notification npm null number numpy object observer offset openapi operator option
    order orm os output overflow packag package padding page pagination pandas panel panic parameter parent
    parser partition patch path pattern payload payment peer performance php pip pipeline pixel placeholder
    platform playwright plugin pnpm pod pointer policy poll pool pooling popup port postgres precision prefix
    prettier preview price prices primitive print priority process processor producer production profiler
    program project prometheus promise prop property protobuf protocol prototype provider proxy pytest python
    query queue rabbitmq race rail rails range rate react reader readme rebas rebase receipt record recursion
    redis redux refactor reference regex region registry regression relation release renderer replica
    replication repo report repository request reset resolver resource response rest result retention retrie
    retry revision role rollback root route router routing row ruby ruff rule runner runtime rust s3 sample
    sandbox scaffold scala schedule schema scope screen script scroll sdk search section seed segment select
    selector semantic semver sentry serializer server servic service session setter setting settings shell
    sidebar signal signature singleton size skeleton slot snapshot snippet socket sort source space spec spinner
    sql sqlite squash sso stack stag staging state statement static status step storag storage store stream
    string struct structur structure stub submit style stylesheet subclass submodule subprocess subscription suffix
    suite svelte svg swagger swift switch symbol sync syntax system tab table tag tailwind target task tcp team
    telemetry templat template tenant terraform test text theme thread throttl throttle throughput ticket tim
    time timeout timestamp timezone tls toggle tokenizer toml tool tooltip topic trac trace tracing trait
    transaction transform translation transpil tree trigger tuple tutorial typ type typescript typing ui undo
    unit upgrade url utc utility uuid uv validation validator value variabl variable vector vendor version view
    virtualenv vite vitest volume vue warning watcher webhook webpack websocket weight whitespace widget width
    wiki window windows worker workflow workspace wrapper xml yaml yarn zod zone
    """.split()
)
