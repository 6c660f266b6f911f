"""Addresses of Kafka clusters: `kafka://[USER[:PASSWORD]@]HOST:PORT[,HOST:PORT...][/PREFIX][?SETTING=VALUE&...]`.

The prefix begins the names of all topics and groups, so that several platforms share a cluster. The settings are those
of librdkafka that concern security.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from steelyard.broker.log import LogError
from steelyard.engines.addresses import without_password
from steelyard_common.whole_files import TooLarge, read_whole

PASSWORD = "STEELYARD_KAFKA_PASSWORD"
"""Name of the environment variable with the password of the address's user, where the address does not have one; with
`_FILE` at its end, the path of a file with the password."""
SETTINGS = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.kerberos.keytab",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.endpoint.identification.algorithm",
        "client.dns.lookup",
    }
)
_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,100}")
_SHAPE = "should be kafka://HOST:PORT[,HOST:PORT...][/PREFIX][?SETTING=VALUE]"
logger = logging.getLogger("steelyard.kafka")


@dataclass(frozen=True)
class Address:
    """Brokers to begin with, the beginning of all names, and how clients log in."""

    url: str
    brokers: str
    prefix: str
    security: Mapping[str, str] = field(repr=False)

    def topic(self, name: str) -> str:
        """Return the name of a topic or a group in the cluster."""
        return self.prefix + name

    def client(self, **settings: str | float | bool) -> dict[str, object]:
        """Return the settings of a client; a name's underscores stand for dots."""
        return {
            "bootstrap.servers": self.brokers,
            "client.id": "steelyard",
            # A broker that is away is asked again twice a second; the default's ten seconds lengthen every outage.
            "reconnect.backoff.max.ms": 500,
            "socket.keepalive.enable": True,
            "topic.metadata.refresh.interval.ms": 10_000,
            "allow.auto.create.topics": False,
            # What is worth an operator's time comes as an error of a call; the client logs each refused connection.
            "log_level": 2,
            "logger": logger,
            "error_cb": lambda error: logger.info("%s", error.str()),
            **self.security,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }


def read_password(name: str) -> str:
    """Return the password of the environment, or of the file that it names; empty for none. Raises LogError."""
    if not (file := os.environ.get(f"{PASSWORD}_FILE", "")):
        return os.environ.get(PASSWORD, "")
    if PASSWORD in os.environ:
        raise LogError(f"log {name!r}: {PASSWORD}_FILE: {PASSWORD} is set, too; leave one of them out")
    try:
        return read_whole(Path(file)).decode().rstrip("\r\n")
    except (OSError, TooLarge, UnicodeDecodeError) as error:
        raise LogError(f"log {name!r}: {PASSWORD}_FILE {file} cannot be read: {error}") from error


def parse(url: str) -> Address:
    """Return the parts of an address. Raises LogError, which names what is wrong."""
    name = without_password(url)
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise LogError(f"log {name!r}: {error}; {_SHAPE}") from error
    login, _, hosts = parts.netloc.rpartition("@")
    brokers = hosts.split(",")
    for broker in brokers:
        host, _, port = broker.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise LogError(f"log {name!r}: the broker {broker!r} should be HOST:PORT; {_SHAPE}")
    prefix = parts.path.strip("/")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise LogError(
            f"log {name!r}: the prefix {prefix!r} may have letters, digits, '.', '_' and '-' alone"
        )
    if unknown := sorted(options.keys() - SETTINGS):
        raise LogError(
            f"log {name!r}: {unknown[0]!r} is not a setting; there are {', '.join(sorted(SETTINGS))}"
        )
    security = dict(options)
    if login:
        user, _, password = login.partition(":")
        security["sasl.username"] = unquote(user)
        security["sasl.password"] = unquote(password) or read_password(name)
        security.setdefault("sasl.mechanism", "SCRAM-SHA-512")
        security.setdefault("security.protocol", "SASL_SSL")
    return Address(name, hosts, f"{prefix}." if prefix else "", security)
