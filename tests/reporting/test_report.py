"""The page, its Markdown and CSV files: whole, and deaf to what corpora ask of them; broken runs are named."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.synthetic import synthetic_runs
from domadapt.reporting.blocks import Folded, Listing, Prose, Section, Table
from domadapt.reporting.frames import FORMULA, spreadsheet_safe, write_csv
from domadapt.reporting.render import LARGEST_PAGE, code, harmless, markdown, table_lines
from domadapt.reporting.report import FORMATS, report
from domadapt.reporting.words import LONGEST_TEXT
from domadapt.runs.groups import group, read_runs, typed
from tests.support import make_metrics, predicted_row, read_csv

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)> '><svg onload=alert(2)>",
    "</text></svg><style>*{display:none}</style><iframe src='https://example.org'>",
    "abc \u202egnirts desrever\u202c \u2066isolate\u2069 end",
    "null \x00 bell \x07 escape \x1b[31m delete \x7f line \u2028 end \ufffe \ud800 lone",
    "[x](http://example.org) @everyone #1 | a | b | `c` ``` **d** ~~e~~ $f$ www.example.org",
    "{{ 7 * 7 }} {% raw %} $\\frac{1}{2}$ &amp; &lt;b&gt;",
    "الكاميرا ممتازة והמסך טוב 相機很好 👩‍👩‍👧 é",
    "x" * 1_000_000,
    "word " * 200_000,
    " \n\t ",
    "",
)


class Page(HTMLParser):
    """Every element of a page with its attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, list[tuple[str, str]]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, [(name, value or "") for name, value in attrs]))

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_harmless(html: str) -> Page:
    page = Page(html)
    tags = [tag for tag, _ in page.elements]
    assert not {"script", "iframe", "img", "object", "embed", "link", "base", "form"} & {*tags}
    assert tags.count("style") == 1
    for tag, name, value in ((tag, *attribute) for tag, attributes in page.elements for attribute in attributes):
        assert not name.startswith("on"), (tag, name)
        if name in ("src", "href", "xlink:href", "action", "data"):
            assert value.startswith("#"), (tag, name, value)
        assert "javascript:" not in value.lower()
    assert all(url.startswith("url(#") for url in re.findall(r"(?:url\(|@import)[^)]*", html))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff\ufffe]", html)
    return page


def words_of(tmp_path: Path) -> str:
    """What a report on the runs says, which is harmless."""
    html = report(tmp_path / "runs", tmp_path / "report.html").read_text(encoding="utf-8")
    return " ".join(assert_harmless(html).text.split())


def test_report_of_a_small_benchmark(make_run: Any, tmp_path: Path) -> None:
    text = "The battery life is great."
    right, wrong = predicted_row(text, [(4, 16)], [(4, 16)]), predicted_row(text, [(4, 16)], [(4, 11)])
    other = predicted_row("It works.", [], [])
    for seed in (1, 2, 3):
        make_run("source_only", seed, 0.4 + seed / 100, [wrong, other])
        make_run("lisa", seed, 0.6 + seed / 100, [right, predicted_row("It works.", [], [(0, 2)])])
        make_run("in_domain", seed, 0.8 + seed / 100, [right, other])
        make_run("rnn_from_scratch", seed, 0.2, [wrong, other])
    output = report(tmp_path / "runs", tmp_path / "new" / "report.html")
    html = output.read_text(encoding="utf-8")
    page = assert_harmless(html)
    words = " ".join(page.text.split())
    assert re.search(r"20\.0 points \([^)]*\) above source_only", words)
    for part in (
        "12 runs, ",
        "more than chance is not shown: too few runs (3)",  # three seeds can't
        "lisa against source_only at the same seeds (1, 2, 3), on 2 target test texts",
        "Fixed: 1 text has fewer errors; all of them",
        "Broke: 1 text has more errors; all of them",
        "errors: 2 before, 0 after",
        "6 times: a mended tag",
        "domadapt train seed=1 # lisa, seed 1, key lisa1",
    ):
        assert part in words
    order = ["Summary", "Scores", "Significance", "Cost against gain", "Pair by pair", "Data", "How to reproduce"]
    order.append("Not in this report")  # of selection and of expected scores these runs recorded nothing
    assert re.findall(r"<h2[^>]*><bdi>([^<]*)", html) == order
    svgs = [dict(attributes) for tag, attributes in page.elements if tag == "svg"]
    assert len(svgs) == 2 and all(svg["role"] == "img" and svg["aria-label"] for svg in svgs)
    links = {dict(attributes)["href"] for tag, attributes in page.elements if tag == "a"}
    ids = [f"#{value}" for _, attributes in page.elements for name, value in attributes if name == "id"]
    assert links <= {*ids} and len({*ids}) == len(ids)
    assert report(tmp_path / "runs", output).read_text(encoding="utf-8") == html  # the same bytes every time


