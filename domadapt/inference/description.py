"""``domadapt.json``: what a saved model is made of. Read as a stranger's: typed, naming only classes of models."""

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from domadapt.config.overrides import quoted
from domadapt.data.texts import copy_key
from domadapt.utils.files import AGAIN, CHECKSUMS, verify_checksums, write_atomic
from domadapt.utils.text import nested_values

log = logging.getLogger(__name__)
NAME = "domadapt.json"
FORMATS = ("hf", "onnx", "onnx-int8")  # of exported folders
FORMAT = 4  # of model folders
LABELS = "labels_read.json"  # beside the weights
RUN_FILES = ("metrics.json", "status.json", "predictions.jsonl", "audit.json", "card.json", "card.md")  # beside model/
# Of a run without a model yet; adapting trains two networks. Where runs lie by method, source_only/ has folders alone.
UNFINISHED_RUN = ("status.json", "source_only/status.json", "source_only/metrics.json")
# By field, where a description's classes may come from, and what marks them there. Others of ours do more than a model
# needs: a parse cache makes folders wherever it is told to.
CLASSES = {
    "task": (("domadapt.tasks",), "decode"),
    "backbone": (("domadapt.models",), "takes_methods"),
    "methods": (("domadapt.methods",), "used_at_prediction"),
    "parser": (("domadapt.syntax.parser", "domadapt.syntax.conllu"), "tokenize"),
    "control": (("domadapt.syntax.controls",), "other"),
}
LISTED = "domadapt.syntax.conllu.ConlluParser"
STOCK = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")  # files of encoder/
Config = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What ``domadapt.json`` says."""

    format: int = FORMAT
    task: Config
    backbone: Config
    methods: dict[str, Config]  # by name: what prediction needs; ``control`` likewise
    left_behind: dict[str, Config] = field(default_factory=dict)  # that only trained: never made, so never trusted
    relations: dict[str, int]  # ids of relation names, from 1
    parser: Config
    control: dict[str, Config]
    parser_name: str  # whose parses the model was trained on; they matter where ``parses_at_prediction``
    parses_at_prediction: bool  # of all texts or of some
    max_length: int
    source: str  # name of the domain
    target: str
    lowercase: bool = False  # it was trained on lower-cased text, and reads all text so

    @property
    def names(self) -> list[str]:
        """Labels, or span types."""
        return list(self.task.get("types") or self.task.get("labels") or ())

    def write(self, folder: Path) -> None:
        write_atomic(folder / NAME, json.dumps(asdict(self), indent=1, allow_nan=False))


def read_description(folder: Path) -> Description:
    """What a model folder says of itself; nothing has been imported or made by it."""
    from pydantic import TypeAdapter, ValidationError

    path = folder / NAME
    if not path.is_file():
        why = "it is a file" if folder.is_file() else "there is no such folder"
        if (folder / "config.json").is_file():
            parts = ("tokenizer.json",), ("model.safetensors", "model.onnx")
            lacks = [" or ".join(files) for files in parts if not any((folder / file).is_file() for file in files)]
            why = "a stock or exported one, for `domadapt predict`, `score` and `compare`"
            why = f"{' and '.join(lacks)} is missing in it" if lacks else why
        elif any((folder / file).is_file() for file in UNFINISHED_RUN):
            beside = folder / "source_only"
            other = f"; {beside} is, and can be used" if (beside / "model" / NAME).is_file() else ""
            fix = "wait for it, or repeat the command that began it"
            raise ValueError(f"{folder}: this run is not finished{other}; {fix}")
        elif folder.is_dir():
            why = f"no {NAME} in it; runs of rule_baseline=... have none"
        raise ValueError(f"{folder}: not a model folder ({why}); give a run's folder, or the model/ in it")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: can't be read ({error.strerror}); its owner may allow it, else {AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: damaged ({error}); {AGAIN}") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise ValueError(f"{path}: format {version!r}, this version reads {FORMAT}; {AGAIN}")
    try:
        description = TypeAdapter(Description).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path}: damaged: {place}: {first['msg']}, not {first['input']!r:.80}; {AGAIN}") from error
    relations = description.relations.values()
    if description.max_length < 3 or sorted(relations) != [*range(1, len(relations) + 1)]:
        raise ValueError(f"{path}: damaged: expected max_length from 3, and relations numbered from 1; {AGAIN}")
    if description.task.get("transition_weight") and not isinstance(description.task.get("transitions"), list):
        raise ValueError(f"{path}: damaged: task.transitions: expected the scores that decoding needs; {AGAIN}")
    return description


def checked_description(folder: Path) -> Description:
    """A model folder's description, once its files are those that were written."""
    sums = folder / CHECKSUMS
    if not sums.is_file():
        read_description(folder)  # of what is no model's folder it tells
        raise ValueError(f"{sums}: is missing; {AGAIN}")
    verify_checksums(folder)
    listed = {line.split(maxsplit=1)[-1] for line in sums.read_text(encoding="utf-8").splitlines()}
    # A tokenizer reads files such as added_tokens.json wherever it finds them, and then predicts otherwise.
    for path in sorted((folder / "encoder").iterdir()):
        known = path.name in STOCK or f"encoder/{path.name}" in listed
        if path.suffix in (".json", ".txt", ".model") and not known:
            raise ValueError(f"{path}: not a file of this model ({CHECKSUMS}), and it may change it; move it away")
    return read_description(folder)


