"""`domadapt audit`: from a configuration to findings."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from domadapt.auditing.audit import Audit, audit
from domadapt.auditing.rendering import text_audit
from domadapt.auditing.storage import write_audit
from domadapt.config.instantiate import make, plain
from domadapt.config.resolvers import AUTO
from domadapt.data.domains import Domains
from domadapt.runs.content import files_named
from domadapt.runs.key import folder_of
from domadapt.syntax.cache import ParseCache
from domadapt.utils.files import refuse_overwriting
from domadapt.utils.opened import files_read


def run(cfg: DictConfig) -> Audit:
    """Audit the corpora of a configuration, and write ``audit.json`` if a file is named.

    Args:
        cfg: a composed ``audit.yaml``.

    Raises:
        ValueError: the corpora can't be read, or a setting is out of range.
    """
    if type(cfg.seed) is not int or not 0 <= cfg.seed < 2**32:
        raise ValueError(f"seed={cfg.seed!r}: expected a whole number from 0 to {2**32 - 1}")
    output = None if cfg.output is None else Path(str(cfg.output))
    with files_read() as read:
        domains: Domains = make(cfg.data)
    if output is not None:
        refuse_overwriting(output, [*read, *files_named(plain(cfg.data))])
    task = OmegaConf.select(cfg, "task")  # auto: look at whatever is annotated
    kind = None if task is None or task.get("_target_") == AUTO else make(task).kind
    parser = ParseCache(make(cfg.parser), folder_of(cfg, "cache")) if cfg.paths_overlap and kind != "sequence" else None
    try:
        with files_read() as read:  # the sealed test among them
            found = audit(domains, parser, kind, cfg.seed)
    finally:
        if parser is not None:
            parser.close()
    if output is not None:
        refuse_overwriting(output, read)
        write_audit(found, output, plain(cfg))
    return found


def audit_corpora(cfg: DictConfig) -> str:
    """The findings for a terminal, and where they were written."""
    text = text_audit(run(cfg))
    return text if cfg.output is None else f"{text}\n\nwritten to {cfg.output}"
