"""Doors to models: adapters, and the wrappers that stand between a run and a model."""
