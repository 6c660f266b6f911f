"""Digits with TensorFlow's MultiWorkerMirroredStrategy: 2 workers, each with its copy of the variables.

Every replica runs this file; the operator's TF_CONFIG says who they are. Each checkpoint is written by worker 0 and
read by all when they start, so the folder must be one that all of them see.
"""

import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from steelyard.progress import report, result

EPOCHS = int(os.environ.get("EPOCHS", "60"))
RATE, BATCH = 0.5, 50
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.npz"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")
TASK = json.loads(os.environ["TF_CONFIG"])["task"]
WORKERS = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])


def load() -> tuple[np.ndarray, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype("float32"), labels.astype("int32")
    return x[::2], y[::2], x[1::2], y[1::2]


def variable(value: np.ndarray) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float32, aggregation=tf.VariableAggregation.MEAN)


class Network(tf.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        draw = np.random.default_rng(0)
        self.layers = [
            (variable(draw.normal(0, inputs**-0.5, (inputs, outputs))), variable(np.zeros(outputs)))
            for inputs, outputs in ((64, 32), (32, 10))
        ]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        (first, bias), (second, end) = self.layers
        return tf.nn.relu(x @ first + bias) @ second + end


def save(network: Network, epoch: int, path: Path) -> None:
    """Save the network: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new.npz")
    np.savez(new, epoch, *(variable.numpy() for variable in network.variables))
    new.rename(path)


def restore(network: Network) -> int:
    """The epoch to go on with."""
    if not CHECKPOINT.exists():
        return 0
    with np.load(CHECKPOINT) as state:
        for index, variable in enumerate(network.variables):
            variable.assign(state[f"arr_{index + 1}"])
        return int(state["arr_0"])


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        network = Network()

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, network(x)))
        for variable, gradient in zip(network.variables, tape.gradient(loss, network.variables), strict=True):
            variable.assign_sub(RATE * gradient)  # by the mean over all workers: the variable's aggregation
        return loss

    @tf.function
    def train(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("MEAN", strategy.run(step, args=(x, y)), axis=None)

    x, y, test_x, test_y = load()
    x, y = x[TASK["index"] :: WORKERS], y[TASK["index"] :: WORKERS]
    for epoch in range(restore(network), EPOCHS):
        for at in range(0, len(x) - BATCH, BATCH):
            loss = train(tf.constant(x[at : at + BATCH]), tf.constant(y[at : at + BATCH]))
        if TASK["index"] == 0:
            accuracy = accuracy_of(network, test_x, test_y)
            report(step=epoch + 1, total=EPOCHS, loss=float(loss), accuracy=accuracy)
            save(network, epoch + 1, CHECKPOINT)
    if TASK["index"] == 0:
        finish(network, accuracy_of(network, test_x, test_y))


def accuracy_of(network: Network, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.argmax(network(x), 1) == y))


def finish(network: Network, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        save(network, EPOCHS, Path(OUTPUT) / "digits.npz")
    CHECKPOINT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
