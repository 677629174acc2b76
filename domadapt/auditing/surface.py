"""How texts are written: case, tokenisation, damage, and what a classifier of domains learns by these alone."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from domadapt.auditing.finding import EXAMPLES, TARGET_TRAIN, TEST, TRAIN, UNLABELLED, Finding, Part, Parts
from domadapt.data.texts import sampled, without_tokenisation
from domadapt.utils.pairs import parts as ranges
from domadapt.utils.text import percent, shortened

FEW_JUDGED: Final = 20  # texts with a letter that has case, or a mark, to judge by; with fewer a part is not judged
APART: Final = 0.5  # difference between the shares of two parts' texts from which they are prepared in two ways
_MARK: Final = re.compile(r"\w( ?)[.,!?;](?= |$)")  # a mark behind a word, and whether a space parts the two
_SPLIT: Final = re.compile(r"\w n't\b|\w '(?:s|m|re|ve|ll|d)\b", re.IGNORECASE)
_WHOLE: Final = re.compile(r"\wn't\b|\w'(?:s|m|re|ve|ll|d)\b", re.IGNORECASE)
# What texts are, what a classifier learns by it, the setting that undoes it.
PREPARED: Final = {
    "cased": ("hold an upper-case letter", "the case", "data.lowercase=true"),
    "tokenised": ("are tokenised", "the tokeniser", "data.detokenise=true"),
}


def is_tokenised(text: str) -> bool | None:
    """Whether most marks of a text stand apart from their words; None where it has none."""
    marks = _MARK.findall(text)
    apart = sum(map(bool, marks)) + len(_SPLIT.findall(text))
    joined = len(marks) + len(_WHOLE.findall(text)) - sum(map(bool, marks))
    return apart > joined if apart + joined else None


def surface(part: Part) -> dict[str, float]:
    """How a part is written.

    ``cased`` is the share of texts that hold an upper-case letter, of the ``with_case`` many whose letters have case at
    all, as Devanagari's have not; ``tokenised``, that of texts with punctuation or a contraction in which it is spaced
    off, as tokenisers do; ``judged``, how many hold such a mark. Owners' tokens were joined by single spaces when they
    were read, so such parts are tokenised as a matter of course.
    """
    cased = [text != low for r in part.records if (text := r.text) and (low := text.lower()) != text.upper()]
    judged = [judgement for record in part.records if (judgement := is_tokenised(record.text[:2000])) is not None]
    shares = {"cased": sum(cased) / max(1, len(cased)), "tokenised": sum(judged) / max(1, len(judged))}
    return shares | {"with_case": len(cased), "judged": len(judged)}


def preparation(parts: Parts) -> Iterator[Finding]:
    """Parts that are cased or tokenised in two ways; within one domain nothing excuses it."""
    known = [(part, surface(part)) for part in parts.texts]
    for what, (verb, learnt, setting) in PREPARED.items():
        tells = "with_case" if what == "cased" else "judged"
        shares = [(part, measured[what]) for part, measured in known if measured[tells] >= FEW_JUDGED]
        apart = [(a, x, b, y) for (a, x), (b, y) in combinations(shares, 2) if abs(x - y) >= APART]
        across = sorted((pair for pair in apart if pair[0].side != pair[2].side), key=lambda p: -abs(p[1] - p[3]))
        for a, x, b, y in (*(pair for pair in apart if pair[0].side == pair[2].side), *across[:1]):
            where, remedy = "Source and target", f"part of the shift is {learnt}: report a run with {setting} too"
            if a.side == b.side:
                where = f"Two parts of {parts.domains[a.side]}"
                remedy = f"a domain classifier learns {learnt}, not the domain: set {setting}, or take other texts"
            figures = f"{percent(x)} of the texts of the {a.name} {verb}, {percent(y)} of the {b.name}"
            text = f"{where} are prepared in two ways: {figures}; {remedy}."
            grade = "severe" if a.side == b.side else "warning"
            few = [(part.name, record) for part in (a, b) for record in part.records[: EXAMPLES - 1]]
            examples = tuple(f"{name}: {shortened(record.text)}" for name, record in few)
            yield Finding("preparation", grade, abs(x - y), text, {a.name: x, b.name: y}, examples)


OFTEN: Final = 0.01  # of a part's texts: from here on damage is a warning
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff]")
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]\w{1,30});")
_TAG: Final = re.compile(r"</?(?:br|p|b|i|em|strong|div|span|a|li|ul|ol|font|script|img|hr)\b[^<>]{0,200}>", re.I)
# First characters that two- to four-byte UTF-8 sequences show when they are read as Windows-1252 or Latin-1.
_SUSPECT: Final = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u0192\u02c6-\u02dc\u2013-\u2122]{1,3}")


def misread(text: str) -> str | None:
    """The first stretch that is UTF-8 read as Windows-1252 or Latin-1; None if there is none."""
    for match in _SUSPECT.finditer(text):
        for length in range(2, len(match[0]) + 1):
            for codec in ("cp1252", "latin-1"):
                try:
                    match[0][:length].encode(codec).decode("utf-8")
                except UnicodeError:
                    continue
                return match[0][:length]
    return None


# What is looked for: does a text have it, and what to do.
DAMAGE: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "U+FFFD in place of a lost character": (lambda text: "\ufffd" in text, "find the original files"),
    "UTF-8 read as Windows-1252 (Ã© for é)": (misread, "decode the file as UTF-8"),
    "control or invisible characters": (_CONTROL.search, "remove them"),
    "HTML entities": (lambda text: any(html.unescape(e[0]) != e[0] for e in _ENTITY.finditer(text)), "unescape them"),
    "HTML tags": (_TAG.search, "strip them"),
}


def encoding(parts: Parts) -> Iterator[Finding]:
    """Damaged texts of each part, by kind of damage."""
    for kind, (has, remedy) in DAMAGE.items():
        for part in parts.texts:
            damaged = [record.text for record in part.records if has(record.text)]
            if damaged:
                grade = "warning" if len(damaged) / len(part.records) >= OFTEN else "note"
                examples = [shortened(_around(text, has)) for text in damaged[:EXAMPLES]]
                yield part.finding("encoding", grade, len(damaged), f"hold {kind}: {remedy}", examples)


def _around(text: str, has: Callable[[str], Any], width: int = 60) -> str:
    """The stretch of a text that holds the damage, so that an example shows it."""
    starts = range(0, min(len(text), 100_000), width // 2)
    return next((text[start : start + width] for start in starts if has(text[start : start + width])), text[:width])


MOST_TEXTS: Final = 1500  # texts a side
PAIRS: Final = 4000  # of the source
TELLS: Final = 0.1  # of the way from the commonest label to all, that one text of a pair tells
FEWEST_TEXTS: Final = 40
READ_CHARACTERS: Final = 1000  # characters read of a text
FOLDS: Final = 5
TOP: Final = 8
ALIKE: Final = 0.7  # area under the curve from which parts of one domain were not prepared alike
SEPARATE: Final = 0.85  # the same between domains, where habits may differ; within one it is beyond doubt


def shape(text: str) -> str:
    """A text without its letters.

    >>> shape("The F-150 isn't fast .")
    "Aa A-0 a'a a ."
    """
    kinds = ("0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)
    return re.sub(r"(.)\1+", r"\1", re.sub(r"a+", "a", "".join(kinds)))


def separation(first: Sequence[str], second: Sequence[str], seed: int = 1) -> tuple[float, float, list[list[str]]]:
    """Cross-validate a logistic regression that tells texts of two parts apart by character n-grams of their shape.

    Area under the ROC curve, of which 0.5 is chance; accuracy; and for each part the n-grams that speak most for it.

    >>> separation(["so it is ."] * 50, ["so it is."] * 50)[0]
    1.0
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False, max_features=2_000)
    y = np.array([0] * len(first) + [1] * len(second))
    x = vectorizer.fit_transform(map(shape, (*first, *second)))  # once, and not in every fold: it sees no label
    model: Any = LogisticRegression(C=10.0, solver="liblinear", random_state=seed)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    score = cross_val_predict(model, x, y, cv=folds, method="predict_proba")[:, 1]
    weights, names = model.fit(x, y).coef_[0], vectorizer.get_feature_names_out()
    order = np.argsort(weights, kind="stable")
    features = [[str(names[i]) for i in order[:TOP] if weights[i] < 0],
                [str(names[i]) for i in order[: -TOP - 1 : -1] if weights[i] > 0]]  # fmt: skip
    return float(roc_auc_score(y, score)), float(accuracy_score(y, score >= 0.5)), features


