"""Names of this machine's GPUs for the record of a server, read from NVIDIA's driver without any of its libraries."""

from pathlib import Path

NVIDIA = Path("/proc/driver/nvidia/gpus")


def gpu_models(folder: Path = NVIDIA) -> list[str]:
    """Return a name for each GPU in the order of the bus; none where the driver is not loaded."""
    models = []
    for path in sorted(folder.glob("*/information")):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        models += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    return models
