"""Digits with TensorFlow's ParameterServerStrategy: a chief, a parameter server and 2 workers.

Every replica runs this file; the operator's TF_CONFIG says who they are. The chief alone knows the model: it hands
steps to whichever worker is free, and a worker that dies costs the steps that it was at, no more. The chief keeps a
checkpoint, for the day on which it or the parameter server dies.
"""

import os
import sys
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


def load() -> tuple[np.ndarray, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype("float32"), labels.astype("int32")
    return x[::2], y[::2], x[1::2], y[1::2]


def variable(value: np.ndarray) -> tf.Variable:
    return tf.Variable(value, dtype=tf.float32)


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


def serve(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Serve as the parameter server or a worker until the job is over."""
    spec = cluster.cluster_spec()
    tf.distribute.Server(spec, job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc").join()


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("worker", "ps"):
        return serve(cluster)
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        network = Network()
    x, y, test_x, test_y = load()

    @tf.function
    def step(at: tf.Tensor) -> tf.Tensor:
        images, labels = tf.constant(x), tf.constant(y)
        with tf.GradientTape() as tape:
            answers = network(images[at : at + BATCH])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[at : at + BATCH], answers)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(network.variables, tape.gradient(loss, network.variables), strict=True):
            variable.assign_sub(RATE * gradient)
        return loss

    for epoch in range(restore(network), EPOCHS):
        losses = [coordinator.schedule(step, args=(tf.constant(at),)) for at in range(0, len(x), BATCH)]
        coordinator.join()
        accuracy = accuracy_of(network, test_x, test_y)
        loss = float(np.mean(coordinator.fetch(losses)))
        report(step=epoch + 1, total=EPOCHS, loss=loss, accuracy=accuracy)
        save(network, epoch + 1, CHECKPOINT)
    finish(network, accuracy_of(network, test_x, test_y))
    sys.stdout.flush()
    os._exit(0)  # an orderly end would wait for a worker that died until it is back


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
