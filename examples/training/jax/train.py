"""Digits with JAX: 2 processes, one array of weights, gradients summed over gloo.

Every replica runs this file; the operator's COORDINATOR_ADDRESS, NUM_PROCESSES and PROCESS_ID bring the processes
together. Process 0 keeps the checkpoint and tells the others what it holds when they start.
"""

import os
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

from steelyard.progress import report, result

EPOCHS = int(os.environ.get("EPOCHS", "100"))
RATE, BATCH = 0.5, 50
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.npz"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")

Weights = dict[str, jax.Array]


def load() -> tuple[np.ndarray, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    images, labels = load_digits(return_X_y=True)
    x = (images / 16).astype("float32")
    return x[::2], labels[::2], x[1::2], labels[1::2]


def draw() -> dict[str, np.ndarray]:
    """The same weights in every process."""
    random = np.random.default_rng(0)
    return {
        "first": random.normal(0, 64**-0.5, (64, 32)).astype("float32"),
        "bias": np.zeros(32, "float32"),
        "second": random.normal(0, 32**-0.5, (32, 10)).astype("float32"),
        "end": np.zeros(10, "float32"),
    }


def answers(weights: Weights, x: jax.Array) -> jax.Array:
    return jax.nn.relu(x @ weights["first"] + weights["bias"]) @ weights["second"] + weights["end"]


def loss_of(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    chances = jax.nn.log_softmax(answers(weights, x))
    return -jnp.mean(jnp.take_along_axis(chances, y[:, None], axis=1))


@jax.jit
def step(weights: Weights, x: jax.Array, y: jax.Array) -> tuple[Weights, jax.Array]:
    """One descent by a batch that is spread over the processes; JAX sums the gradients."""
    loss, slope = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda weight, change: weight - RATE * change, weights, slope), loss


def save(weights: Weights, epoch: int, path: Path) -> None:
    """Save the weights: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new.npz")
    np.savez(new, epoch=epoch, **jax.tree.map(np.asarray, weights))
    new.rename(path)


def restore() -> tuple[dict[str, np.ndarray], int]:
    """The weights, and the epoch to go on with; process 0 knows, and all get the same."""
    state: dict[str, np.ndarray] = {"epoch": np.array(0), **draw()}
    if jax.process_index() == 0 and CHECKPOINT.exists():
        state = dict(np.load(CHECKPOINT))
    state = multihost_utils.broadcast_one_to_all(state)
    return {name: np.asarray(value) for name, value in state.items() if name != "epoch"}, int(state["epoch"])


def connect() -> None:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
        heartbeat_timeout_seconds=10,  # the default lets a job that lost a process hang for 100 s
    )


def main() -> None:
    connect()
    rank, world = jax.process_index(), jax.process_count()
    mesh = Mesh(jax.devices(), "process")
    spread, same = NamedSharding(mesh, PartitionSpec("process")), NamedSharding(mesh, PartitionSpec())
    weights, began = restore()
    weights = jax.tree.map(lambda weight: jax.make_array_from_process_local_data(same, weight), weights)
    x, y, test_x, test_y = load()
    x, y = x[rank::world], y[rank::world]
    for epoch in range(began, EPOCHS):
        for at in range(0, len(x) - BATCH, BATCH):
            batch = (jax.make_array_from_process_local_data(spread, part[at : at + BATCH]) for part in (x, y))
            weights, loss = step(weights, *batch)
        if rank == 0:
            accuracy = accuracy_of(weights, test_x, test_y)
            report(step=epoch + 1, total=EPOCHS, loss=float(loss), accuracy=accuracy)
            save(weights, epoch + 1, CHECKPOINT)
    if rank == 0:
        finish(weights, accuracy_of(weights, test_x, test_y))
    jax.distributed.shutdown()


def accuracy_of(weights: Weights, x: np.ndarray, y: np.ndarray) -> float:
    mine = jax.tree.map(np.asarray, weights)
    return float(np.mean(np.argmax(answers(mine, x), 1) == y))


def finish(weights: Weights, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        save(weights, EPOCHS, Path(OUTPUT) / "digits.npz")
    CHECKPOINT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
