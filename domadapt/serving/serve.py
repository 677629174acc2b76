"""A page and a JSON endpoint that label what is typed, on this machine."""

import asyncio
import errno
import json
import logging
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from spacy.displacy.render import DependencyRenderer
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domadapt.analysis.attention import DRAWN_FROM, as_parse, read_attention, syntax_layer
from domadapt.data.domains import UnlabelledText, unlabelled
from domadapt.data.texts import lower_in_place
from domadapt.inference.description import read_description
from domadapt.inference.model import Model
from domadapt.inference.thresholds import apply_limits, rate_sentences, read_limits
from domadapt.syntax.controls import Control
from domadapt.syntax.parser import PUNCTUATION, Parse, Parser, SpacyParser, parse_warning
from domadapt.tasks.task import row
from domadapt.utils.pairs import is_text, paired, parts, text_fields
from domadapt.utils.text import escape_controls, shortened

DRAWN = 80  # words of a text whose tree is drawn
log = logging.getLogger(__name__)
LARGEST_BODY = 2**18  # bytes of a request
LONGEST_TEXT = 5_000  # characters of a text
MOST_TEXTS = 32  # of a request
PATIENCE = 10.0  # seconds that a request may take to come, and to be answered once the server is told to end
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
T = TypeVar("T")
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")  # the last is what browsers call the one before
AT_ONCE = 16  # requests; more are told to come back later


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text: a span of a type with its confidence in percent, or what stands between two."""

    text: str
    type: str | None = None
    percent: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer."""

    pieces: tuple[Stretch, ...]  # the whole text, in order
    label: str | None  # of classification; None where the likeliest lies below its threshold
    classes: tuple[tuple[str, float], ...]  # each with its share in percent, likeliest first; of classification
    tree: str  # an ``svg`` element, as ``attention`` is; empty where there is none
    attention: str
    notes: tuple[str, ...]  # what the reader should know
    limits: dict[str, float]  # the least confidences that were asked for


class Answers:
    """A model, loaded on the CPU from a folder, with the parser that draws its trees and the usual thresholds."""

    def __init__(self, model: Model, folder: Path, threshold: Any = 0) -> None:
        self.model, self.folder = model, folder
        self.limits = read_limits(threshold, model.session.task.names)
        self.kind: str = model.session.task.kind
        self.pairs: bool = model.session.task.pairs
        inner: Parser = model.session.parser
        while isinstance(inner, Control):
            inner = inner.parser
        # A control's trees were for training, unless the model reads them now, too.
        self.parser = model.session.parser if model.session.parses_at_prediction else inner
        self.layer = syntax_layer(folder)
        # spaCy keeps every new word, half a kilobyte each: a server would grow for as long as it runs.
        self.memory_zone = inner.memory_zone if isinstance(inner, SpacyParser) else nullcontext

    def rows(self, texts: list[str], threshold: Any = None) -> list[dict[str, Any]]:
        """As the JSON endpoint gives them, without the numbers of the texts."""
        given, limits = list(unlabelled(texts)), self.limits if threshold is None else threshold
        predicted = zip(given, self.model.predict(texts, threshold=limits), strict=True)
        lines = (row(text, prediction, self.kind) | text_fields(text.text) for text, prediction in predicted)
        return [{k: v for k, v in line.items() if k != "id"} for line in lines]

    def shown(self, text: str, threshold: Any = None) -> Shown:
        limits = self.limits if threshold is None else read_limits(threshold, self.model.session.task.names)
        [given], [every] = unlabelled([text]), self.model.predict([text])
        kept = apply_limits(every, limits)
        reply = row(given, kept, self.kind)
        notes = []
        if self.model.truncated:
            notes.append(f"The model reads the first {self.model.session.max_length} subwords of a text, not the rest.")
        unsure = [(f"{text[s.start : s.end]}, {s.type}", s.confidence) for s in every.spans if s not in kept.spans]
        if every.label != kept.label:
            unsure.append((str(every.label), every.confidence))
        if unsure:
            below = "; ".join(f"{what}, {100 * (sure or 0):.0f} %" for what, sure in unsure)
            notes.append(escape_controls(f"Below the least confidence: {below}."))
        notes += map(escape_controls, rate_sentences(self.folder, limits))
        classes: list[tuple[str, float]] = []
        if self.kind == "sequence":
            shares = self.model.probabilities([text])[0].tolist()
            named = zip(self.model.session.task.labels, (100 * share for share in shares), strict=True)
            classes = sorted(((escape_controls(name), share) for name, share in named), key=lambda pair: -pair[1])
        tree, attention = self._drawn(text, notes)
        label = None if kept.label is None else escape_controls(kept.label)
        return Shown(pieces(text, reply.get("spans", [])), label, tuple(classes), tree, attention, tuple(notes), limits)

    def _drawn(self, text: str, notes: list[str]) -> tuple[str, str]:
        read = lower_in_place(text) if self.model.lowercase else text
        [parse] = self.parser.parse([UnlabelledText("0", "", read)])
        if len(parse.heads) > DRAWN:
            notes.append(f"Trees are drawn of up to {DRAWN} words; this text has {len(parse.heads)}.")
            return "", ""
        if reason := parse_warning(read, parse, self.parser.name):
            notes.append(f"The tree may be wrong: {reason}.")
        tree = tree_svg(text, parse, "the parser's tree of the text")
        session = self.model.session
        if not session.encoder.takes_methods or session.encoder.unreachable:
            return tree, ""
        seen = read_attention(session, self.layer, read, parse)
        arcs, agree, of = as_parse(seen.weights, parse)
        if not of:  # one word: it has no head, and nothing else to look at
            return tree, ""
        notes.append(
            f"An arrow ends at a word that looks, and comes from the other word that it looks at most, if with "
            f"{100 * DRAWN_FROM:.0f} % or more of its attention. Head {seen.head} of layer {seen.layer}, both counted "
            f"from 0, puts most on the tree's heads: {agree} of {of} words look at theirs."
        )
        return tree, tree_svg(text, arcs, "where the model's attention goes")


