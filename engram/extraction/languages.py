"""Cue words of languages other than English, as data: a few for each, so that no directive and no fix is lost.

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
    #: Wordings that hold for the current task only, or of somebody who does not know.
    passing: str
    #: What binds a sentence to this code base.
    local: str
    #: All projects of the user.
    universal: str
    cause: str
    problem: str
    repair: str
    is_spaced: bool = True


LANGUAGES = {
    "de": Language(
        lasting=r"immer|niemals|nie(?: wieder)?|ab (?:jetzt|sofort)|von (?:jetzt|nun) an|künftig|in zukunft|"
        r"grundsätzlich|jedes ?mal|merk dir",
        order=r"bitte (?:kein\w*|nicht|verwende|benutze|nimm)|(?:verwende|benutze|nutze|nimm) .{2,60} (?:statt|anstatt|"
        r"anstelle)|vermeide|achte darauf|stell(?:e)? sicher|ich (?:bevorzuge|möchte lieber|will kein\w*)",
        decides=r"wir (?:verwenden|benutzen|nutzen|setzen|nehmen|haben uns)",
        passing=r"vorerst|erst ?mal|für den moment|gerade|heute|diesmal|noch nicht|ich weiß nicht|keine ahnung",
        local=r"hier|dies\w* (?:projekt|repo\w*|datei|code)|unser\w*",
        universal=r"(?:in |für |bei )?(?:allen|jedem|jedes) (?:meiner |meinen |unserer )?(?:projekt\w*|repo\w*)|"
        r"überall",
        cause=r"weil|ursache|deshalb|dadurch|aufgrund|grund (?:war|ist)|lag an|liegt an",
        problem=r"fehler|fehlte|fehlgeschlagen|schlug fehl|schlägt fehl|kaputt|falsch\w*|veraltet\w*|"
        r"ging nicht|geht nicht",
        repair=r"behoben|korrigiert|repariert|gelöst|jetzt geht|funktioniert (?:jetzt|wieder)",
    ),
    "es": Language(
        lasting=r"siempre|nunca|jamás|a partir de ahora|de ahora en adelante|en el futuro|cada vez que|recuerda que",
        order=r"por favor,? no \w+|^no (?:uses|hagas|pongas|toques|cambies|escribas|agregues|añadas|subas|"
        r"borres|edites)|"
        r"(?:usa|utiliza) .{2,60} en (?:vez|lugar) de|evita|asegúrate|prefiero|no quiero",
        decides=r"(?:usamos|utilizamos|preferimos|decidimos)",
        passing=r"por ahora|de momento|por el momento|hoy|esta vez|todavía no|no sé|aún no",
        local=r"aquí|est[ae] (?:proyecto|repo\w*|archivo|código)|nuestr\w+",
        universal=r"(?:en )?todos (?:los|mis) (?:proyectos|repositorios)|en cualquier proyecto|en todas partes",
        cause=r"porque|debido a|ya que|por eso|la causa|el motivo|causad[oa] por",
        problem=r"fallo|falló|fallaba|falla|roto|rota|faltaba|incorrect[oa]|obsolet[oa]|no funcionaba",
        repair=r"arreglad[oa]|corregid[oa]|solucionad[oa]|resuelt[oa]|ya funciona",
    ),
    "ja": Language(
        lasting=r"必ず|常に|いつも|絶対に|決して|今後|これからは|これからも|毎回|以後",
        order=r"しないで|使わないで|書かないで|ようにして|ではなく|の代わりに|禁止|避けて",
        decides=r"(?:使います|使っています|採用しました|に決めました|にしました)",
        passing=r"とりあえず|今は|今回は|まだ|一旦|わからない|分からない",
        local=r"この(?:プロジェクト|リポジトリ|ファイル|コード)|ここでは",
        universal=r"(?:すべて|全て|全部|どの)の?プロジェクト",
        cause=r"原因|ため|ので|から(?=、|。)|理由",
        problem=r"失敗|エラー|不具合|バグ|壊れ|間違|古い|抜けて|ありませんでした",
        repair=r"修正|直しました|直った|解決|対応しました",
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
LOCAL = pattern(lambda language: language.local)
UNIVERSAL = pattern(lambda language: language.universal)
CAUSE = pattern(lambda language: language.cause)
PROBLEM = pattern(lambda language: language.problem)
REPAIR = pattern(lambda language: language.repair)


def word_count(text: str) -> int:
    """Return the number of words; letters of a script without spaces count as half a word."""
    letters = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + -(-letters // LETTERS_PER_WORD) if letters else len(text.split())


def sentences_of(statement: str) -> list[str]:
    """Return the sentences of a statement in a script without spaces; any other statement is one sentence."""
    return [part.strip() for part in _FULL_STOP.split(statement) if part.strip()]
