"""Every number in the prose of README.md and docs/ is computed from results/ here, or stands in results/stated.csv."""

import re
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

import pytest

from benchmarks.tables import PAGES, RESULTS, ROOT, _overall, _read, costs

# Tables and code are checked elsewhere; versions, sizes and addresses are no results.
ELSEWHERE = re.compile(
    r"<!-- \w+: .*?<!-- end -->|```.*?```|`[^`]*`|(?<=\])\([^)]*\)|[][]|95 %|\d+(?:\.\d+){2,}"
    r"|(?:[Pp]ython|Apache-|BY-SA|arXiv) ?[\d.]+(?: to [\d.]+)?|[\d.]+(?:M parameters| GB)",
    re.DOTALL,
)
NUMBER = re.compile(r"(?<![\w.])[+−-]?(?:\d+\.\d+|\d+(?= %| points| of \d+ (?:runs|pairs|development|confirmation)))")
# Pages that `make tables` writes.
GENERATED = ("settings.md", "methods.md", "command_line.md", "api.md")
CONFIRMED = ("memd_restaurant", "joint_absa", "cross_ner")
LEAD = ("clothing → books", "laptop → hotel", "hotel → clothing", "books → laptop")  # averaged first
LAPTOP = ("laptop → books", "laptop → clothing", "laptop → hotel")


class Points(float):
    def __format__(self, sign: str) -> str:
        return super().__format__(f"{sign}.1f")


def row(name: str, method: str = "recipe", score: str = "span_f1", other: str = "source_only") -> dict[str, Any]:
    """A comparison over all pairs of an experiment; its points as numbers, ``limits`` as they are said."""
    rows = [r for r in _overall(RESULTS, name) if (r["score"], r["method"], r["other"]) == (score, method, other)]
    found = {key: Points(rows[0][key] or "nan") for key in ("before", "after", "gain", "low", "high", "gap_closed")}
    return found | {"limits": "{low:+} to {high:+}".format(**found)}


def runs(name: str, *methods: str) -> list[dict[str, str]]:
    return [run for run in _read(RESULTS / f"{name}.csv") if run["method"] in methods]


def leads(name: str, method: str = "recipe", other: str = "source_only", score: str = "span_f1") -> dict[Any, Points]:
    """By how much a method leads another, of each pair and seed that both have."""
    of = {(r["method"], r["pair"], r["seed"]): float(r[score]) for r in runs(name, method, other)}
    both = [run for one, *run in of if one == method and (other, *run) in of]
    assert both, (name, method, other)
    return {(pair, seed): Points(of[method, pair, seed] - of[other, pair, seed]) for pair, seed in both}


def mean(points: Iterable[float]) -> Points:
    return Points(fmean(points))


def by_pair(name: str, method: str = "recipe", other: str = "source_only", score: str = "span_f1") -> dict[str, Points]:
    """The same, the mean over seeds."""
    found = leads(name, method, other, score)
    return {pair: mean(points for (one, _), points in found.items() if one == pair) for pair, _ in found}


def share(found: Iterable[bool]) -> str:
    several = list(found)
    return f"{sum(several)} of {len(several)}"


def gained(points: Iterable[float]) -> str:
    return share(one > 0 for one in points)


def estimated(names: Sequence[str], score: str = "span_f1") -> tuple[str, Points]:
    """In how many runs of source_only and the recipe the true score lies in the expected range; the mean error."""
    rows = [run for name in names for run in runs(name, "source_only", "recipe")]
    told = [
        [float(r[key]) for key in ("expected_low", "expected", "expected_high", score)] for r in rows if r["expected"]
    ]
    return share(low <= true <= high for low, _, high, true in told), mean(abs(one - true) for _, one, _, true in told)


def named(name: str, score: str) -> str:
    """In how many runs the expected scores name the better of the recipe and source_only."""
    better, told = leads(name, score=score), leads(name, score="expected")
    return share((one > 0) == (told[run] > 0) for run, one in better.items())


def cost(name: str, method: str) -> str:
    [line] = [line for line in costs(RESULTS, [name]).splitlines() if line.startswith(f"| `{method}` |")]
    return line.split(" | ")[2]


