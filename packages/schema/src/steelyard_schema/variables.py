"""Variables of a container, `$(NAME)` in its texts, and how large they become: known before anything is made.

The kubelet expands by this, the API servers refuse by it what no Linux could start.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from steelyard_schema.bounds import ARGUMENT_BYTES

START_BYTES = 2 << 20
"""Most bytes of all arguments and variables with which Linux starts a program (a quarter of its stack of 8 MiB)."""
_REFERENCE = re.compile(r"\$(\$|\(([^()\s]*)\))")


class TooLarge(Exception):
    """A text or a sum of texts would take more bytes than a program can be started with."""


def expand(text: str, known: Mapping[str, str], most: int = ARGUMENT_BYTES) -> str:
    """`$(NAME)` becomes its value, `$$` a dollar; names that are not known stay as they are written.

    Raises TooLarge, before it is made, for a text of more than `most` bytes.
    """
    if "$" in text:
        size = count_bytes(text)
        for match in _REFERENCE.finditer(text):
            # A text of many references is not looked through once more than the limit is known to be exceeded.
            if size > most + len(text):
                break
            size += count_bytes(_value(match, known)) - count_bytes(match[0])
    else:
        size = count_bytes(text)
    if size > most:
        raise TooLarge(f"takes more than {most} bytes once its variables are filled in")
    return _REFERENCE.sub(lambda match: _value(match, known), text)


def _value(match: re.Match[str], known: Mapping[str, str]) -> str:
    return "$" if match[1] == "$" else known.get(match[2], match[0])


def count_bytes(text: str) -> int:
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def size_faults(
    env: Iterable[Mapping[str, Any]], texts: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, str]]:
    """Yield path and fault of each value that is too large for any start, whatever the manifest leaves out.

    `env` has the variables in order, `texts` other lists of texts by their field, such as `args`.
    """
    sizes: dict[str, int] = {}
    total = 0
    for index, variable in enumerate(env):
        name = str(variable.get("name") or "")
        # What a ConfigMap, a Secret or a field of the Pod gives is known at the start alone.
        size = 0 if variable.get("valueFrom") else _least(str(variable.get("value") or ""), sizes)
        if size + count_bytes(name) + 1 > ARGUMENT_BYTES:
            yield f"env[{index}].value", _too_long("with its name")
            return
        # A variable that is set twice counts once.
        total += size - sizes.get(name, 0)
        sizes[name] = size
    for field, values in texts.items():
        for index, text in enumerate(values):
            size = _least(str(text), sizes)
            if size > ARGUMENT_BYTES:
                yield f"{field}[{index}]", _too_long()
                return
            total += size
    if total > START_BYTES:
        text = f"may not take more than {START_BYTES} bytes together with its arguments, and takes {total}"
        yield "env", text


def _too_long(what: str = "") -> str:
    with_name = f"{what} " if what else ""
    return f"may not take more than {ARGUMENT_BYTES} bytes {with_name}once its variables are filled in"


def _least(text: str, sizes: Mapping[str, int]) -> int:
    """Return the bytes that a text takes at least; a name that the manifest does not explain counts as nothing."""
    if "$" not in text:
        return count_bytes(text)
    size, end = 0, 0
    for match in _REFERENCE.finditer(text):
        size += count_bytes(text[end : match.start()]) + (1 if match[1] == "$" else sizes.get(match[2], 0))
        end = match.end()
    return size + count_bytes(text[end:])
