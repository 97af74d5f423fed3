"""The simulated upstream of `llmgate simulate` and `llmgate demo`, and of our own tests: a server with slots."""

from llmgate.simulator.behaviour import Behaviour, Failure
from llmgate.simulator.server import Simulator

__all__ = ["Behaviour", "Failure", "Simulator"]
