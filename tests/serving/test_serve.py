"""The page and the endpoint: right answers, limits in words, nothing of a text obeyed."""

import asyncio
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

import domadapt
from domadapt.cli import verbs
from domadapt.config.compose import Settings
from domadapt.syntax.controls import Linear
from domadapt.syntax.parser import Parse, Text, load_pipeline
from tests.parsers import MadeParser, chain
from tests.reporting.chromium import Chromium
from tests.support import Command, client_of

pytest.importorskip("uvicorn")
pytest.importorskip("httpx")
from domadapt.serving.serve import (
    LARGEST_BODY,
    LONGEST_TEXT,
    LOOPBACK,
    MOST_TEXTS,
    Answers,
    add_security_headers,
    make_app,
)

NASTY = '</textarea><script>document.title="x"</script><img src=x onerror=alert(1)> The lens & "zoom" is dull \u202e.'


@pytest.fixture(scope="module")
def app(tiny_run: Path) -> Any:
    return make_app(Answers(domadapt.load(tiny_run, "cpu", "32"), tiny_run / "model"), "a <b> to c", LOOPBACK)


@pytest.fixture(scope="module")
def client(app: Any) -> Any:
    return client_of(app)


def test_the_endpoint_says_what_the_model_says(client: Any, tiny_run: Path) -> None:
    texts = ["The lens of number 3 is superb.", NASTY]
    found = client.post("/predict", json={"texts": texts}).json()["predictions"]
    assert [row["text"] for row in found] == texts
    wanted = domadapt.load(tiny_run, "cpu", "32").predict(texts)
    for row, prediction in zip(found, wanted, strict=True):
        if "label" in row:
            assert (row["label"], row["confidence"]) == (prediction.label, round(prediction.confidence, 4))
        else:
            spans = [(s["start"], s["end"], s["type"]) for s in row["spans"]]
            assert spans == [astuple(s)[:3] for s in prediction.spans]
            assert all(0 < s["confidence"] <= 1 for s in row["spans"])
    assert client.post("/predict", json={"text": texts[0]}).json()["predictions"] == found[:1]


def test_what_lies_below_a_threshold_is_left_out_and_named(client: Any, tiny_run: Path) -> None:
    text = "The lens of number 3 is superb."
    names = domadapt.load(tiny_run, "cpu", "32").session.task.names
    [row] = client.post("/predict", json={"text": text, "threshold": dict.fromkeys(names, 1.0)}).json()["predictions"]
    assert row.get("label") is None and not row.get("spans")
    every, plain = (client.post("/predict", json={"text": text} | more).json() for more in ({"threshold": 0}, {}))
    assert every == plain
    page = client.post("/", data={"text": text, "least": ["1"] * len(names)}).text
    assert "Below the least confidence: " in page and 'value="1.0"' in page and f"{names[0]} from 1: precision" in page
    assert "Below the least confidence: " not in client.post("/", data={"text": text, "least": [""] * len(names)}).text
    for wrong in ("1.5", "nan"):
        refused = client.post("/", data={"text": text, "least": [wrong]})
        assert refused.status_code == 400 and "expected a number from 0 to 1" in refused.text
    refused = client.post("/", data={"text": text, "least": ["much"]})
    assert refused.status_code == 400 and "expected a number from 0 to 1" in refused.text


