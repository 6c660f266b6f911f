"""Digits with PyTorch: data-parallel training over gloo, by 1 master and 2 workers.

Every replica runs this file. The operator's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all that
`init_process_group` needs. Rank 0 keeps the checkpoint; the others get what it holds when they start.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from steelyard.progress import report, result

EPOCHS = int(os.environ.get("EPOCHS", "100"))
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "checkpoint")) / "digits.pt"
OUTPUT = os.environ.get("STEELYARD_OUTPUT")


def load() -> tuple[torch.Tensor, ...]:
    """Images and labels: every second one to train with, the others to test with."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    return x[::2], y[::2], x[1::2], y[1::2]


def save(state: dict, path: Path) -> None:
    """Save the state: the file is there whole or not at all, whenever this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path.with_suffix(".new"))
    path.with_suffix(".new").rename(path)


def restore(rank: int, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The epoch to go on with. DistributedDataParallel spreads rank 0's weights; this spreads the rest."""
    state = torch.load(CHECKPOINT) if rank == 0 and CHECKPOINT.exists() else None
    if state:
        network.load_state_dict(state["network"])
    shared = [state and {"optimizer": state["optimizer"], "epoch": state["epoch"]}]
    dist.broadcast_object_list(shared, src=0)
    if shared[0] is None:
        return 0
    optimizer.load_state_dict(shared[0]["optimizer"])
    return shared[0]["epoch"]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    began = restore(rank, network, optimizer)
    model = DistributedDataParallel(network)
    x, y, test_x, test_y = load()
    x, y = x[rank::world], y[rank::world]
    for epoch in range(began, EPOCHS):
        for at in range(0, len(x), 50):
            loss = cross_entropy(model(x[at : at + 50]), y[at : at + 50])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            accuracy = accuracy_of(network, test_x, test_y)
            report(step=epoch + 1, total=EPOCHS, loss=loss.item(), accuracy=accuracy)
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
            save(state | {"epoch": epoch + 1}, CHECKPOINT)
    if rank == 0:
        finish(network, accuracy_of(network, test_x, test_y))
    dist.destroy_process_group()


def accuracy_of(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    return (network(x).argmax(1) == y).float().mean().item()


def finish(network: nn.Module, accuracy: float) -> None:
    """The model is the result; a checkpoint that stayed would be taken for the next job's."""
    result(accuracy=accuracy)
    if OUTPUT:
        torch.save(network.state_dict(), Path(OUTPUT) / "digits.pt")
    CHECKPOINT.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
