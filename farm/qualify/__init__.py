"""Matched runs of a served model, with evidence: the loops and rules of `farm qualify`.

It qualifies a protocol and small code tasks; it does not rank models. Requests leave through a
port (`farm.qualify.ports`), so every rule here is held against scripted servers as well.
"""
