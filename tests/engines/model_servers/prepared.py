"""Preparation of the suites, once per machine in the cache: runners, models, and lm-eval's own numbers of them."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from steelyard.local.runners.environments import Environment, read
from steelyard.local.runners.install import InstallFailed, install
from steelyard.runners.table import PROGRAMS
from tests.engines.build import Missing, one_at_a_time
from tests.engines.lm_eval.suite import LOCK as LM_EVAL_LOCK
from tests.engines.lm_eval.tasks import write_tasks
from tests.engines.locked import environment

HERE = Path(__file__).parent
TOOLS = HERE / "tools.txt"
MODELS, REFERENCE = HERE / "make_models.py", HERE / "reference.py"
LEFT_OUT = ("local_lists", "local_group")
"""Tasks that ask nothing of a server that the others do not."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "steelyard" / "engines" / "model-servers"


def runner(name: str) -> Environment:
    """The environment of a runner for processors, installed as `steelyard runners install` does.

    Within `surroundings`. Raises Missing where its toolchain is not there.
    """
    kind = PROGRAMS[name]
    with one_at_a_time(cache() / name):
        if installed := read(kind):
            return installed
        if name == "llama.cpp" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
            raise Missing("llama.cpp is built from source, and there is no C++ compiler")
        try:
            return install(kind, "cpu", lambda text: print(text, flush=True))
        except InstallFailed as error:
            raise Missing(f"{name}: cannot be installed: {error}") from error


@contextlib.contextmanager
def surroundings(scratch: Path) -> Iterator[None]:
    """Let runners lie in the cache and states in `scratch`, for this process and those that it starts."""
    settings = {"XDG_DATA_HOME": str(cache()), "XDG_STATE_HOME": str(scratch)}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def models() -> Path:
    """The folder with `bos`, `nobos`, `bos-gguf` and `nobos-gguf`, trained once (two minutes)."""
    folder = cache() / f"models-{_digest(MODELS, TOOLS)}"
    with one_at_a_time(folder):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run_with_torch(MODELS, str(folder))
            (folder / "complete").touch()
    return folder


def tasks() -> Path:
    """The folder with lm-eval's tasks, and a group of them all. It stays, since reports name its files."""
    folder = cache() / f"tasks-{_digest(HERE.parent / 'lm_eval' / 'tasks.py')}"
    with one_at_a_time(folder):
        if not (folder / "complete").exists():
            folder.mkdir(exist_ok=True)
            write_tasks(folder)
            for name in LEFT_OUT:
                (folder / f"{name}.yaml").unlink()
            (folder / "complete").touch()
    return folder


def reference(model: str) -> dict[str, float]:
    """lm-eval's own numbers of a model, by its `hf` backend; computed once (a minute)."""
    key = _digest(MODELS, TOOLS, REFERENCE, LM_EVAL_LOCK, HERE.parent / "lm_eval" / "tasks.py")
    path = cache() / f"reference-{model}-{key}.json"
    with one_at_a_time(path):
        if not path.exists():
            half_done = path.with_suffix(".new")
            _run_with_torch(REFERENCE, str(models() / model), str(tasks()), str(half_done))
            half_done.rename(path)
    numbers: dict[str, float] = json.loads(path.read_text())
    return numbers


def lm_eval_python() -> Path:
    return environment("lm-eval", LM_EVAL_LOCK)


def _run_with_torch(program: Path, *arguments: str) -> None:
    """Run a program in vLLM's environment; what that lacks comes behind it from lm-eval's and the tools'."""
    tools = environment("model-servers-tools", TOOLS, dependencies=False)
    behind = [
        str(next((python.parents[1] / "lib").glob("python3*/site-packages")))
        for python in (tools, lm_eval_python())
    ]
    start = f"import runpy, sys; sys.path += {behind!r}; sys.argv = sys.argv[1:]; "
    start += "runpy.run_path(sys.argv[0], run_name='__main__')"
    settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(cache() / "hf"), "TQDM_DISABLE": "1"}
    command = [str(runner("vllm").python), "-c", start, str(program), *arguments]
    done = subprocess.run(
        command, env=os.environ | settings, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{program.name}: {done.stderr[-2000:]}")


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]
