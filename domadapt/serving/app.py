"""The page and the endpoint: starlette's routes, limits on size, and errors in words.

The page has no script, and its policy lets a browser run none: what a text holds is shown, never obeyed.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domadapt.serving.answer import Answers

log = logging.getLogger(__name__)
BODY = 2**18  # bytes of a request
LONGEST = 5_000  # characters of a text
TEXTS = 32  # of a request
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
T = TypeVar("T")


class Careful:
    """Adds headers that let a browser do nothing with the page but show it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, with_headers)


def make_app(answers: Answers, about: str, hosts: Sequence[str]) -> Starlette:
    """The application.

    Args:
        answers: of the model.
        about: it, in a line.
        hosts: names that requests may be for: a page elsewhere can make a name of its own mean this machine.
    """
    template = Environment(loader=PackageLoader("domadapt.serving", "."), autoescape=True).get_template(
        "page.html.jinja"
    )
    style = "".join(
        (files(f"domadapt.{room}") / name).read_text(encoding="utf-8")
        for room, name in (("reporting", "report.css"), ("serving", "page.css"))
    )
    lock = threading.Lock()  # a model answers one after the other

    async def ask(question: Callable[[], T]) -> T:
        def alone() -> T:
            with lock:
                return question()

        try:
            return await run_in_threadpool(alone)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except Exception as error:
            log.exception("a text could not be labelled")
            raise HTTPException(500, "something went wrong; the terminal that serves this page says what") from error

    def page(status: int = 200, text: str = "", **content: Any) -> Response:
        html = template.render(about=about, text=text, longest=LONGEST, Markup=Markup, **content)
        return HTMLResponse(html, status)

    async def home(request: Request) -> Response:
        if request.method != "POST":
            return page()
        sent = parse_qs((await body(request)).decode("utf-8", "replace"), keep_blank_values=True)
        text = sent.get("text", [""])[0].replace("\r\n", "\n")
        check([text])
        return page(text=text, shown=await ask(lambda: answers.shown(text)))

    async def predict(request: Request) -> Response:
        texts = texts_of(await body(request))
        return JSONResponse({"predictions": await ask(lambda: answers.rows(texts))})

    async def css(request: Request) -> Response:
        return Response(style, media_type="text/css")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if request.url.path == "/":
            return page(error.status_code, error=error.detail)
        return JSONResponse({"error": error.detail}, error.status_code)

    return Starlette(
        routes=[
            Route("/", home, methods=["GET", "POST"]),
            Route("/predict", predict, methods=["POST"]),
            Route("/style.css", css),
        ],
        middleware=[Middleware(Careful), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={HTTPException: refused},
    )


async def body(request: Request) -> bytes:
    """A request's body, if it is not too large.

    Raises:
        HTTPException: it is; nothing beyond the limit has been kept.
    """
    read = b""
    async for part in request.stream():
        read += part
        if len(read) > BODY:
            raise HTTPException(413, f"a request of more than {BODY} bytes; send fewer or shorter texts")
    return read


def texts_of(content: bytes) -> list[str]:
    """The texts of ``{"text": "..."}`` or ``{"texts": ["...", "..."]}``.

    Raises:
        HTTPException: something else, too many, or too long.

    >>> texts_of(b'{"text": "Fast."}')
    ['Fast.']
    """
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        given = None
    match given:
        case {"text": str(text), **rest} if not rest:
            texts = [text]
        case {"texts": [*texts], **rest} if not rest and all(isinstance(text, str) for text in texts):
            pass
        case _:
            raise HTTPException(400, 'expected JSON, {"text": "..."} or {"texts": ["...", "..."]}')
    check(texts)
    return texts


def check(texts: Sequence[str]) -> None:
    """Refuse what there is nothing to say of, and what is too much.

    Raises:
        HTTPException: saying which text, and the limit.
    """
    if not 0 < len(texts) <= TEXTS:
        raise HTTPException(400, f"{len(texts)} texts: expected 1 to {TEXTS} in a request")
    for number, text in enumerate(texts, 1):
        if not text.strip():
            raise HTTPException(400, f"text {number} is blank: write a sentence")
        if len(text) > LONGEST:
            raise HTTPException(413, f"text {number} has {len(text)} characters: expected {LONGEST} at most")
