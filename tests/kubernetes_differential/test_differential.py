"""The corpus on the embedded server, compared with the recorded answers of a real one, and what keeps the corpus
whole."""

import fnmatch
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes_differential.compare import accepted, differences
from tests.kubernetes_differential.corpus import corpus, modules
from tests.kubernetes_differential.embedded import embedded_server
from tests.kubernetes_differential.recorded import FOLDER, known, recorded, recordings
from tests.kubernetes_differential.run import answers

MODULES = modules()
MOST_ACCEPTED = 10
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with embedded_server(provisioner=False) as path:
        yield path


@pytest.mark.parametrize("module", MODULES)
def test_no_case_differs_more_than_is_known(module: str, kubeconfig: Path) -> None:
    cases, numbers = corpus()[module], known(module)
    ours = answers(cases, kubeconfig)
    wrong: list[str] = []
    for case in cases:
        theirs = recorded(module, case)
        assert theirs is not None, (
            f"{case.name} is not recorded: python -m tests.kubernetes_differential --record"
        )
        rows = differences(case, ours[case.name], theirs)
        if len(rows) > numbers.get(case.name, 0):
            wrong.append(f"{case.name}: {len(rows)} differences, {numbers.get(case.name, 0)} are known:")
            wrong += [f"  step {row.step}: {row}" for row in rows]
        elif len(rows) < numbers.get(case.name, 0):
            wrong.append(
                f"{case.name}: mended; take it out with python -m tests.kubernetes_differential --update"
            )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "module", sorted({path.name.split(".")[0] for path in (FOLDER / "recorded").glob("*")})
)
def test_no_case_is_removed_or_changed(module: str) -> None:
    """A recording belongs to one form of its case: a weakened one is without a recording."""
    present = {case.name: case.digest() for case in corpus().get(module, [])}
    kept = {name: entry["digest"] for name, entry in recordings(module).items()}
    assert kept == present


def test_few_differences_are_accepted_and_each_has_its_reason() -> None:
    rows = accepted()
    assert len(rows) <= MOST_ACCEPTED
    assert all(len(row.reason.split()) > 5 for row in rows)


def test_each_feature_and_suite_has_its_cases() -> None:
    names = [case.name for cases in corpus().values() for case in cases]
    content = tomllib.loads((FOLDER / "features.toml").read_text())
    for rows in content.values():
        for row, shown in rows.items():
            assert shown, row
            for pattern in shown.get("cases", ()):
                assert fnmatch.filter(names, pattern), f"{row}: no case is called {pattern!r}"
            for place in shown.get("elsewhere", ()):
                path, _, function = place.partition("::")
                text = (ROOT / path).read_text()
                assert not function or f"def {function}(" in text, f"{row}: {place} is not there"


def test_known_differences_are_of_cases_that_exist() -> None:
    for module in {path.stem for path in (FOLDER / "known").glob("*.txt")}:
        assert set(known(module)) <= {case.name for case in corpus().get(module, [])}
