"""ROUGE as rouge-score computes it: `python scores_by_rouge_score.py ROWS OUT`, in rouge-score's environment."""

import json
import sys
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer

VARIANTS = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}


def main() -> None:
    texts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["texts"]
    scorer = RougeScorer(list(VARIANTS.values()), use_stemmer=False)
    scores = [scorer.score_multi(row["targets"], row["said"]) for row in texts]
    numbers = {name: [score[variant].fmeasure for score in scores] for name, variant in VARIANTS.items()}
    Path(sys.argv[2]).write_text(json.dumps(numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