def sample(first: Part, second: Part, seed: int) -> tuple[list[str], list[str]] | None:
    """As many texts of either part, no text twice; None if they are too few to judge by."""
    rng = np.random.default_rng(seed)
    distinct = [dict(zip(part.keys, part.records, strict=True)) for part in (first, second)]
    shared = distinct[0].keys() & distinct[1].keys()
    texts = [[r.text[:READ_CHARACTERS] for key, r in side.items() if key not in shared] for side in distinct]
    count = min(MOST_TEXTS, *map(len, texts))
    if count < FEWEST_TEXTS:
        return None
    one, other = (sampled(side, count, rng) for side in texts)
    return one, other


def artefacts(parts: Parts, seed: int = 1) -> Iterator[Finding]:
    """Classifiers that see no topic, between source and target, and between parts of the target that should be alike.

    Texts are reduced to their shape: a run of small letters is ``a``, one of capitals ``A``, digits are ``0``, spaces
    and marks stay. If that is enough to tell two parts apart, then an adversarial method can learn the tokeniser or
    the shift key, and make features alike in nothing else. The same is done with case and tokenisation taken from both.
    """
    for a, b in parts.couples((TRAIN, UNLABELLED), (UNLABELLED, TEST), (UNLABELLED, TARGET_TRAIN), (TRAIN, TEST)):
        chosen = sample(a, b, seed)
        both = f"{a.name} and {b.name}"
        few = f"{both}: fewer than {FEWEST_TEXTS} different texts that the other lacks: no domain classifier."
        yield _separation_finding(a, b, *chosen, seed) if chosen else Finding("artefacts", "note", 0.0, few)


