"""Launches of kernels: plans, pointers and replays of steps, for given states and gradients."""
