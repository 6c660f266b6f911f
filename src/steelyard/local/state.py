"""The state folder of one `steelyard up`: what lies where, and the few facts that outlive a run.

Everything under `local/` and the command line asks this module for paths; no other module spells them.
"""

import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from steelyard_common.durable import write_atomically
from steelyard_common.errors import UsageError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StateDir:
    """The paths inside one state folder."""

    path: Path

    @property
    def ready(self) -> Path:
        return self.path / "ready.json"

    @property
    def identity(self) -> Path:
        """Path of the identity of the folder's platform."""
        return self.path / "identity.json"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def images(self) -> Path:
        return self.path / "images.toml"

    @property
    def python(self) -> Path:
        """Modules that training programs of any Python may import."""
        return self.path / "python"

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def database(self) -> Path:
        return self.path / "kubernetes.db"

    @property
    def at_work(self) -> Path:
        """Marks of the objects that the Kubernetes process works on."""
        return self.path / "at-work"

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def token(self) -> Path:
        return self.pki / "token"

    @property
    def platform(self) -> Path:
        """Path of the record of the platform's process: {api, token}."""
        return self.path / "platform.json"

    def runs(self, kubernetes: str) -> bool:
        """Return whether a kubeconfig is that of the folder's own Kubernetes."""
        return Path(kubernetes).resolve() == self.kubeconfig.resolve()

    def metrics(self, name: str) -> Path:
        """Path of the file with the address of the figures of process `name`, as long as it serves them."""
        return self.path / f"{name}-metrics"

    @property
    def operator_metrics(self) -> Path:
        return self.metrics("operator")

    @property
    def api_token(self) -> Path:
        return self.pki / "api-token"

    @property
    def signing_secret(self) -> Path:
        """Signs the URLs of uploads and downloads."""
        return self.pki / "signing-secret"

    @property
    def secret_keys(self) -> Path:
        """Encrypt the secrets of accounts."""
        return self.pki / "secret-keys"

    @property
    def pods(self) -> Path:
        return self.path / "pods"

    @property
    def storage(self) -> Path:
        return self.path / "storage"

    @property
    def outputs(self) -> Path:
        """Path of what training jobs write, before it is carried to storage."""
        return self.path / "outputs"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def record(self) -> Path:
        return self.path / "supervisor.json"

    @property
    def sleeps(self) -> Path:
        """Path of the record of the machine's sleeps, as the supervisor saw them."""
        return self.path / "sleeps.json"

    def lock(self, name: str = "up") -> Path:
        """The lock that process `name` holds as long as it lives."""
        return self.path / f"{name}.lock"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"


@dataclass(frozen=True)
class Ready:
    """Content of `ready.json`: `api` and `token` are the platform's, null where its API does not run."""

    api: str | None
    token: str | None
    kubeconfig: Path
    pid: int


def token_for_terminal(state: StateDir, ready: Ready) -> str:
    """Return what `up` prints of the token: in a terminal the token, else where it is.

    Any other place than a terminal is mostly a file of a log, which more people may read, and for longer.
    """
    return ready.token or "" if sys.stdout.isatty() else f"in {state.ready}"


@dataclass(frozen=True)
class Record:
    """`supervisor.json`: who runs on the folder, and the ports and network that the next run takes again."""

    pid: int = 0
    started: str = ""  # the process's start time, so that a reused pid is not taken for it
    port: int = 0  # of Kubernetes
    api_port: int = 0  # of the platform's API
    network: int = 0  # the X of 127.X.0.0/16
    children: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # name -> pid and start time
    restarts: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)  # name -> why it does not work, in a line


