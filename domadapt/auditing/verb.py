"""`domadapt audit`: from a configuration to findings."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from domadapt.auditing.audit import Audit, audit
from domadapt.auditing.rendering import text_audit
from domadapt.auditing.storage import write_audit
from domadapt.config.instantiate import make, plain
from domadapt.data.domains import Domains
from domadapt.syntax.cache import ParseCache

AUTO = "domadapt.tasks.auto.auto"


def run(cfg: DictConfig) -> Audit:
    """Audit the corpora of a configuration, and write ``audit.json`` if a file is named.

    Args:
        cfg: a composed ``audit.yaml``.

    Raises:
        ValueError: the corpora can't be read, or a setting is out of range.
    """
    if type(cfg.seed) is not int or not 0 <= cfg.seed < 2**32:
        raise ValueError(f"seed={cfg.seed!r}: expected a whole number from 0 to {2**32 - 1}")
    domains: Domains = make(cfg.data)
    task = OmegaConf.select(cfg, "task")  # auto: look at whatever is annotated
    kind = None if task is None or task.get("_target_") == AUTO else make(task).kind
    parser = ParseCache(make(cfg.parser), cfg.paths.cache) if cfg.paths_overlap and kind != "sequence" else None
    try:
        found = audit(domains, parser, kind, cfg.seed)
    finally:
        if parser is not None:
            parser.close()
    if cfg.output is not None:
        write_audit(found, Path(str(cfg.output)), plain(cfg))
    return found


def audit_corpora(cfg: DictConfig) -> str:
    """The findings for a terminal, and where they were written."""
    text = text_audit(run(cfg))
    return text if cfg.output is None else f"{text}\n\nwritten to {cfg.output}"
