"""Address of the API and the way to log in, from a kubeconfig file or from the account of the Pod that we run
in.

Reading the files is lightkube's work, but for logins by a program (`exec_login.py`); `client.connect` uses what comes
out.
"""

import base64
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard_common import bounded_yaml
from steelyard_common.types import Json, sequence
from steelyard_kube.exec_login import BadPlugin, ExecLogin, parse_plugin, with_certificate

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig
    from lightkube.config.models import User

Token = Callable[[], str]
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which a Pod finds its account: the token, the authority of the API, and the namespace."""
_DEFAULT = Path("~/.kube/config")
_MOST_BYTES = 16 << 20
_EXTENSION = "client.authentication.k8s.io/exec"
"""Extension of a cluster with settings for its login program."""
_LEFT = {
    "gcp": "install gke-gcloud-auth-plugin, and run: gcloud container clusters get-credentials CLUSTER",
    "azure": "install kubelogin, and run: kubelogin convert-kubeconfig",
    "oidc": "use an exec plugin, such as kubectl oidc-login",
}
"""Replacements of the logins by `auth-provider`, which Kubernetes 1.26 has removed."""


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says why."""


@dataclass(frozen=True)
class Access:
    """All that a client needs to know of one API server."""

    url: str
    tls: ssl.SSLContext | None = None
    token: Token | None = None
    login: ExecLogin | None = None
    """Instead: a program that gives credentials, and is asked again when they are over."""
    namespace: str = ""
    """Namespace of the context, or of the Pod; empty where it names none."""


class FileToken:
    """A token in a file that others renew, as the kubelet does in a Pod: read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        try:
            now = self._path.stat()
            signature = (now.st_ino, now.st_mtime_ns, now.st_size)
            if signature != self._seen:
                self._token, self._seen = self._path.read_text().strip(), signature
        except OSError as error:
            # A token outlives its file by minutes, in which the file is mostly there again.
            if not self._token:
                raise KubeconfigError(f"cannot read the token {self._path}: {error.strerror}") from error
        return self._token


def pod_namespace(environment: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> str | None:
    """Return the namespace of the Pod that this process runs in with an account; None elsewhere.

    A Pod whose account is not mounted knows the API's address, and has nothing to log in with.
    """
    if "KUBERNETES_SERVICE_HOST" not in environment or not (account / "token").is_file():
        return None
    try:
        return (account / "namespace").read_text().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def load(
    path: Path | None = None,
    *,
    context: str | None = None,
    in_cluster: bool = False,
    user: bool = True,
    account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The file's current or named context.

    Without a path: the file that KUBECONFIG names, else the Pod's account, else ~/.kube/config. `in_cluster` takes the
    Pod's account, whatever else there is, from the folder `account`. Without `user`, the context's way to log in is
    left out: a certificate of it would count before the caller's own token.
    """
    if in_cluster and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise KubeconfigError("this process runs in no Pod of a cluster: KUBERNETES_SERVICE_HOST is not set")
    if in_cluster and not (account / "token").is_file():
        raise KubeconfigError(
            f"the Pod has no token of an account: {account / 'token'} is not there (automountServiceAccountToken)"
        )
    import msgspec
    import yaml
    from lightkube.core.exceptions import ConfigError

    try:
        return _access(_read_pod(account) if in_cluster else _config(path), context, user)
    except BadPlugin as error:
        raise KubeconfigError(f"cannot use the kubeconfig: {error}") from error
    except (
        AttributeError,  # a list or nothing in place of the whole
        ConfigError,
        KeyError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,  # no UTF-8, no base64, a date that is none
        msgspec.ValidationError,
        yaml.YAMLError,
    ) as error:
        raise KubeconfigError(f"cannot use the kubeconfig: {error}") from error


