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
    names: tuple[str, str] = ("", "")
    """What the address and the token are called here."""


def find(
    endpoint: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ
) -> Connection:
    """The first address of: the argument, `STEELYARD_API_ENDPOINT`, `DYFF_API_ENDPOINT`, the ready file of
    `./.steelyard`, that of the user's state folder. The first token in the same order, without those that belong to
    another address: a token goes nowhere but where it is meant to. What is set and empty is an error, and is not looked
    for elsewhere: a secret that a script has lost must not become the administrator's token of this machine. Raises
    NotConfigured.
    """
    places = _places(endpoint, token, environment)
    chosen = next((place for place in places if place.endpoint is not None), None)
    if chosen is None or chosen.endpoint is None:
        raise _missing("address", "endpoint", places)
    if not chosen.endpoint:
        raise NotConfigured(
            f"{chosen.names[0]} is set and empty: give it the address of a platform, with /v0, or unset it"
        )
    if urlsplit(chosen.endpoint).scheme not in {"http", "https"}:
        raise NotConfigured(f"{chosen.name}: {chosen.endpoint!r} should begin with http:// or https://")
    holder = _token_place(chosen, places)
    if holder is None or holder.token is None:
        raise _missing("token", "token", places, f" for {chosen.endpoint} (from {chosen.name})")
    if not holder.token:
        raise NotConfigured(
            f"{holder.names[1]} is set and empty: give it a token for {chosen.endpoint}, or unset it, so that another "
            "one is looked for"
        )
    return Connection(chosen.endpoint, holder.token)


def _token_place(chosen: _Place, places: Sequence[_Place]) -> _Place | None:
    """What runs on this machine has a token of its own, which goes before that of another platform."""
    mine = [places[0], places[1], chosen, *places[2:]] if chosen.file else places
    for place in mine:
        if place.token is not None and place.endpoint in {None, chosen.endpoint}:
            return place
    return None


def _places(endpoint: str | None, token: str | None, environment: Mapping[str, str]) -> Sequence[_Place]:
    def variables(prefix: str) -> _Place:
        names = f"{prefix}_API_ENDPOINT", f"{prefix}_API_TOKEN"
        return _Place(" and ".join(names), *_tidy(*map(environment.get, names)), names=names)

    arguments = "the argument endpoint (--endpoint)", "the argument token (--token)"
    return (
        _Place("the arguments", *_tidy(endpoint, token), names=arguments),
        variables("STEELYARD"),
        variables("DYFF"),
        *(_ready_file(path) for path in _ready_files(environment)),
    )


def _tidy(endpoint: object, token: object) -> tuple[str | None, str | None]:
    """Paths are joined to the address with a slash of their own."""
    address = endpoint.strip().rstrip("/") if isinstance(endpoint, str) else None
    secret = token.strip() if isinstance(token, str) else None
    return address, secret


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
    return _Place(
        str(path) if api else f"{path}, of which no API runs", api or None, token or None, file=True
    )