def _separation_finding(a: Part, b: Part, first: list[str], second: list[str], seed: int) -> Finding:
    auc, accuracy, features = separation(first, second, seed)
    bare_first, bare_second = ([without_tokenisation(text.lower()) for text in side] for side in (first, second))
    undone = separation(bare_first, bare_second, seed)[0]
    explained = min(max((auc - undone) / max(auc - 0.5, 1e-9), 0.0), 1.0)
    severity = "warning" if auc >= (ALIKE if a.side == b.side else SEPARATE) else "note"
    if a.side == b.side and auc >= SEPARATE:
        severity = "severe"
    share = f": {percent(explained)} of what the surface reveals is case or tokenisation" if auc >= 0.6 else ""
    advice = " A domain classifier, and a distance between domains, would learn this before any topic."
    return Finding(
        "artefacts",
        severity,
        max(2 * (auc - 0.5), 0.0),
        f"Without seeing a word, by case, marks and spacing alone, a classifier tells {a.name} from {b.name} with AUC "
        f"{auc:.3f} (accuracy {percent(accuracy)}; chance is 0.5). With both lower-cased and their tokenisation undone "
        f"it is {undone:.3f}{share}." + (advice if severity != "note" else ""),
        {"auc": auc, "accuracy": accuracy, "undone auc": undone, "explained": explained},
        tuple(
            f"{part.name}: {' '.join(f'‹{shortened(feature, 20)}›' for feature in part_features) or 'none'}"
            for part, part_features in zip((a, b), features, strict=True)
        ),
    )


def one_text(parts: Parts, seed: int = 1) -> Iterator[Finding]:
    """How far one text of a pair tells its label without the other (Gururangan et al. 2018), cross-validated."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline

    pairs = [r for r in parts.records("source") if r.label is not None and len(ranges(r.text)) == 2]
    records = sampled(pairs, PAIRS, seed)
    counts = Counter(record.label for record in records)
    if len(counts) < 2 or min(counts.values()) < FOLDS or len(records) < FEWEST_TEXTS:
        return
    most = max(counts.values()) / len(records)
    for side, which in enumerate(("first", "second")):
        texts = [record.text[slice(*ranges(record.text)[side])] for record in records]
        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        model = make_pipeline(vectorizer, LogisticRegression(C=10.0, max_iter=500))
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        accuracy = float(cross_val_score(model, texts, [record.label for record in records], cv=folds).mean())
        gained = max(0.0, (accuracy - most) / (1 - most)) if most < 1 else 0.0
        text = (
            f"The {which} text alone, as a bag of words, tells the label of {percent(accuracy)} of {len(records)} "
            f"pairs of the source; the commonest label is that of {percent(most)}. "
            f"Compare a model of pairs with that, not with chance."
        )
        numbers = {"accuracy": accuracy, "commonest": most, "pairs": len(records)}
        yield Finding("pairs", "warning" if gained >= TELLS else "note", gained, text, numbers)
