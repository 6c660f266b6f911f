"""Program that holds the GPU that it sees, until its file `end` is there; it prints the GPU's UUID.

With TEST_GPU=real it asks CUDA itself for the GPU and for most of its memory, so that it fails where a killed
process still has it. Else its environment is enough: the double lists processes by it.
"""

import ctypes
import os
import sys
import time
import uuid
from pathlib import Path


def held_by_cuda() -> str:
    """Take the first GPU, and three quarters of its memory."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        if code := getattr(cuda, name)(*arguments):
            sys.exit(f"{name}: CUDA error {code}")

    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    number, total = (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetUuid_v2", number, device)
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(total.value * 3 // 4))
    kind = os.environ["NVIDIA_VISIBLE_DEVICES"].partition("-")[0]  # GPU, or MIG
    return f"{kind}-{uuid.UUID(bytes=bytes(number))}"


def main(end: Path) -> None:
    real = os.environ.get("TEST_GPU") == "real"
    print(held_by_cuda() if real else os.environ["NVIDIA_VISIBLE_DEVICES"], flush=True)
    while not end.exists():
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
