"""Relations in few groups, so that a matrix for each can be learnt.

The groups follow the table of Universal Dependencies (https://universaldependencies.org/u/dep/), coarser: core
arguments; nominals that say which or where; modifiers that are predicates or adverbs; function words; coordination.
Names of ClearNLP's scheme, which spaCy's English pipelines speak, have their places, too.
"""

from collections.abc import Mapping

GROUPS = {
    "core": "nsubj obj iobj csubj ccomp xcomp dobj nsubjpass csubjpass dative attr acomp pcomp oprd agent",
    "nominal": "nmod obl appos compound flat nummod pobj poss nounmod nn npadvmod npmod nummod quantmod",
    "modifier": "amod advmod advcl acl relcl neg",
    "function": "det case aux cop mark clf expl auxpass prep prt predet compound:prt det:predet",
    "coordination": "conj cc preconj cc:preconj",
    "other": "",  # punctuation, roots, loose ends, and names that no scheme here has
}


def group_of(relation: str) -> str:
    """A relation's group: by its whole name, else without its subtype.

    >>> group_of("nsubj:pass"), group_of("compound:prt"), group_of("punct")
    ('core', 'function', 'other')
    """
    for name in (relation, relation.partition(":")[0]):
        for group, names in GROUPS.items():
            if name in names.split():
                return group
    return "other"


def edge_groups(relations: Mapping[str, int]) -> list[int]:
    """The group of every edge type of :func:`domadapt.syntax.graphs.tree_edges`: down, up, and the self loop's own.

    Args:
        relations: ids of relation names, from 1; 0 is unknown and counts as other.

    >>> edge_groups({"amod": 1, "nsubj": 2})
    [5, 2, 0, 11, 8, 6, 12]
    """
    order = [*GROUPS]
    down = [order.index("other")] * (len(relations) + 1)
    for name, index in relations.items():
        down[index] = order.index(group_of(name))
    return [*down, *(group + len(order) for group in down), 2 * len(order)]
