"""What a person or an agent's hook runs. Nothing on the request path imports this package."""