@dataclass(frozen=True, slots=True)
class LabelsRead:
    """Which labels a run has read; it lies with the weights, in ``encoder/``, and goes where these are copied to."""

    role: str
    source: str
    target_labels: int = 0
    checksum: str | None = None  #: of the ``target_labels``
    oracle: bool = False  #: whether target labels chose its epoch
    files: tuple[str, ...] = ()  #: checksums of the files that held the labels; of published corpora none
    texts: str = ""  #: short hashes of the texts whose labels it has read, one behind the other


def short_hash(text: str) -> str:
    """What stands in ``labels_read.json`` for a text and its copies: without case, spaces and marks.

    >>> short_hash("Fast, but cheap.") == short_hash("fast but cheap"), len(short_hash("Fast."))
    (True, 8)
    """
    return hashlib.sha256(copy_key(text).encode()).hexdigest()[:8]


def labels_read(encoder: Path) -> list[LabelsRead]:
    """Of the weights in a folder: what their run has read, and the runs that it goes on or learns from; empty if they
    are of no run."""
    path = encoder / LABELS
    if not path.is_file() and not (encoder.is_dir() and (encoder.parent / NAME).is_file()):
        return []
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(list[LabelsRead]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error.strerror
        problem = f"expected what a finished run says of the labels it has read ({reason})"
        raise ValueError(f"{path}: {problem}; {AGAIN}") from error


def files_of(folder: Path) -> list[Path]:
    """A model's files, and those of the run that it lies in: nothing is written over them."""
    beside = (folder.parent.glob(name) for name in (*RUN_FILES, "fifty_to_label.*") if folder.name == "model")
    return [*folder.rglob("*"), *chain.from_iterable(beside)]


def refuse_foreign(description: Description, path: Path) -> None:
    """Allow only those classes of domadapt that a model is made of, however deep they are named, and no ``${...}``."""
    for place, (modules, mark) in CLASSES.items():
        for value in nested_values(getattr(description, place)):
            foreign = None
            if isinstance(value, str) and "${" in value:  # resolved before it is made: to the environment, say
                foreign = value
            if isinstance(value, dict) and "_target_" in value and not _is_ours(str(value["_target_"]), modules, mark):
                foreign = str(value["_target_"])
            if foreign is not None:
                why = "a model folder can name any code. If it is your own, load it with trust_code=True"
                raise ValueError(f"{path}: {place} names {foreign[:80]!r}, none of domadapt's own for that; {why}")


def _is_ours(target: str, modules: tuple[str, ...], mark: str) -> bool:
    module, _, name = target.rpartition(".")
    if not any(f"{module}.".startswith(f"{allowed}.") for allowed in modules):
        return False
    try:  # the home of the class, not the path it is reached by: modules of ours import others' names
        member = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(member, type) and member.__module__ == module and hasattr(member, mark)


def model_folder(folder: str | Path) -> Path:
    """The model's own folder, from a run's folder or itself; what is in neither is told by who reads it."""
    if not isinstance(folder, str | Path):
        raise ValueError(f"model={folder!r}: expected the folder of a run or of its model")
    inner = Path(folder, "model")
    return inner if (inner / NAME).is_file() else Path(folder)


def model_as_backbone(arguments: Iterable[str]) -> list[str]:
    """`model=RUN` of training: encoder and head to start from, in place of a backbone; refused if it is more."""
    given, words = list[str](), [*arguments]
    for word in words:
        name, _, value = word.partition("=")
        if name == "model":
            if clashing := [other for other in words if other.startswith(("backbone=", "backbone.name="))]:
                raise ValueError(f"{word} goes on with that model's network; leave out {clashing[0]}")
            folder = model_folder(value)
            about = checked_description(folder)
            if about.methods or not str(about.backbone.get("_target_")).endswith(".Encoder"):
                extra = ", ".join(about.methods) or "a network that is no transformer"
                raise ValueError(f"{word}: {extra} takes part in its predictions; only encoder and head can go on")
            word = f"backbone.name={quoted(str(folder / 'encoder'))}"
        given.append(word)
    return given


def refuse_unlike(encoder: str, kind: str, names: Sequence[str], lowercase: bool, max_length: int) -> None:
    """Refuse to go on with a saved model's ``encoder/`` on data that its head does not fit; a backbone fits all."""
    folder = Path(encoder).parent
    if not (folder / NAME).is_file():
        return
    about = read_description(folder)
    theirs, wanted = ("types" in about.task, about.names), (kind == "token", [*names])
    if theirs != wanted:
        what, ours = (f"{'spans' if spans else 'whole texts'} ({', '.join(of)})" for spans, of in (theirs, wanted))
        raise ValueError(f"model={folder}: it labels {what}, the source {ours}; give labels as it was trained on")
    if about.lowercase != lowercase:
        raise ValueError(f"model={folder}: add data.lowercase={str(about.lowercase).lower()}, as it was trained")
    if about.max_length > max_length:
        was = f"it was trained with max_length={about.max_length}"
        log.warning("model=%s: %s, and goes on with %d, so that less of a long text is read", folder, was, max_length)


def refuse_occupied(to: Path, model: Path) -> None:
    """Refuse to write over somebody's files, or into the folder of the model."""
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"to={to}: there is something in it; give a folder that is new, or empty")
    if to.resolve() == Path.cwd():  # it would be replaced, and the shell be left in one that is gone
        raise ValueError(f"to={to}: is the folder that you are in; give one in it, or beside it")
    if model.resolve() in to.resolve().parents:
        raise ValueError(f"to={to}: lies in the model's folder {model}; give one beside it")
