"""Digits with PaddlePaddle: data-parallel training over gloo, by 2 workers.

Every replica runs this file. It becomes Paddle's launcher; the operator's PADDLE_MASTER, PADDLE_NNODES and
PADDLE_JOB_ID bring the launchers together, and each starts this file again with its rank. All read the checkpoint when
they start, so the folder must be one that all of them see.
"""

import os
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed as dist
from sklearn.datasets import load_digits

from steelyard.progress import report, result

EPOCHS = int(os.environ.get("EPOCHS", "200"))
BATCH = 50
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.pdparams"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")


def load() -> tuple[np.ndarray, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    images, labels = load_digits(return_X_y=True)
    x = (images / 16).astype("float32")
    return x[::2], labels[::2], x[1::2], labels[1::2]


def save(state: dict, path: Path) -> None:
    """Save the state: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new.pdparams")
    paddle.save(state, str(new))
    new.rename(path)


def restore(network: paddle.nn.Layer) -> int:
    """The epoch to go on with."""
    if not CHECKPOINT.exists():
        return 0
    state = paddle.load(str(CHECKPOINT))
    network.set_state_dict(state["network"])
    return int(state["epoch"])


def main() -> None:
    paddle.set_device("cpu")
    paddle.seed(0)
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    network = paddle.nn.Sequential(paddle.nn.Linear(64, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 10))
    began = restore(network)
    model = paddle.DataParallel(network)
    optimizer = paddle.optimizer.SGD(learning_rate=0.5, parameters=network.parameters())
    x, y, test_x, test_y = load()
    x, y = x[rank::world], y[rank::world]
    for epoch in range(began, EPOCHS):
        for at in range(0, len(x) - BATCH, BATCH):
            images, labels = (paddle.to_tensor(part[at : at + BATCH]) for part in (x, y))
            loss = paddle.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        if rank == 0:
            accuracy = accuracy_of(network, test_x, test_y)
            report(step=epoch + 1, total=EPOCHS, loss=float(loss), accuracy=accuracy)
            save({"network": network.state_dict(), "epoch": epoch + 1}, CHECKPOINT)
    if rank == 0:
        finish(network, accuracy_of(network, test_x, test_y))


def accuracy_of(network: paddle.nn.Layer, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.argmax(network(paddle.to_tensor(x)).numpy(), 1) == y))


def finish(network: paddle.nn.Layer, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        save(network.state_dict(), Path(OUTPUT) / "digits.pdparams")
    CHECKPOINT.unlink(missing_ok=True)


if __name__ == "__main__":
    if "PADDLE_TRAINER_ID" not in os.environ:
        os.execv(sys.executable, [sys.executable, "-m", "paddle.distributed.launch", __file__])
    main()
