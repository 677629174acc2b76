"""Writes the generated blocks of README.md and docs/: ``make tables``.

A block stands between ``<!-- KIND: WORDS -->`` and ``<!-- end -->``. Numbers come from the tidy files in ``results/``
(see :mod:`benchmarks.collect`), settings and methods from ``conf/`` and the code. tests/test_tables.py checks that
every page is what this writes. A file that is not there yet gives the line *not measured yet*.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, median

from benchmarks.collect import ALL, read
from benchmarks.reference import choices, groups, methods, settings, verbs

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"<!-- (\w+): ([^\n]+?) -->\n(.*?)<!-- end -->", re.DOTALL)
OPEN = re.compile(r"<!-- \w+: [^\n]+? -->")
MISSING = "*Not measured yet.*"
SCORES = {
    "aspect_f1": "aspect terms", "opinion_f1": "opinion terms", "span_f1": "spans", "macro_f1": "whole texts, macro F1",
    "accuracy": "whole texts, accuracy",
}  # fmt: skip
ORDER = ("rule_baseline", "rnn_from_scratch", "source_only", "adapted", "control", "in_domain")
Row = dict[str, str]
_read = cache(read)


def written(text: str, page: str = "README.md", results: Path = RESULTS) -> str:
    """A page with every block as its sources have it now; a block without an end, or of no known kind, is refused."""
    blocks = BLOCK.findall(text)
    if len(OPEN.findall(text)) != len(blocks) or any(OPEN.search(body) for _, _, body in blocks):
        raise ValueError(f"{page}: a block without an end; expected <!-- end --> after each <!-- KIND: WORDS -->")

    def block(match: re.Match[str]) -> str:
        kind, words = match[1], match[2].split()
        if kind not in KINDS:
            raise ValueError(f"{page}: <!-- {kind}: {match[2]} -->: no such block; there are {', '.join(KINDS)}")
        return f"<!-- {kind}: {match[2]} -->\n{KINDS[kind](results, words)}\n<!-- end -->"

    return BLOCK.sub(block, text)


def summary(results: Path, names: Sequence[str]) -> str:
    """A row an experiment and score: not adapted, adapted by the recipe, ceiling, gain and gap closed."""
    titles = {row["file"]: row["asks"] for row in _read(results / "experiments.csv")}
    lines = []
    for name in names:
        gains = {(g["score"], g["method"]): g for g in _overall(results, name) if g["other"] == "source_only"}
        found = [score for score in SCORES if (score, "recipe") in gains]
        for score in [one for one in found if one != "span_f1"] or found:
            own, ceiling = gains[score, "recipe"], gains.get((score, "in_domain"))
            top = ceiling["after"] if ceiling and ceiling["pairs"] == own["pairs"] else ""
            title = f"{SCORES[score]}: {titles.get(name, name)}{_earlier(results, name, 'recipe')}"
            means = _number(own["before"]), f"**{_number(own['after'])}**", _number(top)
            lines.append([title, f"{own['pairs']} × {own['seeds']}", *means, _interval(own), _share(own)])
    header = ["what, and where", "pairs × seeds", "not adapted", "adapted", "target labels", "gain (95 %)",
              "gap closed"]  # fmt: skip
    return _table(header, lines) if lines else MISSING


def claims(results: Path, words: Sequence[str]) -> str:
    """A row a claim, with all that a number needs: ``claims: NAME=LOOKED ...``.

    LOOKED says whether the pairs were looked at while the method was made. Claimed are the recipe's gain over
    source_only, the graph network's over it and its controls, self-training's, and those of fifty labels and of answers
    to the card; processor and commit are those of all runs compared.
    """
    recipe = {("recipe", score) for score in SCORES}
    others = {(method, "span_f1") for method in ("gnn", "self_training", "source_only+50_labels", "recipe_answers")}
    titles = {row["file"]: row["asks"] for row in _read(results / "experiments.csv")}
    lines = []
    for name, _, looked in (word.partition("=") for word in words):
        runs, overall = _read(results / f"{name}.csv"), _overall(results, name)
        claimed = others if any(gain["method"] == "recipe_answers" for gain in overall) else recipe | others
        for gain in overall:
            if (gain["method"], gain["score"]) not in claimed:
                continue
            made = [run for run in runs if run["method"] in (gain["method"], gain["other"])]
            method = f"`{gain['method']}`{_earlier(results, name, gain['method'])}"
            what = f"{method} − `{gain['other']}`, {SCORES[gain['score']]}: {titles.get(name, name)}"
            machines = sorted({f"{run['processor']}, {run['precision']}" for run in made})
            commits = sorted({run["commit"] for run in made})
            scored = f"{_number(gain['before'])} → {_number(gain['after'])}"
            count = f"{gain['pairs']} × {gain['seeds']}"
            lines.append([what, scored, _interval(gain), gain["over"], count, looked, "; ".join(machines),
                          ", ".join(commits)])  # fmt: skip
    header = ["claim", "score", "points (95 %)", "interval over", "pairs × seeds", "looked at before", "processor",
              "commit"]  # fmt: skip
    return _table(header, lines) if lines else MISSING


def scores(results: Path, words: Sequence[str]) -> str:
    """Mean score of every method on every pair: ``scores: NAME SCORE ...``."""
    name, wanted = words[0], words[1:]
    runs = _read(results / f"{name}.csv")
    parts = []
    for score in wanted if runs else ():
        pairs = list(dict.fromkeys(run["pair"] for run in runs))
        cells: dict[tuple[str, str], list[float]] = {}
        for run in runs:
            if run[score]:
                cells.setdefault((run["method"], run["pair"]), []).append(float(run[score]))
        rows = []
        for method in _methods(runs):
            means = [fmean(cells[method, pair]) if (method, pair) in cells else None for pair in pairs]
            known = [mean for mean in means if mean is not None]
            whole = fmean(known) if len(known) == len(pairs) > 1 else None
            called = f"`{method}`{_earlier(results, name, method)}"
            rows.append([called, *map(_number, means), *([_number(whole)] if len(pairs) > 1 else [])])
        header = ["method", *pairs, *(["mean"] if len(pairs) > 1 else [])]
        parts.append(
            f"**{SCORES.get(score, score)}** on the target's test, percent; {_made(runs)}\n\n{_table(header, rows)}"
        )
    return "\n\n".join(parts) or MISSING


def gains(results: Path, words: Sequence[str]) -> str:
    """Mean gain of every method over source_only and its controls, worst pairs, p-values: ``gains: NAME SCORE``."""
    name, score = words
    rows, every = [], [g for g in _read(results / f"{name}.gains.csv") if g["score"] == score]
    for own in _overall(results, name):
        if own["score"] != score or own["method"].startswith("in_domain"):
            continue
        pairs = [g for g in every if (g["method"], g["other"]) == (own["method"], own["other"]) and g["pair"] != ALL]
        low = sorted(pairs, key=lambda g: float(g["gain"]))
        quarter = fmean(float(g["gain"]) for g in low[: max(1, round(len(low) / 4))])
        ps = [
            ("< 0.001" if float(p) < 5e-4 else f"{float(p):.3f}") if (p := own[column]) else ""
            for column in ("p_some_pair", "p_other_pairs")
        ]
        worst = [f"{float(low[0]['gain']):+.1f} ({low[0]['pair']})", f"{quarter:+.1f}"]
        one, other = (f"`{own[end]}`{_earlier(results, name, own[end])}" for end in ("method", "other"))
        names, count = f"{one} − {other}", f"{own['pairs']} × {own['seeds']}"
        rows.append([names, count, _interval(own), *worst, *ps, _share(own)])
    header = ["difference", "pairs × seeds", "points (95 %)", "worst pair", "worst quarter", "p, these pairs",
              "p, other pairs", "gap closed"]  # fmt: skip
    return _table(header, rows) if rows else MISSING


def costs(results: Path, words: Sequence[str]) -> str:
    """Training time, and points lost to the choice of the epoch: ``costs: NAME``.

    Pairs share networks, which are timed where they were trained; the recipe trains the source-only network as well.
    """
    runs = _read(results / f"{words[0]}.csv")
    trained: dict[str, float] = {}
    for run in runs:
        trained[run["network"]] = max(trained.get(run["network"], 0.0), float(run["train_seconds"]))
    base = {(r["pair"], r["seed"]): trained[r["network"]] for r in runs if r["method"] == "source_only"}
    rows = []
    for method in _methods(runs):
        own = [run for run in runs if run["method"] == method]
        both = [base.get((r["pair"], r["seed"]), 0.0) * method.startswith("recipe") for r in own]
        seconds = [trained[run["network"]] + beside for run, beside in zip(own, both, strict=True)]
        plain = [base.get((run["pair"], run["seed"]), 0.0) for run in own]
        times = [took / alone for took, alone in zip(seconds, plain, strict=True) if alone]
        regret = [float(r["regret"]) for r in own if r.get("regret")]
        rows.append([
            f"`{method}`", f"{median(seconds):.0f}", f"{median(times):.1f}" if times else "",
            f"{fmean(regret):.1f}" if regret else "",
        ])  # fmt: skip
    header = ["method", "seconds of training", "times source_only's", "regret"]
    return _table(header, rows) if rows else MISSING


def rows(results: Path, words: Sequence[str]) -> str:
    """A CSV as a table: ``rows: NAME``, or ``rows: NAME COLUMN=VALUE`` of the rows that have it."""
    wanted = dict(word.split("=") for word in words[1:])
    found = [row for row in _read(results / f"{words[0]}.csv") if wanted.items() <= row.items()]
    return _table(list(found[0]), [list(row.values()) for row in found]) if found else MISSING


def measured(results: Path) -> dict[str, list[str]]:
    """Names of the experiments that every method has runs of."""
    found: dict[str, list[str]] = {}
    for path in sorted(results.glob("*.csv")):
        for name in {part for row in _read(path) if row.get("seed") for part in _parts(row["method"])}:
            found.setdefault(name, []).append(path.stem)
    return found


KINDS: dict[str, Callable[[Path, Sequence[str]], str]] = {
    "summary": summary, "claims": claims, "scores": scores, "gains": gains, "costs": costs, "rows": rows,
    "verbs": lambda *_: verbs(), "groups": lambda *_: groups(),
    "settings": lambda _, words: settings(words[0]), "choices": lambda _, words: choices(words[0]),
    "methods": lambda results, words: methods(words[0], measured(results)),
}  # fmt: skip


def _overall(results: Path, name: str) -> list[Row]:
    """Comparisons over all pairs; of one pair alone where there is no other."""
    found = _read(results / f"{name}.gains.csv")
    pairs: dict[tuple[str, ...], list[Row]] = {}
    for gain in found:
        pairs.setdefault((gain["score"], gain["method"], gain["other"]), []).append(gain)
    result: list[Row] = []
    for same in pairs.values():
        alone = [gain for gain in same if gain["pair"] != ALL]
        # A mean of pairs is taken anew, so that it is rounded once.
        means = {end: str(fmean(float(gain[end]) for gain in alone)) for end in ("before", "after")}
        result += [{**gain, **means} for gain in same if gain["pair"] == ALL] or alone
    return result


def _methods(runs: Sequence[Row]) -> list[str]:
    roles = {run["method"]: run["role"] for run in runs}
    return sorted(roles, key=lambda name: (ORDER.index(roles[name]) if roles[name] in ORDER else 2, name))


def _earlier(results: Path, name: str, method: str) -> str:
    """A word behind the recipe where it is the one before: it took two more epochs than source-only."""
    epochs = {run["method"]: int(run.get("epochs") or 0) for run in _read(results / f"{name}.csv")}
    more = epochs.get(method, 0) - epochs.get("source_only", 0)
    return " (earlier)" if method.startswith("recipe") and more == 2 else ""


def _made(runs: Sequence[Row]) -> str:
    """Seeds, decoding and processor, in a word each."""
    seeds = sorted({run["seed"] for run in runs})
    parts = [f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"]
    for column in ("decoding", "precision"):
        parts += [" and ".join(values)] if (values := sorted({run.get(column, "") for run in runs} - {""})) else []
    return ", ".join(parts)


def _parts(method: str) -> Iterable[str]:
    return re.split(r"[+@ ]", method)[:1] if "+" not in method else method.split("@")[0].split("+")


def _number(value: float | str | None) -> str:
    return "–" if value in (None, "") else f"{float(value) + 1e-9:.1f}"  # 64.85 is 64.9, however it was summed


def _interval(gain: Row) -> str:
    ends = f" ({float(gain['low']):+.1f} to {float(gain['high']):+.1f})" if gain["low"] else ""
    return f"{float(gain['gain']):+.1f}{ends}"


def _share(gain: Row) -> str:
    if not gain["gap_closed"]:
        return "–"
    ends = f" ({float(gain['gap_low']):.0f} to {float(gain['gap_high']):.0f})" if gain["gap_low"] else ""
    return f"{float(gain['gap_closed']):.0f} %{ends}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = [":---", *["---:"] * (len(header) - 1)]
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (header, rule, *rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    for path in PAGES:
        name = str(path.relative_to(ROOT))
        before = path.read_text(encoding="utf-8")
        if (after := written(before, name)) != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name} is written anew", file=sys.stderr)


if __name__ == "__main__":
    main()