def without_code(text: str) -> str:
    """Markdown less its code spans, which begin and end with equally many backticks."""
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


def test_hostile_text_is_shown_and_not_obeyed(make_run: Any, tmp_path: Path) -> None:
    """Texts, labels and names of everything, in every section."""
    adapted, validator = (HOSTILE[0] + "\u202e").replace("/", "-"), HOSTILE[1].replace("/", "-")
    for method, predicted in (("source_only", []), (adapted, [(0, 3)]), ("in_domain", [(0, 3)])):
        rows = [predicted_row(text, [(0, 3)], predicted) for text in HOSTILE]
        rows[0]["gold"]["spans"][0]["type"] = HOSTILE[1]
        make_run(
            method, 1, 0.5, rows, source=HOSTILE[0] + HOSTILE[2], target=HOSTILE[3],
            command=HOSTILE[1] + HOSTILE[5] + "\n\n# heading",
            versions={HOSTILE[0]: HOSTILE[4].replace("\ud800", "")}, hardware={"device": HOSTILE[2]},
            counts={"warnings": {HOSTILE[2]: 1}, "truncated": {}}, target_test_sizes={"all": 4, "clean": 3},
            curve=[{"epoch": 1, "step": 1, "losses": {HOSTILE[6]: 0.1}, "source_dev": {"span_f1": 0.5}}],
            calibration={"error": 0.1, "bins": [{"confidence": 0.9, "accuracy": 0.8, "count": 3}]},
            selection={"validator": validator, "epoch": 1, "gap": 0.1,
                       "choices": {validator: {"epoch": 1, "target_test": {"span_f1": 0.5}}}},
        )  # fmt: skip
    output = report(tmp_path / "runs", tmp_path / "report.html", FORMATS)
    page = assert_harmless(output.read_text(encoding="utf-8"))
    for part in ("<script>alert(1)</script>", "⟨U+202E⟩gnirts", "⟨U+0007⟩", "{{ 7 * 7 }}", "الكاميرا", "regret"):
        assert part in page.text
    assert f"{1_000_000 - LONGEST_TEXT} more characters" in " ".join(page.text.split())
    assert output.stat().st_size < 3_000_000
    text = output.with_suffix(".md").read_text(encoding="utf-8")
    assert "alert(1)" in text and len(text.encode()) <= LARGEST_PAGE
    assert not any(part in without_code(text) for part in ("<script", "@everyone", "](", "# heading"))


def test_classification_compares_labels(make_run: Any, tmp_path: Path) -> None:
    for method, label in (("source_only", "positive"), ("lisa", "negative")):
        row = predicted_row("It broke.", "negative", label)
        make_run(method, 1, 0.5, [row], task="classification", headline="macro_f1")
    words = words_of(tmp_path)
    assert "gold negative, before positive, after negative" in words and "An error is a wrong label" in words


