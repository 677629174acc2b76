"""How to run it again: commands, keys, settings, versions, hardware, and what was cut or mended on the way."""

from collections.abc import Sequence

from domadapt.reporting.blocks import Block, Listing, Section, Table, Text, counted
from domadapt.reporting.ran import counted as said
from domadapt.reporting.ran import ran, shared_settings
from domadapt.runs.groups import Method, Pair, RunSet
from domadapt.utils.redact import without_given


def reproduce(found: RunSet, pairs: Sequence[Pair]) -> Section:
    """Everything that somebody needs to repeat these runs.

    Args:
        found: the runs, and what was unreadable.
        pairs: the same runs, grouped.
    """
    shared = shared_settings(found.runs)
    blocks: list[Block] = [
        Text(
            "Each line is one run: its command, and its key, the fingerprint of settings, data and code that its "
            "folder is named after. The same command with the same versions on the same hardware gives the same "
            "numbers."
        )
    ]
    for pair in pairs:
        lines = [line for method in pair.methods for line in _commands(method)]
        blocks.append(Listing(f"{pair.name}: {counted(len(lines), 'command')}", tuple(lines), code=True))
    table = Table(
        "What happened on the way, by method",
        ["method", "runs", "seconds a run", "starts", "cut texts", "cut words", "warnings"],
        [_happened(pair, method, shared) for pair in pairs for method in pair.methods],
        ["starts: how often the runs were started in all, more than runs where some were resumed"],
    )
    blocks.append(table)
    for pair in pairs:
        lines = [line for method in pair.methods for line in _differences(method, shared)]
        if lines:
            blocks.append(Listing(f"{pair.name}: settings that not all runs share, and warnings", tuple(lines)))
    settings = tuple(without_given(f"{name}={value}") for name, value in shared.items())
    blocks.append(Listing(f"{counted(len(settings), 'setting')} shared by all runs", settings, code=True))
    for name, title in (("versions", "Versions"), ("hardware", "Hardware")):
        lines = [f"{counted(n, 'run')}: {without_given(text) or 'not recorded'}" for text, n in said(found.runs, name)]
        blocks += [Text(f"{title}. {line}") for line in lines[:3]]
        if len(lines) > 3:
            blocks.append(Listing(f"{title}: {len(lines) - 3} more", tuple(lines[3:])))
    return Section("How to reproduce", tuple(blocks))


def _commands(method: Method) -> list[str]:
    return [
        f"{without_given(run.command or 'not recorded')}  "
        f"# {method.name}, seed {run.seed}, key {run.key or 'not recorded'}"
        for run in method.runs
    ]


def _happened(pair: Pair, method: Method, shared: dict[str, str]) -> list[str]:
    found = ran(method, shared)
    starts = sum(run.attempts or 1 for run in method.runs)
    return [
        f"{pair.name}: {method.name}",
        str(len(method.runs)),
        f"{found.seconds['total']:.1f}",
        str(starts),
        str(found.truncated[0]),
        str(found.truncated[1]),
        str(sum(found.warnings.values())),
    ]


def _differences(method: Method, shared: dict[str, str]) -> list[str]:
    found = ran(method, shared)
    own = ", ".join(without_given(f"{name}={value}") for name, value in found.differences.items())
    warnings = [f"{method.name}: {counted(number, 'time')}: {message}" for message, number in found.warnings.items()]
    return [*([f"{method.name}: {own}"] if own else []), *warnings]
