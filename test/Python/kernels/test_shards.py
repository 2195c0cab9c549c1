#===- test_shards.py - Sharded tensors ------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests that launches over shards of tensors, which exchange their reductions, have the
# bits of one launch over the whole tensors. Ranks are threads.
#
#===----------------------------------------------------------------------===#

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tandem
from support.fake_gpu import open_gpu
from support.kernels import STRATEGY_PATH, assert_same, integers_of
from tandem._plane import Granularity, RoleKind

TYPES = {"bf16": np.uint16, "f16": np.uint16, "f32": np.float32, "i8": np.int8,
         "i16": np.int16}
#: Matrices and vectors with rows of one or many elements, powers of two and others.
SHAPES = ((64, 96), (40, 256), (7, 1), (1, 300), (13, 130), (1, 8192), (256, 64))


class Group:
    """Threads that sum words, as the runtime requires of a group of ranks."""

    def __init__(self, count):
        self.count, self.parts = count, [None] * count
        self.words = 0
        self._barrier = threading.Barrier(count, timeout=60)

    def add_up(self, number, view):
        words = np.frombuffer(view, np.uint32)
        self.parts[number] = words.copy()
        self._barrier.wait()
        total = np.sum(self.parts, axis=0, dtype=np.uint32)
        self._barrier.wait()
        words[:] = total
        self.words = len(words)


class Ranks:
    """The ranks of one group."""

    def __init__(self, count):
        self.count, self._group = count, Group(count)

    @property
    def words(self):
        return self._group.words

    def shards_of(self, tensor):
        """Returns the number of a tensor's shards."""
        return self.count

    def place_of(self, tensor, rank):
        """Returns the index of a rank's shard of a tensor, and that of the group."""
        return rank, 0

    def exchange(self, rank):
        def add_up(group, view):
            assert group == 0
            self._group.add_up(rank, view)
        return add_up

    def run(self, work):
        """Calls work(rank) on each rank and returns the results."""
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(work, range(self.count)))


