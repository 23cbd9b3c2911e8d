"""What happens to a request: parse, rows, plan, render. mitmproxy is touched only in `proxy`."""
