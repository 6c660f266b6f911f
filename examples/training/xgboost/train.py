"""Digits with XGBoost: a master and a worker, each with its part of the rows, histograms summed between them.

Every replica runs this file. The operator's MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK say where the tracker is,
which the master runs beside its own training. The master keeps the trees so far; all read them when they start, so
the folder must be one that all of them see.
"""

import os
import socket
import time
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_digits
from xgboost import collective
from xgboost.tracker import RabitTracker

from steelyard.progress import report, result

ROUNDS = int(os.environ.get("ROUNDS", "100"))
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MASTER, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.ubj"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")


def load() -> tuple[np.ndarray, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    x, y = load_digits(return_X_y=True)
    return x[::2], y[::2], x[1::2], y[1::2]


def tracker_address(seconds: float = 120) -> str:
    """The master's own; for the others once the tracker answers: XGBoost would fail, or wait for seconds."""
    if RANK == 0:
        return socket.gethostbyname(socket.gethostname())
    end = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((MASTER, PORT), timeout=5) as met:
                return met.getpeername()[0]
        except OSError:  # also where the name is not known yet
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


class Tell(xgboost.callback.TrainingCallback):
    """Report of the master after each round: it says how far the training is, and keeps the trees."""

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: dict) -> bool:
        loss, error = (evals_log["test"][name][-1] for name in ("mlogloss", "merror"))
        if RANK == 0:
            report(step=model.num_boosted_rounds(), total=ROUNDS, loss=loss, accuracy=1 - error)
            save(model, CHECKPOINT)
        return False


def save(model: xgboost.Booster, path: Path) -> None:
    """Save the model: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"new{path.suffix}")
    model.save_model(new)
    new.rename(path)


def restore() -> xgboost.Booster | None:
    return xgboost.Booster(model_file=CHECKPOINT) if CHECKPOINT.exists() else None


def train() -> None:
    before = restore()
    x, y, test_x, test_y = load()
    mine = xgboost.DMatrix(x[RANK::WORLD], y[RANK::WORLD], nthread=1)
    test = xgboost.DMatrix(test_x, test_y, nthread=1)
    model = xgboost.train(
        {"objective": "multi:softprob", "num_class": 10, "max_depth": 4, "eta": 0.1, "nthread": 1}
        | {"eval_metric": ["mlogloss", "merror"], "seed": 0},
        mine,
        num_boost_round=ROUNDS - (before.num_boosted_rounds() if before else 0),
        xgb_model=before,
        evals=[(test, "test")],
        verbose_eval=False,
        callbacks=[Tell()],
    )
    if RANK == 0:
        finish(model, float(np.mean(np.argmax(model.predict(test), 1) == test_y)))


def finish(model: xgboost.Booster, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        save(model, Path(OUTPUT) / "digits.json")
    CHECKPOINT.unlink(missing_ok=True)


def main() -> None:
    tracker, address = None, tracker_address()
    if RANK == 0:
        tracker = RabitTracker(host_ip=address, n_workers=WORLD, port=PORT, sortby="task")
        tracker.start()
    with collective.CommunicatorContext(
        dmlc_tracker_uri=address, dmlc_tracker_port=PORT, dmlc_task_id=str(RANK)
    ):
        train()
    if tracker:
        tracker.wait_for()


if __name__ == "__main__":
    main()
