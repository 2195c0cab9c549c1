"""Gradients after a backward pass: in ``p.grad``, in codes, or released by a step."""
