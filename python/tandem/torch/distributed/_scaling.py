"""The factor mu for gradients that are summed in 8 bits."""

from __future__ import annotations


class AutomaticScaling:
    """FP8-LM's factor mu for gradients that are summed in 8 bits.

    After a step in which the fraction of saturated values exceeded the threshold, mu is halved;
    otherwise it grows, by a factor of two over `doubling` steps.

    Args:
        threshold: the fraction of saturated values above which mu is halved.
        doubling: the number of steps in which mu doubles.
        mu: the initial value.
    """

    #: The range of mu, such that an f32 scale can be divided by it.
    LEAST, MOST = 2.0**-32, 2.0**32

    def __init__(self, threshold: float = 1e-5, doubling: int = 1000, mu: float = 1.0):
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold is {threshold}; it is a share, in [0, 1)")
        if doubling < 1:
            raise ValueError(f"doubling is {doubling}; it counts steps, from 1")
        if not self.LEAST <= mu <= self.MOST:
            raise ValueError(f"mu is {mu}; it must be from 2^-32 to 2^32")
        self.threshold, self.doubling, self.mu = threshold, doubling, float(mu)

    def update(self, saturated: int, values: int) -> None:
        """Updates mu after a step in which `saturated` of the values saturated."""
        halves = saturated > self.threshold * values
        mu = self.mu * (0.5 if halves else 2.0 ** (1 / self.doubling))
        self.mu = min(max(mu, self.LEAST), self.MOST)

    def state_dict(self) -> dict:
        """Returns the state for a checkpoint."""
        return {"mu": self.mu, "threshold": self.threshold, "doubling": self.doubling}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores a state from `state_dict`."""
        self.__init__(**state_dict)