def find_namespace(path: Path | None = None, context: str | None = None) -> str:
    """Return the namespace of the context that `load` would take; empty where it names none, or cannot be read."""
    import msgspec
    import yaml
    from lightkube.core.exceptions import ConfigError

    try:
        config = _config(path).get(context)
        return (config.context.namespace or "") if config is not None else ""
    except (AttributeError, ConfigError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return ""  # `load` says what is wrong with the file
    except (msgspec.ValidationError, yaml.YAMLError):
        return ""


def _config(path: Path | None) -> "KubeConfig":
    from lightkube.config.kubeconfig import KubeConfig

    named = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if path is None and not named and pod_namespace() is not None:
        return _read_pod(SERVICE_ACCOUNT)
    first = next((path for path in named if path.exists()), named[0] if named else _DEFAULT)
    file = path or first
    # lightkube reads it by PyYAML alone, which a few aliases keep busy for ever.
    if file.expanduser().exists():
        if (size := file.expanduser().stat().st_size) > _MOST_BYTES:
            raise ValueError(f"{file} has {size} bytes, of which {_MOST_BYTES} are allowed")
        bounded_yaml.check(file.expanduser().read_text())
    return KubeConfig.from_file(file)


def _read_pod(account: Path) -> "KubeConfig":
    from lightkube.config.kubeconfig import KubeConfig

    return KubeConfig.from_service_account(account)


def _access(contexts: "KubeConfig", name: str | None, with_user: bool) -> Access:
    from lightkube.config.models import User

    config = contexts.get(name)
    if config is None:
        raise KubeconfigError("the kubeconfig has no current context")
    user, url = (with_user and config.user) or User(), config.cluster.server.rstrip("/")
    if user.auth_provider:
        name = str(user.auth_provider.get("name"))
        instead = _LEFT.get(name, "use an exec plugin, a token or a certificate")
        raise KubeconfigError(f"Kubernetes no longer supports login by auth-provider {name!r}; {instead}")
    if user.username:
        # Not silently anonymous: the server's refusal would not say what is missing.
        raise KubeconfigError(
            "Kubernetes no longer supports login by 'username'; use a token or a certificate"
        )
    token = _token(user.token, config.abs_file(user.token_file) if user.token_file else None)
    # As in client-go, a token or a certificate that is written down goes before a program.
    program = user.exec is not None and token is None and not (user.client_cert or user.client_cert_data)
    namespace = (config.context.namespace or "").strip()
    return Access(url, _tls(config, user), token, _login(config) if program else None, namespace)


def _tls(config: "SingleConfig", user: "User") -> ssl.SSLContext | None:
    from lightkube.config.client_adapter import verify_cluster

    if not config.cluster.server.startswith("https:"):
        return None
    tls = verify_cluster(config.cluster, user, config.abs_file, trust_env=False)
    # Many clusters' certificates have no key identifiers. kubectl takes them; Python does not from 3.13 on.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return tls


def _login(config: "SingleConfig") -> ExecLogin:
    """The login program; lightkube keeps less of it than the file says."""
    from lightkube.config.models import User

    file = Path(config.fname or _DEFAULT).expanduser()
    written = bounded_yaml.load(file.read_text())
    entry = _find_entry(written, "user", config.context.user)["exec"]
    cluster = _find_entry(written, "cluster", config.context.cluster)
    plugin = parse_plugin(entry, _information(config, cluster), file.absolute().parent)
    return ExecLogin(plugin, lambda *pair: with_certificate(_tls(config, User()), *pair))


def _find_entry(written: Json, kind: str, name: str | None) -> Json:
    entry: Json = next(entry[kind] for entry in written[f"{kind}s"] if entry["name"] == name)
    return entry


def _information(config: "SingleConfig", written: Json) -> Json:
    """Make the information that `provideClusterInfo` gives the program."""
    names = (
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
    )
    values: Json = {name: written[name] for name in names if name in written}
    if authority := written.get("certificate-authority"):
        content = Path(config.abs_file(authority)).read_bytes()
        values["certificate-authority-data"] = base64.b64encode(content).decode()
    for extension in sequence(written, "extensions"):
        if extension.get("name") == _EXTENSION:
            values["config"] = extension.get("extension")
    return values


def _token(token: str | None, file: "str | os.PathLike[str] | None") -> Token | None:
    if file:
        return FileToken(Path(file))
    return (lambda: token) if token else None
