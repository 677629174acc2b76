"""No secret comes through: by the name of a setting, by its value in the environment, in logs."""

import io
import logging
import os
import sys
from pathlib import Path
from typing import Any

import hydra
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domadapt.benchmarking.launching import Job
from domadapt.config.compose import compose, initialized, to_builtin
from domadapt.runs.key import run_folder
from domadapt.utils.redact import HIDDEN, hide_secrets, is_secret, redact, redacted, without_secrets

SECRET = "s3cr3t-0123456789-abcdefghij"
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="=$'\""), max_size=40)
SECRETS = """WANDB_API_KEY hub.token apikey db.password CLIENT_SECRET x.AUTH_TOKEN GITHUB_PAT DB_PASS DBPASS AUTH
    hub.auth OAUTH SSH_PASSPHRASE DB_PWD db.pat AUTHORIZATION"""
SETTINGS = """tokenizer max_tokens keyboard TOKENIZERS_PARALLELISM keywords seed PWD OLDPWD path patience pattern author
    bypass compat pass_rate passes source.path PATH"""


def test_names_of_secrets_and_of_settings() -> None:
    assert [name for name in SECRETS.split() if not is_secret(name)] == []
    assert [name for name in SETTINGS.split() if is_secret(name)] == []


@given(before=PLAIN, after=PLAIN)
def test_a_secret_of_the_environment_is_struck_out_anywhere_and_other_text_stays(before: str, after: str) -> None:
    assert redact(before) == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_HUB_TOKEN", SECRET)
        assert SECRET not in redact(before + SECRET + after)
        assert SECRET not in str(redacted({"a": [before + SECRET, {"b": SECRET}]}))


COMMANDS = ["+a.api_key={}", "a.token='{}' seed=1", "--my-secret={}", "KEY={},x", "+x={{api_key:{},b:1}}"]


@pytest.mark.parametrize("command", [*COMMANDS, "+x={{a:{{hub_token: {}}}}}"])
def test_a_secret_that_is_given_by_name_is_struck_out(command: str) -> None:
    assert redact(command.format(SECRET)) == command.replace("'{}'", "{}").format(HIDDEN)


def test_lists_of_secrets_and_secrets_of_a_configuration_are_struck_out() -> None:
    assert redact(f"hub.tokens=[{SECRET},{SECRET}] max_tokens=12345678") == f"hub.tokens={HIDDEN} max_tokens=12345678"
    assert redacted({"tokens": [SECRET], "max_tokens": 5}) == {"tokens": [HIDDEN], "max_tokens": 5}
    redacted({"db": {"auth": "0rd1nary-w0rds"}})
    assert redact("refused: 0rd1nary-w0rds") == f"refused: {HIDDEN}"
    assert without_secrets({"0rd1nary-w0rds": ["x0rd1nary-w0rds"]}) == {HIDDEN: [f"x{HIDDEN}"]}


STAYS = [
    *("Key 'seeds' is not in struct; full_key: benchmark.seeds", "sorted by key=benchmark.methods"),
    *("token: expected something; give hub.token=VALUE", "the --token of the model was not found", "say true; key=abc"),
]


def test_what_is_no_secret_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSH_AUTH", str(tmp_path))  # a path
    monkeypatch.setenv("USE_KEY", "true")  # a switch
    assert [text for text in (*STAYS, f"in {tmp_path}/runs") if redact(text) != text] == []
    kept = {"token": None, "use_key": True}
    assert redacted(kept | {"api_keys": ["a"]}) == kept | {"api_keys": [HIDDEN]}


@pytest.mark.parametrize("name", ["method", "pair", "paths.run"])
def test_no_secret_becomes_a_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("GITHUB_PAT", SECRET)
    with pytest.raises(ValueError, match=rf"{name}: holds a secret") as told:
        run_folder(compose("train", [f"{name}=${{oc.env:GITHUB_PAT}}"]))
    assert SECRET not in str(told.value)


PARTS = [f"api_key:{SECRET}", f"api_key: '{SECRET}'", f"a:[{{token:{SECRET}}},{{token:other678}}]"]
GIVEN = [
    *(f"+x={{{part},seed:1}}" for part in PARTS),
    *(f"+x.{name}=[{SECRET},{SECRET}]" for name in ("api_keys", "tokens")),
]
GIVEN += [f"+x.api_key={quote}{SECRET}{quote}" for quote in ("", "'", '"')]


@pytest.mark.parametrize("given", GIVEN)
def test_overrides_compose_to_the_secret_without_holding_it(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    moved = hide_secrets([given, "seed=1,2"])
    assert SECRET not in str(moved) and hide_secrets(moved) == moved
    with initialized():  # as Hydra composes overrides that nobody has touched
        plain = hydra.compose("train", [given])
    assert to_builtin(compose("train", moved[:1]))["x"] == to_builtin(plain)["x"]


def test_the_login_of_a_server_is_no_part_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    address = "https://me:pass@host/x"
    assert redacted({"uri": address}) == {"uri": "https://[hidden]@host/x"}
    [moved] = hide_secrets([f"tracking.logger.tracking_uri={address}"])
    assert "pass" not in moved
    assert compose("train", ["tracking=mlflow", moved]).tracking.logger.tracking_uri == address


def test_a_worker_of_a_sweep_logs_no_secret(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("MY_HUB_TOKEN", SECRET)
    monkeypatch.setattr(sys, "argv", sys.argv[:])
    stream = io.StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler(stream)])

    def fail(*_: object) -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("a").exception("told %s", SECRET)
            raise

    monkeypatch.setattr("domadapt.training.build.run_config", fail)
    Job(parent=-1)(None)
    logging.captureWarnings(False)
    logged = stream.getvalue()
    assert logged.startswith(f"told {HIDDEN}\n") and logged.endswith(f"ValueError: {HIDDEN}\n")
    assert SECRET not in logged + capsys.readouterr().err
