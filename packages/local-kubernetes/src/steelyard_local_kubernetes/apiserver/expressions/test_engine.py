"""The engine is imported without its command line, in the version that is installed and in one that needs it."""

import subprocess
import sys
from pathlib import Path

LOAD = """
import sys
from steelyard_local_kubernetes.apiserver.expressions.engine import load
load()
import cel
"""


def run(program: str, *paths: Path) -> str:
    begin = "".join(f"import sys; sys.path.insert(0, {str(path)!r})\n" for path in paths)
    done = subprocess.run(
        [sys.executable, "-c", begin + LOAD + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_command_line_is_not_imported() -> None:
    """Packages of the command line, a terminal's colours among them, would stay in the API server's memory."""
    program = (
        "print(cel.evaluate('1 + 1'), [name for name in ('cel.cli', 'typer', 'rich') if name in sys.modules])"
    )
    assert run(program) == "2 []"


def test_a_version_that_needs_its_command_line_is_imported_whole(tmp_path: Path) -> None:
    package = tmp_path / "cel"
    package.mkdir()
    (package / "__init__.py").write_text("from cel.cli import main\nanswer = main()\n")
    (package / "cli.py").write_text("def main() -> int:\n    return 42\n")
    assert run("print(cel.answer)", tmp_path) == "42"
