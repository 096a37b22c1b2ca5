"""From plan and receipts to a report value, and from the value to text."""
