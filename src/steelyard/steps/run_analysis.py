"""The step that runs the method of a measurement or a safety case, and publishes what it makes.

`python -m steelyard.steps.run_analysis --config FILE`, as the `<name>-run-aN` Job of an Analysis.
"""

from collections.abc import Sequence

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.volume import input_store, open_field_store, read_spec
from steelyard_common.processes import adopt_orphans
from steelyard_evaluation.analysis.errors import METHOD_FAILED, METHOD_TRIES, AnalysisFailed
from steelyard_evaluation.analysis.process import hide_environment
from steelyard_evaluation.analysis.run import STAGES, Request, run_analysis
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_schema.dependencies import list_modules
from steelyard_schema.resources import AnalysisResourceSpec
from steelyard_schema.steps import StepConfig


async def main(config: StepConfig, log: Log) -> str:
    spec = read_spec(config, AnalysisResourceSpec)
    output = open_field_store(spec.storage.output, "spec.storage.output")
    progress = Progress(output, "stages", STAGES)
    request = Request(
        id=spec.id,
        account=spec.account,
        fields=spec,
        inputs={id: input_store(spec.storage.inputs, id) for id in _inputs(spec)},
        modules={id: input_store(spec.storage.inputs, id) for id in list_modules(spec.method)},
        output=output,
        epoch=config.epoch,
    )
    try:
        outcome = await run_analysis(request, lambda line: log.info(line, source="method"), progress.report)
    except AnalysisFailed as error:
        permanent = error.permanent or (error.code == METHOD_FAILED and config.attempt >= METHOD_TRIES)
        raise StepFailed(error.code, error.message, permanent=permanent) from error
    except EvaluationFailed as error:
        raise StepFailed(error.code, str(error), permanent=error.permanent) from error
    await progress.report(STAGES, outcome, last=True)
    return outcome


def _inputs(spec: AnalysisResourceSpec) -> Sequence[str]:
    return tuple(dict.fromkeys(item.entity for item in spec.inputs))


if __name__ == "__main__":
    hide_environment()
    adopt_orphans()
    run_step(main, "run_analysis")
