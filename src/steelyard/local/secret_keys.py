"""The keys that encrypt secrets, as a process of the platform finds them. `platform.py` calls it."""

import logging
from pathlib import Path

from steelyard.accounts.secrets import KeyFileError, SecretKeys, make_keys, read_keys
from steelyard.local.platform_identity import load_identity
from steelyard.local.state import StateDir
from steelyard.settings import Settings

_log = logging.getLogger(__name__)
_GO_ON = (
    "Put this platform's file back, or keep it aside: new keys are then made, and secrets of before have to be set "
    "again"
)


def secret_keys(state: StateDir, settings: Settings) -> SecretKeys | None:
    """Return the keys of the settings; on one machine, those of the folder, made where there are none.

    None where nothing names any: processes of several machines would else each make keys of their own, and none could
    read what another has written. Raises KeyFileError.
    """
    path = Path(settings.secret_keys)
    if path.resolve() != state.secret_keys.resolve():
        return read_keys(path)
    if not path.exists():
        if not (settings.accounts.startswith("sqlite:") or state.runs(settings.kubernetes)):
            return None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if make_keys(path, load_identity(state).add_mark("").lstrip()):
            _log.info("%s: was made; it encrypts the secrets of accounts", path)
    try:
        keys = read_keys(path)
    except KeyFileError as error:
        raise KeyFileError(f"{error}. {_GO_ON}") from error
    if load_identity(state).is_foreign(path.read_text()):
        raise KeyFileError(f"secret_keys {path}: belongs to another platform. {_GO_ON}")
    load_identity(state).take_over(path)
    return keys
