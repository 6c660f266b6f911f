"""The data and models of the demo: scikit-learn's handwritten digits, and two classifiers of different quality.

One half of the 1,797 images trains, the other is the dataset. Both models are logistic regressions; one has seen the
whole half, the other 60 images of it.
"""

from dataclasses import dataclass
from pathlib import Path

SEED = 0
FEW = 60


@dataclass(frozen=True)
class Model:
    """A classifier in a folder of its own, as `model.onnx`."""

    name: str
    said: str
    folder: Path


@dataclass(frozen=True)
class Digits:
    """The dataset's folder, with one Parquet file (`_index_`, `image`: 64 grey values from 0 to 16, `label`)."""

    dataset: Path
    rows: int
    models: tuple[Model, Model]


def make(folder: Path) -> Digits:
    """Train both models and write everything below `folder`. The same files every time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images.astype(np.float32), labels, test_size=0.5, stratify=labels, random_state=SEED
    )
    table = pa.table(
        {
            "_index_": pa.array(range(len(test_labels)), pa.int64()),
            "image": pa.array(test_images.tolist(), pa.list_(pa.float32())),
            "label": pa.array(test_labels.tolist(), pa.int64()),
        }
    )
    dataset = folder / "dataset"
    dataset.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, dataset / "part-0.parquet")
    few_images, _, few_labels, _ = train_test_split(
        train_images, train_labels, train_size=FEW, stratify=train_labels, random_state=SEED
    )
    everything = f"a logistic regression that has seen {len(train_labels)} digits"
    models = (
        Model("digits-few", f"a logistic regression that has seen {FEW} digits", folder / "few"),
        Model("digits-all", everything, folder / "all"),
    )
    _train(few_images, few_labels, models[0].folder)
    _train(train_images, train_labels, models[1].folder)
    return Digits(dataset, len(test_labels), models)


def _train(images: "object", labels: "object", folder: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, random_state=SEED))
    model.fit(images, labels)
    # Without zipmap, probabilities are an array with a fixed order of classes, not a dictionary for each row.
    onnx = to_onnx(model, images[:1], options={"zipmap": False}, target_opset=18)  # type: ignore[index]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(onnx.SerializeToString())
