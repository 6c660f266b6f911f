"""Runs the programs that a release is made with."""

import subprocess
from collections.abc import Mapping
from pathlib import Path


class ReleaseError(Exception):
    """The release cannot be made; the message says why."""


def run(step: str, *command: str | Path, at: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a command; raise ReleaseError with all that it printed where it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=at, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(
            f"{step}: {command[0]} ended with status {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout
