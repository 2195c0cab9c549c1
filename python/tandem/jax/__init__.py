"""Optimizers for JAX, which run as compiled kernels that XLA launches.

>>> import jax, jax.numpy as jnp, tandem.jax
>>> optimizer = tandem.jax.adamw(lr=1e-3, strategy="flash-f16")
>>> params = {"w": jnp.ones((64, 64), jnp.bfloat16)}
>>> state = optimizer.init(params)
>>> params, state = jax.jit(optimizer.step, donate_argnums=(1, 2))(params, state, params)
>>> int(state.count)
1
"""

from tandem.jax import _library  # reports a missing library early
from tandem.jax import nn
from tandem.jax._convert_state import convert_state
from tandem.jax._optax import as_optax
from tandem.jax._optimizer import Optimizer
from tandem.jax._optimizers import (adadelta, adafactor, adagrad, adam, adamax, adamw, adan,
                                   ademamix, came, lamb, lion, radam, rmsprop, rprop, sgd)
from tandem.jax._state import State

__all__ = ["Optimizer", "State", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw",
           "adan", "ademamix", "as_optax", "came", "convert_state", "lamb", "lion", "nn", "radam",
           "rmsprop", "rprop", "sgd"]
