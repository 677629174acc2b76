"""`domadapt audit`: printed and written, read back as written, and harmless whatever the corpora hold."""

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.auditing.audit import Audit, audit, read_audit, text_audit, write_audit
from domadapt.auditing.finding import SEVERITIES, Finding, ordered
from domadapt.data.domains import Domains, SealedTest, TargetUnlabelled
from domadapt.data.records import Record, Span
from tests.support import Command, records, write_jsonl

FINDING = Finding("gap", "severe", 0.5, "No gap.", {"low": -0.1, "of": 3}, ("a", "b"))
AUDIT = Audit("camera", "laptop", {"target test": 7}, {"target test": {"cased": 1.0, "tokenised": 0.0}}, (FINDING,))


def test_read_as_written(tmp_path: Path) -> None:
    write_audit(AUDIT, tmp_path / "new" / "audit.json", {"seed": 1})
    assert read_audit(tmp_path / "new") == read_audit(tmp_path / "new" / "audit.json") == AUDIT
    assert json.loads((tmp_path / "new" / "audit.json").read_text())["config"] == {"seed": 1}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["audit.json"]


DREADFUL = {"kind": "k", "severity": "dreadful", "weight": 1.0, "text": "", "numbers": {}, "examples": []}
WHOLE: dict[str, Any] = {"format": 1, "source": "a", "target": "b", "parts": {}, "surfaces": {}, "findings": []}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "nowhere: No such file"),
        ("", "no audit"),
        ("[]", "no audit"),
        ('{"format": 2}', "format 2, expected 1"),
        ('{"format": 1}', "no audit (source, target, parts, surfaces, findings)"),
        (json.dumps(WHOLE | {"findings": [DREADFUL]}), "severity 'dreadful', expected one of severe, warning, note"),
        (json.dumps(WHOLE | {"findings": [DREADFUL | {"kind": 1}]}), "no audit (findings)"),
        ("\x80", "no audit"),
    ],
)
def test_what_is_no_audit_is_told(tmp_path: Path, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / "audit.json").write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=r"audit\.json: .*domadapt audit|nowhere: .*domadapt audit") as error:
        read_audit(tmp_path if content is not None else tmp_path / "nowhere")
    assert told in str(error.value) and "\n" not in str(error.value)


HOSTILE = st.text(alphabet=st.sampled_from("ab \x1b\x07\u202e\u2066\ufeff\u2028<>&é{}$|"), min_size=1, max_size=40)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_hostile_text_is_harmless(text: str, label: str, name: str) -> None:
    kinds = enumerate([f"{label}{i % 2}" for i in range(8)])
    source = tuple(Record(f"s{i}", name, f"{text}x{i % 3}", None, kind, (Span(0, 1, kind),)) for i, kind in kinds)
    test = tuple(Record(f"t{i}", name, f"{text}x{i % 2}", None, label, (Span(0, 1, label),)) for i in range(5))
    unlabelled = TargetUnlabelled.from_records(name, test)
    domains = Domains(name, name, source, source[:2], (), unlabelled, SealedTest(name, lambda: test))
    domains.warnings[text] = 2
    found = audit(domains)
    shown = text_audit(found)
    assert {unicodedata.category(c) for line in shown.split("\n") for c in line} & {"Cc", "Cf", "Zl", "Zp"} == set()
    assert found.findings


def test_a_megabyte_on_one_line_is_cut() -> None:
    long = "word " * 200_000
    texts = {"1": (long, "a"), "2": (long + "!", "b"), "3": (" . " * 300_000, None)}
    every = tuple(Record(name, "d", text, None, label) for name, (text, label) in texts.items())
    found = audit(Domains("d", "e", every, (), (), TargetUnlabelled.from_records("e", every), None))
    assert len(text_audit(found)) < 20_000
    assert any("longer than 10000 bytes" in f.text for f in found.findings)


def test_worst_first() -> None:
    findings = [Finding("k", severity, weight, "") for severity in SEVERITIES[::-1] for weight in (0.1, 0.9)]
    assert [(f.severity, f.weight) for f in ordered(findings)] == [(s, w) for s in SEVERITIES for w in (0.9, 0.1)]
    text = text_audit(Audit("a", "b", {}, {}, tuple(ordered(findings))))
    assert text.index("Severe") < text.index("Warnings") < text.index("Notes")


def files(folder: Path) -> list[str]:
    """A small problem whose test stands in the unlabelled text."""
    test = records("laptop", 12, 6)
    parts = {
        "data.source.path": records("camera", 24),
        "data.target.path": records("laptop", 20, 5) + [{**r, "id": f"copy-{r['id']}"} for r in test],
        "data.target.test_path": test,
    }
    return ["data=my_files", *(f"{name}={write_jsonl(folder / f'{name}.jsonl', rows)}" for name, rows in parts.items())]


def test_prints_and_writes(tmp_path: Path, command: Command) -> None:
    assert command("audit", *files(tmp_path))[0] == 0 and not Path("audit.json").exists()
    code, out, err = command("audit", *files(tmp_path), "output=out/audit.json")
    assert code == 0, err
    assert "source → target: scores can't be taken as they stand" in out
    assert "12 of 12 texts of the target test (100 %) stand in the target unlabelled too" in out
    found = read_audit(tmp_path / "out")
    assert [*found.parts.values()] == [22, 2, 32, 12] and found.findings[0].severity == "severe"
    assert found.verdict.startswith("source → target: scores can't be taken")


def test_a_task_chooses_the_annotation(tmp_path: Path) -> None:
    labels = domadapt.audit([*files(tmp_path), "task=classification"])
    spans = domadapt.audit([*files(tmp_path), "task=extraction"])
    assert "terms" not in {f.kind for f in labels.findings}
    assert [any("Cramér" in f.text for f in found.findings) for found in (labels, spans)] == [True, False]
    assert not (tmp_path / "audit.json").exists()


def test_texts_without_a_label_among_labelled_ones_are_told_and_left_out(tmp_path: Path, command: Command) -> None:
    rows = records("camera", 40)
    lines = [f'"{row["text"]}",{row["label"] if place % 4 else ""}' for place, row in enumerate(rows)]
    (tmp_path / "half.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    (tmp_path / "new.txt").write_text("".join(row["text"] + "\n" for row in records("laptop", 30, 5)))
    code, out, err = command("audit", "half.csv", "new.txt")
    assert code == 0, err
    assert "have no label, and are left out" in out and "half.csv:2" in out
    counted = [int(line.split()[2]) for line in out.splitlines() if line.startswith(("  source train", "  source dev"))]
    assert sum(counted) == 30
    assert command("audit", "half.csv")[0] == 2
