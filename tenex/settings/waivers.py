"""Words that say, in several languages, that a check may be left out.

A router that wants to waive a quality gate must quote a person, and the quote must hold one of these
(`core.gates.proof_of_waiver`). They are matched without case, as whole words where they begin and end with Latin
letters. Phrases rather than single words wherever the language allows it: a bare "no" or "without" says nothing.

Never: a phrase that people also use when they ask for more checking.
"""

from typing import Final

WAIVER_PHRASES: Final[tuple[str, ...]] = (
    # English
    "skip",
    "leave out",
    "no need to",
    "don't need to",
    "do not need to",
    "don't bother",
    "do not bother",
    "no verification",
    "without verification",
    "no tests",
    "without tests",
    "without testing",
    # German
    "überspring",
    "überspringe",
    "überspringen",
    "auslassen",
    "nicht nötig",
    "nicht notwendig",
    "ohne prüfung",
    "ohne test",
    "ohne tests",
    # Spanish
    "salta",
    "sáltate",
    "saltar",
    "omite",
    "omitir",
    "no hace falta",
    "sin verificación",
    "sin pruebas",
    # French
    "saute",
    "sauter",
    "passe la vérification",
    "pas besoin de",
    "pas la peine",
    "sans vérification",
    "sans tests",
    # Portuguese
    "pule",
    "pular",
    "salte",
    "não precisa",
    "não é preciso",
    "sem verificação",
    "sem testes",
    # Italian
    "salta la verifica",
    "saltare",
    "ometti",
    "non serve",
    "non c'è bisogno",
    "senza verifica",
    "senza test",
    # Dutch
    "overslaan",
    "sla over",
    "niet nodig",
    "zonder tests",
    # Polish
    "pomiń",
    "nie trzeba",
    "bez testów",
    # Russian
    "пропусти",
    "пропустить",
    "не нужно",
    "без проверки",
    "без тестов",
    # Japanese
    "スキップ",
    "省略",
    "飛ばして",
    "検証は不要",
    "テストは不要",
    # Chinese
    "跳过",
    "跳過",
    "略过",
    "不用测试",
    "不用验证",
    "不需要验证",
    # Korean
    "건너뛰",
    "생략",
)
