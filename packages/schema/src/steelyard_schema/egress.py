"""Rules for addresses outside: which hosts may be called, and which private networks all the same; the error of a call
that they refuse.

The settings are read from the table `[egress]`. A step in a Pod gets the policy for its purpose by its configuration.
"""

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from steelyard_common.errors import SteelyardError

_LONGEST_VALUE = 200
Purpose = Literal["webhooks", "services", "sources"]
_PATTERN = re.compile(
    r"(?:http://)?(?P<host>\*|(?:\*\.)?(?!-)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?"
)
PUBLIC_SOURCES = (
    "huggingface.co",
    "*.huggingface.co",
    "*.hf.co",
    "zenodo.org",
    "*.zenodo.org",
    "github.com",
    "*.github.com",
    "*.githubusercontent.com",
    "gitlab.com",
)
"""Public hubs of models and datasets, with the hosts that they send downloads to."""


def _host_pattern(pattern: str) -> str:
    match = _PATTERN.fullmatch(pattern.lower())
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        raise ValueError(
            f"should be a host, *.DOMAIN or *, behind http:// where TLS is not needed, before :PORT where only that "
            f"port is allowed; is {pattern!r}"
        )
    return pattern.lower()


def _network(network: str) -> str:
    try:
        return str(ipaddress.ip_network(network))
    except ValueError as error:
        raise ValueError(f"should be a network such as 10.1.0.0/16 or fd00::/8; {error}") from error


HostPattern = Annotated[str, AfterValidator(_host_pattern)]
Network = Annotated[str, AfterValidator(_network)]
_NETWORKS = Field(
    default=(),
    description="Networks that are not public, such as 10.1.0.0/16, whose addresses may be called all the same.",
)


class EgressPolicy(BaseModel):
    """Addresses that may be called for one purpose; by default none."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    hosts: tuple[HostPattern, ...] = Field(default=(), description="Patterns of hosts that may be called.")
    networks: tuple[Network, ...] = _NETWORKS
    setting: str = Field(
        default="egress", description="Name of the setting that lists the hosts; errors name it."
    )


class EgressSettings(BaseModel):
    """Addresses outside that may be called.

    A pattern is a host, `*.DOMAIN` for all hosts below a domain, or `*`. `:PORT` after it allows this port alone, and
    `http://` before it also connections without TLS.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    webhooks: tuple[HostPattern, ...] = Field(
        default=(), description="Patterns of hosts that webhooks may be sent to; by default none."
    )
    services: tuple[HostPattern, ...] = Field(
        default=(), description="Patterns of hosts whose models may be called as services; by default none."
    )
    sources: tuple[HostPattern, ...] = Field(
        default=PUBLIC_SOURCES,
        description="Patterns of hosts that models and datasets may be fetched from; by default public hubs.",
    )
    networks: tuple[Network, ...] = _NETWORKS

    def policy(self, purpose: Purpose) -> EgressPolicy:
        """Return the policy for one purpose."""
        hosts: tuple[str, ...] = getattr(self, purpose)
        return EgressPolicy(hosts=hosts, networks=self.networks, setting=f"egress.{purpose}")


class EgressRefused(SteelyardError):
    """An address outside that must not be called: `field` and `value` say which, `allowed` what may be called."""

    def __init__(self, message: str, *, field: str, value: str, allowed: tuple[str, ...] = ()) -> None:
        super().__init__(f"{field}: {_shorten(value)} {message}")
        self.field = field
        self.value = value
        self.allowed = allowed


def _shorten(value: str) -> str:
    # The query and the fragment of an address may hold secrets.
    text = re.split(r"[?#]", value, maxsplit=1)[0]
    return repr(text) if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]!r}..."
