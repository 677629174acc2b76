"""`domadapt audit`: written and read, harmless whatever the corpora hold; each planted trap is found, and no other."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import domadapt
from domadapt.auditing.audit import Audit, audit, read_audit, text_audit, write_audit
from domadapt.auditing.copies import annotation, conflicts, duplicates, gaps, near_duplicates, spelling
from domadapt.auditing.finding import SEVERITIES, Finding, Part, Parts, gather, worst_first
from domadapt.auditing.shift import gap, shift, vocabulary
from domadapt.auditing.surface import artefacts, encoding, preparation, surface
from domadapt.data.domains import Ceiling, Domains, SealedTest, TargetUnlabelled
from domadapt.data.records import Record, Span, from_tokens
from tests.support import Command, records, write_csv, write_jsonl, write_texts

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
    assert [(f.severity, f.weight) for f in worst_first(findings)] == [(s, w) for s in SEVERITIES for w in (0.9, 0.1)]
    text = text_audit(Audit("a", "b", {}, {}, tuple(worst_first(findings))))
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
    command("audit", *files(tmp_path))
    assert not Path("audit.json").exists()
    out, _ = command("audit", *files(tmp_path), "output=out/audit.json")
    assert "source → target: scores may mislead" in out
    assert "12 of 12 texts of the target test (100 %) stand in the target unlabelled too" in out
    found = read_audit(tmp_path / "out")
    assert [*found.parts.values()] == [22, 2, 32, 12] and found.findings[0].severity == "severe"
    assert found.verdict.startswith("source → target: scores may mislead")


def test_target_labels_to_learn_from_that_are_the_tests_are_told(tmp_path: Path, command: Command) -> None:
    given, path = files(tmp_path), tmp_path / "labelled.jsonl"
    rows = records("laptop", 12, 6)  # the test's, ids and all
    out, _ = command("audit", *given, f"data.target.train_path={write_jsonl(path, rows)}")
    assert "12 of 12 texts of the target test (100 %) stand in the target train too" in out
    test = next(word.partition("=")[2] for word in given if "test_path" in word)
    _, told = command("audit", *given, f"data.target.train_path={test}", code=2)
    assert "data.target.train_path=data.target.test_path.jsonl is data.target.test_path, too" in told


def test_a_task_chooses_the_annotation(tmp_path: Path) -> None:
    labels = domadapt.audit([*files(tmp_path), "task=classification"])
    spans = domadapt.audit([*files(tmp_path), "task=extraction"])
    assert "terms" not in {f.kind for f in labels.findings}
    assert [any("Cramér" in f.text for f in found.findings) for found in (labels, spans)] == [True, False]
    assert not (tmp_path / "audit.json").exists()
    two = [f"{tmp_path}/data.{side}.path.jsonl" for side in ("source", "target")]
    assert 32 in domadapt.audit([*two, "task=classification"]).parts.values()


def test_texts_without_a_label_among_labelled_ones_are_told_and_left_out(tmp_path: Path, command: Command) -> None:
    rows = (row | ({} if place % 4 else {"label": ""}) for place, row in enumerate(records("camera", 40)))
    write_csv(tmp_path / "half.csv", rows)
    write_texts(tmp_path / "new.txt", records("laptop", 30, 5))
    out, _ = command("audit", "half.csv", "new.txt")
    assert "have no label, and are left out" in out and "half.csv:2" in out
    counted = [int(line.split()[2]) for line in out.splitlines() if line.startswith(("  source train", "  source dev"))]
    assert sum(counted) == 30
    command("audit", "half.csv", code=2)


SIZES = {"train": 150, "dev": 50, "unlabelled": 200, "test": 120, "ceiling": 120}
LABELS = ("negative", "positive")
Records = tuple[Record, ...]
Change = Callable[[Records], Sequence[Record]]
Look = Callable[[Parts], Iterator[Finding]]


class Language:
    """Common words, and words of each domain: things, and praise and blame that only this domain uses."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
        words = sorted({"".join(rng.choice(syllables, 2 + i % 2)) for i in range(4 * 340)})
        words = words[:: max(1, len(words) // 340)][:340]
        rng.shuffle(words)
        self.common, self.praise = words[:240], {"negative": words[240:250], "positive": words[250:260]}
        self.things = {"camera": words[260:280], "laptop": words[280:300]}
        keys = [(domain, label) for domain in self.things for label in LABELS]
        self.own = {key: words[300 + 5 * i : 305 + 5 * i] for i, key in enumerate(keys)}

    def record(self, rng: np.random.Generator, domain: str, name: str) -> Record:
        """A sentence with a thing (the aspect), a judgement (the opinion), and marks here and there."""
        label = LABELS[int(rng.integers(2))]
        words = list(rng.choice(self.common, int(rng.integers(8, 16))))
        own = rng.random() < 0.7
        judgement = str(rng.choice(self.own[domain, label] if own else self.praise[label]))
        thing = str(rng.choice(self.things[domain]))
        at = int(rng.integers(2, len(words) - 2))
        words[at:at] = [thing, "isn't" if rng.random() < 0.2 else "is", judgement]
        text = " ".join(words)
        comma = words[0] + ("," if rng.random() < 0.3 else "")
        text = comma[0].upper() + comma[1:] + text[len(words[0]) :] + ("!" if rng.random() < 0.2 else ".")
        starts = [(text.index(f" {word} ") + 1 if f" {word} " in text else text.index(word), word)
                  for word in (thing, judgement)]  # fmt: skip
        spans = (Span(i, i + len(w), kind) for (i, w), kind in zip(starts, ("aspect", "opinion"), strict=True))
        return Record(name, domain, text, None, label, tuple(spans))


@cache
def corpora() -> dict[str, Records]:
    """Two domains, prepared alike, none of whose texts occurs twice, with a gap between them."""
    language, rng = Language(), np.random.default_rng(3)
    domains = dict.fromkeys(SIZES, "laptop") | {"train": "camera", "dev": "camera"}
    return {
        part: tuple(language.record(rng, domain, f"{part}-{i}") for i in range(SIZES[part]))
        for part, domain in domains.items()
    }


def problem(**changes: Change) -> Domains:
    """The clean problem, with some parts changed: train, dev, unlabelled, test, ceiling."""
    part = {name: tuple(changes[name](r)) if name in changes else r for name, r in corpora().items()}
    unlabelled = TargetUnlabelled.from_records("laptop", part["unlabelled"])
    test = SealedTest("laptop", lambda: part["test"])
    return Domains(
        *("camera", "laptop", part["train"], part["dev"], (), unlabelled, test), lambda: Ceiling(part["ceiling"], ())
    )


def planted(**changes: Change) -> Parts:
    return gather(problem(**changes))


@cache
def looked(look: Look, *changes: tuple[str, Change]) -> list[Finding]:
    """Once, however many rows of a table ask."""
    return [*look(planted(**dict(changes)))]


def one(findings: Iterable[Finding], *words: str) -> Finding:
    """The only finding that says all these words."""
    found = [f for f in findings if all(word in f.text for word in words)]
    assert len(found) == 1, [f.text for f in found]
    return found[0]


def test_a_clean_corpus_gives_no_alarm_and_the_same_one_each_time() -> None:
    first, second = (audit(problem(), seed=5) for _ in range(2))
    assert first.findings == second.findings
    assert [f.text for f in first.findings if f.severity != "note"] == [] and "no problem was found" in first.verdict
    kinds = {f.kind for f in first.findings}
    assert {"artefacts", "gap", "label shift", "length shift", "terms", "vocabulary"} <= kinds


def each(**settings: object) -> Change:
    return lambda records: [replace(r, **settings) for r in records]  # type: ignore[arg-type]


def text(change: Callable[[str], str]) -> Change:
    """Other texts, the spans left out."""
    return lambda records: [replace(r, text=change(r.text), spans=()) for r in records]


def some(n: int, change: Change) -> Change:
    """Every n-th record is changed."""
    return lambda records: [next(iter(change((r,)))) if i % n == 0 else r for i, r in enumerate(records)]


def adding(part: str, start: int, stop: int, change: Callable[[str], str] = str) -> Change:
    """Copies of a part's records are added."""
    return lambda records: [*records, *(replace(r, text=change(r.text)) for r in corpora()[part][start:stop])]


def both(*changes: Change) -> Change:
    def apply(records: Records) -> Records:
        for change in changes:
            records = tuple(change(records))
        return records

    return apply


def tokenised(text: str) -> str:
    """As the Penn Treebank writes it."""
    return re.sub(r"([.,!?])", r" \1", text.replace("isn't", "is n't"))


def contradicting(records: Records) -> Records:
    flipped = dict(zip(LABELS, LABELS[::-1], strict=True))
    return (
        *records,
        *(replace(r, id=f"flip-{i}", label=flipped[str(r.label)]) for i, r in enumerate(records[:8])),
        *(replace(r, id=f"less-{i}", spans=(r.spans or ())[:1]) for i, r in enumerate(records[8:13])),
        *(replace(r, id=f"same-{i}", text=r.text.lower()) for i, r in enumerate(records[13:20])),
    )


def mostly_positive(records: Records) -> Records:
    return tuple(replace(r, label="positive" if i % 5 else "negative") for i, r in enumerate(records))


def neighbours(touching: bool) -> Change:
    """Records of two things with a word between them; and of two that touch, merged or not."""
    apart = from_tokens(["bo", "lens", "and", "strap", "wa"], ["O", "B-ASP", "O", "B-ASP", "O"])
    close = from_tokens(["bo", "lens", "strap", "wa"], ["O", "B-ASP", "B-ASP" if touching else "I-ASP", "O"])

    def plant(records: Records) -> Records:
        made = (apart if i % 12 else close for i in range(len(records)))
        return tuple(replace(r, text=t, words=w, spans=s) for r, (t, w, s) in zip(records, made, strict=True))

    return plant


def source_texts(start: int, stop: int) -> Change:
    """Texts of the source's own language, drawn without repeats."""
    source = (*corpora()["train"], *corpora()["dev"])
    return lambda _: [source[i] for i in np.random.default_rng(0).permutation(len(source))[start:stop]]


def target(change: Change) -> dict[str, Change]:
    return dict.fromkeys(("test", "unlabelled", "ceiling"), change)


def source(change: Change) -> dict[str, Change]:
    return dict.fromkeys(("train", "dev"), change)


OTHER = Record("other", "laptop", corpora()["test"][0].text, None, "quite another")
TWICE = {"train": lambda rs: (*rs, OTHER, replace(corpora()["test"][0], id="same"))}  # the source against itself
LOWER, RAW = target(text(str.lower)), {"test": text(lambda t: tokenised(t.lower()))}
COPIED: dict[str, Change] = {
    "unlabelled": both(adding("test", 0, 30, lambda t: tokenised(t).upper()), adding("test", 30, 34)),
    "train": adding("test", 30, 34),
    "dev": adding("train", 0, 10),
}
DOUBLED = {"unlabelled": text(lambda t: f"{t} {t}")}
CONTRARY: dict[str, Change] = {"train": contradicting}
CASED = {"test": some(10, each(label="Positive", spans=(Span(0, 2, "Aspect"),)))}
SPACED = {"test": both(some(10, each(label="very good")), lambda rs: (replace(rs[0], label="very\xa0good"), *rs[1:]))}
ALMOST = {"unlabelled": adding("test", 0, 9, "Xo {}".format)}
AGAIN = {"train": both(adding("train", 0, 12), adding("train", 0, 12))}
ALIEN = {"test": some(4, each(label="neutral", spans=(Span(0, 2, "brand"),)))}
HOME = {name: source_texts(*ends) for name, ends in (("test", (0, 100)), ("train", (100, 200)))}
HOME |= dict.fromkeys(("dev", "ceiling"), source_texts(0, 0))
FEW = HOME | {"test": source_texts(0, 48), "train": source_texts(50, 200)}
HALF, REVERSED = source(some(2, each(spans=()))), target(text(lambda t: " ".join(w[::-1] + "x" for w in t.split())))
CROSSED = Span(0, 2, "aspect"), Span(0, 3, "aspect")
# The screen of a text that begins with a face, as bytes count its place, or as JavaScript does.
FACE = "\N{GRINNING FACE} The screen is sharp."
BYTES, UTF_16 = (source(each(text=FACE, spans=(Span(at, at + 6, "aspect"),))) for at in (9, 7))
TWO = "Two parts of laptop/target unlabelled/target test"
UNDONE = {"auc": (0.99, 1), "undone auc": (0, 0.65), "explained": (0.7, 1)}
# What is looked with, what is planted, what the finding says, how bad it is, and its numbers or their ranges.
TRAPS: list[tuple[Look, dict[str, Change], str, str, dict[str, float | tuple[float, float]]]] = [
    (duplicates, COPIED, "of the target test/in the target unlabelled too", "severe", {"texts": 34, "verbatim": 4}),
    (duplicates, COPIED, "of the target test/in the source train too/with its label", "warning", {"texts": 4}),
    (duplicates, COPIED, "of the source dev/in the source train too", "severe", {"texts": 10, "of": 60}),
    (duplicates, AGAIN, "of the source train/repeat an earlier one", "warning", {"texts": 24, "of": 174}),
    (duplicates, AGAIN, "labelled parts of camera", "warning", {"texts": 24, "of": 224}),
    (near_duplicates, ALMOST, "of the target test", "severe", {"texts": 9}),
    (conflicts, CONTRARY, "in the source,/different labels", "warning", {"conflicting": 8, "repeated": 20}),
    (conflicts, CONTRARY, "in the source,/different spans", "warning", {"conflicting": 5}),
    (conflicts, {"train": lambda rs: (*rs, OTHER)}, "source and target together/labels", "note", {"conflicting": 1}),
    (spelling, CASED, "Labels/'Positive' (12 times)/write 'positive' everywhere", "severe", {"rare": 12, "of": 440}),
    (spelling, CASED, "Span types/'Aspect' (12 times)", "severe", {"rare": 12}),
    (spelling, SPACED, r"Labels/'very\xa0good' (1 time)/write 'very good' everywhere", "severe", {"rare": 1}),
    (shift, source(mostly_positive), "from camera to laptop", "warning", {"p": (0, 0.001), "positive source": 0.8}),
    (
        shift,
        {"test": mostly_positive},
        "Labels shift from the target train to the target test",
        "warning",
        {"positive target train": (0, 0.7), "positive target test": 0.8},
    ),
    (shift, ALIEN, "(neutral)", "severe", {"texts": 30}),
    (shift, ALIEN, "(brand)", "severe", {"types": 1}),
    (shift, DOUBLED, "source train/target unl", "warning", {"cliffs_delta": (0.9, 1)}),
    (shift, {"test": each(spans=())}, "aspect spans per text", "warning", {}),
    (preparation, RAW, f"{TWO}/are tokenised", "severe", {}),
    (preparation, RAW, f"{TWO}/upper-case", "severe", {}),
    (preparation, LOWER, "Source and target/upper-case", "warning", {}),
    (artefacts, RAW, "target unlabelled from target test", "severe", UNDONE),
    (artefacts, LOWER, "source train from", "warning", UNDONE),
    (artefacts, {}, "source train from", "note", {"auc": (0, 0.65)}),
    (vocabulary, {}, "aspect terms of laptop", "note", {"types": 0, "tokens": 0}),
    (vocabulary, REVERSED, "running words", "warning", {"tokens": (0, 0.1)}),
    (annotation, source(neighbours(False)), "not one pair touches", "warning", {"one_word_between": (150, 200)}),
    (annotation, source(each(spans=CROSSED)), "overlap another", "warning", {"overlapping": (200, 300)}),
    (annotation, BYTES, "seem to count bytes of UTF-8; expected characters", "warning", {"inside_words": (200, 300)}),
    (annotation, UTF_16, "seem to count UTF-16 units", "warning", {"inside_words": (200, 300)}),
    (annotation, HALF, "without any span", "warning", {"camera empty": 100, "laptop empty": 0, "laptop of": 240}),
    (annotation, HALF, "somebody may have left them out", "warning", {"camera of": 200}),
    (gap, {}, "There is a gap to close", "note", {"low": (0, 1)}),
    (gap, HOME, "No gap to close is shown", "severe", {"low": (-1, 0)}),
    (gap, FEW, "Too few target labels to tell a gap/48 target texts/150 source texts", "note", {"low": (-1, 0)}),
]


@pytest.mark.parametrize(("look", "changes", "words", "severity", "numbers"), TRAPS)
def test_a_planted_trap_is_found(look: Any, changes: Any, words: str, severity: str, numbers: dict[str, Any]) -> None:
    found = one(looked(look, *changes.items()), *words.split("/"))
    assert found.severity == severity, found.text
    for key, value in numbers.items():
        low, high = value if isinstance(value, tuple) else (value, value)
        assert low - 1e-9 <= found.numbers[key] <= high + 1e-9, (key, found.numbers)


def test_examples_show_what_was_found() -> None:
    for look, changes, words, example in (
        (conflicts, CONTRARY, "in the source,/different labels", "negative, positive"),
        (conflicts, CONTRARY, "in the source,/different spans", " nothing"),
        (duplicates, AGAIN, "of the source train", "3 × "),
        (artefacts, LOWER, "source train from target", "‹A"),
    ):
        assert any(example in told for told in one(looked(look, *changes.items()), *words.split("/")).examples)


def test_what_is_no_trap_is_not_told() -> None:
    assert [*near_duplicates(planted())] == []
    over = [
        replace(r, spans=(*r.spans, Span(r.spans[0].start, r.spans[0].end, "ASP+"))) for r in source_texts(0, 9)(())
    ]
    assert (gaps(over)[0], gaps(over, one_type=False)[0]) == (0, 0), "spans that overlap do not touch"
    kept = planted(**source(neighbours(touching=True)))
    assert not [f for f in annotation(kept) if "touches" in f.text]
    assert not [f for f in preparation(planted(**LOWER)) if "tokenised" in f.text]
    assert [*preparation(planted(dev=both(lambda rs: rs[:3], text(str.lower))))] == []
    written = Part("source train", (Record("1", "camera", "Ein Objektiv."),) * 40)
    other = Part("target unlabelled", (Record("1", "laptop", "यह लैपटॉप अच्छा है."),) * 40)
    parts = Parts({"source": "camera", "target": "laptop"}, (written, other), {"source": (), "target": ()})
    assert [*preparation(parts)] == [] and surface(other)["with_case"] == 0, "a script without case"
    assert not [f for f in conflicts(planted(**TWICE)) if "together" in f.text]
    assert all("fewer than 40 different texts" in f.text for f in artefacts(planted(unlabelled=lambda rs: rs[:10])))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("clich\ufffd", "U+FFFD"),
        ("cafÃ©", "UTF-8 read as Windows-1252"),
        ("it â€™s", "UTF-8 read as Windows-1252"),
        ("bell\x07", "control or invisible"),
        ("\u202eevil", "control or invisible"),
        ("R &amp; B", "HTML entities"),
        ("at &#38; t", "HTML entities"),
        ("so<br />there", "HTML tags"),
        *((fine, "") for fine in ("Ça va, São Tomé: «été», 20 °C — “naïve”…", "AT&T, R&D; x < y > z", "½ £5 Ångström")),
    ],
)
def test_damage(damage: str, says: str) -> None:
    plant = some(24, text(lambda t: f"{'word ' * 60}{damage} {t}"))
    found = [f for f in encoding(planted(test=plant)) if says in f.text]
    assert [(f.severity, f.numbers) for f in found] == [("warning", {"texts": 5, "of": 120})] * bool(says)
    assert not {"\x07", "\u202e"} & {*"".join(example for f in found for example in f.examples)}
    assert all(len(f.examples) == 3 for f in found)
