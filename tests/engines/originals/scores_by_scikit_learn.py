"""Figures of classification as scikit-learn computes them: `python scores_by_scikit_learn.py ROWS OUT`."""

import json
import sys
from pathlib import Path

import numpy as np
from sklearn import metrics


def main() -> None:
    rows = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["labels"]
    truth, said, second = ([row[name] for row in rows] for name in ("truth", "said", "second"))
    labels = sorted({*truth, *said})
    figures = {
        "accuracy": [metrics.accuracy_score(truth, said)],
        "confusion": metrics.confusion_matrix(truth, said, labels=labels).ravel().tolist(),
        "Cohen's kappa": [metrics.cohen_kappa_score(said, second)],
    }
    for average in (None, "macro", "weighted"):
        numbers = metrics.precision_recall_fscore_support(
            truth, said, labels=labels, average=average, zero_division=0
        )
        for name, values in zip(("precision", "recall", "F1"), numbers, strict=False):
            figures[f"{name}, {average or 'per class'}"] = np.atleast_1d(values).tolist()
    roc, precision_recall, brier = [], [], []
    for label in labels:
        positive = [name == label for name in truth]
        share = [row["probabilities"][label] for row in rows]
        roc.append(metrics.roc_auc_score(positive, share))
        precision_recall.append(metrics.average_precision_score(positive, share))
        brier.append(metrics.brier_score_loss(positive, share))
    figures |= {
        "area under ROC": roc,
        "area under precision-recall": precision_recall,
        "Brier score": [sum(brier)],
    }
    Path(sys.argv[2]).write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
