"""Inspect AI's form of the task, run in Inspect's own environment: `inspect eval inspect_task.py -T prompts=FILE`."""

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import exact
from inspect_ai.solver import generate


@task  # type: ignore[untyped-decorator]
def prompts(prompts: str, limit: int) -> Task:
    fields = FieldSpec(input="prompt", target="target")
    return Task(dataset=json_dataset(prompts, fields, limit=limit), solver=generate(), scorer=exact())
