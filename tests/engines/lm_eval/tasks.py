"""Small tasks of lm-eval's with data of our own, written into a folder: every kind of request that we run."""

import json
import random
from pathlib import Path
from typing import Any

SUMS = """\
task: local_sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/sums.jsonl, train: {data}/shots.jsonl}}}}
test_split: test
fewshot_split: train
num_fewshot: 3
output_type: generate_until
doc_to_text: "Q: {{{{question}}}}\\nA:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n", "Q:"], max_gen_toks: 24, do_sample: false, temperature: 0}}
filter_list:
  - name: first-number
    filter: [{{function: regex, regex_pattern: "(-?\\\\d+)"}}, {{function: take_first}}]
  - name: whole
    filter: [{{function: remove_whitespace}}, {{function: take_first}}]
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true, ignore_punctuation: false}}
  - {{metric: chrf, aggregation: chrf, higher_is_better: true}}
"""
CHOICES = """\
task: local_choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/choices.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}} The answer is"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{label}}}}"
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
"""
ENDINGS = """\
task: local_endings
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/endings.jsonl}}}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{{{text}}}}"
doc_to_target: " {{{{ending}}}}"
metric_list:
  - {{metric: perplexity, aggregation: perplexity, higher_is_better: false}}
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
"""
TASKS = {"local_sums": SUMS, "local_choices": CHOICES, "local_endings": ENDINGS}
WORDS = ["river", "stone", "window", "garden", "lantern", "copper", "velvet", "thunder", "maple", "harbour"]


def write_tasks(folder: Path, size: int = 24) -> None:
    """The files of the tasks, and their data."""
    chance = random.Random(11)
    sums = [(chance.randint(1, 99), chance.randint(1, 99)) for _ in range(size)]
    rows = [{"question": f"{a} + {b}", "answer": a + b} for a, b in sums]
    _lines(folder / "sums.jsonl", rows)
    _lines(folder / "shots.jsonl", [{"question": f"{n} + {n}", "answer": 2 * n} for n in range(12)])
    choices = []
    for _ in range(size):
        words = chance.sample(WORDS, 4)
        question = f"Which of {', '.join(words)} is it?"
        choices.append(
            {
                "question": question,
                "choices": [*words[:3], f"{words[3]} at last"],
                "label": chance.randrange(4),
            }
        )
    _lines(folder / "choices.jsonl", choices)
    endings = [
        {"text": " ".join(chance.choices(WORDS, k=6)), "ending": chance.choice(WORDS)} for _ in range(size)
    ]
    _lines(folder / "endings.jsonl", endings)
    for name, text in TASKS.items():
        (folder / f"{name}.yaml").write_text(text.format(data=folder))


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
