"""How much of what injections read off a parse is right, on the treebank's reviews, by gold trees:

`python -m benchmarks.trees TREEBANK [PIPELINE ...]`

Beside the shipped parser, spaCy pipelines by folder or by name. All get the gold words. F1 of arcs with their relation,
by relation; of the paths that lead from adjectives to nouns, and whether two such words are joined at all.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from domadapt.data.domains import UnlabelledText
from domadapt.syntax.parser import Parse, Parser, SpacyParser, doc_words, from_doc, load_pipeline
from domadapt.syntax.treebank import find, read
from domadapt.syntax.trees import is_kind_of, paths_from

RELATIONS = ("nsubj", "obj", "amod", "compound", "nmod", "conj", "advmod", "root")
LONGEST = 3  # arcs of a path, as in injection=paths
ARCS, PATHS, JOINED = "all arcs", "paths", "joined"


def facts(parse: Parse, gold: Parse) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Kind and content of all that a parse says, of words that the gold tags call adjectives and nouns."""
    for word, (head, relation) in enumerate(zip(parse.heads.tolist(), parse.relations, strict=True)):
        if gold.relations[word] == "punct":
            continue
        yield ARCS, (word, head, relation)
        for kind in RELATIONS:
            if is_kind_of(relation.lower(), kind):
                yield kind, (word, head)
    adjectives = [word for word, tag in enumerate(gold.tags) if tag.startswith("JJ")]
    for start, end, path in paths_from(parse, adjectives, LONGEST):
        if gold.tags[end].startswith("NN"):
            yield PATHS, (start, end, path)
            yield JOINED, (start, end)


def f1(parser: Parser, treebank: Path) -> dict[str, float]:
    """F1 in percent, by kind."""
    nlp = load_pipeline("shipped")
    docs = [doc for doc in read(nlp, find(treebank, "test")) if doc.user_data["genre"] == "reviews"]
    golds = [from_doc(doc) for doc in docs]
    texts = [UnlabelledText("", "", d.text, tuple((int(a), int(b)) for a, b in doc_words(d))) for d in docs]
    right, told, true = Counter[str](), Counter[str](), Counter[str]()
    for gold, found in zip(golds, parser.parse(texts), strict=True):
        ours, theirs = set(facts(found, gold)), set(facts(gold, gold))
        for counter, some in ((right, ours & theirs), (told, ours), (true, theirs)):
            counter.update(kind for kind, _ in some)
    return {kind: 200 * right[kind] / (told[kind] + true[kind]) for kind in (ARCS, *RELATIONS, PATHS, JOINED)}


def main() -> None:
    treebank, *others = sys.argv[1:]
    parsers: dict[str, Parser] = {"shipped": SpacyParser()}
    parsers |= {name: SpacyParser(name) for name in others}
    rows = {name: f1(parser, Path(treebank)) for name, parser in parsers.items()}
    kinds = [*next(iter(rows.values()))]
    print(f"| parser | {' | '.join(kinds)} |\n| --- |{' ---: |' * len(kinds)}")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{row[kind]:.1f}' for kind in kinds)} |")


if __name__ == "__main__":
    main()
