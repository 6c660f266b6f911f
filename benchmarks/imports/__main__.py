"""Measures imports: processor time and memory of a fresh interpreter, beside bare Python in the same run."""

import json
import os
import subprocess
import sys

RUNS = 9
STEPS = (
    "fetch_model",
    "fetch_volume",
    "evaluation_client",
    "verify_evaluation_output",
    "run_report",
    "run_audit",
)
PROGRAMS: dict[str, tuple[str, ...]] = {
    "bare Python": ("-c", "pass"),
    "numpy and pyarrow": ("-c", "import numpy, pyarrow"),
    "import steelyard.client": ("-c", "import steelyard.client"),
    "import steelyard.clusters": ("-c", "from steelyard.clusters import Client, ClusterConfig"),
    **{
        f"steelyard {words}": ("-m", "steelyard.cli.main", *words.split())
        for words in ("--version", "--help", "eval run --help", "get --help")
    },
    **{f"step {name}": ("-c", f"import steelyard.steps.{name}") for name in STEPS},
}


def measure(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Return the processor time in seconds, and the peak memory in MB, of one run."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{' '.join(arguments)}: ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    runs = [{name: measure(arguments) for name, arguments in PROGRAMS.items()} for _ in range(RUNS)]
    figures = {
        name: {
            "seconds": round(min(run[name][0] for run in runs), 3),  # other work only adds to it
            "memory": round(min(run[name][1] for run in runs)),
        }
        for name in PROGRAMS
    }
    print("| program | processor | memory |\n|---|---|---|")
    for name, figure in figures.items():
        print(f"| {name} | {figure['seconds']:.2f} s | {figure['memory']:.0f} MB |")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
