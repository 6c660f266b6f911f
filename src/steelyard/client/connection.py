"""Where the platform is, and with which token: arguments, environment, or what runs on this machine."""

import ipaddress
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from steelyard.client.errors import NotConfigured


@dataclass(frozen=True)
class Connection:
    """An address, which ends in /v0, and a token."""

    endpoint: str
    token: str

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where no proxy leads to."""
        host = urlsplit(self.endpoint).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


@dataclass(frozen=True)
class _Place:
    """Somewhere that an address, a token or both may be written."""

    name: str
    endpoint: str | None
    token: str | None
    file: bool = False


def find(
    endpoint: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ
) -> Connection:
    """The first address of: the argument, `STEELYARD_API_ENDPOINT`, `DYFF_API_ENDPOINT`, the ready file of
    `./.steelyard`, that of the user's state folder. The first token in the same order, without those that belong to
    another address: a token goes nowhere but where it is meant to. Raises NotConfigured.
    """
    places = _places(endpoint, token, environment)
    chosen = next((each for each in places if each.endpoint), None)
    if chosen is None or chosen.endpoint is None:
        raise _missing("address", "endpoint", places)
    if urlsplit(chosen.endpoint).scheme not in {"http", "https"}:
        raise NotConfigured(f"{chosen.name}: {chosen.endpoint!r} should begin with http:// or https://")
    secret = _token_for(chosen, places)
    if secret is None:
        raise _missing("token", "token", places, f" for {chosen.endpoint} (from {chosen.name})")
    return Connection(chosen.endpoint, secret)


def _token_for(chosen: _Place, places: Sequence[_Place]) -> str | None:
    """What runs on this machine has a token of its own, which goes before that of another platform."""
    mine = [places[0], places[1], chosen, *places[2:]] if chosen.file else places
    return next(
        (each.token for each in mine if each.token and each.endpoint in {None, chosen.endpoint}), None
    )


def _places(endpoint: str | None, token: str | None, environment: Mapping[str, str]) -> Sequence[_Place]:
    def variables(prefix: str) -> _Place:
        names = f"{prefix}_API_ENDPOINT", f"{prefix}_API_TOKEN"
        return _Place(" and ".join(names), *_tidy(*map(environment.get, names)))

    return (
        _Place("the arguments", *_tidy(endpoint, token)),
        variables("STEELYARD"),
        variables("DYFF"),
        *(_ready_file(path) for path in _ready_files(environment)),
    )


def _tidy(endpoint: object, token: object) -> tuple[str | None, str | None]:
    """Paths are joined to the address with a slash of their own; what is empty is not there."""
    address = endpoint.strip().rstrip("/") if isinstance(endpoint, str) else ""
    secret = token.strip() if isinstance(token, str) else ""
    return address or None, secret or None


def _missing(what: str, argument: str, places: Sequence[_Place], where: str = "") -> NotConfigured:
    looked = "; ".join(each.name for each in places)
    return NotConfigured(
        f"there is no {what} of a platform{where}: give the argument {argument}, set "
        f"STEELYARD_API_{argument.upper()}, or start a platform with: steelyard up (looked at: {looked})"
    )


def _ready_files(environment: Mapping[str, str]) -> Sequence[Path]:
    """What `steelyard up` writes when it is ready; by default it is told to use one of these folders."""
    base = environment.get("XDG_STATE_HOME") or ""
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return Path(".steelyard", "ready.json"), home / "steelyard" / "ready.json"


def _ready_file(path: Path) -> _Place:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return _Place(f"{path}, which is not there", None, None, file=True)
    except (OSError, ValueError) as error:
        return _Place(f"{path}, which cannot be read: {error}", None, None, file=True)
    found = content if isinstance(content, dict) else {}
    api, token = _tidy(found.get("api"), found.get("token"))
    return _Place(str(path) if api else f"{path}, of which no API runs", api, token, file=True)
