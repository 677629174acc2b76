"""`audit.json` and the terminal: read back as written, and harmless whatever the corpora hold."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.auditing.audit import Audit, audit, read_audit, text_audit, write_audit
from domadapt.auditing.finding import SEVERITIES, Finding, ordered
from domadapt.data.domains import Domains, SealedTest, TargetUnlabeled
from domadapt.data.records import Record, Span

FINDING = Finding("gap", "severe", 0.5, "No gap.", {"low": -0.1, "of": 3}, ("a", "b"))
AUDIT = Audit("camera", "laptop", {"target test": 7}, {"target test": {"cased": 1.0, "tokenised": 0.0}}, (FINDING,))


def test_read_as_written(tmp_path: Path) -> None:
    write_audit(AUDIT, tmp_path / "new" / "audit.json", {"seed": 1})
    assert read_audit(tmp_path / "new") == read_audit(tmp_path / "new" / "audit.json") == AUDIT
    assert json.loads((tmp_path / "new" / "audit.json").read_text())["config"] == {"seed": 1}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["audit.json"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no audit"),
        ("[]", "no audit"),
        ('{"format": 2}', "format 2, expected 1"),
        ('{"format": 1}', "no audit"),
        ('{"format": 1, "findings": [{"kind": 1, "severity": "dreadful"}]}', "no audit"),
        ("\x80", "no audit"),
    ],
)
def test_what_is_no_audit_is_told(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "audit.json").write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=r"audit\.json: .*domadapt audit") as error:
        read_audit(tmp_path)
    assert told in str(error.value)


def test_a_missing_audit_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: No such file.*domadapt audit"):
        read_audit(tmp_path / "nowhere")


HOSTILE = st.text(alphabet=st.sampled_from("ab \x1b\x07\u202e\u2066\ufeff\u2028<>&é{}$|"), min_size=1, max_size=40)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_hostile_text_is_harmless(text: str, label: str, name: str) -> None:
    source = tuple(
        Record(f"s{i}", name, f"{text}x{i % 3}", None, f"{label}{i % 2}", (Span(0, 1, f"{label}{i % 2}"),))
        for i in range(8)
    )
    test = tuple(Record(f"t{i}", name, f"{text}x{i % 2}", None, label, (Span(0, 1, label),)) for i in range(5))
    unlabelled = TargetUnlabeled.from_records(name, test)
    domains = Domains(name, name, source, source[:2], (), unlabelled, SealedTest(name, lambda: test))
    domains.warnings[text] = 2
    found = audit(domains)
    shown = text_audit(found)
    assert {unicodedata.category(c) for line in shown.split("\n") for c in line} & {"Cc", "Cf", "Zl", "Zp"} == set()
    assert found.findings


def test_a_megabyte_on_one_line_is_cut() -> None:
    long = "word " * 200_000
    records = (
        Record("1", "d", long, None, "a"),
        Record("2", "d", long + "!", None, "b"),
        Record("3", "d", " . " * 300_000),
    )
    domains = Domains("d", "e", records, (), (), TargetUnlabeled.from_records("e", records), None)
    found = audit(domains)
    assert len(text_audit(found)) < 20_000
    assert any("longer than 10000 bytes" in f.text for f in found.findings)


def test_worst_first() -> None:
    findings = [Finding("k", severity, weight, "") for severity in SEVERITIES[::-1] for weight in (0.1, 0.9)]
    assert [(f.severity, f.weight) for f in ordered(findings)] == [(s, w) for s in SEVERITIES for w in (0.9, 0.1)]
    text = text_audit(Audit("a", "b", {}, {}, tuple(ordered(findings))))
    assert text.index("Severe") < text.index("Warnings") < text.index("Notes")
