"""Steps that the kubelet of one machine forks from an interpreter that has imported what they need.

An interpreter's start with numpy, pyarrow and pydantic costs more than most steps' work. Servers are not among them:
they run what users trained, and begin seldom.
"""

from steelyard_local_kubernetes.kubelet.warm import WarmModules

STEPS = (
    "carry_output",
    "evaluation_client",
    "fetch_model",
    "fetch_volume",
    "run_audit",
    "run_report",
    "verify_evaluation_output",
)
"""Steps that end by themselves and load no model."""
WARM_MODULES = WarmModules(
    programs=frozenset(f"steelyard.steps.{step}" for step in STEPS),
    imported=(
        "steelyard_evaluation.engine.engine",
        "steelyard_evaluation.engine.verify",
        "steelyard_evaluation.report.audit.make",
        "steelyard_evaluation.report.publish",
        "steelyard_evaluation.report.report",
        "steelyard.steps.evaluation_metrics",
        "steelyard.steps.evaluation_spec",
        "steelyard.steps.model_sources",
        "steelyard.steps.progress",
        "steelyard.steps.secret_files",
        "steelyard.steps.served_server",
        "steelyard_common.discovery",
    ),
)
