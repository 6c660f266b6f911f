"""Task files: a whole evaluation as one YAML file. `steelyard eval run task.yaml` reads them with `load_task`."""

from steelyard_evaluation.runs.tasks.load import load_task

__all__ = ["load_task"]