def claims() -> dict[str, str]:
    """Page → what its prose says, with numbers from results/; ``~`` parts phrases."""
    times, recipe, fifty = (
        cost("memd_restaurant", "recipe"),
        by_pair("memd"),
        row("fifty_labels", "source_only+50_labels")["gain"],
    )
    all_pairs, once = row("memd")["gain"], by_pair("joint_absa")["rest → device"]
    harm, less = sorted(one for pair, one in by_pair("aspect_opinion").items() if pair.endswith("device"))
    more, also = (
        by_pair("answers", "recipe_answers", "recipe"),
        by_pair("answers_restaurant", "recipe_answers", "recipe"),
    )
    first, second, third, fourth, *_, last = sorted(also, key=lambda pair: -also[pair])
    over, on, far = mean(also.values()), mean(more.values()), mean(more[pair] for pair in LAPTOP)
    near = mean(one for pair, one in more.items() if pair not in LAPTOP)
    gnn, linear = row("syntax_gnn", "gnn")["gain"], row("syntax_gnn", "gnn@linear")["gain"]
    syntax, alone = row("recipe_gnn", "recipe_gnn", other="recipe")["gain"], by_pair("screening", "gnn")
    abroad, shipped, amazon = row("xabsa", "self_training"), row("shipped"), row("amazon_reviews", score="accuracy")
    pairs, labelled = row("nli_genres", score="accuracy"), by_pair("fifty_labels", "source_only+50_labels")
    labels, phrase = by_pair("candidate", "recipe", "nouns_alone"), by_pair("ablation", "recipe", "any_phrase")
    free, frozen = by_pair("candidate_restaurant", "candidate"), by_pair("memd_restaurant")
    averaged, names = by_pair("averaged", "recipe_swa", "recipe"), by_pair("cross_ner")
    lead = mean(leads("averaged", "recipe_swa", "recipe")[pair, "1"] for pair in LEAD)
    beside = by_pair("few_labels", "recipe+50_labels", "source_only+50_labels").values()
    files, anew = (by_pair("external_labels", "external_labels", one) for one in ("source_only", "not_bootstrapped"))
    correct = leads("external_labels", "external_labels", "gold+all_labels").values()
    beside_files = by_pair("external_labels", "recipe_external", "external_labels")
    rewritten = by_pair("nli_rewritten", "rewritten", score="accuracy").values()
    nouns = mean(by_pair("whole_texts", "recipe", "recipe_with_nouns", "accuracy").values())
    reviews = leads("amazon_reviews", score="accuracy")
    books = [float(r["accuracy"]) for r in runs("amazon_reviews", "source_only") if r["pair"] == "electronics → books"]
    [genre] = [Points(r["accuracy"]) for r in runs("nli_rewritten", "source_only") if r["pair"] == "telephone → travel"]
    here = next(Points(r["accuracy"]) for r in runs("nli_genres", "source_only") if r["pair"] == "telephone → travel")
    fitted, judged = _read(RESULTS / "expected.csv")
    bias, error, found = (Points(100 * float(x)) for x in (fitted["bias"], fitted["error"], judged["error"]))
    [slow] = [r for r in _read(RESULTS / "speed.csv") if "float32" in r["measured"]]
    small = {(r["model"], f"{r['form']}, {r['bits']}"): r for r in _read(RESULTS / "small.csv")}
    models = list(dict.fromkeys(model for model, _ in small))
    wholes = [Points(small[model, "in domadapt, 32"]["span_f1"]) for model in models]
    fours = [Points(small[model, "4 layers, 8"]["span_f1"]) for model in models]
    lost = [Points(whole - four) for whole, four in zip(wholes, fours, strict=True)]
    faster = [small[m, f"{n} layers, 8"]["times_pipeline"] for m, n in zip(models, (4, 3, 4), strict=True)]
    four, runs_of_four = row("nli_seeds", score="accuracy"), leads("nli_seeds", score="accuracy").values()
    slate = [float(r["accuracy"]) for r in runs("nli_seeds", "source_only") if r["pair"] == "slate → government"]
    polar = [r for r in runs("xabsa_polarity", "source_only") if r["pair"] == "en → es"]
    twenty, against = (mean(float(r[key]) for r in polar) for key in ("span_f1", "NEG_f1"))
    either = [one for name in ("memd", *CONFIRMED) for one in leads(name).values()]
    inside = [estimated([name], score) for name, score in (("amazon_reviews", "macro_f1"), ("nli_genres", "macro_f1"))]
    return {
        "README.md": f"""the recipe gained {row("memd_multilingual")["gain"]} points on 4 pairs (one seed) ~
            add {over} points on 8 confirmation pairs, {on} on the 12 ~ (to reviews of devices:
            {harm:+} to {once:+}) ~ gained {fifty} points of span F1 on 12 pairs ~ adapting without labels
            {all_pairs} ~ gains {gnn} points over source-only ~ it gains {linear} ( ~ adds nothing ({syntax:+} on
            twelve pairs ~ self-training gains {abroad["gain"]} points ({abroad["before"]} → {abroad["after"]}; over
            seeds {abroad["limits"]}) ~ off by {error} points ~ Whole texts: {amazon["gain"]:+} on Amazon ~
            of the twelve pairs of genres closed {round(four["gap_closed"])} % of ~ takes {times} times as long as""",
        "CHANGELOG.md": f"""{all_pairs:+} span F1 ~ texts: {amazon["gain"]:+} points of accuracy on four pairs
            ({amazon["limits"]}) ~ {pairs["gain"]:+} points of accuracy on twelve pairs of genres ~ learns from the
            answers: {mean(files.values()):+} on""",
        "docs/recipe.md": f"""takes {times} times as long ~ On ten pairs the recipe gains {mean(labels.values())}
            points more than substitution alone (standard deviation over pairs {Points(stdev(labels.values()))}), on
            seven {mean(phrase.values())} more than with any phrase""",
        "docs/concepts.md": f"""{bias} points too high on average over {fitted["runs"]} development runs ~ the mean
            absolute error is {error} points. The width ~ mean absolute error is {found} points, and
            {judged["inside"]} of {judged["runs"]} runs ~ fitted on {fitted["inside"]} of {fitted["runs"]} do. ~ in
            {gained(either)} runs, and the estimates ~ largest of {Points(-min(either))} points ~ in
            {inside[0][0]} runs, with a mean error of {inside[0][1]} points ~ named the better model in
            {named("amazon_reviews", "macro_f1")} runs ~ (MultiNLI) in {inside[1][0]}, with {inside[1][1]} points ~
            named it in {named("nli_genres", "macro_f1")}; the""",
        "docs/decisions.md": f"""{row("memd")["before"]} → {row("memd")["after"]} ({all_pairs:+},
            {round(row("memd")["gap_closed"])} %) at {times} times ~ once:
            {row("memd_restaurant")["gain"]:+} (the earlier recipe: +4.1), the worst pair
            {min(frozen.values()):+} ~ {row("joint_absa")["gain"]:+} (the earlier recipe: +11.5) ~
            {row("cross_ner")["gain"]:+} (the earlier recipe: +3.5); it gains {names["conll2003 → science"]} points on
            science and {names["conll2003 → politics"]} on politics, ~ |
            {all_pairs:+} | {mean(sorted(recipe.values())[:3]):+} | {times} | ~ they add
            {mean(labels.values())} points ~ trains {1 + float(cost("candidate", "candidate")):.1f} times as long as
            source-only ~ clothing {free["restaurant → clothing"]}, ~ hotel {free["restaurant → hotel"]} ~ books
            {free["restaurant → books"]:+} ~ lost {Points(-min(rewritten))} points on one of two pairs of genres,
            and {nouns} on average on two pairs of reviews ~ It gains {mean(averaged.values())} points over the
            recipe, in {gained(averaged.values())} pairs; on the worst it loses {Points(-min(averaged.values()))}. ~
            first it gained {lead} ~ ({row("averaged", "source_swa_5")["gain"]} with five epochs""",
        "docs/howto/no_target_labels.md": f"""{over} points more than the recipe alone ~ gained {fifty} points ~ the
            recipe without labels {all_pairs}""",
        "docs/howto/backbones.md": f"gains {mean(recipe[one] for one in by_pair('memd_multilingual'))} points on these",
        "docs/howto/external_labels.md": f"""gain {mean(files.values())} points here; the recipe without them gains
            {mean(recipe[one] for one in files)} on these ~ gains {mean(correct)} points more than using the file as if
            it were correct, in {gained(correct)} runs ~ pays: {mean(anew.values())} points more ~
            lost {Points(-beside_files["laptop → clothing"])} points""",
        "docs/howto/languages.md": f"""source-only then has {twenty} on en → es ~ F1 of negative terms {against} ~
            gains in {gained(leads("xabsa_polarity", "self_training").values())} runs""",
        "docs/howto/pairs.md": f"""three seeds it rises by {four["gain"]} points, in {gained(runs_of_four)} runs ~
            rises by {pairs["gain"]} points on average ({pairs["before"]} → {pairs["after"]}) ~ lost
            {Points(-min(rewritten))} points and gained {max(rewritten)}""",
        "docs/howto/pipeline.md": f"lost {lost[0]} points of F1 ({wholes[0]} → {fours[0]}), {lost[1]} and {lost[2]}",
        "docs/howto/choose.md": f"""gained {once} points once and lost {Points(-less)} and {Points(-harm)} on
            two ~ gained {labelled["laptop → clothing"]} where they gained most ~ {abroad["gain"]:+} (over seeds
            {abroad["limits"]}) ~ three seeds: {row("cross_ner")["gain"]:+} (CrossNER) ~ three seeds:
            {amazon["gain"]:+} ({amazon["limits"]}), a gain in {gained(reviews.values())} runs ~ gain
            {fifty} points, the recipe without labels {all_pairs} ~ made wrong): {mean(files.values()):+} on average,
            the recipe without them {mean(recipe[one] for one in files):+} ~ {over:+} over the recipe on eight
            confirmation pairs, {on:+} on twelve ~ three seeds, {gnn:+}, part of
            which is not due to syntax; with the recipe: {syntax:+} on ~ Answers gain {on} points more than the
            recipe alone, and {Points(on + row("answers")["gain"])} in all ~ answers gain {far} more; on the other
            nine they gain {near} more ~ There answers gain {over} points more than the recipe alone: {also[first]}
            more on {first}, {also[second]} on {second}, {also[third]} on {third}, and on the other five between
            {also[last]} and {also[fourth]} ~ {pairs["gain"]:+} on twelve pairs ~ three seeds on four of them:
            {four["gain"]:+}, {gained(runs_of_four)} runs ~ {gained(recipe.values())} development and
            {gained(frozen.values())} confirmation pairs ~ The recipe without labels gains {all_pairs:+} on these ~
            (books {recipe["clothing → books"]} and {labelled["clothing → books"]}, laptop
            {recipe["clothing → laptop"]} and {labelled["clothing → laptop"]}) ~ the recipe adds {min(beside)} to
            {max(beside)} ~ takes {times} times as long ~ {Points(slow["median"])} times for one training step
            ({Points(slow["min"])} to {Points(slow["max"])} in""",
        "docs/results.md": f"""have {wholes[0]}, {wholes[1]} and {wholes[2]}. ~
            {small[models[0], "whole, 32"]["times_pipeline"]} times the pipeline). With at least 97 % of ~ three layers
            are {faster[1]} times as fast ~ four layers {faster[2]} times on laptops → device and {faster[0]} times ~
            3b87c508): {gained(runs_of_four)} runs gain. ~ differ by up to
            {Points(max(slate) - min(slate))} points ~ gains {linear} of the {gnn} points ~
            {gained(reviews.values())} runs gain; ~ source-only by
            {Points(max(books) - min(books))} points on electronics → books ~ telephone → travel scored {here} here
            and {genre} ~ only gained more over ({row("syntax_screening", "gnn")["gain"]:+}) ~ alone lost
            {Points(-alone["clothing → books"])}, {Points(-alone["hotel → laptop"])} and
            {Points(-alone["laptop → hotel"])} points on three""",
        "docs/spans.md": f"this pair improves from {shipped['before']} to {shipped['after']} (results)",
    }


def prose(text: str) -> str:
    """Without tables, code and links; one kind of minus."""
    return " ".join(ELSEWHERE.sub("", text).replace("−", "-").split())


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in PAGES] + ["CHANGELOG.md"])
def test_numbers_in_prose_are_those_of_the_tables(page: str) -> None:
    said = prose((ROOT / page).read_text(encoding="utf-8"))
    stated = [row["said"] for row in _read(RESULTS / "stated.csv") if row["page"] == page]
    for phrase in map(prose, [*stated, *(claims()[page].split("~") if page in claims() else [])]):
        assert phrase in said
        said = said.replace(phrase, "~")
    if not page.endswith(GENERATED):
        assert [said[max(0, m.start() - 70) : m.end() + 40] for m in NUMBER.finditer(said)] == []
