"""What holds for every test: offline, one thread, a parse cache of their own, no deadlines."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Before torch and transformers are loaded: they read these once. Subprocesses inherit them.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

# A busy machine is slow, not wrong.
settings.register_profile("domadapt", deadline=None)
settings.load_profile("domadapt")


@pytest.fixture(scope="session", autouse=True)
def parse_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One cache folder a session, so that what one test parses no other parses again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOMADAPT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield os.environ["DOMADAPT_CACHE"]
