"""From text to score; pure."""
