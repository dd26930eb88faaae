"""The console: verdicts, dead letters and indexes, looked at in a browser and over HTTP."""