def tree_svg(text: str, parse: Parse, alt: str) -> str:
    """A parsed text as displaCy draws it, its style in page.css; whatever a text holds is shown, never interpreted."""
    names = [shortened(text[start:end], 12) for start, end in parse.words.tolist()]
    arcs = []
    for place, (head, name) in enumerate(zip(parse.heads.tolist(), parse.relations, strict=True)):
        if head != place and name != PUNCTUATION:
            way, (start, end) = "left" if place < head else "right", sorted((place, head))
            arcs.append({"start": start, "end": end, "label": escape(escape_controls(name)), "dir": way})
    words = [{"text": name, "tag": escape(escape_controls(tag))} for name, tag in zip(names, parse.tags, strict=True)]
    apart = 24 + 7 * max([8, *map(len, names)])
    drawing = DependencyRenderer({"compact": True, "distance": apart, "offset_x": apart // 2, "word_spacing": 22})
    svg = re.sub(' style="[^"]*"', "", drawing.render_svg(re.sub(r"\W+", "-", alt), words, arcs))
    svg = svg.replace(' dy="1.25em"', ' dy="-.2em"')  # above its line: below it lies the line of the next lower arc
    above = drawing.offset_y - drawing.highest_level * apart / 6 - 16  # compact arcs are low: displaCy leaves it empty
    width, height = drawing.width, drawing.height - above
    size = f'viewBox="0 {above:.0f} {width} {height:.0f}" width="{width}" height="{height:.0f}"'
    svg = re.sub('width="[^"]*" height="[^"]*"', size, svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)


def pieces(text: str, spans: list[dict[str, Any]]) -> tuple[Stretch, ...]:
    """A text cut at its spans, which do not overlap.

    >>> found = pieces("A sharp lens", [{"start": 2, "end": 7, "type": "opinion", "confidence": 0.91}])
    >>> [(piece.text, piece.type, piece.percent) for piece in found]
    [('A ', None, 0), ('sharp', 'opinion', 91), (' lens', None, 0)]
    """
    parts, at = [], 0
    for span in spans:
        start, end, percent = span["start"], span["end"], round(100 * span["confidence"])
        before, words, kind = map(escape_controls, (text[at:start], text[start:end], span["type"]))
        parts += [Stretch(before), Stretch(words, kind, percent)]
        at = end
    return tuple(part for part in (*parts, Stretch(escape_controls(text[at:]))) if part.text)


def add_security_headers(app: ASGIApp) -> ASGIApp:
    """The application with headers: the page has no script, and its policy lets a browser run none, so that what a text
    holds is shown, never obeyed. Too many requests at once are told so; who hangs up is told nothing."""
    running = 0

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        nonlocal running
        if running >= AT_ONCE:
            busy = {"error": f"{AT_ONCE} requests are being read or answered: come back in a second"}
            await JSONResponse(busy, 503, {"Retry-After": "1"})(scope, receive, with_headers)
            return
        running += 1
        try:
            await app(scope, receive, with_headers)
        except ClientDisconnect:
            log.info("a client has hung up")
        finally:
            running -= 1

    return answer


def make_app(answers: Answers, about: str, hosts: Sequence[str]) -> Starlette:
    """The application, for these hosts alone: a page elsewhere can make a name of its own mean this machine."""
    pages = Environment(loader=PackageLoader("domadapt.serving", "."), autoescape=True)
    types = [escape_controls(name) for name in answers.model.session.task.names]
    known = {"about": about, "longest": LONGEST_TEXT, "Markup": Markup, "types": types}
    template = pages.get_template("page.html.jinja", globals=known)
    sheets = files("domadapt.reporting") / "report.css", files("domadapt.serving") / "page.css"
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    lock = asyncio.Lock()  # a model answers one after the other

    def within_memory(question: Callable[[], T]) -> T:
        with answers.memory_zone():
            return question()

    async def ask(question: Callable[[], T]) -> T:
        try:
            async with lock:
                return await run_in_threadpool(within_memory, question)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except Exception as error:
            log.exception("a text could not be labelled")
            raise HTTPException(500, "something went wrong; the terminal that serves this page says what") from error

    def page(status: int = 200, text: str = "", headers: Any = None, **content: Any) -> Response:
        shown: Shown | None = content.get("shown")
        limits = {escape_controls(name): limit for name, limit in (shown.limits if shown else answers.limits).items()}
        pair = [text[start:end] for start, end in parts(text)] + [""]
        return HTMLResponse(template.render(texts=pair[: 1 + answers.pairs], limits=limits, **content), status, headers)

    async def home(request: Request) -> Response:
        if request.method != "POST":
            return page()
        try:
            sent = parse_qs((await body(request)).decode(), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise HTTPException(400, "expected texts in UTF-8") from None
        fields = [field.replace("\r\n", "\n") for field in sent.get("text", [""])[: 1 + answers.pairs]]
        request.state.text = text = joined(*fields)
        check([text])
        typed = [*zip(answers.limits, sent.get("least", ()), strict=False)]
        shown = await ask(lambda: answers.shown(text, {name: number(of) for name, of in typed} or None))
        return page(text=text, shown=shown)

    async def predict(request: Request) -> Response:
        texts, threshold = texts_of(await body(request))
        return JSONResponse({"predictions": await ask(lambda: answers.rows(texts, threshold))})

    async def css(request: Request) -> Response:
        return Response(style, media_type="text/css")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = error.detail.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair, quoted from JSON
        if request.url.path == "/":
            typed = getattr(request.state, "text", "")
            return page(error.status_code, typed, error.headers, error=detail)
        return JSONResponse({"error": detail}, error.status_code, error.headers)

    return Starlette(
        routes=[
            Route("/", home, methods=["GET", "POST"]),
            Route("/predict", predict, methods=["POST"]),
            Route("/style.css", css),
        ],
        middleware=[Middleware(add_security_headers), Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={HTTPException: refused},
    )


async def body(request: Request) -> bytes:
    """A request's body; one that is too large or too slow is refused, and nothing beyond the limit is kept."""
    read = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                read += part
                if len(read) > LARGEST_BODY:
                    too_large = f"a request of more than {LARGEST_BODY} bytes; send fewer or shorter texts"
                    raise HTTPException(413, too_large)
    except TimeoutError:
        raise HTTPException(408, f"the request has not come in {PATIENCE:g} seconds") from None
    return read


def number(typed: str) -> float | str:
    """What was typed into a field of confidence; what is no number is refused where the model's own refusals are.

    >>> number("0.6"), number(""), number("much")
    (0.6, 0.0, 'much')
    """
    try:
        return float(typed or 0)
    except ValueError:
        return typed


def texts_of(content: bytes) -> tuple[list[str], Any]:
    """The texts of ``{"text": "..."}`` or ``{"texts": ["...", "..."]}``, and its ``threshold``; all else is refused.

    A pair is ``{"text": "...", "text_pair": "..."}``, or two strings among the texts.

    >>> texts_of(b'{"text": "Fast.", "threshold": 0.6}'), texts_of(b'{"texts": [["It rains.", "It is dry."]]}')
    ((['Fast.'], 0.6), (['It rains. ␞ It is dry.'], None))
    """
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        given = None
    threshold = given.pop("threshold", None) if isinstance(given, dict) else None
    match given:
        case {"text": str(text), "text_pair": str(other), **rest} if not rest:
            texts = [joined(text, other)]
        case {"text": str(text), **rest} if not rest:
            texts = [text]
        case {"texts": [*given_texts], **rest} if not rest and all(map(is_text, given_texts)):
            texts = [text if isinstance(text, str) else joined(*text) for text in given_texts]
        case _:
            form = '{"text": "..."} or {"texts": ["...", "..."]}, and "threshold"'
            pair = 'of a pair "text_pair" beside text, or two strings in place of one'
            raise HTTPException(400, f"expected JSON, {form}; {pair}")
    check(texts)
    return texts, threshold


def joined(text: str, other: str | None = None) -> str:
    """A text, or the two of a pair as one; what is no pair is refused."""
    try:
        return text if other is None else paired(text, other)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def check(texts: Sequence[str]) -> None:
    """Refuse what is too much: says which text, and the limit."""
    if not 0 < len(texts) <= MOST_TEXTS:
        raise HTTPException(400, f"{len(texts)} texts: expected 1 to {MOST_TEXTS} in a request")
    for number, text in enumerate(texts, 1):
        if len(text) > LONGEST_TEXT:
            raise HTTPException(413, f"text {number} has {len(text)} characters: expected {LONGEST_TEXT} at most")


def serve(folder: Path, host: str, port: int, threshold: Any, trust_code: bool) -> None:
    """Answer with the model of a folder, until stopped; ``conf/serve.yaml`` says what the settings are."""
    about = read_description(folder)
    with listening(host, port) as taken:  # before the model: a port that is taken is told at once
        import uvicorn

        from domadapt.inference.model import load

        answers = Answers(load(folder, "cpu", "32", trust_code), folder, threshold)
        task = "spans" if answers.kind == "token" else "labels"
        line = f"{escape_controls(about.source)} to {escape_controls(about.target)}, {task} of a text"
        app = make_app(answers, line, LOOPBACK if host in LOOPBACK else ["*"])
        quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
        settings = uvicorn.Config(app, lifespan="off", timeout_graceful_shutdown=int(PATIENCE), **quiet)
        name = f"[{host}]" if ":" in host else host
        print(f"http://{name}:{taken.getsockname()[1]} shows {folder}; Ctrl-C ends it", flush=True)
        if host not in LOOPBACK:
            log.warning("host=%s: whoever reaches this machine can use the model; there is no password", host)
        uvicorn.Server(settings).run(sockets=[taken])


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound already."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        port_only = error.errno in (errno.EADDRINUSE, errno.EACCES)
        fix = "port=0 takes one that is free" if port_only else "host=127.0.0.1 is this machine"
        raise ValueError(f"host={host} port={port}: {error.strerror or error}; {fix}") from None
