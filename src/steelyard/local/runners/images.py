"""Entries of `images.toml` for installed runners: the embedded kubelet finds their Pythons there.

An entry that a user has written stays; ours are known by the folder that their Python lies in.
"""

import json
import re

from steelyard.local.runners.environments import data_folder, read
from steelyard.local.state import StateDir
from steelyard.runners.table import PROGRAMS
from steelyard_common import bounded_toml
from steelyard_common.durable import write_atomically
from steelyard_common.errors import UsageError
from steelyard_common.lock import hold_lock


def enter_installed(state: StateDir) -> None:
    """Make the entries of the runners name the versions that are installed now. Raises UsageError."""
    with hold_lock(state.lock("images")):
        try:
            said = bounded_toml.read(state.images) if state.images.exists() else ""
            known = bounded_toml.load(said)
        except bounded_toml.BadToml as error:
            raise UsageError(f"{state.images}: {error}") from error
        text = said
        for kind in PROGRAMS.values():
            name, installed = f"localhost/{kind.image}", read(kind)
            entry = known.get(name)
            python = str((entry or {}).get("python", ""))
            if entry is not None and not python.startswith(f"{data_folder()}/"):
                continue
            # Steelyard writes a table as its heading and one line.
            text = re.sub(rf'^\["{re.escape(name)}"\]\npython = "[^\n]*"\n*', "", text, flags=re.MULTILINE)
            if installed is not None:
                table = f'["{name}"]\npython = {json.dumps(str(installed.python))}\n'
                text = f"{text.rstrip()}\n\n{table}".lstrip()
        if text.strip() != said.strip():
            write_atomically(state.images, text)