@pytest.mark.parametrize(
    ("content", "status", "told"),
    [
        (b"{", 400, "expected JSON"),
        (b"[" * 100_000, 400, "expected JSON"),
        (b'{"text": 5}', 400, "expected JSON"),
        (b'{"text": "a", "model": "/etc/passwd"}', 400, "expected JSON"),
        (b'{"text": "a", "threshold": true}', 400, "expected a number from 0 to 1"),
        (b'{"text": "a", "threshold": 1' + b"0" * 400 + b"}", 400, "expected a number from 0 to 1"),
        (b'{"text": "a", "threshold": {"nice": 0.5}}', 400, "threshold.nice: the model has no such label"),
        (b'{"text": "a", "threshold": {"\\ud800": 0.5}}', 400, "threshold.\\ud800: the model has no such label"),
        (b'{"texts": []}', 400, f"0 texts: expected 1 to {MOST_TEXTS}"),
        (json.dumps({"texts": ["a"] * (MOST_TEXTS + 1)}).encode(), 400, f"{MOST_TEXTS + 1} texts"),
        (b'{"texts": ["a", " "]}', 400, "text 2 is blank"),
        (json.dumps({"text": "a" * (LONGEST_TEXT + 1)}).encode(), 413, f"expected {LONGEST_TEXT} at most"),
        (b'{"texts": ["a", "\\ud800"]}', 400, "text 2: character 0 is '\\ud800', half a surrogate pair"),
        (b"x" * (LARGEST_BODY + 1), 413, f"more than {LARGEST_BODY} bytes"),
    ],
)
def test_an_error_is_said_in_words(client: Any, content: bytes, status: int, told: str) -> None:
    answer = client.post("/predict", content=content)
    assert answer.status_code == status
    assert told in answer.json()["error"]


def test_too_many_at_once_are_told_to_come_back_and_who_hangs_up_is_no_error(app: Any, monkeypatch: Any) -> None:
    sent: list[Any] = []

    def call(message: str) -> None:
        async def receive() -> Any:
            if message == "nothing":
                await asyncio.sleep(60)
            return {"type": message, "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/predict", "headers": [(b"host", b"127.0.0.1")]}
        asyncio.run(add_security_headers(app)(scope, receive, send))  # type: ignore[arg-type]

    call("http.disconnect")
    assert sent == []
    monkeypatch.setattr("domadapt.serving.serve.PATIENCE", 0.01)
    call("nothing")
    assert sent[0]["status"] == 408 and "has not come in 0.01 seconds" in json.loads(sent[1]["body"])["error"]
    sent.clear()
    monkeypatch.setattr("domadapt.serving.serve.AT_ONCE", 0)
    call("http.request")
    assert sent[0]["status"] == 503 and (b"retry-after", b"1") in sent[0]["headers"]
    assert "come back" in json.loads(sent[1]["body"])["error"]


def test_only_this_machine_by_its_own_name(client: Any) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/", headers={"Host": "[::1]:8000"}).status_code == 200
    assert client.get("/predict").status_code == 405 and client.get("/predict").headers["allow"] == "POST"
    assert {*client.put("/").headers["allow"].split(", ")} == {"GET", "HEAD", "POST"}
    assert client.get("/../../etc/passwd").status_code == 404


def test_nothing_of_a_text_is_obeyed(client: Any) -> None:
    answer = client.post("/", data={"text": NASTY})
    assert answer.status_code == 200
    assert "<script" not in answer.text and "<img" not in answer.text and "<b>" not in answer.text
    assert "\u202e" not in answer.text.split("</textarea>", 1)[1]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert 'class="displacy"' in answer.text and "style=" not in answer.text
    blank = client.post("/", data={"text": "  "})
    assert blank.status_code == 400 and "text 1 is blank" in blank.text
    for content in (b"text=caf\xe9", b"text=caf%E9"):
        latin = client.post("/", content=content)
        assert latin.status_code == 400 and "expected texts in UTF-8" in latin.text
    unsure = client.post("/", data={"text": "Typed <once>.", "least": "much"})
    assert unsure.status_code == 400 and "Typed &lt;once&gt;.</textarea>" in unsure.text
    one = client.post("/", data={"text": "Fast"}).text
    assert "0 of 0 words" not in one


