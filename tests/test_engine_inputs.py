"""Tests of what the engines' suites depend on, and of the record by which CI leaves out those that would pass again."""

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.engines import __main__ as engines
from tests.engines.inputs import ALL, Tree
from tests.engines.lanes import Result
from tests.engines.record import PassingRun, commit_name, read_record, renew_record

FILES = {
    "pyproject.toml": "[project]",
    "CHANGELOG.md": "",
    "packages/common/src/steelyard_common/__init__.py": "",
    "packages/common/src/steelyard_common/types.py": "",
    "packages/rubrics/pyproject.toml": '[project.entry-points."a.group"]\nSame = "steelyard_rubrics.same:Same"',
    "packages/rubrics/src/steelyard_rubrics/__init__.py": "",
    "packages/rubrics/src/steelyard_rubrics/find.py": 'POINTS = entry_points(group="a.group")',
    "packages/rubrics/src/steelyard_rubrics/same.py": "",
    "requirements/dev.txt": "",
    "src/steelyard/__init__.py": 'LAZY = {"Server": "steelyard.local.server"}',
    "src/steelyard/kube/__init__.py": "from steelyard.kube.client import Client",
    "src/steelyard/kube/client.py": "",
    "src/steelyard/kube/definitions.json": "{}",
    "src/steelyard/kube/test_client.py": "",
    "src/steelyard/local/server.py": 'COMMAND = ["python", "-m", "steelyard.local.kubelet.main"]',
    "src/steelyard/local/kubelet/main.py": "from importlib import import_module\n\nimport_module(name)",
    "src/steelyard/local/kubelet/warm.py": "",
    "src/steelyard/services/main.py": "import steelyard.kube",
    "tests/api/test_api.py": "from tests.api import cases",
    "tests/api/cases.py": 'MODULE = f"tests.more.{name}"',
    "tests/api/table.yaml": "",
    "tests/more/one.py": "",
    "tests/other/test_other.py": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", set()),
        ("import steelyard_common", set()),
        (
            "from steelyard import Server",
            {"local/server.py", "local/kubelet/main.py", "local/kubelet/warm.py"},
        ),
        (
            "import steelyard.kube.client",
            {"kube/__init__.py", "kube/client.py", "kube/definitions.json"},
        ),
        (
            "from steelyard.kube import (\n    client,\n)",
            {"kube/__init__.py", "kube/client.py", "kube/definitions.json"},
        ),
        (
            'PROGRAM = "steelyard.local.server"',
            {"local/server.py", "local/kubelet/main.py", "local/kubelet/warm.py"},
        ),
        (
            "from steelyard_common.types import Json",
            {"packages/common/src/steelyard_common/types.py"},
        ),
        (
            "from steelyard_rubrics import find",
            {
                "packages/rubrics/src/steelyard_rubrics/find.py",
                "packages/rubrics/src/steelyard_rubrics/same.py",
            },
        ),
    ],
    ids=[
        "nothing",
        "a package that is always an input",
        "a name that the outermost package loads",
        "a module, its packages, and the data beside it",
        "a module that is imported from its package",
        "a program, what it starts, and the modules among which that chooses",
        "a module of another distribution",
        "entry points",
    ],
)
def test_inputs_are_all_that_a_suite_reaches(line: str, expected: set[str], root: Path) -> None:
    (root / "tests/other/test_other.py").write_text(line)

    inputs = Tree(root).inputs(["tests/other"])

    packages = {
        "packages/common/src/steelyard_common/__init__.py",
        "packages/rubrics/src/steelyard_rubrics/__init__.py",
        "src/steelyard/__init__.py",
    }
    projects = {"packages/rubrics/pyproject.toml", "pyproject.toml"}
    common = {"requirements/dev.txt", "tests/other/test_other.py"} | packages | projects
    assert inputs == {path if "/src/" in path else f"src/steelyard/{path}" for path in expected} | common


def test_a_suite_has_all_files_of_its_folders_and_the_names_that_are_made_while_it_runs(root: Path) -> None:
    inputs = Tree(root).inputs(["tests/api"])

    assert {path for path in inputs if path.startswith("tests/")} == {
        "tests/api/cases.py",
        "tests/api/table.yaml",
        "tests/api/test_api.py",
        "tests/more/one.py",
    }


def test_the_whole_tree_has_all_files_but_the_changelog(root: Path) -> None:
    assert Tree(root).inputs([ALL]) == FILES.keys() - {"CHANGELOG.md"}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("src/steelyard/kube/client.py", True),
        ("src/steelyard/kube/definitions.json", True),
        ("requirements/dev.txt", True),
        ("tests/other/new.yaml", True),
        ("src/steelyard/kube/test_client.py", False),
        ("src/steelyard/services/main.py", False),
        ("tests/api/cases.py", False),
        ("CHANGELOG.md", False),
    ],
)
def test_a_digest_changes_with_a_suites_inputs_alone(path: str, changes: bool, root: Path) -> None:
    (root / "tests/other/test_other.py").write_text("from steelyard import kube")
    before = Tree(root).digest(["tests/other"])

    (root / path).write_text("# changed")

    assert (Tree(root).digest(["tests/other"]) != before) == changes


