"""Calls of webhooks over HTTPS: a URL, or a Service by the loopback address of one of its ready Pods."""

import asyncio
import base64
import contextlib
import socket
import ssl
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

import aiohttp
import orjson

from steelyard_common.connections import TrackingConnector
from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.admission.webhooks.review import Verdict, read_verdict
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import find_field
from steelyard_local_kubernetes.apiserver.store import Store

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
MAX_ANSWER = 3 << 20


@dataclass(frozen=True)
class Address:
    """Address of a webhook, and the name that its certificate has."""

    url: str  # as errors show it
    connect: str
    server_name: str = ""
    failure: str = ""  # why it cannot be called


def resolve_address(config: Json, store: Store) -> Address:
    """Resolve the `clientConfig` of a webhook."""
    service = mapping(config, "service")
    if not service:
        url = str(config.get("url") or "")
        return Address(url, url)
    name, namespace = str(service.get("name") or ""), str(service.get("namespace") or "")
    port, path = int(service.get("port") or 443), str(service.get("path") or "/")
    host = f"{name}.{namespace}.svc"
    shown = f"https://{host}:{port}/{path.lstrip('/')}"
    item = store.get("services", (namespace, name))
    if item is None:
        return Address(shown, "", failure=f'service "{name}" not found')
    service_port = next(
        (entry for entry in sequence(item.parse()["spec"], "ports") if entry["port"] == port), None
    )
    if service_port is None:
        return Address(shown, "", failure=f'no service port {port} found for service "{name}"')
    ready = _ready_endpoint(store, namespace, name, str(service_port.get("name") or ""))
    if ready is None:
        return Address(shown, "", failure=f'no endpoints available for service "{name}"')
    return Address(shown, f"https://{ready}/{path.lstrip('/')}", host)


def _ready_endpoint(store: Store, namespace: str, service: str, port: str) -> str | None:
    for item in store.bucket(SLICES).items(namespace):
        if item.labels.get(SERVICE_NAME) == service and (address := _in_slice(item, port)):
            return address
    return None


def _in_slice(item: Item, port: str) -> str | None:
    content = item.parse()
    numbers = [entry.get("port") for entry in sequence(content, "ports") if (entry.get("name") or "") == port]
    for endpoint in sequence(content, "endpoints"):
        if numbers and numbers[0] and find_field(endpoint, "conditions", "ready") is not False:
            host = endpoint["addresses"][0]
            return f"[{host}]:{numbers[0]}" if ":" in host else f"{host}:{numbers[0]}"
    return None


@lru_cache(maxsize=200)
def _context(bundle: str) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


async def call(address: Address, bundle: str, seconds: int, review: Json, *, mutating: bool) -> Verdict:
    """Return a webhook's verdict, or why there is none."""
    shown = f'failed to call webhook: Post "{address.url}?timeout={seconds}s": '
    if address.failure:
        return Verdict(failure=f"{shown}{address.failure}")
    try:
        async with asyncio.timeout(seconds):
            status, body, media = await _post(address, bundle, seconds, review)
    except TimeoutError:
        return Verdict(failure=f"{shown}context deadline exceeded")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Verdict(failure=f"{shown}{_reason(error, address.connect)}")
    if status >= 300:
        return Verdict(failure=f"failed to call webhook: {_status_text(status, body, media)}")
    return read_verdict(review, body, mutating=mutating)


async def _post(address: Address, bundle: str, seconds: int, review: Json) -> tuple[int, bytes, str]:
    # A session for each call: a connection that a webhook has left open would have to be managed.
    async with (
        aiohttp.ClientSession(connector=TrackingConnector()) as session,
        session.post(
            f"{address.connect}?timeout={seconds}s",
            data=orjson.dumps(review),
            headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
            ssl=_context(bundle),
            server_hostname=address.server_name or None,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer,
    ):
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            # A webhook must not fill this server's memory.
            if len(body) > MAX_ANSWER:
                raise ValueError(f"answer of more than {MAX_ANSWER} bytes")
        return answer.status, bytes(body), answer.content_type


def _reason(error: Exception, url: str) -> str:
    """The error in the words of Go's client."""
    parts = urlsplit(url)
    with contextlib.suppress(ValueError):
        place = f"{parts.hostname}:{parts.port or 443}"
        match error:
            case aiohttp.ClientConnectorCertificateError():
                return _certificate(error.certificate_error)
            case aiohttp.ClientConnectorSSLError():
                return f"tls: {error.os_error}"
            case aiohttp.ClientConnectorDNSError() | socket.gaierror():
                return f"dial tcp: lookup {parts.hostname}: no such host"
            case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
                return f"dial tcp {place}: connect: connection refused"
            case aiohttp.ServerDisconnectedError():
                return "EOF"
    return str(error)


def _certificate(error: Exception) -> str:
    verify = getattr(error, "verify_code", 0)
    if verify == 62:  # the name is another
        return f"tls: failed to verify certificate: x509: {getattr(error, 'verify_message', error)}"
    if verify == 10:
        return "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
    return "tls: failed to verify certificate: x509: certificate signed by unknown authority"


_WORDS = {
    404: "the server could not find the requested resource",
    401: "the server has asked for the client to provide credentials",
    405: "the server does not allow this method on the requested resource",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _status_text(status: int, body: bytes, media: str) -> str:
    if status in _WORDS:
        return _WORDS[status]
    # Go's client shows what is meant for people to read.
    text = body.decode(errors="replace").strip() if media.startswith("text/") else ""
    if status >= 500:
        shown = orjson.dumps(text or "unknown").decode()
        return f"an error on the server ({shown}) has prevented the request from succeeding"
    return text or "the server rejected our request for an unknown reason"
