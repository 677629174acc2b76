"""From configuration to objects: the one place where a ``_target_`` is called."""

from collections.abc import Mapping
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf


def make(config: Any, **extra: Any) -> Any:
    """The one place where configuration becomes objects.

    Raises:
        ValueError: what the object's constructor said, as it said it; or no ``_target_`` names one.
    """
    if not isinstance(config, Mapping) or not isinstance(config.get("_target_"), str):
        raise ValueError(
            f"{config!s:.80}: expected settings with a _target_ among them, the class that takes them, as in each yaml "
            f"of domadapt"
        )
    try:
        return instantiate(config, _convert_="all", **extra)
    except InstantiationException as error:
        cause = error.__cause__
        while isinstance(cause, InstantiationException) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, ValueError | OSError):
            raise cause from None
        if isinstance(cause, TypeError):  # a setting of the wrong type, or one that is not there
            raise ValueError(f"{config.get('_target_')}: {cause}; see the comments in its yaml") from None
        raise


def plain(cfg: DictConfig) -> dict[str, Any]:
    """A configuration as plain dicts and lists."""
    result = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(result, dict)
    return {str(key): value for key, value in result.items()}