def test_no_target_labels(make_run: Any, tmp_path: Path) -> None:
    make_run("source_only", 1, None)
    make_run("lisa", 1, None)
    words = words_of(tmp_path)
    assert "No scores are drawn: the target test has no labels" in words
    for other in ("Nothing to compare", "Cost against gain"):  # nor anything else that target labels would tell
        assert other not in words
    make_run("in_domain", 1, 0.5, target="chair")  # another pair's score leaves the first one's section in its place
    report(tmp_path / "runs", tmp_path / "report.html", FORMATS)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## On the target\n\n### camera → laptop\n" in text
    assert "shows it: `domadapt audit data=... output=audit.json`\n" in text
    assert not re.search(r"\n#+ (.*learning curves|Scores)\n\n#", text)  # what is drawn leaves no empty section


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("source_only/seed=1/predictions.jsonl", '{"id": "a"\n', "predictions.jsonl:1: not a prediction"),
        ("source_only/seed=1/predictions.jsonl", "", "different numbers of texts"),
        ("half/metrics.json", '{"format"', "Unreadable, so left out"),
    ],
)
def test_damaged_files_spoil_only_themselves(make_run: Any, tmp_path: Path, file: str, content: str, told: str) -> None:
    for method in ("source_only", "lisa"):
        make_run(method, 1, 0.5, [predicted_row("a", [], [])])
    path = tmp_path / "runs" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    words = words_of(tmp_path)
    assert told in words and file.partition("/")[0] in words


def test_secrets_stay_out(make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    config = {"seed": 1, "method": "source_only", "tracking": {}, "hub": {"token": "sesame-open-0001"}}
    make_run("source_only", 1, 0.5, command="domadapt train key=0123456789abcdef", config=config)
    report(tmp_path / "runs", tmp_path / "r.html", FORMATS)
    written = [*tmp_path.glob("r.*")]
    assert len(written) == 4
    for file in written:
        assert "0123456789abcdef" not in file.read_text(encoding="utf-8")
        assert "sesame" not in file.read_text(encoding="utf-8")


def test_large_reports_say_what_they_leave_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domadapt.reporting.report.DETAILED_PAIRS", 1)
    assert synthetic_runs(tmp_path / "runs", pairs=2, methods=4, seeds=1, texts=30) == 8
    html = report(tmp_path / "runs", tmp_path / "r.html", ["html"]).read_text(encoding="utf-8")
    words = " ".join(assert_harmless(html).text.split())
    assert "1 of 2 pairs have no details" in words and words.count("learning curves") == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"baseline": "typo"}, "baseline='typo': .*expected"),
        ({"formats": ["pdf"]}, "expected some of html, markdown, csv"),
        ({"output": "."}, "expected a name that ends in .html or .htm, such as report.html"),
    ],
)
def test_a_setting_that_is_none_is_refused(make_run: Any, tmp_path: Path, setting: Any, message: str) -> None:
    make_run("source_only", 1, 0.5)
    with pytest.raises(ValueError, match=message):
        report(**{"runs": tmp_path, "output": tmp_path / "report.html", "formats": ("csv",), **setting})


