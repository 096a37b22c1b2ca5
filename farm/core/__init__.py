"""Values and rules: no file, no clock, no chance, no environment."""
