"""The console: verdicts, dead letters and indexes, looked at in a browser and over HTTP.

It has a process and a view (console/view.py) of its own, so a worker never waits for it.
"""
