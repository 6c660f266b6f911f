"""Ways to a cluster: a kubeconfig's context, a server and a token, the account of a Pod, or a login in the browser.

Nothing is kept outside the client that asks: two clients of one process may be two users of two clusters.
"""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from steelyard.clusters.errors import NotConfigured

if TYPE_CHECKING:
    from steelyard_kube.client import RestCluster
    from steelyard_kube.exec_login import Login

FIELD_MANAGER = "steelyard"
"""The manager of all fields that this client writes, by an apply and by other calls."""
PAGE = 1_000_000
"""Objects per request of a list: one request has all of them, however many there are."""
Token = str | Callable[[], str] | Path


@dataclass(frozen=True)
class Target:
    """A cluster as a caller names it. Without any field, it is the one that kubectl would use."""

    context: str | None = None
    kubeconfig: Path | str | None = None
    server: str | None = None
    token: Token | None = None
    """A token, a function that returns the current one at each request, or a file that others renew."""
    in_cluster: bool = False
    login: "Login | None" = None
    ca_file: Path | str | None = None
    verify_tls: bool = True

    def open(self) -> tuple["RestCluster", str]:
        """Return a client of the cluster's API, and the namespace that its configuration names. Raises NotConfigured.

        No request is sent.
        """
        self._check()
        return self._log_in_to_server(self.server) if self.server else self._log_in_by_kubeconfig()

    def _check(self) -> None:
        kubeconfig = self.context is not None or self.kubeconfig is not None
        if self.in_cluster and (kubeconfig or self.server):
            raise NotConfigured("in_cluster=True leaves no room for context, kubeconfig or server")
        if self.server and kubeconfig:
            raise NotConfigured("give server, or context and kubeconfig, not both")
        if self.token is not None and self.login is not None:
            raise NotConfigured("give token or login, not both")
        if self.server and urlsplit(self.server).scheme not in {"http", "https"}:
            raise NotConfigured(f"server {self.server!r} should begin with https://")
        if self.server and self.token is None and self.login is None:
            raise NotConfigured("server needs token or login: without them the cluster knows nobody")
        if isinstance(self.token, str) and not self.token.strip():
            raise NotConfigured("token is empty")

    def _log_in_to_server(self, server: str) -> tuple["RestCluster", str]:
        tls = self._tls() if server.startswith("https:") else None
        return _cluster(server, tls, _token(self.token), self.login), ""

    def _log_in_by_kubeconfig(self) -> tuple["RestCluster", str]:
        from steelyard_kube.kubeconfig import KubeconfigError, load

        path = Path(self.kubeconfig).expanduser() if self.kubeconfig is not None else None
        if path is not None and not path.exists():
            # A missing file must not lead to another cluster.
            raise NotConfigured(f"kubeconfig {path}: there is no such file")
        try:
            own = self.token is None and self.login is None
            access = load(path, context=self.context, in_cluster=self.in_cluster, user=own)
        except KubeconfigError as error:
            hint = "" if path else "; for `steelyard up`, set KUBECONFIG to the file that it prints"
            raise NotConfigured(f"{error}{hint}") from error
        token, login = _token(self.token) or access.token, self.login or access.login
        return _cluster(access.url, access.tls, token, login), access.namespace

    def _tls(self) -> ssl.SSLContext:
        try:
            tls = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        except (OSError, ssl.SSLError) as error:
            raise NotConfigured(f"ca_file {self.ca_file}: {error}") from error
        # Many clusters' certificates have no key identifiers. kubectl takes them; Python does not from 3.13 on.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify_tls:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        return tls


def _cluster(
    url: str, tls: ssl.SSLContext | None, token: "Callable[[], str] | str | None", login: "Login | None"
) -> "RestCluster":
    from steelyard_kube.client import RestCluster

    return RestCluster(url, tls=tls, token=token, login=login, page=PAGE, manager=FIELD_MANAGER)


def _token(token: Token | None) -> "Callable[[], str] | str | None":
    from steelyard_kube.kubeconfig import FileToken

    if isinstance(token, Path):
        if not os.access(token, os.R_OK):
            raise NotConfigured(f"token file {token}: cannot be read")
        return FileToken(token)
    return token.strip() if isinstance(token, str) else token