@pytest.mark.parametrize(
    ("name", "content", "output"),
    [
        ("notes.md", "# my own notes", "notes.html"),
        ("notes.runs.csv", "mine", "notes.html"),
        ("card.md", "of domadapt", "card.html"),
        ("report.md", "# Our trial of domadapt", "report.html"),
        ("report.runs.csv", "pair,notes\n", "report.html"),
    ],
)
def test_what_no_report_has_written_is_not_replaced(
    make_run: Any, tmp_path: Path, name: str, content: str, output: str
) -> None:
    make_run("source_only", 1, 0.5)
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{name}(: is there, and domadapt has not written it|, a run's own file)"):
        report(tmp_path, tmp_path / output, formats=None)
    assert (tmp_path / name).read_text(encoding="utf-8") == content
    for _ in range(2):  # its own files are replaced
        report(tmp_path, tmp_path / "mine.html", formats=None)


def test_the_later_run_counts_whichever_was_copied_last(make_run: Any, tmp_path: Path) -> None:
    for seed, hour in ((1, 12), (2, 9), (3, 11)):
        make_run("recipe", seed, 0.5, written=f"2026-11-28T{hour:02}:00:00+00:00")
    assert [run.seed for run in read_runs(tmp_path).runs] == [2, 3, 1]


def test_links_to_folders_are_followed_each_once(make_run: Any, tmp_path: Path) -> None:
    folder, view = make_run("recipe", 1, 0.5), tmp_path / "view"
    view.mkdir()
    (view / "linked").symlink_to(folder.parent)
    (folder / "back").symlink_to(folder.parent)
    assert [run.seed for run in read_runs(view).runs] == [1]


def test_runs_on_files_that_were_changed_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    contents = [("source_only", 1, None), ("source_only", 1, "a"), ("recipe", 1, "a"), ("source_only", 2, "b")]
    runs = [typed(make_metrics(method, seed, 0.5, data=data)) for method, seed, data in contents]
    (pair,) = group(runs)
    assert [(m.name, m.seeds) for m in pair.methods] == [("source_only", (2,))] and pair.outdated == 3
    assert "camera → laptop: 3 of 4 runs are left out: files of the data have been changed since" in caplog.text
    (pair,) = group(runs[1:3])
    assert [(m.name, m.seeds) for m in pair.methods] == [("source_only", (1,)), ("recipe", (1,))] and not pair.outdated


@given(st.text(max_size=60))
@example("(www.example.org) see:www.example.org GH-12 :tada: it:")
def test_no_markup_outside_code(text: str) -> None:
    rest = without_code(harmless(text))
    assert not re.search(r"GH-\d|:[\w+-]+:", rest)
    assert not re.search(r"[<>`*\[\]|@#\\~$]\S|https?://|www\.|\n|\r", rest.replace("n<", "")), rest


@given(st.text(alphabet="`a |\n", max_size=20))
def test_code_spans_hold_their_content(text: str) -> None:
    span = code(text)
    fence = re.match("`+", span)
    assert fence[0] not in span[len(fence[0]) : -len(fence[0])].split(" ")
    assert without_code(span) == ""


@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2), max_size=4))
def test_tables_keep_their_shape(rows: list[list[str]]) -> None:
    for line in table_lines(Table("", ["a", "b|c"], [[*row] for row in rows])):
        assert "\n" not in line and len(re.findall(r"(?<!\\)\|", line)) == 3


def test_what_does_not_fit_is_left_out_and_counted() -> None:
    sections = [Section("first", (Prose("word " * 100),))]
    sections += [Section(f"detail {i}", (Prose("word " * 4000),), 3) for i in range(8)]
    text = markdown("title", sections)
    assert len(text.encode()) <= LARGEST_PAGE
    assert "## first" in text
    assert re.search(r"Left out to fit into a pull request: [45] sections", text)
    assert "### detail 0" in text
    text = markdown("title", [Section("s", tuple(Prose("wörd " * 200) for _ in range(100)))])
    assert len(text.encode()) <= LARGEST_PAGE
    assert re.search(r"Cut here: \d+ more characters are in the HTML report", text)
    commands = tuple(f"domadapt train seed={seed} {'x' * 90}" for seed in range(1000))
    text = markdown("title", [Section("s", (Folded("all", (Listing("commands", commands, code=True),)),))])
    start, _, end = text.partition("Cut here: ")
    assert end and start.count("<details>") == start.count("</details>") == 2 and "seed=500 " in start


