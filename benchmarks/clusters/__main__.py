"""Measures the cluster client beside codeflare-sdk: `python -m benchmarks.clusters [--quick]`.

Import time and memory of fresh interpreters, then wall time and requests of operations in namespaces with 1, 40 and
1,000 Ray clusters, both through one counting front of one API server. Prints Markdown tables, then the figures as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.engines.locked import environment

ROOT = Path(__file__).parents[2]
SIZES = (1, 40, 1000)
RUNS = 5
IMPORTS = {
    "ours": "from steelyard.clusters import Client, ClusterConfig",
    "codeflare-sdk": "import codeflare_sdk",
}
PATIENCE = 120.0


def import_of(python: Path, program: str) -> dict[str, float]:
    """Return wall time in seconds, and peak memory in MB, of the best of some fresh interpreters."""
    runs = []
    for _ in range(RUNS):
        began = time.perf_counter()
        process = subprocess.Popen([python, "-W", "ignore", "-c", program], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            raise SystemExit(f"{program}: ended with status {process.returncode}")
        runs.append((seconds, usage.ru_maxrss / 1024))
    return {"seconds": min(run[0] for run in runs), "memory": min(run[1] for run in runs)}


def operations_of(
    python: Path, module: str, kubeconfig: Path, sizes: list[str]
) -> dict[str, dict[str, dict[str, float]]]:
    settings = {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [python, "-W", "ignore", "-m", module, *sizes],
        cwd=ROOT,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, dict[str, dict[str, float]]] = json.loads(run.stdout.splitlines()[-1])
    return figures


def tables(
    figures: dict[str, dict[str, dict[str, dict[str, float]]]], imports: dict[str, dict[str, float]]
) -> str:
    """Return the tables in Markdown."""
    lines = ["| import | wall time | memory |", "|---|---|---|"]
    lines += [
        f"| {name} | {run['seconds']:.2f} s | {run['memory']:.0f} MB |" for name, run in imports.items()
    ]
    lines += [
        "",
        "| clusters | operation | ours | requests | codeflare-sdk | requests |",
        "|---|---|---|---|---|---|",
    ]
    for size, operations in figures["ours"].items():
        for name, ours in operations.items():
            peer = figures["codeflare-sdk"][size][name]
            lines.append(
                f"| {int(size):,} | {name} | {_time(ours['seconds'])} | {ours['requests']:,.0f} "
                f"| {_time(peer['seconds'])} | {peer['requests']:,.0f} |"
            )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def main() -> int:
    sizes = [str(size) for size in (SIZES[:2] if "--quick" in sys.argv else SIZES)]
    pythons = {
        "ours": Path(sys.executable),
        "codeflare-sdk": environment("codeflare", ROOT / "tests/engines/ray/codeflare.txt"),
    }
    imports = {name: import_of(pythons[name], program) for name, program in IMPORTS.items()}
    modules = {"ours": "benchmarks.clusters.ours", "codeflare-sdk": "benchmarks.clusters.codeflare"}
    with tempfile.TemporaryDirectory(prefix="steelyard-benchmark-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.clusters.server", folder, *sizes], cwd=ROOT
        )
        try:
            until = time.monotonic() + PATIENCE
            while not kubeconfig.exists():
                if server.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the API server has not started")
                time.sleep(0.1)
            figures = {
                name: operations_of(pythons[name], module, kubeconfig, sizes)
                for name, module in modules.items()
            }
        finally:
            server.terminate()
            server.wait()
    print(tables(figures, imports))
    print(json.dumps({"imports": imports, "operations": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
