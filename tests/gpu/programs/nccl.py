"""Training program of `make test-gpu`: every rank sums its rank over NCCL, on the GPU that it was given."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
assert torch.cuda.device_count() == 1, f"rank {rank} sees {torch.cuda.device_count()} GPUs"
total = torch.tensor([float(rank)], device="cuda")
dist.all_reduce(total)
assert total.item() == sum(range(size)), total
given = os.environ["NVIDIA_VISIBLE_DEVICES"]
print(f"rank {rank} of {size}: {torch.cuda.get_device_name()} {given}, {torch.cuda.nccl.version()}")
dist.destroy_process_group()
