"""Parses written as CoNLL-U, the way :class:`~domadapt.syntax.parser.ConlluParser` reads them."""

from domadapt.data.domains import UnlabelledText
from domadapt.syntax.parser import Parse


def conllu(text: UnlabelledText, parse: Parse) -> str:
    r"""One text as a CoNLL-U block that ``parser=conllu`` finds again; several sentences in it are several roots.

    >>> import numpy as np
    >>> words, heads = np.array([[0, 2], [4, 9], [9, 10]]), np.array([1, 1, 1])
    >>> parse = Parse(words, heads, ("nsubj", "ROOT", "punct"), ("", "", "."))
    >>> print(conllu(UnlabelledText("a:1", "", "It  works."), parse).expandtabs(1))
    # sent_id = a:1
    # text = It works.
    1 It _ _ _ _ 2 nsubj _ _
    2 works _ _ _ _ 0 root _ SpaceAfter=No
    3 . _ _ . _ 2 punct _ _
    <BLANKLINE>
    <BLANKLINE>
    """
    forms = [" ".join(text.text[start:end].split()) for start, end in parse.words]
    # spaCy makes words of whitespace runs, CoNLL-U can't: theirs go to the next head above that is written.
    written = [i for i, form in enumerate(forms) if form]
    number = {word: n for n, word in enumerate(written, 1)}
    lines = [f"# sent_id = {' '.join(text.id.split())}", f"# text = {' '.join(text.text.split())}"]
    for i in written:
        head = parse.heads[i]
        while head not in number and parse.heads[head] != head:
            head = parse.heads[head]
        place = 0 if head == i else number.get(head, 0)
        end = parse.words[i][1]
        misc = "_" if end == len(text.text) or text.text[end].isspace() else "SpaceAfter=No"
        relation = parse.relations[i] if place else "root"
        lines.append(
            f"{number[i]}\t{forms[i]}\t_\t_\t{parse.tags[i] or '_'}\t_\t{place}\t{relation or 'dep'}\t_\t{misc}"
        )
    return "\n".join([*lines, "", ""])
