"""What is on disk: paths, settings, the session database and its readers. Imports nothing of the addon."""
