"""The programs, each in its newest version and the oldest that our pages name, and how they are asked."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.engines.build import go_program
from tests.engines.debian import unpacked
from tests.engines.locked import environment

HERE = Path(__file__).parent
AGES = ("newest", "oldest")
PROMTOOL = ("promtool", "github.com/prometheus/prometheus/cmd/promtool", "v0.316.0", "remove_all_sd")
"""The newest one, without the clients of clouds, which are most of its build."""


def promtool(age: str) -> Path:
    """Return Prometheus' own program of checks; the oldest one is that of Debian 12. Raises Missing."""
    return go_program(*PROMTOOL) if age == "newest" else unpacked("prometheus", "usr/bin/promtool")


def python(name: str, age: str) -> Path:
    """Return the interpreter of the environment of a package. Raises Missing."""
    return environment(f"{name}-{age}", HERE / f"{name}-{age}.txt")


def ask(name: str, age: str, *arguments: str, stdin: str = "") -> Any:
    """Run the session of a package; return the JSON that it prints, which it does only if all went well."""
    command = [str(python(name, age)), str(HERE / f"session_{name}.py"), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