class Grid(Ranks):
    """Four ranks in two rows; a tensor is sharded over all ranks, a row's or a column's."""

    def __init__(self):
        super().__init__(4)
        self._rows, self._columns = ([Group(2), Group(2)] for _ in range(2))
        self.called = [[] for _ in range(4)]

    def shards_of(self, tensor):
        return 2 if tensor % 3 else 4

    def place_of(self, tensor, rank):
        return (rank, rank % 2, rank // 2)[tensor % 3], (5, 2, 9)[tensor % 3]

    def exchange(self, rank):
        groups = {5: (self._group, rank), 2: (self._rows[rank // 2], rank % 2),
                  9: (self._columns[rank % 2], rank // 2)}
        def add_up(group, view):
            self.called[rank].append(group)
            ranks, number = groups[group]
            ranks.add_up(number, view)
        return add_up


def make_plane(plane, shape, rng):
    """Returns a plane's initial contents: random gradients and weights, and zero states."""
    count = plane.entries(shape[1], shape[0])
    if plane.kind not in (RoleKind.PARAM, RoleKind.GRAD):
        return np.zeros(count, TYPES.get(plane.type, np.uint8))
    if plane.type == "f32":
        scale = 1.0 if plane.sets_size else 0.0
        return (1 + scale * (rng.standard_normal(count) - 1)).astype(np.float32)
    if plane.type == "bf16":
        return (rng.standard_normal(count).astype(np.float32).view(np.uint32) >> 16
                ).astype(np.uint16)
    return rng.integers(0, 100, count).astype(TYPES.get(plane.type, np.uint8))


def is_of_all(plane):
    """Returns whether all shards have the same entries of a plane."""
    return plane.is_whole_tensor or plane.per == Granularity.COLUMN


def cut_plane(plane, array, shape, first, end):
    """Returns a shard's part of a plane: rows [first, end), or these elements of the only row."""
    if is_of_all(plane):
        return array.copy()
    def entries(places):
        return plane.entries(places) if shape[0] == 1 else plane.entries(shape[1], places)
    return array[entries(first):entries(first) + entries(end - first)].copy()


def starts_of(kernel, shape, count, rng):
    """Returns the first rows of shards, or first elements of a single row; some shards are
    empty."""
    grouped = [p for p in kernel.planes if p.is_grouped]
    unit = max([p.rows for p in kernel.planes if p.per == Granularity.ELEMENT
                and not p.is_whole_tensor and p.rows] + [1])
    if shape[0] == 1:
        unit = max([p.group for p in grouped if p.group < 2**16] + [unit])
    places = shape[1] if shape[0] == 1 else shape[0]
    shared = any(p.written and is_of_all(p) for p in kernel.planes)
    points = range(unit if shared else 0, places + (0 if shared else 1), unit)
    if shared and len(points) < count - 1:
        return None
    inner = (rng.sample(points, count - 1) if shared
             else [rng.choice(points) for _ in range(count - 1)])
    return [0, *sorted(inner), places]


def write(place, values):
    """Writes values to an array, which may be on a GPU."""
    if isinstance(place, np.ndarray):
        place[:] = values
    else:
        place.write(values)


def read(place):
    return place if isinstance(place, np.ndarray) else place.read()


class Model:
    """Tensors of a kernel, and their launches as a whole and in shards. Shards run on a GPU if
    one is given, together with its kernel."""

    def __init__(self, kernel, shapes, seed=0, gpu=None, on_gpu=None):
        rng = np.random.default_rng(seed)
        self.kernel, self.shapes, self.numbers = kernel, shapes, range(len(shapes))
        self.gpu, self.sharded = gpu, on_gpu or kernel
        self.whole = [{p.name: make_plane(p, shape, rng) for p in kernel.planes}
                      for shape in shapes]
        self.grads = [{p.name: [make_plane(p, shape, rng) for _ in range(2)]
                       for p in kernel.planes if p.kind == RoleKind.GRAD}
                      for shape in shapes]

    def launch(self, plan, step, threads):
        hypers = {"max_norm": 1.0, "lr": 0.01}
        given = {k: v for k, v in hypers.items() if k in self.kernel.hypers}
        values, integers = self.kernel.scalars(given | integers_of(self.kernel, step + 1))
        plan.launch([values], [integers], threads=threads)

    def pointers(self, arrays):
        def address_of(array):
            return array.ctypes.data if isinstance(array, np.ndarray) else array.address
        return [[address_of(planes[p.name]) for p in self.kernel.planes] for planes in arrays]

    def placed(self, arrays):
        """Copies arrays to the device on which shards are launched."""
        return arrays if self.gpu is None else [self.gpu.arrays(planes) for planes in arrays]

    def run_whole(self, metrics):
        arrays = [{n: p.copy() for n, p in planes.items()} for planes in self.whole]
        plan, sums = tandem.Plan(self.kernel), []
        for step in range(2):
            for planes, grads in zip(arrays, self.grads):
                for name, values in grads.items():
                    planes[name][:] = values[step]
            plan.update(list(self.shapes), self.pointers(arrays))
            self.launch(plan, step, 2)
            sums.append(plan.metrics() if metrics else None)
        return arrays, sums

    def run_rank(self, ranks, rank, starts, metrics):
        places = [ranks.place_of(number, rank) for number in self.numbers]
        shards = [(begins[at], begins[at + 1]) for begins, (at, _) in zip(starts, places)]
        by_name = {p.name: p for p in self.kernel.planes}

        def part(name, array, i):
            return cut_plane(by_name[name], array, self.shapes[i], *shards[i])

        arrays = self.placed([{n: part(n, p, i) for n, p in planes.items()}
                              for i, planes in enumerate(self.whole)])
        sizes, firsts, shardings = [], [], []
        for shape, begins, (first, end), (at, group) in zip(self.shapes, starts, shards, places):
            unit = 1 if shape[0] == 1 else shape[1]
            # Frameworks give an empty shard zero columns.
            sizes.append((1, end - first) if shape[0] == 1 or first == end
                         else (end - first, shape[1]))
            firsts.append(first * unit)
            shardings.append((shape[1], at, [b * unit for b in begins], group))
        plan, sums = tandem.Plan(self.sharded, self.gpu and self.gpu.device), []
        plan.set_exchange(ranks.exchange(rank))
        for step in range(2):
            for i, (planes, grads) in enumerate(zip(arrays, self.grads)):
                for name, values in grads.items():
                    write(planes[name], part(name, values[step], i))
            plan.update(sizes, self.pointers(arrays), firsts=firsts, shardings=shardings)
            self.launch(plan, step, 1 + rank % 2)
            sums.append(plan.metrics() if metrics else None)
        return [{n: read(p) for n, p in planes.items()} for planes in arrays], sums

    def check(self, count, seed, metrics=False):
        self.check_ranks(Ranks(count), seed, metrics)

    def check_ranks(self, ranks, seed, metrics=False):
        rng = random.Random(seed)
        starts = [starts_of(self.kernel, shape, ranks.shards_of(i), rng)
                  for i, shape in enumerate(self.shapes)]
        kept = [i for i, s in enumerate(starts) if s is not None]
        self.shapes = [self.shapes[i] for i in kept]
        self.whole, self.grads = [self.whole[i] for i in kept], [self.grads[i] for i in kept]
        self.numbers = kept
        starts = [starts[i] for i in kept]
        want, want_sums = self.run_whole(metrics)
        got = ranks.run(lambda rank: self.run_rank(ranks, rank, starts, metrics))
        for rank, (arrays, sums) in enumerate(got):
            assert sums == want_sums
            for i, planes in enumerate(arrays):
                at, _ = ranks.place_of(self.numbers[i], rank)
                cut = {p.name: cut_plane(p, want[i][p.name], self.shapes[i],
                                         starts[i][at], starts[i][at + 1])
                       for p in self.kernel.planes}
                bits = {n: a.view(f"u{a.itemsize}") for n, a in cut.items()}
                assert_same({n: a.view(f"u{a.itemsize}") for n, a in planes.items()}, bits,
                            f"rank {rank} of {ranks.count}, {self.shapes[i]} at {starts[i]}")


#: Reductions over the model, tensors, rows and columns, and scales of each kind.
CASES = [("adamw_clip", "collage-plus"), ("adamw_clip", "fp8-lm"), ("adamw_clip", "coat"),
         ("adamw", "fp8-lm"), ("adamw", "fp8-lm-delayed"),
         ("adamw", "bf16-stochastic"),
         ("lamb", "fp32"), ("lamb", "collage-plus"), ("lamb", "coat"),
         ("adafactor", "fp32"), ("adafactor", "collage-plus"), ("adafactor", "bf16-stochastic"),
         ("adafactor", "coat")]


@pytest.mark.parametrize("ranks", (2, 3, 5))
@pytest.mark.parametrize("graph, strategy", CASES)
def test_has_the_bits_of_one_launch(graph, strategy, ranks):
    kernel = tandem.compile(graph, strategy, path=[STRATEGY_PATH])
    shapes = [s for s in SHAPES if s[0] > 1 or graph != "adafactor"]
    for seed in range(3):
        Model(kernel, shapes, seed).check(ranks, seed)


#: Scales of whole rows and of blocks, and one with a history.
SCALES = {"rows": "group = row", "blocks": "group = 32x32", "tensor": "group = tensor, history = 4"}
STRATEGY = """tandem.strategy @{name} compute(<f32, f32>) {{
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, {scale}, scale = f32>
}}
"""


@pytest.mark.parametrize("ranks", (2, 3))
@pytest.mark.parametrize("name, graph", [
    *[(name, graph) for name in SCALES for graph in ("adamw", "adamw_clip")],
    ("tensor", "adafactor")])
def test_scales_of_every_kind(name, graph, ranks, tmp_path):
    (tmp_path / f"{name}.mlir").write_text(STRATEGY.format(name=name, scale=SCALES[name]))
    kernel = tandem.compile(graph, name, path=[tmp_path])
    for seed in range(3):
        Model(kernel, [(128, 96), (96, 33), (200, 64)], seed).check(ranks, seed)


@pytest.mark.parametrize("graph, strategy", CASES)
def test_several_groups_of_ranks(graph, strategy):
    """Tensors with different groups of ranks share a launch, with reductions over all of them."""
    kernel = tandem.compile(graph, strategy, path=[STRATEGY_PATH])
    shapes = [s for s in SHAPES if s[0] > 1 or graph != "adafactor"]
    for seed in range(3):
        grid = Grid()
        Model(kernel, shapes, seed).check_ranks(grid, seed)
        for called in grid.called:
            rounds = [called[i:i + 3] for i in range(0, len(called), 3)]
            reduces = any(kernel.reductions)
            assert all(each == [2, 5, 9] for each in rounds) and bool(rounds) == reduces


def test_metrics_of_several_groups():
    kernel = tandem.compile("adamw_clip", "collage-plus", metrics=True)
    for seed in range(3):
        Model(kernel, SHAPES, seed).check_ranks(Grid(), seed, metrics=True)


@pytest.fixture(scope="module")
def gpu():
    return open_gpu()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("graph, strategy", CASES)
def test_on_a_gpu(graph, strategy, gpu):
    """The host exchanges reductions between the phases of a GPU launch."""
    kernel, on_gpu = (tandem.compile(graph, strategy, target, path=[STRATEGY_PATH])
                      for target in ("cpu", "sm_90"))
    shapes = [s for s in [(13, 40), (1, 300), (40, 9)]
              if s[0] > 1 or graph != "adafactor"]
    Model(kernel, shapes, 3, gpu, on_gpu).check_ranks(Ranks(3), 3)
    Model(kernel, shapes, 4, gpu, on_gpu).check_ranks(Grid(), 4)
    gpu.check()


def test_metrics_on_a_gpu(gpu):
    kernel, on_gpu = (tandem.compile("adamw_clip", "collage-plus", target, metrics=True)
                      for target in ("cpu", "sm_90"))
    Model(kernel, [(13, 40), (1, 300)], 3, gpu, on_gpu).check_ranks(Ranks(2), 3, metrics=True)
    gpu.check()


@pytest.mark.parametrize("ranks", (2, 4))
def test_metrics_are_those_of_the_whole(ranks):
    kernel = tandem.compile("adamw", "collage-plus", metrics=True)
    for seed in range(4):
        Model(kernel, SHAPES, seed).check(ranks, seed, metrics=True)



def test_ranks_send_little():
    """A rank sends about 2 log2(n) values for its n rows or elements."""
    kernel = tandem.compile("adamw_clip", "collage-plus")
    model, ranks = Model(kernel, [(4096, 24)]), Ranks(4)
    starts = [[0, 1000, 2000, 3000, 4096]]
    ranks.run(lambda rank: model.run_rank(ranks, rank, starts, False))
    assert 4 <= ranks.words <= 4 * 2 * 12


#===----------------------------------------------------------------------===#
# Errors
#===----------------------------------------------------------------------===#


def plan_of(graph="adamw_clip", strategy="collage-plus"):
    kernel = tandem.compile(graph, strategy)
    model = Model(kernel, [(8, 64)])
    plan = tandem.Plan(kernel)

    def update(size=(4, 64), first=0, sharding=(64, 0, [0, 256, 512])):
        plan.update([size], model.pointers(model.whole), firsts=[first],
                    shardings=[sharding])
    return model, plan, update


@pytest.mark.parametrize("arguments, message", [
    (dict(first=256), "are not shard 0, which has 256 elements from 0 on"),
    (dict(size=(3, 64)), "3 rows of 64 columns from element 0 on are not shard 0"),
    (dict(sharding=(64, 2, [0, 256, 512])), "it is shard 2 of 2"),
    (dict(sharding=(64, 0, [0, 300, 512])), "starts at 300, inside of a row of 64"),
    (dict(sharding=(64, 0, [0, 256, 128])), "shard 2 starts at 128; starts must ascend"),
    (dict(sharding=(64, 0, [64, 256])), "shard 0 starts at 64; starts must ascend from 0"),
])
def test_bad_shardings(arguments, message):
    _, _, update = plan_of()
    with pytest.raises(ValueError, match=message):
        update(**arguments)


def test_shards_without_an_exchange():
    model, plan, update = plan_of()
    update()
    with pytest.raises(ValueError, match="the plan has no exchange between ranks"):
        model.launch(plan, 0, 1)


def test_what_the_exchange_raises():
    model, plan, update = plan_of()
    update()

    def fail(group, words):
        raise TimeoutError("rank 1 is gone")

    plan.set_exchange(fail)
    before = {name: array.copy() for name, array in model.whole[0].items()}
    with pytest.raises(TimeoutError, match="rank 1 is gone"):
        model.launch(plan, 0, 1)
    assert_same(model.whole[0], before)


def test_an_empty_shard_of_shared_entries():
    _, _, update = plan_of("adamw", "fp8-lm")
    with pytest.raises(ValueError, match="shard 0 is empty.*spread the tensor over fewer"):
        update((0, 64), 0, (64, 0, [0, 0, 512]))
