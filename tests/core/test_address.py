"""The address of a server, as models files and qualifications name it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.address import address_fault


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "https://api.example.com/v1",
        "http://127.0.0.1:8080/v1/",
        "http://[::1]:8000",
        "HTTP://h",
        "http://h/v1@2",
    ],
)
def test_an_address_names_a_server_and_perhaps_a_path(url: str) -> None:
    """The rest is the adapter's."""
    assert address_fault(url) is None


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("h:80", "bad_url"),
        ("ftp://h", "bad_url"),
        ("http://", "bad_url"),
        ("http:///v1", "bad_url"),
        ("http://[::1", "bad_url"),
        ("http://h:99999", "bad_url"),
        ("http://h:port", "bad_url"),
        ("http://h/v1?key=sk-abc", "bad_url"),
        ("http://h/v1#sk-abc", "bad_url"),
        ("http://h/v1?", "bad_url"),
        ("http://h/v1\n", "bad_url"),
        ("http://h /v1", "bad_url"),
        ("http://user:sk-abc@h/v1", "credentials"),
        ("http://sk-abc@h", "credentials"),
        ("ftp://user:sk-abc@h", "credentials"),
    ],
)
def test_what_is_no_address_or_may_hold_a_key_is_refused_without_being_shown(
    url: str, rule: str
) -> None:
    """It would stand in every file of a run, and in the message that refuses it."""
    fault = address_fault(url)
    assert fault is not None
    assert fault[0] == rule
    assert "sk-abc" not in fault[1]


@given(st.text() | st.text().map("http://".__add__))
def test_any_text_is_an_address_or_none(text: str) -> None:
    """Law: nothing is raised."""
    address_fault(text)
