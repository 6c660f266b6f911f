"""The built-in frameworks, and one that is written as a resource, keep the contract of frameworks."""

import pytest

from steelyard.operator.training.frameworks.test_definition import make_dl_job, read
from steelyard.operator.training.frameworks.test_frameworks import JOBS
from steelyard.operator.training.model import TrainingJob
from steelyard.testing.frameworks import CASES, Case


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_built_in_framework_keeps_the_contract(job: TrainingJob, case: Case) -> None:
    case(job)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_framework_that_is_a_resource_keeps_the_contract(case: Case) -> None:
    case(read(make_dl_job()))
    case(read(make_dl_job(framework=None, frameworkSpec={})))
