"""Data that farm brings along for its demos."""
