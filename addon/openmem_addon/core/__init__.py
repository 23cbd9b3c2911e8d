"""The sans-IO core: bytes in, bytes out. No mitmproxy, database, files, environment, clock, threads or logging."""
