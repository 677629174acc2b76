"""`audit.json`: written whole or not at all, read back with nothing believed unchecked."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from domadapt.auditing.audit import Audit
from domadapt.auditing.finding import SEVERITIES, Finding
from domadapt.runs.provenance import installed
from domadapt.utils.files import write_atomic

FORMAT = 1


def write_audit(audit: Audit, path: Path | str, config: dict[str, Any] | None = None) -> None:
    """Write ``audit.json``, in ASCII: no character in it can steer a terminal.

    Args:
        audit: what was found.
        path: the file; its folder is made if absent.
        config: the resolved configuration, kept beside the findings.
    """
    content = {"format": FORMAT, "version": installed("domadapt"), **asdict(audit), "config": config or {}}
    write_atomic(Path(path), json.dumps(content, indent=1) + "\n")


def read_audit(path: Path | str) -> Audit:
    """Read ``audit.json``.

    Args:
        path: the file, or a folder that holds one.

    Raises:
        ValueError: it is missing, no audit, or of another format; names the file.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> written = Audit("camera", "laptop", {"target test": 7}, {}, (Finding("gap", "note", 0.5, "Small."),))
    >>> write_audit(written, Path(folder, "audit.json"))
    >>> read_audit(folder) == written
    True
    """
    file = Path(path) / "audit.json" if Path(path).is_dir() else Path(path)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {FORMAT}")
        findings = tuple(
            Finding(
                str(f["kind"]),
                SEVERITIES[SEVERITIES.index(f["severity"])],
                float(f["weight"]),
                str(f["text"]),
                {str(name): value for name, value in f["numbers"].items() if isinstance(value, int | float)},
                tuple(map(str, f["examples"])),
            )
            for f in content["findings"]
        )
        return Audit(
            str(content["source"]),
            str(content["target"]),
            {str(name): int(count) for name, count in content["parts"].items()},
            {str(name): {str(k): float(v) for k, v in found.items()} for name, found in content["surfaces"].items()},
            findings,
            {str(name): int(count) for name, count in content["mended"].items()},
            str(content["verdict"]),
            float(content["seconds"]),
        )
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}; write one with `domadapt audit data=...`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: no audit ({error}); write a new one with `domadapt audit data=...`") from None
