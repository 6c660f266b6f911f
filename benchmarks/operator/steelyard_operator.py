"""Our operator, as its service runs it: `python -m benchmarks.operator.steelyard_operator KUBECONFIG`."""

import asyncio
import sys
from pathlib import Path

from steelyard.local.identity import process_candidate
from steelyard.operator.main import run_operator
from steelyard.operator.settings import OperatorSettings
from steelyard_common.event_loop import loop_factory
from steelyard_kube.client import connect


async def main(kubeconfig: Path) -> None:
    cluster = await connect(kubeconfig)
    settings = OperatorSettings(storage="file:///storage")
    await run_operator(cluster, settings, candidate=process_candidate(), stop=asyncio.Event())


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main(Path(sys.argv[1])))
