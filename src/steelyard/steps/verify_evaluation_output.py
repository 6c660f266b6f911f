"""The step that verifies an evaluation's output and makes it final.

`python -m steelyard.steps.verify_evaluation_output --config FILE`, as the `<name>-verify-aN` Job of an Evaluation.
"""

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.evaluation_spec import dataset_store, evaluation_spec, output_store
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import verify
from steelyard_schema.steps import StepConfig


async def main(config: StepConfig, log: Log) -> None:
    spec = evaluation_spec(config)
    try:
        manifest = await verify(compile_plan(spec), dataset_store(spec), output_store(spec), config.epoch)
    except EvaluationFailed as error:
        raise StepFailed(error.code, error.message, permanent=error.permanent, row=error.row) from error
    log.info(
        "the output is verified",
        rows=manifest.rows.present,
        rowErrors=manifest.rows.errors,
        missing=manifest.rows.missing,
        duplicates=manifest.rows.duplicates,
        files=len(manifest.files),
    )


if __name__ == "__main__":
    run_step(main, "verify_evaluation_output")
