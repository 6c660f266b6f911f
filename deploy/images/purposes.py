"""The images: for each purpose a name, the extras that it installs, and its description."""

from collections.abc import Mapping
from dataclasses import dataclass

ENGINES = ("kafka", "mongodb", "postgresql", "otel", "openlineage")
"""Extras of the platform's engines, and of those that it notifies."""


@dataclass(frozen=True)
class Purpose:
    """One image: its extras of `steelyard`, and the program that it runs."""

    name: str
    description: str
    extras: tuple[str, ...]
    embedded: bool = False
    """True where the embedded Kubernetes is installed too."""
    module: str = ""
    """Module that its containers run; empty where they run the command `steelyard`."""
    missing: str = ""
    """Reason why this image cannot be made yet; empty where it can."""


PURPOSES: Mapping[str, Purpose] = {
    purpose.name: purpose
    for purpose in (
        Purpose("operator", "The operator of workflows and training jobs.", ("operator", "otel")),
        Purpose("platform", "The API and all services.", ("api", "operator", *ENGINES)),
        Purpose("steps", "The workflow steps, and runners of kind mock.", ("steps", "otel")),
        Purpose("analysis", "Methods and safety cases, among them notebooks.", ("analysis", "otel")),
        Purpose(
            "runner-sklearn",
            "Serves classifiers in the format ONNX.",
            ("onnx",),
            module="steelyard.steps.runner_sklearn",
        ),
        Purpose(
            "all",
            "Everything in one image, for a first try: `steelyard up` with the embedded Kubernetes too.",
            ("local", "analysis", *ENGINES),
            embedded=True,
        ),
        Purpose(
            "runner-llama-cpp",
            "Serves models in GGUF.",
            (),
            missing="llama-cpp-python has no wheel: it would have to be built, with a C++ compiler, for this image",
        ),
        Purpose(
            "runner-vllm",
            "Serves folders of Hugging Face models.",
            (),
            missing="vLLM compiles kernels when it starts, for which the image would need a C++ compiler and a shell",
        ),
    )
}
"""Every image by name, in the order in which they are made."""
MADE = tuple(name for name, purpose in PURPOSES.items() if not purpose.missing)
"""Names of the images that are made where none is named."""
