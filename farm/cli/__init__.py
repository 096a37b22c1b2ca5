"""The commands: each parses, wires, calls one function and prints."""
