"""Forms of answers as lm-eval's own tasks read them: `python forms_by_lm_eval.py FORMS OUT`, in its environment."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lm_eval.filters  # registers the filters
import yaml
from lm_eval.api.metrics import exact_match_hf_evaluate
from lm_eval.filters import build_filter_ensemble

TASKS = Path(lm_eval.__file__).parent / "tasks"
FILES = {
    "gsm8k": "gsm8k/gsm8k.yaml",
    "mmlu_flan_cot": "mmlu/flan_cot_zeroshot/_mmlu_flan_cot_zeroshot_template_yaml",
    "mmlu_pro": "mmlu_pro/_default_template_yaml",
}
BY_KIND = {"numbers": ("gsm8k",), "choices": ("mmlu_flan_cot", "mmlu_pro")}


class Loader(yaml.SafeLoader):
    """Takes tasks' references to functions as text: filters and metrics need none."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: str(node.value))


class Instance:
    """The responses and the document that a filter looks at."""

    def __init__(self, form: Any) -> None:
        options = form["options"] or []
        self.resps = [form["said"]]
        self.doc = {"choices": options["text"] if isinstance(options, dict) else options}
        self.filtered_resps: dict[str, Any] = {}


def target_of(form: Any, task: str) -> str:
    return f"({form['target']})" if task == "mmlu_flan_cot" else str(form["target"])


def columns(kind: str) -> Iterator[tuple[str, str, Any, Any]]:
    """The name of a column, its task, its filter, and how its task compares."""
    for task in BY_KIND[kind]:
        config = yaml.load((TASKS / FILES[task]).read_text(), Loader)
        metric = dict(next(m for m in config["metric_list"] if m["metric"] == "exact_match"))
        settings = {
            key: metric[key]
            for key in ("ignore_case", "ignore_punctuation", "regexes_to_ignore")
            if key in metric
        }
        for listed in config["filter_list"]:
            yield f"lm-eval {task} {listed['name']}", task, listed["filter"], settings


def read(form: Any, task: str, steps: Any, settings: Any) -> Any:
    arguments = [[step["function"], {k: v for k, v in step.items() if k != "function"}] for step in steps]
    instance = Instance(form)
    build_filter_ensemble("chosen", arguments).apply([instance])
    text = str(instance.filtered_resps["chosen"])
    score = exact_match_hf_evaluate(predictions=[text], references=[target_of(form, task)], **settings)
    return {"read": text, "right": bool(score["exact_match"] == 1)}


def main() -> None:
    forms = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    readings_by_column: Any = {}
    for kind in BY_KIND:
        chosen = [form for form in forms if form["kind"] == kind]
        for name, task, steps, settings in columns(kind):
            readings_by_column[name] = {form["key"]: read(form, task, steps, settings) for form in chosen}
    Path(sys.argv[2]).write_text(json.dumps(readings_by_column), encoding="utf-8")


if __name__ == "__main__":
    main()
