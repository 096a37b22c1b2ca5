"""From numbers to numbers; random generators are passed in."""
