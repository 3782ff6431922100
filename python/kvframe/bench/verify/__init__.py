"""``kvframe bench verify``: what the simulated server predicts, beside what an engine does.

| module | purpose |
| --- | --- |
| `engine` | what is asked of an engine: take requests, do a step, say what it computed |
| `workload` | chats that come back, at a load |
| `recording` | runs an engine on a workload and notes arrivals, steps and tokens |
| `files` | a recording as a trace, a log of steps and a log of requests |
| `predict` | a simulated server with the recording's profile; the recorded order again |
| `compare` | hit rate and time to the first token, predicted and measured; limits |
| `scrape` | hit rate and time to the first token of vLLM's /metrics text |
| `simulated` | a saved simulation beside such a text |
| `job` | all of an engine: recorded, predicted, run |
"""
