"""The doctor: what parameters lose under the strategy that they have, and under others."""
