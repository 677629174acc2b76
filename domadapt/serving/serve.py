"""The verb `serve`: a model on a port of this machine."""

import logging
import socket
from importlib.util import find_spec

from omegaconf import DictConfig

from domadapt.inference.description import read_description
from domadapt.inference.folder import model_folder
from domadapt.utils.text import visible

log = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
AT_ONCE = 16  # requests; more are told to come back later


def serve(cfg: DictConfig) -> None:
    """Answer until stopped.

    Args:
        cfg: a composed ``serve.yaml``.

    Raises:
        ValueError: a package is missing, the port is taken, or the model can't be loaded.
    """
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise ValueError(f"serve needs {' and '.join(missing)}: pip install 'domadapt[serve]'")
    folder = model_folder(str(cfg.model))
    about = read_description(folder)
    host = str(cfg.host)
    with listening(host, cfg.port) as port:  # before the model: a port that is taken is told at once
        import uvicorn

        from domadapt.inference.model import load
        from domadapt.serving.answer import Answers
        from domadapt.serving.app import make_app

        answers = Answers(load(folder, "cpu", "32", cfg.trust_code), folder)
        task = "spans" if answers.kind == "token" else "labels"
        line = f"{visible(about.source)} to {visible(about.target)}, {task} of a text"
        app = make_app(answers, line, LOOPBACK if host in LOOPBACK else ["*"])
        settings = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, limit_concurrency=AT_ONCE, lifespan="off"
        )
        name = f"[{host}]" if ":" in host else host
        print(f"http://{name}:{port.getsockname()[1]} shows {folder}; Ctrl-C ends it", flush=True)
        if host not in LOOPBACK:
            log.warning("host=%s: whoever reaches this machine can use the model; there is no password", host)
        uvicorn.Server(settings).run(sockets=[port])


def listening(host: str, port: object) -> socket.socket:
    """A socket that is bound already.

    Raises:
        ValueError: no such port or host, or somebody listens there.
    """
    if type(port) is not int or not 0 <= port < 2**16:
        raise ValueError(f"port={port!r}: expected a whole number from 0 (any that is free) to {2**16 - 1}")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ValueError(f"host={host} port={port}: {error.strerror or error}; port=0 takes one that is free") from None
