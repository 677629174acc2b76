"""Markdown for a pull request: the same content, and nothing in it acts."""

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from domadapt.reporting.blocks import Section, Table, Text
from domadapt.reporting.markdown import LONGEST, code, harmless, markdown, table_lines
from domadapt.reporting.report import report

HOSTILE = (
    "<script>alert(1)</script> [x](http://example.org) @everyone #1 | a | b | `c` ``` **d** ~~e~~ $f$ &lt; "
    "www.example.org"
)


def without_code(text: str) -> str:
    """Markdown less its code spans, which begin and end with equally many backticks."""
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


@given(st.text(max_size=60))
def test_no_markup_outside_code(text: str) -> None:
    rest = without_code(harmless(text))
    assert not re.search(r"[<>`*\[\]|@#\\~$]\S|https?://|www\.|\n|\r", rest.replace("n<", "")), rest


@given(st.text(alphabet="`a |\n", max_size=20))
def test_code_spans_hold_their_content(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)
    assert fence is not None
    assert fence[0] not in span[len(fence[0]) : -len(fence[0])].split(" ")
    assert without_code(span) == ""


@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), max_size=4))
def test_tables_keep_their_shape(rows: list[list[str]]) -> None:
    for line in table_lines(Table("", ["a", "b|c"], rows)):
        assert "\n" not in line
        assert len(re.findall(r"(?<!\\)\|", line)) == 3


def test_hostile_text_in_a_report(make_run: Any, row: Any, tmp_path: Path) -> None:
    for method, predicted in (("source_only", []), ("lisa", [(0, 3)])):
        rows = [row(HOSTILE, [(0, 3)], predicted), row("y" * 1_000_000, [(0, 3)], predicted)]
        make_run(method, 1, 0.5, rows, target=HOSTILE, command=HOSTILE + "\n\n# heading")
    report(tmp_path / "runs", tmp_path / "r.html", ["markdown"])
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert not (tmp_path / "r.html").exists()
    assert "alert(1)" in text
    lines = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)  # bars are in fences
    rest = without_code(lines)
    assert "<script" not in rest
    assert "@everyone" not in rest
    assert "](" not in rest
    assert "# heading" not in rest
    assert len(text) < 20_000


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    sections = [Section("first", (Text("word " * 100),))]
    sections += [Section(f"detail {i}", (Text("word " * 4000),), 3) for i in range(8)]
    text = markdown("title", sections)
    assert len(text.encode()) <= LONGEST
    assert "## first" in text
    assert re.search(r"Left out to fit into a pull request: [45] sections", text)
    assert "### detail 0" in text


def test_one_section_too_long_is_cut_with_a_count() -> None:
    text = markdown("title", [Section("s", tuple(Text("wörd " * 200) for _ in range(100)))])
    assert len(text.encode()) <= LONGEST
    assert re.search(r"Cut here: \d+ more characters are in the HTML report", text)


def test_an_equals_sign_is_text_where_it_makes_no_heading() -> None:
    assert harmless("above it: p = 0.02") == "above it: p = 0.02"
    assert harmless("= 0.02") == "`=` 0.02"
