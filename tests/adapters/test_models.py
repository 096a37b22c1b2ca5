"""Models files and price lists: what they may say, and how every fault is named."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from farm.adapters.models import read_models
from farm.adapters.prices import price_name, read_prices
from farm.adapters.registry import adapter_names, make_endpoint
from farm.adapters.settings import MockSettings, OpenAISettings
from farm.core.cost import Price, Prices
from farm.errors import SpecError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def written(folder: Path, text: str) -> str:
    path = folder / "models.toml"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("path", sorted((CONFIGS / "models").glob("*.toml")), ids=lambda p: p.name)
def test_the_examples_are_good(path: Path) -> None:
    """People copy them; each can be made into an endpoint, keys given."""
    environment = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    models = read_models(str(path))
    assert models
    for name, settings in models.items():
        assert make_endpoint(name, settings, environment=environment).model_id == name


def test_the_example_price_list_is_good() -> None:
    """It prices nothing that somebody else could bill."""
    prices = read_prices(str(CONFIGS / "prices.toml"))
    assert prices == Prices(models={"default": Price(input=Decimal(0), output=Decimal(0))})


def test_settings_that_are_left_out_have_the_written_defaults(tmp_path: Path) -> None:
    """The least one can say, and the mocks' names."""
    text = (
        '[models.a]\nadapter = "openai"\nbase_url = "http://h/v1"\nmodel = "m"\n'
        '[models.b]\nadapter = "noisy"\n'
    )
    assert read_models(written(tmp_path, text)) == {
        "a": OpenAISettings(adapter="openai", base_url="http://h/v1", model="m"),
        "b": MockSettings(adapter="noisy"),
    }


FAULTY = """
x = 1
[models."a|b"]
adapter = "openai"
base_url = "http://user:pass@h/v1"
model = 3
concurency = 4
[models.b]
adapter = "nope"
[models.c]
adapter = "openai"
base_url = "ftp://h"
key_env = "sk-12345 abc"
timeout_s = -1
[models.c.headers]
Authorization = "Bearer sk-999"
[models.c.request]
n = 3
temperature = nan
when = 2020-01-01
[models.d]
adapter = "scripted"
steps = [{failure = "tired"}]
"""


def test_every_fault_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    """Place, field and rule of each; a key written down by mistake is not repeated."""
    with pytest.raises(SpecError) as caught:
        read_models(written(tmp_path, FAULTY))
    assert [(p.place, p.field, p.rule) for p in caught.value.problems] == [
        ("", "x", "unknown_field"),
        ("models.a|b", "", "bad_name"),
        ("models.a|b", "concurency", "unknown_field"),
        ("models.a|b", "model", "bad_value"),
        ("models.a|b", "base_url", "bad_value"),
        ("models.b", "adapter", "bad_value"),
        ("models.c", "timeout_s", "bad_value"),
        ("models.c", "model", "missing_field"),
        ("models.c", "base_url", "bad_value"),
        ("models.c", "key_env", "bad_value"),
        ("models.c", "headers.Authorization", "bad_value"),
        ("models.c", "request.n", "bad_value"),
        ("models.c", "request.temperature", "bad_value"),
        ("models.c", "request.when", "bad_value"),
        ("models.d", "steps[0].failure", "bad_value"),
    ]
    assert "is 'concurrency' meant?" in str(caught.value)
    for secret in ("sk-12345", "sk-999", "user:pass"):
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no table"),
        ("models = 3", "no table"),
        ("[models]\na = 3", "not a table"),
        ("[models.a]\nmodel = 1", "is missing"),
        ("[[[", "is not TOML"),
        ("a = \xff", "is not UTF-8"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)
def test_a_file_that_is_no_models_file_is_refused(tmp_path: Path, text: str, word: str) -> None:
    """Never a traceback."""
    path = tmp_path / "models.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SpecError, match=word):
        read_models(str(path))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """With the system's own reason."""
    with pytest.raises(SpecError, match="no such file"):
        read_models(str(tmp_path / "none.toml"))


def test_a_key_that_is_not_set_is_asked_for_by_the_name_of_its_variable() -> None:
    """Before anything is opened or sent."""
    settings = OpenAISettings(adapter="openai", base_url="http://h/v1", model="m", key_env="MY_KEY")
    with pytest.raises(SpecError, match="MY_KEY, which is not set"):
        make_endpoint("a", settings, environment={})


def test_prices_are_exact_and_their_faults_are_named(tmp_path: Path) -> None:
    """0.1 is a tenth, not the nearest double."""
    path = tmp_path / "prices.toml"
    path.write_text('currency = "EUR"\n[models."a/b"]\ninput = 0.1\noutput = 3\n')
    assert read_prices(str(path)) == Prices(
        currency="EUR", models={"a/b": Price(input=Decimal("0.1"), output=Decimal(3))}
    )
    path.write_text(
        '[models.a]\ninput = -1\noutput = inf\n[models.b]\ninput = "1 USD"\n[models.c]\nin = 1\n'
    )
    with pytest.raises(SpecError) as caught:
        read_prices(str(path))
    assert [(p.place, p.field, p.rule) for p in caught.value.problems] == [
        ("models.a", "input", "bad_value"),
        ("models.a", "output", "bad_value"),
        ("models.b", "input", "bad_value"),
        ("models.b", "output", "missing_field"),
        ("models.c", "in", "unknown_field"),
        ("models.c", "input", "missing_field"),
        ("models.c", "output", "missing_field"),
    ]


def test_a_model_is_priced_by_the_name_it_is_sent_under() -> None:
    """Unless the file says otherwise; a mock by its own name."""
    http = OpenAISettings(adapter="openai", base_url="http://h", model="m")
    assert price_name("a", http) == "m"
    other = OpenAISettings(adapter="openai", base_url="http://h", model="m", price="p")
    assert price_name("a", other) == "p"
    assert price_name("a", MockSettings(adapter="noisy")) == "a"


def test_adapters_have_the_published_names() -> None:
    """Models files hold them; changing one breaks them."""
    assert adapter_names()[:8] == (
        "openai", "anthropic", "command", "recorded", "rule_based", "noisy", "biased", "scripted",
    )  # fmt: skip
