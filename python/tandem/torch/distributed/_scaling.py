"""The factor mu of gradients that are added up in 8 bits."""

from __future__ import annotations


class AutomaticScaling:
    """FP8-LM's factor mu for gradients that are added up in 8 bits.

    After a step in which more than a threshold of the values saturated, mu is half of
    what it was; else it grows, to the double over `doubling` steps.

    Args:
        threshold: the share of saturated values above which mu is halved.
        doubling: the steps in which mu doubles.
        mu: where it begins.
    """

    #: Between these mu stays, so that a scale of f32 can be divided by it.
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
        """Follows a step in which some of the values saturated."""
        halves = saturated > self.threshold * values
        mu = self.mu * (0.5 if halves else 2.0 ** (1 / self.doubling))
        self.mu = min(max(mu, self.LEAST), self.MOST)

    def state_dict(self) -> dict:
        """Returns the state from which a later run continues."""
        return {"mu": self.mu, "threshold": self.threshold, "doubling": self.doubling}

    def load_state_dict(self, state_dict: dict) -> None:
        """Goes on from what `state_dict` returned."""
        self.__init__(**state_dict)
