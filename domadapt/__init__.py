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
    from domadapt.api import adapt as adapt
    from domadapt.api import audit as audit
    from domadapt.api import benchmark as benchmark
    from domadapt.api import parse as parse
    from domadapt.api import predict as predict
    from domadapt.api import train as train
    from domadapt.config.compose import compose as compose
    from domadapt.data.readers import read as read
    from domadapt.inference.model import Model as Model
    from domadapt.inference.model import load as load
    from domadapt.reporting.report import report as report
    from domadapt.training.estimator import DomainAdapter as DomainAdapter

__version__ = "0.1.0"

_HOME = dict.fromkeys(("adapt", "audit", "benchmark", "compose", "parse", "predict", "train"), "domadapt.api") | {
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
    return sorted([*_HOME, "__version__"])
