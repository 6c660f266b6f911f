"""`make test-gpu`: the tests on the GPUs of this machine. What ran, what failed and what is missing stand at the end.

Without a GPU nothing runs, and that does not count as a failure. PyTorch is installed where it is not; a model is
served by the runners that are installed for GPUs.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from steelyard.local.runners.environments import read
from steelyard.runners.table import KINDS
from steelyard_local_kubernetes.gpus.nvidia import Nvidia
from tests.engines.build import Missing
from tests.frameworks.examples import EXAMPLES

ROOT = Path(__file__).parent.parent.parent
STEELYARD = [sys.executable, "-m", "steelyard.cli.main"]
PROMPTS = '{"prompt": "a model"}\n' * 8


def gpus() -> tuple[int, str]:
    """The number of whole GPUs, and why there is none."""

    async def look() -> tuple[int, str]:
        finder = Nvidia()
        seen = await finder.snapshot()
        await finder.close()
        whole = [
            device for device in seen.devices if device.resource == "nvidia.com/gpu" and not device.fault
        ]
        return len(whole), seen.problem or "NVML lists no whole GPU"

    return asyncio.run(look())


def pods() -> None:
    """Two Pods for each GPU, kill -9 of kubelet and Pods, who sees what."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/gpu"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "TEST_GPU": "real"}, check=True)


def nccl(count: int) -> None:
    """PyTorch with NCCL: a worker on each GPU. Raises Missing where it cannot be installed."""
    python = next(example for example in EXAMPLES if example.environment == "pytorch").python()
    with tempfile.TemporaryDirectory(prefix="steelyard-gpu-") as folder:
        options = ["--framework", "pytorch", "--gpus", "1", "--workers", str(count), "--python", str(python)]
        state = ["--display", "plain", "--state-dir", f"{folder}/state"]
        program = str(Path(__file__).with_name("programs") / "nccl.py")
        subprocess.run([*STEELYARD, "train", "run", program, *options, *state], check=True, timeout=600)


def served(name: str) -> None:
    """A tiny model on a GPU, behind a session of the platform, asked by the evaluation's command."""
    environment = read(KINDS[name])
    if environment is None or environment.variant != "cuda":
        raise Missing(f"steelyard runners install {name} --cuda")
    with tempfile.TemporaryDirectory(prefix="steelyard-gpu-") as folder:
        model, state = Path(folder) / "tiny", ["--state-dir", f"{folder}/state"]
        make = [
            str(environment.python),
            str(Path(__file__).with_name("programs") / "tiny_model.py"),
            str(model),
        ]
        subprocess.run(make, check=True, timeout=600)
        try:
            serve = [*STEELYARD, "serve", str(model), "--runner", name, "--gpus", "1", "--detach", *state]
            subprocess.run(serve, check=True, timeout=1200)
            status = subprocess.run(
                [*STEELYARD, "status", *state], check=True, capture_output=True, text=True
            )
            print(status.stdout)
            assert "held by" in status.stdout, "the session's Pod has no GPU"
        finally:
            subprocess.run([*STEELYARD, "down", *state], check=True, timeout=120)
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text(PROMPTS)
        evaluate = [
            *STEELYARD,
            "eval",
            "run",
            str(prompts),
            "--serve",
            str(model),
            "--runner",
            name,
            "--gpus",
            "1",
        ]
        options = ["--api", "completions", "--max-tokens", "8", "--output", f"{folder}/run"]
        done = subprocess.run(
            [*evaluate, *options], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        )
        print(done.stdout)
        assert "without an answer" not in done.stdout


def main() -> int:
    count, why = gpus()
    if not count:
        print(f"left out: everything: {why}")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    suites: dict[str, Callable[[], None]] = {
        f"Pods on {count} GPUs (waiting, kill -9)": pods,
        f"PyTorch with NCCL ({count} ranks)": lambda: nccl(count),
        "vLLM serves": lambda: served("vllm"),
        "transformers serves": lambda: served("transformers"),
    }
    outcomes: dict[str, str] = {}
    for name, suite in suites.items():
        print(f"== {name}", flush=True)
        try:
            suite()
            outcomes[name] = "passed"
        except Missing as missing:
            outcomes[name] = f"left out: {missing}"
        except (subprocess.SubprocessError, AssertionError) as error:
            outcomes[name] = f"failed: {error}"
    print()
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome}")
    failed = sum(outcome.startswith("failed") for outcome in outcomes.values())
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    print(f"{passed} passed, {failed} failed, {len(outcomes) - passed - failed} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
