"""The step that runs the method of a measurement or a safety case, and publishes what it makes.

`python -m steelyard.steps.run_analysis --config FILE`, as the `<name>-run-aN` Job of an Analysis.
"""

from collections.abc import Sequence

from steelyard.analysis.errors import METHOD_FAILED, METHOD_TRIES, AnalysisFailed
from steelyard.analysis.process import adopt_orphans, hide_environment
from steelyard.analysis.run import STAGES, Request, run_analysis
from steelyard.evaluation.errors import EvaluationFailed
from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.volume import input_store, opened, spec_of
from steelyard_schema.dependencies import modules_of
from steelyard_schema.resources import AnalysisResourceSpec
from steelyard_schema.steps import StepConfig


async def main(config: StepConfig, log: Log) -> str:
    spec = spec_of(config, AnalysisResourceSpec)
    output = opened(spec.storage.output, "spec.storage.output")
    progress = Progress(output, "stages", STAGES)
    request = Request(
        id=spec.id,
        account=spec.account,
        fields=spec,
        inputs={id: input_store(spec.storage.inputs, id) for id in _inputs(spec)},
        modules={id: input_store(spec.storage.inputs, id) for id in modules_of(spec.method)},
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
