"""The reading process: opens every database read-only and answers over MCP."""