def test_the_tree_is_of_the_models_own_parser_and_of_the_text_as_it_is_read(tiny_run: Path) -> None:
    texts = list[str]()

    def parse_of(text: Text) -> Parse:
        texts.append(text.text)
        return chain(text)

    model = replace(domadapt.load(tiny_run, "cpu", "32"), lowercase=True)
    model.session.parser = Linear(MadeParser(parse_of, "spacy/en_other"))
    answers = Answers(model, tiny_run / "model")
    shown = answers.shown(" ".join(["Comida"] * 40))
    assert texts[-1] == " ".join(["comida"] * 40)
    assert ">dep<" in shown.tree and "previous" not in shown.tree
    assert "The tree may be wrong: none of the common English words in the text." in shown.notes
    counted = int(re.search(r"of (\d+) words look", shown.notes[-1])[1])  # type: ignore[index]
    assert 1 <= counted < model.session.max_length  # of subwords: what lies beyond is not read
    assert not any("may be wrong" in note for note in answers.shown("The lens is superb.").notes)


def test_a_server_forgets_the_words_of_its_texts(client: Any) -> None:
    known = load_pipeline("shipped").vocab.strings
    for send in ({"url": "/predict", "json": {"text": "Qwlyj xzvpq zzkrt."}}, {"url": "/", "data": {"text": "Qwlyj."}}):
        before = len(known)
        assert "wlyj" in client.post(**send).text
        assert len(known) == before and "Qwlyj" not in known


def test_packages_that_are_missing_are_told_in_words(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ("starlette", "uvicorn")
    for name in [name for name in sys.modules if name.partition(".")[0] in needed]:
        monkeypatch.delitem(sys.modules, name)
    for name in needed:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "domadapt.serving.serve")
    settings = Settings(model=tiny_run, host="127.0.0.1", port=0, threshold=0, trust_code=False)
    with pytest.raises(ValueError, match=r"serve needs starlette and uvicorn: pip install 'domadapt\[serve\]'"):
        verbs.serve(settings)


def test_a_taken_port_is_told_before_the_model_is_loaded(tiny_run: Path, command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _, err = command("serve", f"model={tiny_run}", f"port={taken.getsockname()[1]}", code=2)
        assert "port=0 takes one that is free" in err
    _, err = command("serve", f"model={tiny_run}", "host=no host", code=2)
    assert err.rstrip().endswith("host=127.0.0.1 is this machine") and "port=0" not in err
    _, err = command("serve", f"model={tiny_run}", "threshold=60", code=2)
    assert "threshold=60: expected a number from 0 to 1" in err
    assert "port='many': expected a whole number" in command("serve", f"model={tiny_run}", "port=many", code=2)[1]


@pytest.fixture(scope="module")
def address(app: Any) -> Iterator[str]:
    """The application on a port."""
    import uvicorn

    port = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([port],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_the_page_in_a_browser(address: str, chromium: Chromium, width: int) -> None:
    chromium.visit(address, width, dark=False)
    title = chromium.evaluate("document.title")
    chromium.evaluate(f"document.querySelector('textarea').value = {json.dumps(NASTY)}")
    chromium.submit("document.querySelector('button').click()")
    assert chromium.evaluate("document.title") == title == "domadapt: a <b> to c"
    assert chromium.evaluate("document.querySelectorAll('svg.displacy text').length") > 5
    above = "[...document.querySelectorAll('.displacy-arrow')].every(a => at(a, 'text') < at(a, 'path'))"
    assert chromium.evaluate(f"at = (a, part) => a.querySelector(part).getBBox().y, {above}")  # no line through a label
    assert chromium.evaluate("document.querySelectorAll('#label, #spans').length") == 1
    assert chromium.evaluate("document.querySelector('textarea').value") == NASTY
    assert chromium.evaluate("document.documentElement.scrollWidth") == width
    assert chromium.evaluate("document.querySelector('main').offsetWidth") >= 0.8 * min(width, 832)
    assert chromium.complaints() == []
    chromium.evaluate("document.querySelector('textarea').value = 'הצג חד.'")
    chromium.submit("document.querySelector('button').click()")
    direction = "[...document.querySelectorAll('textarea, #spans')].map(one => getComputedStyle(one).direction)"
    assert {*chromium.evaluate(direction)} == {"rtl"}  # else the words of such a text stand in the wrong order
