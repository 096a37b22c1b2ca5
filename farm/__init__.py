"""LLM evaluation runs that survive anything."""
