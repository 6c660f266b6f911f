"""lm-eval's own numbers of a folder of weights, by its `hf` backend: `python reference.py MODEL TASKS_FOLDER OUT`.

Runs in vLLM's environment, which has torch and transformers.
"""

import json
import sys
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager


def main() -> None:
    model, tasks, out = map(Path, sys.argv[1:])
    bos = '"bos_token"' in (model / "tokenizer_config.json").read_text()
    backend = HFLM(
        pretrained=str(model), device="cpu", dtype="float32", batch_size=8, add_bos_token=bos, max_length=1024
    )
    names = sorted(path.stem for path in tasks.glob("*.yaml"))
    evaluated = simple_evaluate(
        model=backend,
        tasks=[name for name in names if name != "local_group"],
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
        log_samples=False,
    )
    numbers = {
        f"{task}: {key}": value
        for task, results in evaluated["results"].items()
        for key, value in results.items()
        if "," in key and isinstance(value, int | float) and "stderr" not in key
    }
    out.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
