"""`python -m tests.kubernetes_differential`: the corpus on the embedded server, compared with a real one.

Without options the real server's recorded answers are compared. `--real` asks the server that KUBECONFIG_REAL names,
or starts a control plane; `--record` also keeps its answers. `--update` takes mended ones out of the known
differences. `--only PATTERN` chooses cases by name or by file. `--random N` compares N variations of each kind that
no recording has; `--seed` repeats those of an earlier run.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard_common.types import Json
from tests.engines.build import Missing, binaries
from tests.engines.control_plane import control_plane
from tests.kubernetes_api.strange import BASES
from tests.kubernetes_differential.case import Case
from tests.kubernetes_differential.cases.random_objects import SEEDS, varied_case
from tests.kubernetes_differential.compare import Difference, differences
from tests.kubernetes_differential.corpus import chosen
from tests.kubernetes_differential.embedded import embedded_server
from tests.kubernetes_differential.recorded import (
    known,
    recorded,
    recordings,
    write_known,
    write_recordings,
)
from tests.kubernetes_differential.run import answers


@contextmanager
def real_server() -> Iterator[tuple[Path, bool]]:
    """The kubeconfig of a real server, and whether it goes on living."""
    if given := os.environ.get("KUBECONFIG_REAL"):
        yield Path(given), True
        return
    with (
        tempfile.TemporaryDirectory(prefix="steelyard-engines-") as folder,
        control_plane(binaries(), Path(folder)) as kubeconfig,
    ):
        yield kubeconfig, False


def real_answers(cases: list[Case]) -> dict[str, list[Json]]:
    with real_server() as (kubeconfig, stays):
        return answers(cases, kubeconfig, accounts=True, tidy=stays)


def record(module: str, cases: list[Case], theirs: dict[str, list[Json]]) -> set[str]:
    """Keep answers; cases whose recording is new or of another form."""
    content = recordings(module)
    new = {case.name for case in cases if content.get(case.name, {}).get("digest") != case.digest()}
    for case in cases:
        content[case.name] = {"digest": case.digest(), "answers": theirs[case.name]}
    write_recordings(module, content)
    return new


def show(case: Case, rows: list[Difference]) -> None:
    print(f"\n{case.name}")
    shown = -1
    for row in rows:
        if row.step != shown:
            step = case.steps[row.step]
            words = [type(step).__name__, getattr(step, "method", ""), getattr(step, "path", "")]
            print(f"  step {row.step}: {' '.join(word for word in words if word)}")
            shown = row.step
        print(f"    {row}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes_differential", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--real", action="store_true", help="ask a real server")
    parser.add_argument("--record", action="store_true", help="ask a real server and keep its answers")
    parser.add_argument(
        "--update", action="store_true", help="take what is mended out of the known differences"
    )
    parser.add_argument(
        "--verify", action="store_true", help="compare a real server with the recordings of one"
    )
    parser.add_argument("--quiet", action="store_true", help="print the numbers alone")
    parser.add_argument("--forget", default="", metavar="NAME", help="drop the recording of a removed case")
    parser.add_argument(
        "--random", type=int, default=0, metavar="N", help="compare N new variations of each kind"
    )
    parser.add_argument("--seed", type=int, help="the number that an earlier run of --random has printed")
    options = parser.parse_args(arguments)
    if options.random:
        seed = random.SystemRandom().randrange(SEEDS, 1 << 30) if options.seed is None else options.seed
        return compare_variations(seed, options.random)
    if options.forget:
        return forget(options.forget)
    picked = chosen(options.only)
    if options.verify:
        return verify(picked)
    cases = [case for group in picked.values() for case in group]
    if options.real or options.record:
        try:
            theirs = real_answers(cases)
        except Missing as missing:
            sys.exit(f"{missing}: there is no real server")
    else:
        kept = {case.name: recorded(module, case) for module, group in picked.items() for case in group}
        theirs = {name: answer for name, answer in kept.items() if answer is not None}
        for name in sorted({case.name for case in cases} - set(theirs)):
            print(f"not recorded: {name}")
    with embedded_server(provisioner=False) as kubeconfig:
        ours = answers([case for case in cases if case.name in theirs], kubeconfig)
    return report(picked, ours, theirs, options)


def report(
    picked: dict[str, list[Case]],
    ours: dict[str, list[Json]],
    theirs: dict[str, list[Json]],
    options: argparse.Namespace,
) -> int:
    """Print the differences; 1 where a case differs more than it is known to."""
    differing = total = worse = compared = 0
    for module, group in picked.items():
        present = [case for case in group if case.name in theirs]
        new = record(module, present, theirs) if options.record else set()
        numbers = known(module)
        for case in present:
            rows = differences(case, ours[case.name], theirs[case.name])
            compared, total, differing = compared + 1, total + len(rows), differing + bool(rows)
            if rows and not options.quiet:
                show(case, rows)
            if case.name in new or (options.update and len(rows) < numbers.get(case.name, 0)):
                numbers[case.name] = len(rows)
            worse += len(rows) > numbers.get(case.name, 0)
        if options.update or new:
            write_known(module, numbers)
    print(f"\n{compared} cases, {differing} differ in {total} places; {worse} differ more than is known")
    return 1 if worse else 0


def verify(picked: dict[str, list[Case]]) -> int:
    """Compare a real server's answers with the recorded ones, which must be the same."""
    theirs = real_answers([case for group in picked.values() for case in group])
    other = 0
    for module, group in picked.items():
        for case in group:
            kept = recorded(module, case)
            rows = differences(case, kept, theirs[case.name]) if kept is not None else []
            if rows:
                print("\nrecorded (here) and answered now (real):")
                show(case, rows)
            elif kept is None:
                print(f"not recorded: {case.name}")
            other += kept is None or bool(rows)
    print(f"\n{sum(map(len, picked.values()))} cases asked anew, {other} are not as recorded")
    return 1 if other else 0


def compare_variations(seed: int, count: int) -> int:
    """Compare variations that no recording has, and print the seed by which they can be made again."""
    print(f"--random {count} --seed {seed}")
    cases = [varied_case(kind, seed, count, " by a new seed") for kind in sorted(BASES)]
    try:
        theirs = real_answers(cases)
    except Missing as missing:
        sys.exit(f"{missing}: there is no real server")
    with embedded_server(provisioner=False) as kubeconfig:
        ours = answers(cases, kubeconfig)
    total = 0
    for case in cases:
        rows = differences(case, ours[case.name], theirs[case.name])
        total += len(rows)
        if rows:
            show(case, rows)
    print(f"\n{len(cases) * count} objects differ in {total} places")
    return 1 if total else 0


def forget(name: str) -> int:
    for path in sorted((Path(__file__).parent / "recorded").glob("*.json.xz")):
        module = path.name.removesuffix(".json.xz")
        content = recordings(module)
        if content.pop(name, None):
            write_recordings(module, content)
            write_known(module, {case: number for case, number in known(module).items() if case != name})
            print(f"forgotten: {name}, of {module}")
            return 0
    print(f"no such recording: {name}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
