"""Files of a volume that overlap: the pairs of a plain comparison, in a time that does not grow with its square."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.rules.pod_warnings import File, overlaps, pod_warnings

MANY = 30_000
PATHS = st.text("ab/.", max_size=5)


def plainly(files: list[File]) -> list[tuple[File, File]]:
    """All pairs as a real server compares them; of the same ones it shows the first alone."""
    pairs = []
    before: list[File] = []
    for whole, source in files:
        path = whole.rstrip("/")
        for other in before:
            if (
                path
                and other[0]
                and (f"{other[0]}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other[0]}/"))
            ):
                pairs.append(((path, source), other))
        before.append((path, source))
    return list(dict.fromkeys(pairs))


@given(st.lists(st.tuples(PATHS, st.sampled_from(["", "x", "y"])), max_size=12))
def test_the_pairs_are_those_of_a_plain_comparison(files: list[File]) -> None:
    assert list(overlaps(files)) == plainly(files)


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param([f"f{number}" for number in range(MANY)], id="without an overlap"),
        pytest.param(["a"] * MANY, id="one path"),
        pytest.param(
            [f"a/{number}" for number in range(MANY)] + ["a"] * MANY, id="a folder that comes again"
        ),
        pytest.param([f"{name}{number}" for number in range(MANY) for name in ("a", "b/")], id="by turns"),
        pytest.param(["a/" * 400 + str(number) for number in range(3000)], id="deep"),
        pytest.param(["a/" * (number + 1) for number in range(1000)], id="one in the other"),
    ],
)
def test_many_files_of_a_volume_take_no_time(paths: list[str]) -> None:
    items = [{"key": "k", "path": path} for path in paths]
    spec: Json = {"volumes": [{"name": "v", "configMap": {"name": "m", "items": items}}]}
    start = time.process_time()
    pod_warnings({"spec": spec})
    assert time.process_time() - start < 5