def test_found_at_any_depth_once(make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run("source_only", 1, 0.5)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    found = read_runs([tmp_path, folder, folder / "metrics.json"])
    assert ([run.folder for run in found.runs], found.skipped) == (["../runs/source_only/seed=1"], ())
    (tmp_path / "empty").mkdir()
    (tmp_path / "r.html").touch()
    for name, message in (("absent", "no such folder"), ("empty", "no metrics.json there"), ("r.html", "is a file")):
        with pytest.raises(ValueError, match=message):
            read_runs(tmp_path / name)


def test_a_run_that_is_not_finished_is_named(make_run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (make_run("source_only", 1, 0.5) / "status.json").write_text("{}")  # of an attempt that was not needed
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    (stopped / "status.json").write_text("{}")
    assert len(read_runs(tmp_path).runs) == 1
    assert f"left out, not finished: {os.path.relpath(stopped)}; the same command goes on with it" in caplog.text
    page = report(tmp_path, tmp_path / "page.html").read_text()
    told = "1 run failed or is not finished, so left out; the same command goes on with them: "
    assert told + os.path.relpath(stopped) in page
    with pytest.raises(ValueError, match="stopped is not finished: run its command again"):
        read_runs(stopped)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not whole JSON"),
        ('{"format": 1, "source": "cam', "not whole JSON"),
        ("[" * 100_000, "not whole JSON"),
        ("[1]", "holds a list, expected an object"),
        ('{"format": 99}', "format 99, expected 1: another version or program wrote it"),
        ('{"format": 1}', "lacks source, target"),
        (b"\xff\xfe", "unreadable"),
        (None, "not a file"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str | bytes | None, message: str) -> None:
    if content is None:
        os.mkfifo(tmp_path / "metrics.json")
    else:
        (tmp_path / "metrics.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"metrics\.json.*{message}.*run that cell again"):
        read_runs(tmp_path)


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"config": "a string", "curve": None}, "curve, config"), ({"source_dev": {"span_f1": "0.5"}}, "source_dev")],
)
def test_a_field_of_another_kind_is_named(make_run: Any, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"lacks {named}, or has something else"):
        read_runs(make_run("lisa", 1, 0.5, **fields))


@given(st.text(max_size=20))
def test_no_cell_is_a_formula(text: str) -> None:
    assert not spreadsheet_safe(text).lstrip().startswith(FORMULA)


def test_one_row_a_run_and_one_a_method(make_run: Any, tmp_path: Path) -> None:
    choices = {"entropy": {"epoch": 1, "target_test": {"span_f1": 0.25}}}
    selection = {"validator": "source_dev", "epoch": 2, "gap": 0.125, "choices": choices}
    for method, score in (("source_only", 0.5), ("lisa", 0.625), ("in_domain", 0.75)):
        for seed in (1, 2):
            make_run(method, seed, score, selection=selection)
    report(tmp_path / "runs", tmp_path / "r.html", FORMATS)
    runs = {(row["method"], row["seed"]): row for row in read_csv(tmp_path / "r.runs.csv")}
    lisa = runs["lisa", "2"]
    assert (len(runs), lisa["pair"], lisa["role"], lisa["key"]) == (6, "camera → laptop", "adapted", "lisa2")
    numbers = {"score": 0.625, "seconds": 3.0, "seconds_fit": 2.0, "selection_epoch": 2, "selection_gap": 0.125}
    numbers |= {"score_by_entropy": 0.25, "epoch_by_entropy": 1, "target_test_aspect_f1": 0.525}
    assert {name: float(lisa[name]) for name in numbers} == numbers
    method = next(row for row in read_csv(tmp_path / "r.methods.csv") if row["method"] == "lisa")
    assert (method["baseline"], float(method["baseline_difference"]), float(method["gap_closed"])) == (
        "source_only", 0.125, 0.5,
    )  # fmt: skip


def test_formulas_control_characters_and_negative_numbers(make_run: Any, tmp_path: Path) -> None:
    make_run("source_only", 1, 0.5, target="=cmd()\x07", key="@SUM(A1)")
    report(tmp_path / "runs", tmp_path / "r.html", ["csv"])
    (line,) = read_csv(tmp_path / "r.runs.csv")
    assert (line["target"], line["key"]) == ("'=cmd()⟨U+0007⟩", "'@SUM(A1)")
    write_csv([{"=name": -0.5}, {"=name": None, "b": "-1"}], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "'=name,b\n-0.5,\n,'-1\n"
