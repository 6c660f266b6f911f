"""The check of who may read the figures of a process: programs of its machine, and those with the token of figures.

Figures tell how much is done for whom, and when. A server that is open to a network shows them to no stranger.
"""

import hmac
import ipaddress
import os
from collections.abc import Mapping

TOKEN_VARIABLE = "STEELYARD_METRICS_TOKEN"
"""Variable of the environment with the token: it belongs in a Secret, not in a file of settings."""
REFUSAL = f"/metrics is for this machine, or takes the bearer token of {TOKEN_VARIABLE}"
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
"""Headers of proxies. A caller of loopback that sends one speaks for another machine."""


def may_read(
    peer: str | None, headers: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether a caller may; `headers` takes lower-case names."""
    if _is_loopback(peer) and not any(headers.get(name) for name in _FORWARDED):
        return True
    token = environment.get(TOKEN_VARIABLE, "")
    shown = headers.get("authorization", "")
    return bool(token) and hmac.compare_digest(_encode(shown), _encode(f"Bearer {token}"))


def _encode(text: str) -> bytes:
    # A byte that is not UTF-8 is half of a pair in a header of aiohttp: it is wrong, and no failure of ours.
    return text.encode(errors="surrogatepass")


def _is_loopback(peer: str | None) -> bool:
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
