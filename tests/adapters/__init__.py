"""Tests of farm.adapters."""
