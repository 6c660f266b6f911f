"""Finds the statements of an answer: "The answer is", "Answer:", "Final answer:", in several languages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NOUNS = (
    "answers?|antwort|réponse|respuesta|resposta|risposta|odpowiedź|antwoord|svar|ответ|答案|答え|正解|정답"
)
_STEMS = _NOUNS.replace("s?", "").split("|")
_VERBS = (
    "(?:is|are|was|would be|should be|must be|equals|correcta es|ist|est|es|é|è)(?![a-z])|是|は|為|为|는|은"
)
_ANSWER = re.compile(
    rf"(?<![^\W\d_])(?:{_NOUNS})(?![a-z])(?:\(s\))?['\")\]]{{0,2}}\s{{0,3}}(?:({_VERBS})\s{{0,3}})?"
)
"""Letters of other scripts may stand right before the noun, which has no spaces around it in some of them."""
_SUPPOSED = re.compile(
    r"\b(?:if|unless|whether|suppose|assuming|say|not|isn't|no|wrong|incorrect|why)\s(?:[\w']+\s){0,3}\Z",
    re.I,
)
_OPENING = re.compile(
    r"""[\s:=>"'“”(\[{]{0,10}?
    (?:(?:about|approximately|roughly|around|exactly|simply|just|only|thus|therefore|≈|~|\\approx|[A-Za-z]\w?\s?=)\s?){0,2}
    (?=[-+]?\s?\.?[0-9\\])""",
    re.VERBOSE | re.IGNORECASE,
)
_REACH = 300  # characters after the words that are read
_MOST = 50  # statements that are read, from the last one back


def number_opening(clause: str) -> int | None:
    """Return the position of the number that a clause opens with; None if it opens with anything else."""
    match = _OPENING.match(clause)
    return None if match is None else match.end()


@dataclass(frozen=True)
class Statement:
    """Words such as "the answer is": their position, and the text after them."""

    position: int
    rest: str
    explicit: bool
    """True if a verb, a colon or a new line follows the noun: "the answers 5 people gave" states no number."""


def statements(text: str) -> list[Statement]:
    """Return the statements of a text, without suppositions ("if the answer is")."""
    lowered = text.lower() if text.isascii() else "".join(map(_lower, text))
    if not any(noun in lowered for noun in _STEMS):
        return []
    return [
        Statement(match.start(), rest, bool(match[1]) or "\n" in match[0] or rest[:1] in tuple(":=>\n"))
        for match in list(_ANSWER.finditer(lowered))[-_MOST:]
        if not _SUPPOSED.search(text[max(0, match.start() - 60) : match.start()])
        for rest in [text[match.end() : match.end() + _REACH]]
    ]


def explicit_statements(text: str) -> Iterator[str]:
    """Yield the texts of the explicit statements, from the last one back."""
    for statement in reversed(statements(text)):
        if statement.explicit:
            yield statement.rest.lstrip(" \n\t:=>\"'")


def _lower(character: str) -> str:
    """Return exactly one lower-case character, so that positions in the text stay the same."""
    return lower if len(lower := character.lower()) == 1 else character
