"""BLEU and chrF as sacrebleu computes them: `python scores_by_sacrebleu.py ROWS OUT`, in sacrebleu's environment."""

import json
import sys
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

METRICS: dict[str, tuple[Any, Any]] = {  # of the corpus; of a sentence
    **{
        f"BLEU, tokenizer {name}{', lower case' if lower else ''}": (
            BLEU(tokenize=name, lowercase=lower),
            BLEU(tokenize=name, lowercase=lower, effective_order=True),
        )
        for name in ("13a", "intl", "zh", "char", "none")
        for lower in (False, True)
    },
    **{f"chrF2{'+' * order}": (CHRF(word_order=order), CHRF(word_order=order)) for order in (0, 1, 2)},
}


def main() -> None:
    texts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["texts"]
    said = [row["said"] for row in texts]
    streams = [[(row["targets"] + [None])[place] for row in texts] for place in range(2)]
    numbers = {}
    for name, (corpus, sentence) in METRICS.items():
        numbers[f"{name}: corpus"] = [corpus.corpus_score(said, streams).score]
        numbers[f"{name}: sentences"] = [
            sentence.sentence_score(row["said"], row["targets"]).score for row in texts
        ]
    Path(sys.argv[2]).write_text(json.dumps(numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
