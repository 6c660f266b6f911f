"""Inspect AI's form of the task, run in Inspect's own environment: `inspect eval inspect_task.py -T prompts=FILE`."""

from inspect_ai import Task, task  # type: ignore[import-not-found]
from inspect_ai.dataset import FieldSpec, json_dataset  # type: ignore[import-not-found]
from inspect_ai.scorer import exact  # type: ignore[import-not-found]
from inspect_ai.solver import generate  # type: ignore[import-not-found]


@task  # type: ignore[untyped-decorator]
def prompts(prompts: str, limit: int) -> Task:
    fields = FieldSpec(input="prompt", target="target")
    return Task(dataset=json_dataset(prompts, fields, limit=limit), solver=generate(), scorer=exact())
