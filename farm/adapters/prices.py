"""Read a price list: TOML, money for a million tokens, exact decimals."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from farm.adapters.settings import Common, HttpSettings
from farm.adapters.tables import Problems, fit_fields, read_toml
from farm.core.cost import Price, Prices


def read_prices(path: str) -> Prices:
    """Read a price list; raises SpecError with all that is wrong.

    The file has `currency` and a table ``[models."NAME"]`` for each model.
    """
    document = read_toml(path, parse_float=Decimal)
    problems = Problems(path)
    for name in document.keys() - {"currency", "models"}:
        problems.add("", name[:80], "is not a setting here", rule="unknown_field")
    currency = document.get("currency", "USD")
    if not isinstance(currency, str) or not currency.isalpha():
        problems.add("", "currency", "is not the name of a currency", rule="bad_value")
    tables = document.get("models", {})
    if not isinstance(tables, dict):
        problems.add("", "models", "is not a table", rule="bad_value")
        tables = {}
    models: dict[str, Price] = {}
    for name, table in tables.items():
        place = f"models.{name[:100]}"
        if not isinstance(table, dict):
            problems.add(place, "", "is not a table", rule="bad_value")
            continue
        before = len(problems.found)
        for field, amount in fit_fields(table, Price, place=place, problems=problems).items():
            if not (amount.is_finite() and amount >= 0):
                problems.add(place, field, "is not an amount of money", rule="bad_value")
        if len(problems.found) == before:
            models[name] = msgspec.convert(table, Price)
    problems.raise_if_any()
    return Prices(currency=currency, models=models)


def price_name(name: str, settings: Common) -> str:
    """Return the name under which a model of a models file stands in a price list."""
    sent = settings.model if isinstance(settings, HttpSettings) else ""
    return settings.price or sent or name