def test_a_digest_changes_where_a_file_is_renamed_or_removed(root: Path) -> None:
    digests = [Tree(root).digest(["tests/api"])]
    (root / "tests/api/table.yaml").rename(root / "tests/api/rows.yaml")
    digests.append(Tree(root).digest(["tests/api"]))
    (root / "tests/api/rows.yaml").unlink()
    digests.append(Tree(root).digest(["tests/api"]))

    assert len(set(digests)) == 3


def test_the_record_has_the_last_run_of_each_suite_that_passed(tmp_path: Path) -> None:
    path, names = tmp_path / "passed.json", {"Kafka", "S3"}
    renew_record({"Kafka", "S3", "Redis"}, "Redis", PassingRun("a", "1"), path)
    renew_record(names, "Kafka", PassingRun("a", "2"), path)
    renew_record(names, "S3", PassingRun("a", "3"), path)
    renew_record(names, "Kafka", PassingRun("b", "4"), path)
    assert read_record(path) == {"Kafka": PassingRun("b", "4"), "S3": PassingRun("a", "3")}

    renew_record(names, "Kafka", None, path)
    assert read_record(path) == {"S3": PassingRun("a", "3")}


def test_a_commit_is_named_and_so_are_changes_beside_it(root: Path) -> None:
    def git(*arguments: str) -> None:
        user = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        subprocess.run(["git", *user, *arguments], cwd=root, check=True)

    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    commit = commit_name(root)
    (root / "tests/engines").mkdir()
    (root / "tests/engines/passed.json").write_text("{}")
    assert commit_name(root) == commit

    (root / "tests/api/table.yaml").write_text("changed")
    assert commit_name(root) == f"{commit}-dirty"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes the record of one suite's run in this tree; the other suites are without one."""

    def record(name: str, digest: str | None = None) -> None:
        run = PassingRun("0123456789ab", digest or Tree(engines.ROOT).digest(engines.SUITES[name].own))
        monkeypatch.setattr(engines, "read_record", lambda: {name: run})

    return record


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the suites that `main` would run."""
    names: list[str] = []

    def run(commands: Mapping[str, Sequence[str]], at_once: int) -> Iterator[Result]:
        names.extend(commands)
        return iter(())

    monkeypatch.setattr(engines, "run_side_by_side", run)
    return names


def test_a_suite_with_unchanged_inputs_is_named_with_its_commit_and_not_run(
    recorded: Callable[[str], None], begun: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    suite = "Chromium (accessibility)"
    recorded(suite)

    assert engines.main(["--changed", suite]) == 0

    assert begun == []
    assert capsys.readouterr().out.splitlines() == [
        f"unchanged: {suite}: passed at 0123456789ab with the same inputs",
        "0 passed, 0 failed, 0 skipped, 1 unchanged",
    ]


@pytest.mark.parametrize(
    ("options", "digest"),
    [([], None), (["--changed"], "0" * 64)],
    ids=["all are asked for", "the inputs are others"],
)
def test_a_suite_runs(
    options: list[str], digest: str | None, recorded: Callable[..., None], begun: list[str]
) -> None:
    suite = "Chromium (accessibility)"
    recorded(suite, digest)

    assert engines.main([*options, suite]) == 0

    assert begun == [suite]


def test_every_suite_names_what_is_there_and_its_own_module() -> None:
    tree = Tree(engines.ROOT)
    for name, suite in engines.SUITES.items():
        run = suite.run
        while isinstance(run, partial):
            run = run.args[1] if run.func is engines.model_server else run.func
        module = run.__module__.replace(".", "/") + ".py"
        assert module in tree.inputs(suite.own), name
        for path in suite.own:
            assert (engines.ROOT / path).exists(), f"{name}: {path}"


@pytest.mark.parametrize(
    ("start", "own", "foreign"),
    [
        ("Kafka (", "src/steelyard/broker/kafka/log.py", None),
        ("Ray (", "src/steelyard/services/aggregator/messages.py", None),
        (
            "Kubernetes controllers (ours",
            "packages/local-kubernetes/src/steelyard_local_kubernetes/controllers/job.py",
            "src/steelyard/api/settings.py",
        ),
        (
            "originals",
            "packages/evaluation/src/steelyard_evaluation/report/rubrics/text.py",
            "packages/kube/src/steelyard_kube/client.py",
        ),
        (
            "Chromium",
            "packages/evaluation/src/steelyard_evaluation/report/publish.py",
            "packages/kube/src/steelyard_kube/client.py",
        ),
        ("Python 3.12", "docs/rubrics.md", None),
    ],
)
def test_a_suite_depends_on_what_it_starts_and_not_on_other_rooms(
    start: str, own: str, foreign: str | None
) -> None:
    (name,) = (name for name in engines.SUITES if name.startswith(start))
    inputs = Tree(engines.ROOT).inputs(engines.SUITES[name].own)

    assert own in inputs
    assert foreign not in inputs