def default_state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/steelyard`, by default `~/.local/state/steelyard`."""
    base = environment.get("XDG_STATE_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "steelyard"


def explain_no_state_folder(state: StateDir) -> str | None:
    """Says why `up` cannot have run on a folder; None where it has."""
    if not state.path.exists():
        return "there is no such folder"
    if not state.path.is_dir():
        return "it is not a folder"
    if not any(path.exists() for path in (state.record, state.pki, state.lock(), state.database)):
        return "it is not a state folder of steelyard up"
    return None


def check_for_up(state: StateDir) -> None:
    """Raises UsageError for a folder that holds something else: `up` would put its files among them."""
    if explain_no_state_folder(state) != "it is not a state folder of steelyard up":
        return
    others = [path.name for path in sorted(state.path.iterdir()) if not _may_be_there(path)]
    if others:
        raise UsageError(
            f"--state-dir {state.path}: holds other things ({', '.join(others[:3])}) and is not a state folder; "
            "choose an empty folder, or one that is not there yet"
        )


def _may_be_there(path: Path) -> bool:
    """Settings, and what a file system puts at its root."""
    return path.suffix == ".toml" or path.name == "lost+found" or path.name.startswith(".")


def make_folder(state: StateDir, *parts: Path) -> None:
    """Make the folder, for its owner alone, and parts of it. Raises UsageError."""
    try:
        state.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        close_to_others(state.path)
        for folder in parts:
            folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"--state-dir {state.path}: cannot be used: {error.strerror}") from error


def close_to_others(folder: Path) -> None:
    """Let the owner alone read the folder, unless it is a volume, which only the containers of its Pod see."""
    try:
        folder.chmod(0o700)
    except PermissionError:
        # The kubelet gives a volume to root and lets the group of the Pod, or everybody, write.
        is_volume = folder.stat().st_uid == 0 and folder.is_mount()
        if not (is_volume and os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True)):
            raise


def write_note(path: Path, content: str) -> None:
    """Write a file by which others find this process; a process without a state folder, as in a Pod, leaves none."""
    if path.parent.is_dir():
        write_atomically(path, content)


def platform_id(state: StateDir) -> str | None:
    """Return the id of the folder's platform; None where its file is missing or damaged."""
    try:
        return str(json.loads(state.identity.read_text())["platform"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def is_foreign(state: StateDir, content: Mapping[str, object]) -> bool:
    """Return whether a record names another platform than the folder's."""
    own, named = platform_id(state), content.get("platform")
    return own is not None and named is not None and named != own


def read_record(state: StateDir) -> Record:
    """The folder's record; an empty one when there is none or it cannot be read."""
    try:
        content = json.loads(state.record.read_text())
        if is_foreign(state, content):  # its processes are another platform's
            _log.warning("%s: belongs to another platform; it is created again", state.record)
            return Record()
        known = {key: content[key] for key in asdict(Record()) if key in content}
        children = {
            name: (int(pid), str(started)) for name, (pid, started) in known.pop("children", {}).items()
        }
        record = Record(**known, children=children)
        numbers = (record.pid, record.port, record.api_port, record.network)
        return record if all(isinstance(number, int) for number in numbers) else Record()
    except (OSError, ValueError, TypeError, AttributeError):
        return Record()


def write_record(state: StateDir, record: Record) -> None:
    write_atomically(state.record, json.dumps({**asdict(record), "platform": platform_id(state)}))


def read_ready(state: StateDir) -> Ready | None:
    """Return the record of the folder's `up`; None when there is none or it cannot be read."""
    try:
        content = json.loads(state.ready.read_text())
        api, token, pid = content["api"], content["token"], content["pid"]
        kubeconfig = Path(content["kubeconfig"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Ready(api, token, kubeconfig, pid) if isinstance(pid, int) and _words(api, token) else None


def read_platform(state: StateDir) -> tuple[str | None, str | None]:
    """The platform's address and token; nothing where its API does not run."""
    try:
        content = json.loads(state.platform.read_text())
        api, token = content["api"], content["token"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
    return (api, token) if _words(api, token) else (None, None)


def _words(*values: object) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def write_platform(state: StateDir, api: str, token: str) -> None:
    write_note(state.platform, json.dumps({"api": api, "token": token}) + "\n")


def write_ready(path: Path, ready: Ready) -> None:
    content = {"api": ready.api, "token": ready.token, "kubeconfig": str(ready.kubeconfig), "pid": ready.pid}
    write_atomically(path, json.dumps(content) + "\n")


def process_start(pid: int) -> str:
    """Return when a process began: the boot, and the kernel's clock ticks since then; empty when there is
    none.
    """
    try:
        # The command name, in parentheses, may hold blanks: count fields after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot_id()}-{fields[19]}"


@cache
def boot_id() -> str:
    """Changes with every boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]


def process_name(name: str, replica: int) -> str:
    """Return the name of one of several processes of a service; the first has the service's own."""
    return name if replica == 1 else f"{name}-{replica}"
