"""The values of `steelyard eval`'s flags as what they mean; each fault is one line that names the flag."""

import json
import math
from collections.abc import Mapping, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import TooLarge, read_whole
from steelyard_evaluation.runs import notation
from steelyard_evaluation.runs.spending.prices import PriceSpec


def concurrency(text: str) -> int | None:
    """A number, or None for `auto`."""
    if text == "auto":
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 65536:
        raise UsageError(f"--concurrency {text}: should be a number from 1 on, or auto")
    return int(text)


def seconds(flag: str, text: str) -> float:
    """`90`, `90s`, `15m`, `2h30m`."""
    try:
        return notation.seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from error


def urls(texts: Sequence[str], flag: str = "--url") -> tuple[str, ...]:
    """Base URLs, each once."""
    return tuple(dict.fromkeys(_base_url(flag, url) for url in texts))


def _base_url(flag: str, url: str) -> str:
    try:
        return notation.base_url(url)
    except ValueError as error:
        raise UsageError(f"{flag} {url}: {error}") from error


def columns(texts: Sequence[str]) -> dict[str, str]:
    """`prompt=question` as from the new name to the file's."""
    pairs = {}
    for pair in texts:
        new, equals, old = pair.partition("=")
        if not equals or not new or not old:
            raise UsageError(f"--map {pair}: should be NAME=COLUMN, such as prompt=question")
        if new in pairs:
            raise UsageError(f"--map {pair}: {new} is mapped twice")
        pairs[new] = old
    return pairs


def parameters(texts: Sequence[str]) -> dict[str, JsonValue]:
    """`top_k=40`, `logit_bias={"50256": -100}`: JSON where it is, else text."""
    values: dict[str, JsonValue] = {}
    for pair in texts:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--param {pair}: should be NAME=VALUE, such as top_k=40")
        try:
            values[name] = json.loads(text)
        except json.JSONDecodeError:
            values[name] = text
        except RecursionError as error:
            raise UsageError(f"--param {name}: is nested too deep") from error
    return values


def read_text(flag: str, value: str) -> str:
    """The text itself, or with `@FILE` what the file holds."""
    return read(flag, Path(value[1:])) if value.startswith("@") else value


def read(flag: str, path: Path) -> str:
    try:
        # Line ends as they are read from a file of text.
        return TextIOWrapper(BytesIO(read_whole(path)), encoding="utf-8").read()
    except TooLarge as error:
        raise UsageError(f"{flag} {error}") from error
    except OSError as error:
        raise UsageError(f"{flag} {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag} {path}: is not text in UTF-8") from error


def prices(path: Path, model: str) -> PriceSpec:
    """The price of a million tokens of `model`, from a YAML or JSON file: `MODEL: {prompt: 0.15, completion: 0.6}`.

    A file may hold one price alone, without a name: it is the price of `model`.
    """
    content = _price_file(path)
    return _price(path, model, content.get(model, content))


def find_prices(path: Path, model: str, *, needed: bool) -> PriceSpec | None:
    """The price that stands under the name of `model`; None where there is none and it is not needed."""
    entry = _price_file(path).get(model)
    return None if entry is None and not needed else _price(path, model, entry)


def _price_file(path: Path) -> Mapping[str, JsonValue]:
    import yaml

    from steelyard_common.bounded_yaml import fault_text, load

    try:
        content = load(read("--prices", path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"--prices {path}: is not YAML: {fault_text(error)}") from error
    return content if isinstance(content, Mapping) else {}


def _price(path: Path, model: str, entry: JsonValue) -> PriceSpec:
    if not isinstance(entry, Mapping) or not {"prompt", "completion"} <= entry.keys():
        raise UsageError(
            f"--prices {path}: has no price of {model!r}; it should hold "
            f"'{model}: {{prompt: 0.15, completion: 0.60}}', in money a million tokens"
        )
    try:
        price = PriceSpec(float(entry["prompt"]), float(entry["completion"]))
    except (TypeError, ValueError) as error:
        raise UsageError(f"--prices {path}: {model}: {error}") from error
    # NaN is less than nothing, and a cap would never be reached with it.
    if not (0 <= price.prompt < math.inf and 0 <= price.completion < math.inf):
        raise UsageError(f"--prices {path}: {model}: a price must be finite and not negative")
    return price
