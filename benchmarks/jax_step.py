#===- jax_step.py - Optimizer steps under jax.jit --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file measures AdamW steps under jax.jit, alternating between Tandem's and optax's in one
# process.
#
#===----------------------------------------------------------------------===#
"""Times AdamW steps under jax.jit: tandem.jax and optax, alternately."""

import argparse
import functools
import os
import resource
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tandem.jax
from common import HERE, load, save, table

PAGE = HERE.parent / "docs/JAX.md"
#: The page's sentence that precedes the table.
ABOVE = "the table has the medians.\n\n"

#: The shapes of leaves: a transformer block of width 256 with part of its embedding, and a block of
#: width 1024.
SIZES = {
    "1M": [(256, 768), (256, 256), (256, 1024), (1024, 256), (1024,), (256,), (256,), (840, 256)],
    "16M": [(1024, 3072), (1024, 1024), (1024, 4096), (4096, 1024), (4096,), (1024,), (1024,),
            (3072, 1024)],
}
#: Tandem's strategies and the dtypes of their weights.
STRATEGIES = {"fp32": jnp.float32, "coat-fp32": jnp.float32, "adam8bit": jnp.bfloat16,
              "flash-f16": jnp.bfloat16, "collage-plus": jnp.bfloat16}
#: The strategies whose updates optax can add, too.
PLAIN = ("fp32", "coat-fp32")
#: Variants of optax.adamw by the dtype of weights, gradients and states.
PEERS = {"optax.adamw, f32": jnp.float32, "optax.adamw, bf16": jnp.bfloat16}
HYPERS = {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01}


def arrays(shapes: list[tuple[int, ...]], dtype, scale: float) -> list[jax.Array]:
    draw = np.random.default_rng(0)
    return [jnp.asarray(scale * draw.standard_normal(shape, np.float32)).astype(dtype)
            for shape in shapes]


class Contender:
    """One way of taking steps, and the times that it took."""

    def __init__(self, optimizer, update, dtype, shapes):
        self.params, self.grads = arrays(shapes, dtype, 1.0), arrays(shapes, dtype, 1e-2)
        self.state = optimizer.init(self.params)
        self.step = jax.jit(update, donate_argnums=(1, 2))
        #: For each measured step: seconds, processor seconds, and the pages that the system gave to
        #: the process.
        self.samples: list[tuple[float, float, int]] = []

    def run(self, measured: bool) -> None:
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        self.params, self.state = jax.block_until_ready(
            self.step(self.grads, self.params, self.state, jnp.float32(1e-3)))
        end, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        if measured:
            self.samples.append((
                end - start, sum(getattr(after, name) - getattr(before, name)
                                 for name in ("ru_utime", "ru_stime")),
                after.ru_minflt - before.ru_minflt))

    def results(self) -> dict[str, float]:
        """Returns medians of times in ms and of pages, and the minimum time."""
        times, processors, pages = zip(*self.samples)
        return {"ms": 1e3 * statistics.median(times), "least_ms": 1e3 * min(times),
                "processor_ms": 1e3 * statistics.median(processors),
                "pages": statistics.median(pages)}


def by_tandem(strategy: str, shapes) -> Contender:
    optimizer = tandem.jax.adamw(strategy=strategy, decay="before")

    def update(grads, params, state, rate):
        return optimizer.step(grads, state, params, lr=rate)

    return Contender(optimizer, update, STRATEGIES[strategy], shapes)


def by_optax(dtype, shapes) -> Contender:
    optimizer = optax.inject_hyperparams(functools.partial(optax.adamw, **HYPERS))(
        learning_rate=1e-3)

    def update(grads, params, state, rate):
        state.hyperparams["learning_rate"] = rate
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return Contender(optimizer, update, dtype, shapes)


def by_as_optax(strategy: str, shapes) -> Contender:
    """Returns Tandem's step as an update that optax adds."""
    optimizer = tandem.jax.as_optax(tandem.jax.adamw(strategy=strategy))

    def update(grads, params, state, rate):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return Contender(optimizer, update, STRATEGIES[strategy], shapes)


def measure(size: str, rounds: int) -> dict[str, dict]:
    """Returns the results of all contenders, which alternate in each round."""
    shapes = SIZES[size]
    contenders = {name: by_optax(dtype, shapes) for name, dtype in PEERS.items()} | {
        f"tandem.jax, {name}": by_tandem(name, shapes) for name in STRATEGIES} | {
        f"tandem.jax.as_optax, {name}": by_as_optax(name, shapes) for name in PLAIN}
    for turn in range(rounds + 5):
        order = list(contenders.values())
        for contender in order[::-1] if turn % 2 else order:
            contender.run(measured=turn >= 5)
    return {name: one.results() for name, one in contenders.items()}


def page_text(results: dict) -> str:
    """Returns the end of the page: the medians as a table, and how they were measured."""
    where, versions = results["machine"], results["versions"]
    return (f"{page_table(results)}\n\nMeasured on {where['date']} on {where['cores']} cores of "
            f"{where['cpu']}, with JAX {versions['jax']} and optax {versions['optax']}, at a load "
            f"of {results['load']:.1f}; above 1, other programs took part of the time.\n")


def page_table(results: dict) -> str:
    """Formats the medians as a Markdown table."""
    sizes = results["sizes"]
    rows = [[name, *(f"{found[name]['ms']:.2f}" for found in sizes.values())]
            for name in next(iter(sizes.values()))]
    return table(["milliseconds of a step", *sizes], rows)


def costs_table(sizes: dict) -> str:
    """Formats the processor time and the system's pages per step as a Markdown table."""
    rows = [[f"{name}, {size}", f"{one['processor_ms']:.2f}", f"{one['pages']:.0f}"]
            for size, found in sizes.items() for name, one in found.items()]
    return table(["a step", "ms of processors", "pages from the system"], rows)


def write_page(results: dict) -> None:
    """Replaces the end of the page by the text."""
    text = PAGE.read_text()
    PAGE.write_text(text[:text.index(ABOVE) + len(ABOVE)] + page_text(results))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=200, help="turns of each contender")
    parser.add_argument("--no-save", action="store_true",
                        help="leave the results and docs/JAX.md as they are")
    options = parser.parse_args()
    results = {"load": os.getloadavg()[0],
               "sizes": {size: measure(size, options.rounds) for size in options.sizes},
               "versions": {"jax": jax.__version__, "optax": optax.__version__}}
    print(f"{page_table(results)}\n\n{costs_table(results['sizes'])}")
    if not options.no_save:
        save("jax_step", results)
        write_page(load("jax_step"))


if __name__ == "__main__":
    main()
