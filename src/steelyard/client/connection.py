"""Finds the address and token of the platform: arguments, environment, or a platform on this machine."""

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
        """Return whether an address is on this machine, where no proxy can reach it."""
        host = urlsplit(self.endpoint).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


@dataclass(frozen=True)
class _Source:
    """A source of an address, a token or both."""

    name: str
    endpoint: str | None
    token: str | None
    file: bool = False
    names: tuple[str, str] = ("", "")
    """Names of address and token in this source, for messages."""


def find(
    endpoint: str | None = None, token: str | None = None, environment: Mapping[str, str] = os.environ
) -> Connection:
    """Return the address and token to use. Raises NotConfigured.

    The address is the first of: the argument, `STEELYARD_API_ENDPOINT`, `DYFF_API_ENDPOINT`, the ready file of
    `./.steelyard`, that of the user's state folder. The token is the first in the same order that does not belong to
    another address: a token is sent only where it is meant to go. A value that is set and empty is an error: a secret
    that a script has lost must not be replaced by the administrator's token of this machine.
    """
    sources = _sources(endpoint, token, environment)
    chosen = next((source for source in sources if source.endpoint is not None), None)
    if chosen is None or chosen.endpoint is None:
        raise _missing("address", "endpoint", sources)
    if not chosen.endpoint:
        raise NotConfigured(
            f"{chosen.names[0]} is set and empty: give it the address of a platform, with /v0, or unset it"
        )
    if urlsplit(chosen.endpoint).scheme not in {"http", "https"}:
        raise NotConfigured(f"{chosen.name}: {chosen.endpoint!r} should begin with http:// or https://")
    holder = _token_source(chosen, sources)
    if holder is None or holder.token is None:
        raise _missing("token", "token", sources, f" for {chosen.endpoint} (from {chosen.name})")
    if not holder.token:
        raise NotConfigured(
            f"{holder.names[1]} is set and empty: give it a token for {chosen.endpoint}, or unset it, so that another "
            "one is looked for"
        )
    return Connection(chosen.endpoint, holder.token)


def _token_source(chosen: _Source, sources: Sequence[_Source]) -> _Source | None:
    """Return the source of the token. A platform on this machine has its own, which goes before the environment's."""
    order = [sources[0], sources[1], chosen, *sources[2:]] if chosen.file else sources
    for source in order:
        # A token that is stored with another address belongs to that platform: sent here, it would be given away.
        if source.token is not None and source.endpoint in {None, chosen.endpoint}:
            return source
    return None


def _sources(endpoint: str | None, token: str | None, environment: Mapping[str, str]) -> Sequence[_Source]:
    def variables(prefix: str) -> _Source:
        names = f"{prefix}_API_ENDPOINT", f"{prefix}_API_TOKEN"
        return _Source(" and ".join(names), *_tidy(*map(environment.get, names)), names=names)

    arguments = "the argument endpoint (--endpoint)", "the argument token (--token)"
    return (
        _Source("the arguments", *_tidy(endpoint, token), names=arguments),
        variables("STEELYARD"),
        variables("DYFF"),
        *(_ready_file(path) for path in _ready_files(environment)),
    )


def _tidy(endpoint: object, token: object) -> tuple[str | None, str | None]:
    """Return both without spaces around them, and the address without a slash at its end."""
    # Secrets that are read from files end with a line break, which no header can hold.
    address = endpoint.strip().rstrip("/") if isinstance(endpoint, str) else None
    secret = token.strip() if isinstance(token, str) else None
    return address, secret


def _missing(what: str, argument: str, sources: Sequence[_Source], where: str = "") -> NotConfigured:
    names = "; ".join(source.name for source in sources)
    return NotConfigured(
        f"there is no {what} of a platform{where}: give the argument {argument} (--{argument}, or --state-dir with "
        f"the state folder of a platform), set STEELYARD_API_{argument.upper()}, or start a platform with: "
        f"steelyard up (looked at: {names})"
    )


def _ready_files(environment: Mapping[str, str]) -> Sequence[Path]:
    """Return the paths of the ready files that `steelyard up` writes, in its usual state folders."""
    base = environment.get("XDG_STATE_HOME") or ""
    home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return Path(".steelyard", "ready.json"), home / "steelyard" / "ready.json"


def _ready_file(path: Path) -> _Source:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return _Source(f"{path}, which is not there", None, None, file=True)
    except (OSError, ValueError) as error:
        return _Source(f"{path}, which cannot be read: {error}", None, None, file=True)
    values = content if isinstance(content, dict) else {}
    api, token = _tidy(values.get("api"), values.get("token"))
    return _Source(
        str(path) if api else f"{path}, of which no API runs", api or None, token or None, file=True
    )
