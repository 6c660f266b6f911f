"""Digits with MXNet 1.9 and ps-lite: a scheduler, a server and 2 workers, in step (`dist_sync`).

Every replica runs this file; the operator's DMLC_* variables say who they are and where the scheduler is. For a
scheduler and a server the import of MXNet is the whole program: it returns when the workers are through. Worker 0 keeps
the checkpoint; both read it when they start, so the folder must be one that both of them see.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

np.bool = np.bool_  # MXNet's last release still uses the old name

import mxnet as mx  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

from steelyard.progress import report, result  # noqa: E402

EPOCHS = int(os.environ.get("EPOCHS", "60"))
BATCH = 50
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.npz"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")


def load():
    """Images and labels: every second one to train with, the others to test with."""
    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype("float32"), labels.astype("float32")
    return x[::2], y[::2], x[1::2], y[1::2]


def network():
    """One hidden layer, with the same first weights in every worker."""
    mx.random.seed(0)
    made = mx.gluon.nn.HybridSequential()
    made.add(mx.gluon.nn.Dense(32, activation="relu", in_units=64), mx.gluon.nn.Dense(10, in_units=32))
    made.initialize(mx.init.Xavier())
    return made


def weights(model):
    return [parameter.data().asnumpy() for parameter in model.collect_params().values()]


def save(model, epoch: int, path: Path) -> None:
    """Save the model: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new.npz")
    np.savez(new, epoch, *weights(model))
    new.rename(path)


def restore(model) -> int:
    """The epoch to go on with."""
    if not CHECKPOINT.exists():
        return 0
    with np.load(CHECKPOINT) as state:
        for index, parameter in enumerate(model.collect_params().values()):
            parameter.set_data(mx.nd.array(state[f"arr_{index + 1}"]))
        return int(state["arr_0"])


def main() -> None:
    store = mx.kv.create("dist_sync")
    rank, world = int(os.environ["DMLC_WORKER_ID"]), store.num_workers
    model = network()
    began = restore(model)
    rate = {"learning_rate": 0.5}
    trainer = mx.gluon.Trainer(model.collect_params(), "sgd", rate, kvstore=store, update_on_kvstore=True)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    x, y, test_x, test_y = load()
    x, y = x[rank::world], y[rank::world]
    for epoch in range(began, EPOCHS):
        for at in range(0, len(x) - BATCH, BATCH):
            with mx.autograd.record():
                loss = loss_of(model(mx.nd.array(x[at : at + BATCH])), mx.nd.array(y[at : at + BATCH]))
            loss.backward()
            trainer.step(BATCH * world)
            mx.nd.waitall()  # ps-lite hangs now and then where a push overtakes a pull
        if rank == 0:
            accuracy = accuracy_of(model, test_x, test_y)
            report(step=epoch + 1, total=EPOCHS, loss=float(loss.mean().asscalar()), accuracy=accuracy)
            save(model, epoch + 1, CHECKPOINT)
    if rank == 0:
        finish(model, accuracy_of(model, test_x, test_y))


def accuracy_of(model, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.argmax(model(mx.nd.array(x)).asnumpy(), 1) == y))


def finish(model, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        save(model, EPOCHS, Path(OUTPUT) / "digits.npz")
    CHECKPOINT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
