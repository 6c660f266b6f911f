"""Handwritten digits, trained by several processes that average their weights; needs scikit-learn and skl2onnx only.

One coordinator and any number of workers, told apart by ROLE. In each round the coordinator sends the weights out,
each worker goes over its own share of the images with stochastic gradient descent and sends its weights back, and the
coordinator averages them. It keeps a checkpoint, so that a job that starts again goes on where it was; in the end it
writes `model.onnx` to $STEELYARD_OUTPUT, and beside it `lineage.json`: digests of this program and of its data.

    ROLE=coordinator WORKERS=2 COORDINATOR=localhost:7000 STEELYARD_OUTPUT=out python train.py
    ROLE=worker INDEX=0 WORKERS=2 COORDINATOR=localhost:7000 python train.py
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from steelyard.progress import report, result

SEED = 0
ROUNDS = int(os.environ.get("ROUNDS", "20"))
PAUSE = float(os.environ.get("PAUSE", "0"))
"""Seconds between rounds: a toy that takes no time cannot show what happens when a worker dies."""
WORKERS = int(os.environ["WORKERS"])
HOST, _, PORT = os.environ["COORDINATOR"].rpartition(":")
KEY = b"digits"

Array = NDArray[np.float64]
Weights = tuple[Array, Array]
"""Coefficients of ten classes and 64 grey values, and intercepts."""


def data() -> tuple[StandardScaler, Array, Array]:
    """The half of the images that trains, scaled, and what scaled them. The other half is for the evaluation."""
    images, labels = load_digits(return_X_y=True)
    images, _, labels, _ = train_test_split(
        images.astype(np.float32), labels, test_size=0.5, stratify=labels, random_state=SEED
    )
    scaler = StandardScaler().fit(images)
    return scaler, scaler.transform(images), labels


def classifier(weights: Weights) -> SGDClassifier:
    """A softmax in all but name: ten logistic regressions, each against the rest."""
    model = SGDClassifier(loss="log_loss", alpha=1e-4, random_state=SEED)
    model.classes_ = np.arange(10)
    model.coef_, model.intercept_ = weights
    return model


def coordinate() -> None:
    scaler, images, labels = data()
    output = Path(os.environ["STEELYARD_OUTPUT"])
    output.mkdir(parents=True, exist_ok=True)
    checkpoint = output / "checkpoint.npz"
    done, weights = restored(checkpoint)
    with Listener(("0.0.0.0", int(PORT)), authkey=KEY) as listener:
        workers = [listener.accept() for _ in range(WORKERS)]
        for number in range(done + 1, ROUNDS + 1):
            weights = average(workers, weights)
            model = classifier(weights)
            loss = log_loss(labels, model.predict_proba(images))
            report(step=number, total=ROUNDS, loss=loss, accuracy=model.score(images, labels))
            saved(checkpoint, number, weights)
            time.sleep(PAUSE)
        for worker in workers:
            worker.send(None)
    write(output, scaler, weights)
    result(rounds=ROUNDS, accuracy=classifier(weights).score(images, labels))
    checkpoint.unlink(missing_ok=True)


def average(workers: Sequence[Connection], weights: Weights) -> Weights:
    """One round: every worker starts from the same weights."""
    for worker in workers:
        worker.send(weights)
    answers = [worker.recv() for worker in workers]
    coefficients, intercepts = (np.mean(part, axis=0) for part in zip(*answers, strict=True))
    return coefficients, intercepts


def work() -> None:
    _, images, labels = data()
    mine = slice(int(os.environ["INDEX"]), None, WORKERS)
    connection = connected()
    while (weights := connection.recv()) is not None:
        model = SGDClassifier(loss="log_loss", alpha=1e-4, max_iter=1, tol=None, random_state=SEED)
        model.fit(images[mine], labels[mine], coef_init=weights[0], intercept_init=weights[1])
        connection.send((model.coef_, model.intercept_))


def connected() -> Connection:
    """The coordinator may start later than its workers."""
    for _ in range(600):
        try:
            return Client((HOST, int(PORT)), authkey=KEY)
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"no coordinator at {HOST}:{PORT}")


def restored(checkpoint: Path) -> tuple[int, Weights]:
    if not checkpoint.exists():
        return 0, (np.zeros((10, 64)), np.zeros(10))
    with np.load(checkpoint) as kept:
        print(f"goes on after round {int(kept['round'])}", flush=True)
        return int(kept["round"]), (kept["coef"], kept["intercept"])


def saved(checkpoint: Path, number: int, weights: Weights) -> None:
    """Whole or not at all: the process may be killed at any moment."""
    part = checkpoint.with_name("part.npz")
    np.savez(part, round=number, coef=weights[0], intercept=weights[1])
    part.replace(checkpoint)


def write(output: Path, scaler: StandardScaler, weights: Weights) -> None:
    from skl2onnx import to_onnx
    from sklearn.pipeline import make_pipeline

    images, labels = load_digits(return_X_y=True)
    model = make_pipeline(scaler, classifier(weights))
    onnx = to_onnx(model, images[:1].astype(np.float32), options={"zipmap": False}, target_opset=18)
    (output / "model.onnx").write_bytes(onnx.SerializeToString())
    digests = {
        "code": digest(Path(__file__).read_bytes()),
        "data": digest(images.tobytes() + labels.tobytes()),
    }
    (output / "lineage.json").write_text(json.dumps(digests))


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


if __name__ == "__main__":
    coordinate() if os.environ["ROLE"] == "coordinator" else work()
