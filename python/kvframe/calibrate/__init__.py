"""How long a step of a server takes on a card: measured with random weights, fitted to a few terms.

| module | purpose |
| --- | --- |
| `shape` | a model's shape, and what its weights and KV cost in bytes |
| `grid` | the steps that are measured, and those that judge the fit |
| `engine`, `attention` | one step of a decoder on the card; PyTorch and Triton |
| `profile` | measured steps from a file; the terms fitted to them; what they predict |
| `store` | a profile as a TOML file |
"""

from kvframe.calibrate.grid import Step, fitted, held_out
from kvframe.calibrate.profile import Profile, Steps, fit, fit_log
from kvframe.calibrate.shape import ModelShape
from kvframe.calibrate.store import SHIPPED, Measured, read_profile, write_profile

__all__ = [
    "SHIPPED",
    "Measured",
    "ModelShape",
    "Profile",
    "Step",
    "Steps",
    "fit",
    "fit_log",
    "fitted",
    "held_out",
    "read_profile",
    "write_profile",
]
