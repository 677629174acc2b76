"""What a method's controls allow to be said: a gain needs to stand against source_only and against a neutral control.

A control is the method with what it is about taken away. One that does worse than source_only is no placebo but poison:
a gain over it measures its harm as well.
"""

from domadapt.reporting.blocks import listed
from domadapt.statistics.resampling import ALPHA
from domadapt.statistics.results import Interval, Overall, OverallDifference, Statistics
from domadapt.utils.text import visible


def claim(one: Overall, statistics: Statistics) -> str:
    """Whether syntax helps, from a method's differences over pairs.

    Args:
        one: an adapted method with controls.
        statistics: where its controls' own differences to the baseline are.
    """
    baseline = visible(one.baseline.other or statistics.baseline)
    if one.baseline.interval is None:
        return f"Of {visible(one.method)} against its controls nothing can be said: {one.baseline.reason}."
    sentences = [f"{visible(one.method)} is {distance(one.baseline.interval)} {baseline}"]
    needed, lacking = [one.baseline], list[str]()
    for control in one.controls:
        name = visible(control.other)
        if control.interval is None:
            lacking.append(control.reason)
            continue
        text = f"{distance(control.interval)} {name}"
        own = next((o.baseline.interval for o in statistics.overall if o.method == control.other), None)
        if own is None:
            lacking.append(f"{name} was not compared with {baseline}")
        elif harms(own):
            text += f" (this control harms: {distance(own)} {baseline}, so a gain over it measures harm as well)"
        elif own.high is None and own.mean < 0:
            text += f" (this control may harm: {distance(own)} {baseline}, so a gain over it may measure harm)"
        else:
            needed.append(control)
        sentences.append(text)
    names = [visible(difference.other) for difference in needed]
    unshown = [name for name, difference in zip(names, needed, strict=True) if not gain(difference)]
    if len(needed) == 1:
        lacking.append("no neutral control was run")
    elif not unshown and not lacking:  # nothing that it was to stand against may be missing
        where = f"on at least one of {len(one.pairs)} pairs" if len(one.pairs) > 1 else "on this pair"
        return f"{listed(sentences)}. So it is shown {where} that syntax helps, against {listed(names)}."
    if unshown:
        lacking.insert(0, f"no gain whose interval excludes 0 is shown against {listed(unshown)}")
    return f"{listed(sentences)}. It is not shown that syntax helps: {'; '.join(lacking)}."


def harms(own: Interval) -> bool:
    """Whether a control lies below the baseline by more than its interval."""
    return own.high is not None and own.high < 0


def gain(difference: OverallDifference) -> bool:
    """Whether a gain is shown: by its interval, and by the test over runs after Holm's correction."""
    p, value = difference.runs.p_holm, difference.interval
    return value is not None and value.low is not None and value.low > 0 and p is not None and p <= ALPHA


def distance(value: Interval) -> str:
    """A difference in points, with its interval and what that is over.

    >>> distance(Interval(0.02, -0.01, 0.05, "seeds"))
    '2.0 points (-1.0 to 5.0 over seeds) above'
    """
    if value.low is None or value.high is None:
        ends = "no interval"
    else:
        low, high = (100 * end if value.mean >= 0 else -100 * end for end in (value.low, value.high))
        ends = f"{min(low, high):.1f} to {max(low, high):.1f} over {value.over}"
    return f"{abs(100 * value.mean):.1f} points ({ends}) {'above' if value.mean >= 0 else 'below'}"
