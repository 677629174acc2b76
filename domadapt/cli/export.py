"""The verb that hands a model over."""

from collections import Counter
from itertools import islice
from pathlib import Path

from omegaconf import DictConfig

from domadapt.data.streams import open_texts
from domadapt.inference.description import read_description
from domadapt.inference.model import FORMATS, free_folder, model_folder


def export_model(cfg: DictConfig) -> str:
    """Write the folder; returns what there is to say of it.

    Args:
        cfg: a composed ``export.yaml``.

    Raises:
        ValueError: the model, the folder or the texts will not do.
    """
    if cfg.format not in FORMATS:
        raise ValueError(f"format={cfg.format}: expected one of {', '.join(FORMATS)}")
    description = read_description(model_folder(str(cfg.model)))
    free_folder(Path(str(cfg.to)))
    from domadapt.inference.export import COMPARED, export, pipeline_call

    texts = None
    if cfg.input is not None:
        texts = [text.text for text in islice(open_texts(str(cfg.input), None, Counter())[1], COMPARED)]
    measured = export(str(cfg.model), str(cfg.to), cfg.format, texts, bool(cfg.drop_methods), cfg.trust_code)
    use = "its README.md says how to load it"
    if cfg.format == "hf":
        use = f"load it with {pipeline_call('token' if 'types' in description.task else 'sequence', str(cfg.to))}"
    return "\n".join([f"{cfg.to}: {cfg.format}; {use}", *measured])
