"""The keys that encrypt secrets, as a process of the platform finds them. `platform.py` calls it."""

import logging
from pathlib import Path

from steelyard.accounts.secrets import SecretKeys, make_keys, read_keys
from steelyard.local.state import StateDir
from steelyard.settings import Settings

_log = logging.getLogger(__name__)


def secret_keys(state: StateDir, settings: Settings) -> SecretKeys | None:
    """Return the keys of the settings; on one machine, those of the folder, made where there are none.

    None where nothing names any: processes of several machines would else each make keys of their own, and none could
    read what another has written. Raises KeyFileError.
    """
    path = Path(settings.secret_keys)
    if path.resolve() == state.secret_keys.resolve() and not path.exists():
        if not (settings.accounts.startswith("sqlite:") or state.runs(settings.kubernetes)):
            return None
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if make_keys(path):
            _log.info("%s: was made; it encrypts the secrets of accounts", path)
    return read_keys(path)
