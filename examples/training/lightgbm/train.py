"""Digits with LightGBM: a master and a worker, each with its part of the rows, over LightGBM's own sockets.

Every replica runs this file. The operator's MASTER_ADDR, MASTER_PORT, WORKER_ADDRS, WORKER_PORT and RANK name them all.
The master keeps the trees so far; all read them when they start, so the folder must be one that all of them see.
"""

import os
import socket
import time
from pathlib import Path

import lightgbm
import numpy as np
from sklearn.datasets import load_digits

from steelyard.progress import report, result

ROUNDS = int(os.environ.get("ROUNDS", "100"))
RANK = int(os.environ["RANK"])
HOSTS = [(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])] + [
    (host, os.environ["WORKER_PORT"]) for host in os.environ["WORKER_ADDRS"].split(",")
]
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.txt"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")


def load() -> tuple[np.ndarray, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    x, y = load_digits(return_X_y=True)
    return x[::2], y[::2], x[1::2], y[1::2]


def address(host: str, seconds: float = 120) -> str:
    """Return the address of a host whose name may not be known yet. LightGBM takes addresses, not names."""
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.gethostbyname(host)
        except socket.gaierror:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def machines() -> str:
    """All replicas in order. Of itself LightGBM must find the address among the machine's: any of them will do."""
    addresses = [("127.0.0.1" if i == RANK else address(host), port) for i, (host, port) in enumerate(HOSTS)]
    return ",".join(f"{host}:{port}" for host, port in addresses)


def tell(state: lightgbm.callback.CallbackEnv) -> None:
    """Report the progress and keep the trees; the master does so after each round."""
    loss, error = (value for _, _, value, _ in state.evaluation_result_list)
    if RANK == 0:
        report(step=state.iteration + 1, total=ROUNDS, loss=loss, accuracy=1 - error)
        save(state.model, CHECKPOINT)


def save(model: lightgbm.Booster, path: Path) -> None:
    """Save the model: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new.txt")
    model.save_model(new)
    new.rename(path)


def restore() -> lightgbm.Booster | None:
    return lightgbm.Booster(model_file=CHECKPOINT) if CHECKPOINT.exists() else None


def train(before: lightgbm.Booster | None, rounds: int) -> lightgbm.Booster:
    x, y, test_x, test_y = load()
    mine = lightgbm.Dataset(x[RANK :: len(HOSTS)], y[RANK :: len(HOSTS)])
    return lightgbm.train(
        {"objective": "multiclass", "num_class": 10, "num_leaves": 8, "learning_rate": 0.1, "num_threads": 1}
        | {"metric": ["multi_logloss", "multi_error"], "tree_learner": "data", "seed": 0, "verbosity": -1}
        | {"num_machines": len(HOSTS), "machines": machines(), "local_listen_port": int(HOSTS[RANK][1])}
        | {"time_out": 2, "pre_partition": True},
        mine,
        num_boost_round=rounds,
        init_model=before,
        valid_sets=[lightgbm.Dataset(test_x, test_y, reference=mine)],
        callbacks=[tell],
    )


def main() -> None:
    before = restore()
    rounds = ROUNDS - (before.current_iteration() if before else 0)
    model = train(before, rounds) if rounds else before  # it may have been killed after the last round
    if RANK == 0:
        _, _, test_x, test_y = load()
        finish(model, float(np.mean(np.argmax(model.predict(test_x), 1) == test_y)))


def finish(model: lightgbm.Booster, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        save(model, Path(OUTPUT) / "digits.txt")
    CHECKPOINT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
