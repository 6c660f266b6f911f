"""Regular expressions with which `option_reading` finds letters of options, and words that choose or reject them."""

import functools
import re
from dataclasses import dataclass

_OPENS = r"[\s\"'“”‘’(\[{<:=>,-]{0,8}"
_KINDS = r"(?:options?|choices?|letters?|alternatives?|answers?)"
_WRONG = (
    r"(?:is|are|was|were|seems?|looks?|would be|can be|can|could|must be|has been|as)(?:n't|\s(?:not|never))\b"
    r"|(?:is|are|was|were|seems?|looks?|would be|can be|must be|has been|as)\s(?:\w+\s){0,2}?"
    r"(?:incorrect|wrong|false|inaccurate|eliminated|excluded|invalid|impossible|unlikely|out|untrue)\b"
    r"|can't\b|cannot\b|does(?:n't| not)\b"
)
_RIGHT = r"is\s(?:\w+\s){0,3}?(?:correct|right|true|best|answer|one|choice|accurate)\b"
_REJECTED = (
    r"(?:not|n't|nor|neither|eliminates?|rule[sd]? out|excludes?|rejects?|discards?"
    r"|than|instead of|except|unlike)"
)
_AFTER_A = (
    r"(?:because|since|as|for|and|or|but|which|due|from|based|not|is|are|was|seems|looks|can|cannot|must|\W)"
)
_CHOSEN = (
    r"(?:i(?:'d|'ll| would| will)?\s(?:\w+\s)?(?:say|choose|chose|pick|select|guess|vote for|go with|answer)"
    r"|(?:i\s(?:think|believe|guess)\s|so\s|thus,?\s|therefore,?\s|hence,?\s|wait,?\s|no,?\s|actually,?\s)"
    r"(?:that\s)?(?:it(?:'s|\sis|\smust be|\sshould be)\s)?"
    r"|(?:it|that)(?:'s|\sis|\smust be|\sshould be|\shas to be)|going with|go with|choose|select|pick"
    r"|my (?:choice|pick|guess|selection)(?:\sis)?:?|must be"
    r"|(?:correct|best|right) (?:one|choice|option|letter) is:?|letter is:?|→|=>)"
)


@dataclass(frozen=True)
class Patterns:
    """The patterns of one set of letters. Every repetition is bounded, so that no answer takes long."""

    any: re.Pattern[str]
    letter: re.Pattern[str]
    several: re.Pattern[str]
    alone: re.Pattern[str]
    last: re.Pattern[str]
    restated: re.Pattern[str]
    rejected: tuple[re.Pattern[str], ...]
    chosen: tuple[re.Pattern[str], ...]
    mentioned: re.Pattern[str]


@functools.cache
def patterns(letters: str) -> Patterns:
    some, capital = f"[{letters}{letters.lower()}]", f"[{letters}]"
    stops = r"(?=[)\]}\"'”’.,;:!?\n/]|\s*\Z)(?![.,][0-9])(?!['’][A-Za-z])"
    # "A dog" and "I think" begin with words, not with letters of options
    clear = rf"(?![\w'’]|[.,][0-9])(?:(?<![AI])|(?=\s*\Z|[^\s]|\s+{_AFTER_A}|\n))"
    word = rf"(?>{capital}{clear}|{some}{stops})"  # atomic: a list of them is read in one way
    closed = r"[)\]}\"'”’]{0,3}+"
    joint = r"\s?(?:,|/|&|,?\s?\band\b|,?\s?\bor\b|\bnor\b)\s?"
    a_list = rf"\(?{word}{closed}(?:{joint}(?:{_KINDS}\s)?\(?{word}{closed}){{0,9}}+"
    named = rf"(?<![\w'’.-])(?:(?i:{_KINDS})\s{{1,3}})?({a_list})"
    return Patterns(
        letter=re.compile(rf"{_OPENS}(?:(?i:the\s)?(?i:{_KINDS})\s{{1,3}})?{_OPENS}({word})"),
        several=re.compile(
            rf"{closed}\s?(?:,\s?(?:and|or)\b|,|/|&|\band\b|\bor\b)\s?(?:(?i:{_KINDS})\s)?[(\[]?({capital})(?=[)\]}}\"'.,;:!?\n]|\s*\Z|\s(?:and|or|are)\b)"
        ),
        alone=re.compile(
            rf"\s*[>\s]{{0,4}}[\"'\[({{<]{{0,4}}({some})(?:[)\]}}.:\"'>]+(?:\s|\Z)|\s*\Z|\s*[)\]}}.:](?![0-9])|\n|,\s|\s[-—–]\s|\s(?=or\b|and\b|because\b)|/)"
        ),
        last=re.compile(
            rf"(?:[.!?:;,]\s|\n)\s*(?:[-—>]\s?)?[\"'\[({{]{{0,3}}({capital})[)\]}}\"']{{0,3}}[.!]?\s*\Z"
        ),
        restated=re.compile(rf"(?:(?<=\n)|\A|(?<=[\s,;:]))\(?({capital})[).:\]]\s"),
        rejected=(
            re.compile(
                rf"{named}(?:\s\([^()\n]{{0,60}}\)|,[^.,\n]{{0,60}},)?\s(?:[\w'-]+\s){{0,2}}?(?:{_WRONG})"
            ),
            re.compile(rf"(?i:\b{_REJECTED})\s(?:(?i:the|be)\s)?{named}"),
        ),
        any=re.compile(rf"(?<![\w'’.-]){word}"),
        chosen=(
            re.compile(rf"{named}\s{{0,3}},?\s?(?:[\w'-]+\s){{0,3}}?(?:{_RIGHT})"),
            re.compile(
                rf"(?i:(?<![\w'’]){_CHOSEN})[\s:]{{0,3}}(?:(?i:definitely|probably|clearly|that|the)\s)?{named}"
            ),
        ),
        mentioned=re.compile(
            rf"\(({capital})\)|(?<!\w)(?i:options?|choices?)\s{{1,3}}\(?({capital})(?![\w'’])"
        ),
    )
