"""The whole API beside a short naive model of what must come out."""
