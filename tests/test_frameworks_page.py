"""The page about frameworks and its examples: everything they show keeps the contract of frameworks."""

import re
from pathlib import Path

import pytest
import yaml

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import dl_job, parse, validate
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.testing.frameworks import CASES
from steelyard_common.types import Json
from steelyard_schema.training.crd import training_spec_schema
from steelyard_schema.training.dl_job import DLJobSpec, FrameworkSpec
from steelyard_schema.training.kinds import TrainingKind

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/training/frameworks.md").read_text()
MANIFESTS = {
    "the page": "".join(re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)),
    **{
        path.name: path.read_text() for path in sorted((ROOT / "examples/training/frameworks").glob("*.yaml"))
    },
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_framework_that_is_shown_as_data_keeps_the_contract(name: str) -> None:
    objects = list(yaml.safe_load_all(MANIFESTS[name]))
    frameworks = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Framework"}
    jobs = [obj for obj in objects if obj["kind"] == "DLJob"]
    assert frameworks
    assert jobs
    for framework in frameworks.values():
        FrameworkSpec.parse(framework["spec"])
    for job in jobs:
        DLJobSpec.parse(job["spec"])
        read = dl_job.read(_placed(job), OperatorSettings(frameworks=frameworks))
        for case in CASES.values():
            case(read)


def test_the_python_file_on_the_page_keeps_the_contract() -> None:
    """The page's blocks, one after the other, as its reader would write them."""
    names: Json = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        exec(compile(block, "frameworks.md", "exec", dont_inherit=True), names)
    framework, kind = names["RING"], names["KIND"]
    assert isinstance(framework, Framework)
    assert isinstance(kind, TrainingKind)
    template = {"spec": {"containers": [{"name": "ring", "image": "ring"}]}}
    spec = {"ringReplicaSpecs": {"Member": {"replicas": 3, "template": template}}}
    assert names["RingJobSpec"].parse(spec).dump() == spec
    assert training_spec_schema(kind)["properties"]["ringReplicaSpecs"]["x-kubernetes-validations"]
    job = _placed(
        {"apiVersion": "kubeflow.org/v1", "kind": "RingJob", "metadata": {"name": "ring"}, "spec": spec}
    )
    names["test_the_contract_holds"](job)
    validate.check(parse.parse_job(job, framework, OperatorSettings()))


def test_the_table_of_names_is_whole() -> None:
    from steelyard_schema.training.templates import OF_A_REPLICA, OF_A_ROLE, PLAIN

    shown = set(re.findall(r"`\$\{([a-z0-9.]+)\}`", PAGE))
    known = {
        *PLAIN,
        *(f"worker.{field}" for field in OF_A_ROLE),
        *(f"worker.0.{field}" for field in OF_A_REPLICA),
    }
    assert shown == known


def _placed(job: Json) -> Json:
    return {**job, "metadata": {**job["metadata"], "namespace": "default", "uid": "u"}}
