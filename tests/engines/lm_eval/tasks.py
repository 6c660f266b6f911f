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
GLUED = """\
task: local_glued
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/glued.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{label}}}}"
target_delimiter: ""
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
"""
"""Continuations without a blank before them: the border lies inside a token."""
TEXTS = """\
task: local_texts
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/texts.jsonl}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list:
  - {{metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}}
  - {{metric: byte_perplexity, aggregation: weighted_perplexity, higher_is_better: false}}
  - {{metric: bits_per_byte, aggregation: bits_per_byte, higher_is_better: false}}
"""
NOTHING = """\
task: local_nothing
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/choices.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: ""
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{label}}}}"
target_delimiter: ""
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
"""
"""Continuations of nothing: every token counts."""
STOPS = (
    SUMS.replace("local_sums", "local_stops")
    .replace('["\\n", "Q:"]', '["one", "two", "three", "four", "it", "\\n"]')
    .replace("num_fewshot: 3", "num_fewshot: 0")
)
"""More stops than an endpoint takes, the two that matter last."""
LISTS = """\
task: local_lists
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}/sums.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: '[{{{{"{{{{"}}}}"role": "user", "content": "{{{{question}}}}"{{{{"}}}}"}}}}]'
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 24}}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
"""
"""Prompts that look like a list of messages, and are text."""
GROUP = """\
group: local_group
task: [local_sums, local_stops, local_choices]
aggregate_metric_list:
  - {{metric: acc, aggregation: mean, weight_by_size: true}}
"""
"""Tasks that differ in the kind of their requests, and in their settings."""
TASKS = {
    "local_sums": SUMS,
    "local_choices": CHOICES,
    "local_endings": ENDINGS,
    "local_glued": GLUED,
    "local_texts": TEXTS,
    "local_nothing": NOTHING,
    "local_stops": STOPS,
    "local_lists": LISTS,
    "local_group": GROUP,
}
WORDS = ["river", "stone", "window", "garden", "lantern", "copper", "velvet", "thunder", "maple", "harbour"]


def write_tasks(folder: Path, size: int = 24) -> None:
    """The files of the tasks, and their data."""
    rng = random.Random(11)
    sums = [(rng.randint(1, 99), rng.randint(1, 99)) for _ in range(size)]
    rows = [{"question": f"{a} + {b}", "answer": a + b} for a, b in sums]
    _lines(folder / "sums.jsonl", rows)
    _lines(folder / "shots.jsonl", [{"question": f"{n} + {n}", "answer": 2 * n} for n in range(12)])
    choices = []
    for _ in range(size):
        words = rng.sample(WORDS, 4)
        question = f"Which of {', '.join(words)} is it?"
        choices.append(
            {
                "question": question,
                "choices": [*words[:3], f"{words[3]} at last"],
                "label": rng.randrange(4),
            }
        )
    _lines(folder / "choices.jsonl", choices)
    endings = [{"text": " ".join(rng.choices(WORDS, k=6)), "ending": rng.choice(WORDS)} for _ in range(size)]
    _lines(folder / "endings.jsonl", endings)
    glued = []
    for _ in range(size):
        words = rng.sample(WORDS, 4)
        glued.append(
            {
                "question": f"The word is {words[0][:2]}",
                "choices": [word[2:] + "s" for word in words],
                "label": rng.randrange(4),
            }
        )
    _lines(folder / "glued.jsonl", glued)
    _lines(folder / "texts.jsonl", [{"text": " ".join(rng.choices(WORDS, k=12))} for _ in range(size)])
    for name, text in TASKS.items():
        (folder / f"{name}.yaml").write_text(text.format(data=folder))


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
