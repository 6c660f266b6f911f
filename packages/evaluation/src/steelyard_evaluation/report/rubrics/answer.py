"""The one place that says what of a model's text is its answer, and when two values are equal.

Every rubric, the judges' questions and verdicts, and lm-eval's tasks ask it here. docs/answers.md has its rules; the
tables of that page are the test of this module.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite, isnan

_TAGS = r"(?:seed:)?(?:think|thinking|thought|reasoning)"
_THOUGHTS = re.compile(
    rf"<{_TAGS}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|begin_of_thought\|>|<\|inner_prefix\|>|<\|channel>thought"
    rf"|(?P<closing></{_TAGS}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|end_of_thought\|>|<\|inner_suffix\|>|<channel\|>)",
    re.IGNORECASE,
)
"""Marks around thoughts: those of Qwen, DeepSeek and most others, of EXAONE, Seed, Magistral, Kimi, Command, Sky-T1,
Apertus and Gemma.
"""
_FIRST = ("<", "[", "◁")
"""First characters of all marks: a text without them is not searched, which takes a hundred times as long."""
_WORDS = ("analysis", "commentary", "Here")
"""Beginnings of thoughts whose marks are words: gpt-oss without its special tokens, and Granite."""
_CHANNEL = re.compile(
    r"(?:<\|start\|>)?(?:assistant)?<\|channel\|>(?P<name>\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_BARE_CHANNEL = re.compile(r"\A(?P<name>analysis|commentary)|assistant(?P<later>analysis|commentary|final)")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start)\|>")
_GRANITE = re.compile(r"Here(?:'s| is) my thought process:.*?Here(?:'s| is) my response:(.*)", re.DOTALL)
_FRAME = re.compile(
    r"\A\s*<\|(?:begin_of_solution|START_RESPONSE)\|>|<\|(?:end_of_solution|END_RESPONSE)\|>\s*\Z",
    re.IGNORECASE,
)
"""Marks around the answer that follows thoughts."""
_QUOTES = "`'\"“”‘’«»"
_ENDS = ".!?:;。！？：…)*_"
_GOES_ON = re.compile(r"[.,;:!?)]| [^\W\d_A-Z]")
_SENTENCE = 200
"""Characters before a mark in which a sentence is looked for."""
_NUMERAL = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}:[0-9]{2}")
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0+")


def final_part(text: str) -> str | None:
    """Return the answer without the thoughts before and within it; None if they never end.

    The answer is what follows the last thought. If nothing follows it, it is what precedes the thoughts.
    """
    if any(first in text for first in _FIRST):
        return _in_channel(text) if _has_channels(text) else _outside_marks(text)
    begins = text[:_SENTENCE].lstrip()
    return _after_words(text.strip(), text) if begins.startswith(_WORDS) else text


def _has_channels(text: str) -> bool:
    """Return whether a text is in the format of gpt-oss (harmony), and does not just mention it."""
    return "<|start|>assistant<|channel|>" in text or bool(_CHANNEL.match(text.lstrip()))


def _in_channel(text: str) -> str | None:
    final = [mark for mark in _CHANNEL.finditer(text) if mark["name"] == "final"]
    return _CHANNEL_END.split(text[final[-1].end() :], maxsplit=1)[0].strip() if final else None


def _after_words(bare: str, text: str) -> str | None:
    """Return what follows thoughts whose marks are words; the text itself if it only begins with such a word."""
    if granite := _GRANITE.fullmatch(bare):
        return granite[1].strip()
    final = [mark for mark in _BARE_CHANNEL.finditer(bare) if mark["later"] == "final"]
    if final and not bare.startswith("Here"):
        return bare[final[-1].end() :].strip()
    # "analysisWe need …" was cut off; "Analysis: …" and "analysis of …" are answers.
    return None if bare.startswith("analysis") and bare[8:9].isupper() else text


def _outside_marks(text: str) -> str | None:
    marks = [mark for mark in _THOUGHTS.finditer(text) if not _is_quoted(text, mark)]
    if not marks:
        return text
    last_closing = max((mark.start() for mark in marks if mark["closing"]), default=-1)
    parts: list[str] = []
    start, thinking, thought, nested = 0, False, False, 0
    fences, place = 0, 0
    for mark in marks:
        fences += text.count("```", place, mark.start())
        place = mark.end()
        if thinking and mark["closing"]:
            thinking, thought, start, fences = False, True, mark.end(), 0
        elif thinking:
            nested += 1
        # In a block of code of the answer, or a word of its sentence: "put it between <think> and </think>."
        elif fences % 2 or (not nested and _is_word(text, start, mark)):
            continue
        elif mark["closing"]:
            # Some servers strip the opening mark, as it is part of the prompt's template: all before is a thought.
            if not (thought and not nested and _in_sentence(text, start, mark)):
                parts.clear()
                nested, thought, start = max(nested - 1, 0), True, mark.end()
        # A model that is cut off while it thinks began to do so first, or after a sentence: within one, it mentions it.
        elif not (mark.start() > last_closing and _in_sentence(text, start, mark)):
            parts.append(text[start : mark.start()])
            thinking = True
    if thinking:
        return None
    answers = (_FRAME.sub("", part).strip() for part in reversed([*parts, text[start:]]))
    return next((answer for answer in answers if answer), "")


def _is_word(text: str, start: int, mark: re.Match[str]) -> bool:
    """Return whether a mark stands like a word in the middle of a sentence, which goes on or ends behind it."""
    before = text[max(mark.start() - 1, 0) : mark.start()]
    return before == " " and bool(_GOES_ON.match(text, mark.end())) and _in_sentence(text, start, mark)


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    around = text[max(mark.start() - 1, 0) : mark.start()], text[mark.end() : mark.end() + 1]
    return all(character and character in _QUOTES for character in around)


def _in_sentence(text: str, start: int, mark: re.Match[str]) -> bool:
    """Return whether a mark stands within a sentence of the part that begins at `start`."""
    line = text[max(start, mark.start() - _SENTENCE) : mark.start()].rpartition("\n")[2].rstrip()
    return bool(line) and line[-1] not in _ENDS


def answer_in(text: str) -> str:
    """Return the text of an answer without thoughts; empty if there is nothing else."""
    return final_part(text) or ""


def is_missing(value: object) -> bool:
    """Return whether a file has no value here: null, or the NaN that pandas writes for it."""
    return value is None or (isinstance(value, float) and isnan(value))


def is_blank(text: str) -> bool:
    return not text.strip()


def to_text(value: object) -> str:
    """Return a value as text: 3, 3.0, a decimal 3.00 and "3" give the same."""
    match value:
        case str():
            return value
        # Before numbers, since a boolean is one; as JSON writes it.
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return _number_text(value)
        case bytes():
            return _bytes_text(value)
        case date() | time():
            return _moment_text(value)
        case list() | tuple() | dict() | None:
            return json.dumps(value, ensure_ascii=False, default=to_text)
        case _:
            return str(value)


def comparison_label(value: object, other: object) -> str:
    """Return the text by which `value` is compared with `other`: it is the same for both if the values are equal.

    Text is compared as text: 3.10 and 3.1 are different versions of a program. Where the other value's type says that
    it is a number, a boolean or a time, a text that is one is compared as such.
    """
    if isinstance(value, bytes):
        value = _bytes_text(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    if not isinstance(value, str):
        return to_text(value)
    bare = value.strip()
    if not bare:  # texts of white space are one: the empty text
        return bare
    match other:
        case bool():
            return bare.casefold() if is_truth(bare) else value
        case int() | float() | Decimal() if _NUMERAL.fullmatch(bare):
            return _number_text(Decimal(bare))
        case date() | time() if (moment := _moment_in(bare, other)) is not None:
            return comparison_label(moment, None)
    # Programs make floats of whole numbers wherever one row of a column is empty, and write them as such.
    whole = _WHOLE.fullmatch(bare)
    return whole[1] if whole else value


def label_of_any_type(text: str) -> str:
    """Return the label of a text as if the other value had the type that the text has: number, boolean or time."""
    if is_numeral(text):
        return comparison_label(text, 0)
    if is_truth(text):
        return comparison_label(text, True)
    return comparison_label(text, _moment_type(text.strip()) if is_moment(text) else "")


def are_equal(said: object, true: object, form: Callable[[str], str] = str) -> bool:
    """Return whether two values are equal, whatever types their files give them.

    `form` is the normalisation by which texts are compared. An empty answer is equal to an empty target alone, and an
    empty target to an empty answer, whatever the normalisation leaves of other texts.
    """
    if is_missing(said) or is_missing(true):
        return False
    one, other = comparison_label(said, true), comparison_label(true, said)
    if is_blank(one) or is_blank(other):
        return is_blank(one) and is_blank(other)
    same = form(one)
    return not is_blank(same) and same == form(other)


def is_numeral(text: str) -> bool:
    """Return whether a text is a plain number, as programs write it."""
    return bool(_NUMERAL.fullmatch(text.strip()))


def is_truth(text: str) -> bool:
    """Return whether a text is a boolean, as programs write it."""
    return text.strip().casefold() in ("true", "false")


def is_moment(text: str) -> bool:
    """Return whether a text is a date or a time of a day in ISO's notation with its signs, such as 2024-05-01."""
    bare = text.strip()
    if not _MOMENT.match(bare):
        return False
    return _moment_in(bare, _moment_type(bare)) is not None


def _moment_type(bare: str) -> date | time:
    """Return a time of a day or a date, as the text of a moment is one."""
    return time() if ":" in bare[:3] else date.min


def _number_text(value: float | Decimal) -> str:
    """Return the shortest decimal notation of a number."""
    if isinstance(value, int):
        return str(value)
    if not (value.is_finite() if isinstance(value, Decimal) else isfinite(value)):
        return str(value).lower()
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _moment_text(value: date | time) -> str:
    if isinstance(value, time):
        return value.isoformat("auto" if value.second or value.microsecond else "minutes")
    if not isinstance(value, datetime):
        return value.isoformat()
    # pandas has no dates: it writes them as the midnight at which they begin.
    midnight = value.tzinfo is None and value.time() == time()
    return value.date().isoformat() if midnight else value.isoformat(" ")


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def _moment_in(text: str, like: date | time) -> date | time | None:
    """Return the time that a text in ISO's notation stands for; None for other texts."""
    try:
        if isinstance(like, time):
            return time.fromisoformat(text) if ":" in text else None
        return datetime.fromisoformat(text)
    except ValueError:
        return None
