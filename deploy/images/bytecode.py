"""Compiles modules inside an image's folders, so that no start has to.

Compiled files name no time: they are used as they are, which is right where nobody can edit the source.
"""

from pathlib import Path

from deploy.images.debian import Interpreter


def compile_modules(python: Interpreter, folder: Path, root: Path) -> None:
    """Compile everything below a folder of a root. Raises ImageError, also for a module that has an error."""
    # One process: with several, what is shared inside a compiled file would depend on which modules came before.
    python.run(
        "-m", "compileall", "-q", "-f", "-j", "1", "--invalidation-mode", "unchecked-hash",
        "-s", str(root), "-p", "/", str(folder),
    )  # fmt: skip
