"""Where the API is and how to log in: from a kubeconfig file, or from the account of the Pod that we run in.

Reading the files is lightkube's work; `client.connect` uses what comes out.
"""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig

Token = Callable[[], str]
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT = Path("~/.kube/config")


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says why."""


@dataclass(frozen=True)
class Access:
    """All that a client needs to know of one API server."""

    url: str
    tls: ssl.SSLContext | None = None
    token: Token | None = None


class FileToken:
    """A token in a file that others renew, as the kubelet does in a Pod: read anew when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        now = self._path.stat()
        seen = (now.st_ino, now.st_mtime_ns, now.st_size)
        if seen != self._seen:
            self._token, self._seen = self._path.read_text().strip(), seen
        return self._token


def load(path: Path | None = None, *, context: str | None = None) -> Access:
    """The file's current or named context.

    Without a path: the file that KUBECONFIG names, else the Pod's account, else ~/.kube/config.
    """
    from lightkube.core.exceptions import ConfigError

    try:
        return _access(_config(path).get(context))
    except (ConfigError, KeyError, OSError) as error:
        raise KubeconfigError(f"cannot use the kubeconfig: {error}") from error


def _config(path: Path | None) -> "KubeConfig":
    from lightkube.config.kubeconfig import KubeConfig

    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    if path is None and not named and "KUBERNETES_SERVICE_HOST" in os.environ and _SERVICE_ACCOUNT.exists():
        return KubeConfig.from_service_account(_SERVICE_ACCOUNT)
    first = next((each for each in named if each.exists()), named[0] if named else _DEFAULT)
    return KubeConfig.from_file(path or first)


def _access(config: "SingleConfig | None") -> Access:
    from lightkube.config.client_adapter import verify_cluster
    from lightkube.config.models import User

    if config is None:
        raise KubeconfigError("the kubeconfig has no current context")
    user, url = config.user or User(), config.cluster.server.rstrip("/")
    for unsupported in ("exec", "auth_provider", "username"):
        if getattr(user, unsupported):
            # Not silently anonymous: the server's refusal would not say what is missing.
            raise KubeconfigError(
                f"login by {unsupported!r} is not implemented; use a token or a certificate"
            )
    tls = None
    if url.startswith("https:"):
        tls = verify_cluster(config.cluster, user, config.abs_file, trust_env=False)
    return Access(url, tls, _token(user.token, config.abs_file(user.token_file) if user.token_file else None))


def _token(token: str | None, file: "str | os.PathLike[str] | None") -> Token | None:
    if file:
        return FileToken(Path(file))
    return (lambda: token) if token else None
