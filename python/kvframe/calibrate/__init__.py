"""How long a step of a server takes on a card: measured with random weights, fitted to a few terms.

| module | purpose |
| --- | --- |
| `shape` | a model's shape, and what its weights and KV cost in bytes |
| `grid` | the steps that are measured, and those that judge the fit |
| `engine`, `attention` | one step of a decoder on the card; PyTorch and Triton |
| `profile` | measured steps from a file; the terms fitted to them; what they predict |
| `requests` | terms fitted to what requests felt, where a log has no steps |
| `store` | a profile as a TOML file |
"""

from kvframe.calibrate.grid import Step, fitted, held_out
from kvframe.calibrate.profile import Profile, Steps, fit, fit_log
from kvframe.calibrate.requests import Requests, fit_requests, has_steps
from kvframe.calibrate.shape import ModelShape
from kvframe.calibrate.store import SHIPPED, Measured, card_of, read_profile, write_profile

__all__ = [
    "SHIPPED",
    "Measured",
    "ModelShape",
    "Profile",
    "Requests",
    "Step",
    "Steps",
    "card_of",
    "fit",
    "fit_log",
    "fit_requests",
    "fitted",
    "has_steps",
    "held_out",
    "read_profile",
    "write_profile",
]
