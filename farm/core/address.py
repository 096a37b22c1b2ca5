"""What may be written as the address of a server: one rule for every file that names one.

An address stands in files and messages, so nothing of it may be a secret.
"""

from __future__ import annotations

from urllib.parse import urlsplit


def address_fault(url: str) -> tuple[str, str] | None:
    """Return the rule an address breaks and what to say of it, None for a good one.

    The rules are "bad_url" and "credentials". What is said follows the name of the field, and
    quotes nothing: a key pasted into the wrong place would be shown.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "bad_url", "cannot be read: its host or its port is none"
    if parts.username is not None or parts.password is not None:
        return "credentials", "holds a user or a password: name an environment variable instead"
    if parts.scheme not in ("http", "https") or not host:
        return "bad_url", "must begin with http:// or https:// and name a host"
    if "?" in url or "#" in url:
        return "bad_url", "must not have a query or a fragment"
    if not url.isprintable() or " " in url:
        return "bad_url", "holds white space or characters that cannot be seen"
    return None
