"""The program of a job's replicas: a script in its own folder, or carried to a cluster in a ConfigMap."""

import base64
import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.cli.train.cluster import ClusterTarget
from steelyard.clusters.names import CODE_DIGEST, PROGRAM
from steelyard.clusters.training.frameworks import BY_NAME, KNOWN, TrainingFramework, find_imported, imports
from steelyard.clusters.training.manifest import CODE, Program
from steelyard_common.errors import UsageError
from steelyard_common.types import Json

CODE_BYTES = 900_000
"""A ConfigMap holds a mebibyte."""
MODE = 0o755
"""Mode of the carried files: a program that is not Python has to be executable."""
PROGRESS_KEY, PROGRESS_PATH = "steelyard.progress", "steelyard/progress.py"


@dataclass(frozen=True)
class Script:
    """The user's program and its arguments."""

    path: Path
    arguments: tuple[str, ...] = ()

    @property
    def is_python(self) -> bool:
        return self.path.suffix == ".py"

    @property
    def source(self) -> str:
        return self.path.read_text(errors="replace")

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations with the command, for people and for the lineage of the output."""
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return {PROGRAM: shlex.join([str(self.path), *self.arguments]), CODE_DIGEST: f"sha256:{digest}"}


def script(text: str, arguments: Sequence[str]) -> Script:
    """Raises UsageError where it is not a file, or none that can be run."""
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"{text}: there is no such file; it should be a Python script or a program")
    if path.suffix != ".py" and not os.access(path, os.X_OK):
        raise UsageError(f"{text}: is neither a Python script (.py) nor a program that may be executed")
    return Script(path, tuple(arguments))


def guess(program: Script) -> TrainingFramework:
    """The framework that the script imports. Raises UsageError where that is not clear."""
    framework = find_imported(program.source) if program.is_python else None
    if framework is None:
        known = ", ".join(known_framework.name for known_framework in KNOWN)
        raise UsageError(
            f"--framework: is missing, and {program.path} does not say it by its imports; it should be {known}, "
            "or a resource of kind Framework"
        )
    return framework


def check_python(program: Script, framework: str, python: Path | None) -> Path:
    """The Python that is to run the script here, which has what the script imports of its framework.

    Raises UsageError: before a job is made, and before a platform is started for it.
    """
    from steelyard.cli.train import python_image

    chosen, known = python_image.choose(python), BY_NAME.get(framework.lower())
    if known and program.is_python and known.module in imports(program.source):
        python_image.check_module(chosen, known.module, known.name)
    return chosen


def on_this_machine(
    program: Script, place: ClusterTarget, python: Path, image: str | None, *, dry: bool
) -> Program:
    """Return the program as it runs here: in the current folder, by the user's own Python.

    Unless it is `dry`, the state folder gets what the program needs there.
    """
    from steelyard.cli.train import python_image
    from steelyard.local.image_resolver import find
    from steelyard.local.images import write_progress
    from steelyard_local_kubernetes.kubelet.images import ImageMissing

    if place.state is None:
        raise ValueError("not this machine")
    environment = {"PYTHONPATH": str(place.state.python)}
    if image is not None:
        try:
            find(place.state.images, image)
        except ImageMissing as error:
            raise UsageError(f"--image {image}: {error}") from error
    if not dry:
        write_progress(place.state)
        if image is None:
            python_image.enter(place.state, python)
    image = image or python_image.find_image(python)
    where = str(program.path.absolute())
    return Program(image, _command(program, where), str(Path.cwd()), environment=environment)


def on_a_cluster(program: Script, image: str | None) -> Program:
    """The script goes along, and so does `steelyard.progress`. Raises UsageError."""
    if image is None:
        raise UsageError("--image: is missing; a cluster needs the name of an image with the framework in it")
    # Into a pipe, Python writes in blocks: lines would come minutes late, and a kill would lose them.
    environment = {"PYTHONPATH": CODE, "PYTHONUNBUFFERED": "1"}
    return Program(image, _command(program, f"{CODE}/{program.path.name}"), environment=environment)


def files(program: Script, name: str, namespace: str, modules: Sequence[Path]) -> Json:
    """The ConfigMap that carries the script, the other files of its folder and `steelyard.progress`. Raises
    UsageError."""
    import steelyard.progress

    contents = {path.name: _content(path) for path in (program.path, *modules)}
    if len(contents) <= len(modules):
        raise UsageError(
            "--file: two files have the same name; each needs a name of its own, as all lie in one folder"
        )
    contents[PROGRESS_KEY] = _content(Path(steelyard.progress.__file__))
    size = sum(map(len, contents.values()))
    if size > CODE_BYTES:
        raise UsageError(
            f"{program.path}: with the files next to it has {size} bytes; {CODE_BYTES} may travel along"
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-code", "namespace": namespace},
        "data": {name: text for name, content in contents.items() if (text := _text(content)) is not None},
        "binaryData": {
            name: base64.b64encode(content).decode()
            for name, content in contents.items()
            if _text(content) is None
        },
    }


def volume(files: Json) -> Json:
    """Return the volume of the files: `steelyard/progress.py` is a module next to the script."""
    keys = (*files["data"], *files["binaryData"])
    paths = {key: PROGRESS_PATH if key == PROGRESS_KEY else key for key in keys}
    items = [{"key": key, "path": path} for key, path in paths.items()]
    return {"name": files["metadata"]["name"], "items": items, "defaultMode": MODE}


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _text(content: bytes) -> str | None:
    """Return the text of a file; None for other content, such as a compiled program."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _command(program: Script, where: str) -> tuple[str, ...]:
    return (*(("python",) if program.is_python else ()), where, *program.arguments)


def threads(replicas: int, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the threads of one replica: on one machine they share its cores, and each would use them all."""
    if "OMP_NUM_THREADS" in variables:
        return {}
    return {"OMP_NUM_THREADS": str(max(len(os.sched_getaffinity(0)) // replicas, 1))}
