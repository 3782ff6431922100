"""Traffic that was written after foresight's constants were frozen, and how policies fare on it.

``python -m perf.unseen`` replays it. The families were written without sight of the policy or of
the made-up traffic that it was tuned on, and were committed before they were first replayed; none
was changed for what a replay said. A family that is added here keeps to that.
"""
