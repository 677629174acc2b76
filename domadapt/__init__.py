"""domadapt: train text models where labels exist, make them work where none exist.

The public names load what they need when they are first used, so that importing the package costs nothing.
"""

import os
from typing import TYPE_CHECKING, Any

# Torch's threads spin while they wait for each other. Beside other work this made a training step 20 times slower;
# sleeping at once costs a fifth on an idle machine, so they spin for a moment first. Read once, when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
# numpy's threads wait for torch's, too. Read once, when numpy is loaded; the parser sees to it where that was earlier.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from domadapt.api import adapt, audit, benchmark, guide, parse, predict, train
    from domadapt.config.compose import compose
    from domadapt.data.readers import read
    from domadapt.inference.model import Model, load
    from domadapt.reporting.report import report
    from domadapt.training.estimator import DomainAdapter

__version__ = "0.1.0"
__all__ = ["adapt", "audit", "benchmark", "compose", "guide", "parse", "predict", "train"]
__all__ += ["DomainAdapter", "Model", "load", "read", "report"]

_HOME = {
    **dict.fromkeys(("adapt", "audit", "benchmark", "compose", "guide", "parse", "predict", "train"), "domadapt.api"),
    "DomainAdapter": "domadapt.training.estimator",
    "load": "domadapt.inference.model",
    "Model": "domadapt.inference.model",
    "read": "domadapt.data.readers",
    "report": "domadapt.reporting.report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'domadapt' has no attribute {name!r}; it has {sorted(_HOME)}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
