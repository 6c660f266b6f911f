"""Makes the data and the model of this example, and puts both into object storage.

Run by `steelyard run examples/digits`, or by hand before `kubectl apply -f examples/digits`:

    STEELYARD_STORAGE=file:///path/to/state/storage python examples/digits/prepare.py

Writes `examples/digits/model/model.onnx`, a classifier trained on one half of scikit-learn's handwritten digits, and
`examples/digits/dataset/part-0.parquet`, the other half: `_index_`, `image` (64 grey values from 0 to 16), `label`.
"""

import asyncio
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from steelyard_evaluation.storage.store import open_store

SEED = 0


def make() -> tuple[bytes, bytes, float]:
    """The model as ONNX, the held-out half as Parquet, and the accuracy on the half that it was trained on."""
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=0.5, stratify=labels, random_state=SEED
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, random_state=SEED))
    model.fit(train_images, train_labels)
    onnx = to_onnx(model, train_images[:1], options={"zipmap": False}, target_opset=18)
    table = pa.table(
        {
            "_index_": pa.array(range(len(test_labels)), pa.int64()),
            "image": pa.array(test_images.tolist(), pa.list_(pa.float32())),
            "label": pa.array(test_labels.tolist(), pa.int64()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return onnx.SerializeToString(), sink.getvalue().to_pybytes(), model.score(train_images, train_labels)


async def main() -> None:
    storage = os.environ.get("STEELYARD_STORAGE")
    if not storage:
        sys.exit(
            "prepare.py: STEELYARD_STORAGE is not set; it should be a URL such as file:///path/to/storage"
        )
    model, dataset, accuracy = await asyncio.to_thread(make)
    store = open_store(storage)
    await store.put("examples/digits/model/model.onnx", model)
    await store.put("examples/digits/dataset/part-0.parquet", dataset)
    print(f"trained a classifier on 898 handwritten digits ({accuracy:.1%} of them right); 899 are held out")


if __name__ == "__main__":
    asyncio.run(main())
