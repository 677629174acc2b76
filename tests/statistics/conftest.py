"""statsmodels collects garbage in every call, which takes long beside a loaded torch."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_garbage_collection() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda generation=2: 0)
        yield
