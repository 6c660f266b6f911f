"""One small file per framework. `ALL` names them; who adds one adds a line here (docs/training/frameworks.md)."""

from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.frameworks.jax import JAX
from steelyard.operator.training.frameworks.mpi import MPI
from steelyard.operator.training.frameworks.mxnet import MXNET
from steelyard.operator.training.frameworks.paddle import PADDLE
from steelyard.operator.training.frameworks.pytorch import PYTORCH
from steelyard.operator.training.frameworks.tensorflow import TENSORFLOW
from steelyard.operator.training.frameworks.xgboost import XGBOOST

ALL: Mapping[str, Framework] = {
    framework.kind: framework for framework in (TENSORFLOW, PYTORCH, MXNET, JAX, XGBOOST, PADDLE, MPI)
}
"""Built-in frameworks by the kind of the resource."""
