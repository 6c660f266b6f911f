"""Runs examples on one `steelyard up`, one after the other or side by side, and says what came of each."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.engines.build import Missing
from tests.frameworks.examples import EXAMPLES, Example
from tests.frameworks.training import Course, faults, train
from tests.integration.conftest import Machine

HEAD = "| example | killed | accuracy | killed at | went on | Succeeded |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Plan:
    """Plan of a run of the examples."""

    chosen: Sequence[Example]
    pythons: Mapping[str, Path]
    """Interpreters by environment."""
    kill: str = "last"
    """Replica that dies: first or last."""
    together: bool = False
    """All at once, on the ports that their kinds share."""


def run(*names: str) -> int:
    """Exit status of the examples, side by side; Missing where the environment of one of them cannot be had."""
    chosen = [example for example in EXAMPLES if example.name in names]
    return (
        1
        if failed(Plan(chosen, {example.environment: example.python() for example in chosen}, together=True))
        else 0
    )


def failed(plan: Plan) -> list[str]:
    """The names of those that are not as they should be."""
    with tempfile.TemporaryDirectory(prefix="steelyard-frameworks-") as folder:
        machine = Machine(Path(folder) / "state")
        machine.state.path.mkdir()
        machine.state.images.write_text(images(plan.pythons))
        for name in [name for name in os.environ if name.startswith("STEELYARD_")]:
            del os.environ[name]
        machine.up("platform")
        try:
            print(HEAD, flush=True)
            return asyncio.run(_failed(machine, plan, Path(folder)))
        finally:
            machine.down()


async def _failed(machine: Machine, plan: Plan, folder: Path) -> list[str]:
    at_once = asyncio.Semaphore(len(plan.chosen) if plan.together else 1)

    async def fails(example: Example) -> bool:
        async with at_once:
            return await _fails(machine, example, plan.kill, folder)

    outcomes = await asyncio.gather(*(fails(example) for example in plan.chosen))
    return [example.name for example, wrong in zip(plan.chosen, outcomes, strict=True) if wrong]


def images(pythons: Mapping[str, Path]) -> str:
    """images.toml: which interpreter stands for which image."""
    return "".join(f'["frameworks/{name}"]\npython = "{path}"\n' for name, path in sorted(pythons.items()))


async def _fails(machine: Machine, example: Example, kill: str, folder: Path) -> bool:
    victim = example.first if kill == "first" else example.last
    course = await train(machine, example, victim, folder / "checkpoints" / example.name)
    print(_row(example, victim, course), flush=True)
    wrong = faults(example, victim, course)
    for failed_example in wrong:
        print(f"{example.name}: {failed_example}", flush=True)
    return bool(wrong)


def _row(example: Example, victim: str, course: Course) -> str:
    after = f"{course.resumed - course.killed:.1f} s after" if course.resumed and course.killed else "not"
    killed = f"step {course.step}, {course.killed:.1f} s" if course.killed else "not"
    accuracy = f"{course.first:.3f} to {course.last:.3f}"
    return f"| {example.name} | {victim} | {accuracy} | {killed} | {after} | {course.ended:.1f} s |"


def available(chosen: Sequence[Example], say: Callable[[str], None]) -> dict[str, Path]:
    """The interpreters of those whose environment can be had, by its name; the others are said."""
    pythons: dict[str, Path] = {}
    for name in dict.fromkeys(example.environment for example in chosen):
        try:
            pythons[name] = next(example for example in chosen if example.environment == name).python()
        except Missing as reason:
            say(str(reason))
    return pythons
