#===- test_torch_all_reduce.py - Gradients of several ranks ----*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests 8-bit sums of gradients, with ranks as processes and as threads, against the NumPy
# model, and the factor mu.
#
#===----------------------------------------------------------------------===#

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem.torch as tt
from model import Strategy
from model.codes import FloatCode, MinifloatCode, SoftsignCode
from model.formats import encode
from model.scaled import WHOLE, Scaled
from model.storage import Draw, Plain
from support.kernels import write_strategies
from support.sum_model import model_of
from support.thread_ranks import Threads, one_rank
from support.torch_bits import bits, parameters, params_of

SHAPES = [(150,), (1, 279), (0, 3), (1,), (1, 2100)]
E4M3, BF16 = FloatCode("f8E4M3FN"), Plain("bf16")
WIDE = (Plain("bf16"),) * 3
GRADS = {
    "tensor": Scaled(E4M3, WHOLE, "f32", "pow2"),
    "groups": Scaled(E4M3, 32, "f32"),
    "e5m2": Scaled(FloatCode("f8E5M2"), WHOLE, "f32"),
    "softsign": Scaled(SoftsignCode(), 64, "f32"),
    "narrow": Scaled(SoftsignCode(), 64, "bf16"),
    "f16": Scaled(E4M3, 32, "f16"),
    "drawn": Scaled(MinifloatCode(4, 2, rounding="stochastic"), WHOLE, "f32", "pow2"),
    "history": Scaled(E4M3, WHOLE, "f32", "pow2", history=3, margin=1),
}
STRATEGIES = {f"sent-{name}": Strategy(grad, *WIDE) for name, grad in GRADS.items()}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    write_strategies(directory, STRATEGIES)
    return directory


#===----------------------------------------------------------------------===#
# Ranks
#===----------------------------------------------------------------------===#


def gradient(shape, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * scale).bfloat16()


def backward(params, seed):
    for i, p in enumerate(params):
        (p * gradient(p.shape, 100 * seed + i, 2.0 ** (i - seed))).sum().backward()


def encoded(optimizer, param):
    """Returns the planes of an encoded gradient as bits."""
    return [bits(plane) for plane in optimizer._gradients.get(param)]


def work_on(rank, ranks, name, path, steps=1, **options):
    """Returns a rank's state after some steps: its gradients' planes, weights and mu."""
    torch.set_num_threads(1)
    optimizer = tt.AdamW(parameters(SHAPES, torch.bfloat16), lr=1e-2,
                         strategy=f"sent-{name}", path=[path])
    reduce = tt.GradientAllReduce(optimizer, ranks, **options)
    for step in range(steps):
        backward(params_of(optimizer), rank + 10 * step)
        reduce()
        planes = [encoded(optimizer, p) for p in params_of(optimizer)]
        optimizer.step()
    return planes, [bits(p) for p in params_of(optimizer)], reduce


#===----------------------------------------------------------------------===#
# The model
#===----------------------------------------------------------------------===#


def check_model(planes, name, count, step=0, mu=None):
    """Checks the planes of all parameters and returns the number of saturated values."""
    saturated = 0
    for i, shape in enumerate(SHAPES):
        values = [gradient(shape, 100 * (r + 10 * step) + i, 2.0 ** (i - r - 10 * step))
                  .float().numpy().ravel() for r in range(count)]
        codes, scale, own = model_of(GRADS[name], values, mu)
        assert np.array_equal(planes[i][0].ravel(), codes), f"{name}, {shape}"
        assert np.array_equal(planes[i][1].ravel(), scale), f"{name}, {shape}"
        saturated += own
    return saturated


def total_values(count):
    return sum(int(np.prod(shape)) for shape in SHAPES) * (count + 1)


#===----------------------------------------------------------------------===#
# Sums
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("count", (1, 2, 3, 8))
@pytest.mark.parametrize("name", [n for n in GRADS if n != "history"])
def test_threads(name, count, path):
    ranks = Threads(count)
    results = ranks.run(lambda r: work_on(r.rank, r, name, path))
    saturated = check_model(results[0][0], name, count)
    for planes, weights, reduce in results:
        for one, other in zip(planes, results[0][0]):
            assert all(np.array_equal(a, b) for a, b in zip(one, other))
        assert all(np.array_equal(a, b) for a, b in zip(weights, results[0][1]))
        assert reduce.saturated == saturated / total_values(count)


@pytest.mark.parametrize("mu", (0.25, 1.3))
def test_mu(mu, path):
    """The scale is divided by mu, so the mean does not change, up to rounding."""
    ranks = Threads(2)
    results = ranks.run(lambda r: work_on(r.rank, r, "tensor", path,
                                          scaling=tt.AutomaticScaling(mu=mu)))
    saturated = check_model(results[0][0], "tensor", 2, mu=mu)
    halves = saturated > 1e-5 * total_values(2)
    for _, _, reduce in results:
        assert reduce.scaling.mu == mu * (0.5 if halves else 2.0 ** 0.001)
    assert halves == (mu > 1)


WORKER = """
import sys
sys.path[:0] = {path!r}
import numpy as np, torch
import test_torch_all_reduce as tests
import tandem.torch as tt
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group(
    "gloo", store=torch.distributed.FileStore(folder + "/store", 2), rank=rank, world_size=2)
planes, weights, reduce = tests.work_on(
    rank, None, "tensor", folder, steps=3, scaling=tt.AutomaticScaling())
arrays = {{f"codes{{i}}": p[0] for i, p in enumerate(planes)}}
arrays |= {{f"scale{{i}}": p[1] for i, p in enumerate(planes)}}
arrays |= {{f"weight{{i}}": w for i, w in enumerate(weights)}}
np.savez(f"{{folder}}/{{rank}}.npz", mu=reduce.scaling.mu, saturated=reduce.saturated, **arrays)
torch.distributed.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch has no gloo here")
def test_processes(path):
    """Two gloo processes take three steps."""
    script = path / "worker.py"
    # The tests' own modules must come first, since examples have modules with the same names.
    own = [entry for entry in sys.path if entry.endswith("test/Python")]
    script.write_text(WORKER.format(path=[*own, *sys.path]))
    workers = [subprocess.Popen([sys.executable, script, str(rank), path],
                                stderr=subprocess.PIPE, text=True) for rank in range(2)]
    for worker in workers:
        _, problems = worker.communicate(timeout=300)
        assert worker.returncode == 0, problems
    first, second = (np.load(path / f"{rank}.npz") for rank in range(2))
    assert all(np.array_equal(first[n], second[n]) for n in first.files)
    ranks = Threads(2)
    planes, weights, reduce = ranks.run(lambda r: work_on(
        r.rank, r, "tensor", path, steps=3, scaling=tt.AutomaticScaling()))[0]
    assert first["mu"] == reduce.scaling.mu and first["saturated"] == reduce.saturated
    for i, (p, w) in enumerate(zip(planes, weights)):
        assert np.array_equal(first[f"codes{i}"], p[0])
        assert np.array_equal(first[f"scale{i}"], p[1])
        assert np.array_equal(first[f"weight{i}"], w)


def test_wide_gradients(path):
    """With f32 parameters among the strategy's, p.grad is averaged."""
    ranks = Threads(2)

    def work(rank):
        wide, narrow = torch.nn.Parameter(torch.zeros(5)), parameters([(40,)], torch.bfloat16)
        optimizer = tt.AdamW([wide, *narrow], strategy="sent-tensor", path=[path])
        ((rank.rank + 1) * wide).sum().backward()
        backward(narrow, rank.rank)
        tt.GradientAllReduce(optimizer, rank)()
        return wide.grad, encoded(optimizer, narrow[0])

    (first, codes), (second, others) = ranks.run(work)
    assert first.tolist() == second.tolist() == [1.5] * 5
    assert all(np.array_equal(a, b) for a, b in zip(codes, others))


def test_channels_last(path):
    """Planes have the parameter's memory layout."""
    ranks = Threads(2)

    def work(rank):
        p = torch.nn.Parameter(torch.zeros(2, 3, 4, 5, dtype=torch.bfloat16).to(
            memory_format=torch.channels_last))
        optimizer = tt.AdamW([p], strategy="sent-tensor", path=[path])
        (p * gradient(p.shape, 0)).sum().backward()
        before = optimizer.gradient(p)
        tt.GradientAllReduce(optimizer, rank)()
        return before, optimizer.gradient(p)

    for before, after in ranks.run(work):
        # Twice an E4M3 number may saturate; otherwise, the mean of two equal numbers is the number.
        assert (before == after).float().mean() > 0.9


def test_nothing_to_send(path):
    optimizer = tt.AdamW(parameters([(4,)], torch.bfloat16), strategy="sent-tensor",
                         path=[path])
    tt.GradientAllReduce(optimizer, one_rank())()
    assert optimizer.gradient(params_of(optimizer)[0]) is None


@pytest.mark.parametrize("strategy", ("collage-plus", "sent-e8m0", "sent-expanded"))
def test_other_storages_are_refused(strategy, tmp_path):
    from model.codes import ExpandedCode
    write_strategies(tmp_path, {
        "sent-e8m0": Strategy(Scaled(E4M3, 32, "f8E8M0FNU", "pow2"), *WIDE),
        "sent-expanded": Strategy(Scaled(ExpandedCode(E4M3, 4.0), 16, "f32"), *WIDE)})
    optimizer = tt.AdamW(parameters([(4,)], torch.bfloat16), strategy=strategy,
                         path=[tmp_path])
    with pytest.raises(ValueError, match="takes a strategy that stores them as "
                       "#tandem.scaled with scale = f32, bf16 or f16 and a code without a range"):
        tt.GradientAllReduce(optimizer)


#===----------------------------------------------------------------------===#
# Slices, buckets and missing gradients
#===----------------------------------------------------------------------===#


def reduced(rank, shapes, name, path, grads, **options):
    """Returns the optimizer after a sum of the gradients that grads(rank, i, shape) returns;
    None means that a rank has none."""
    torch.set_num_threads(1)
    params = parameters(shapes, torch.bfloat16)
    optimizer = tt.AdamW(params, strategy=f"sent-{name}", path=[path], min_8bit_size=0)
    reduce = tt.GradientAllReduce(optimizer, rank, **options)
    for i, p in enumerate(params):
        if (grad := grads(rank.rank, i, p.shape)) is not None:
            (p * grad).sum().backward()
    reduce()
    return optimizer, reduce


def planes_of(optimizer):
    found = [optimizer._gradients.get(p) for p in params_of(optimizer)]
    return [planes and [bits(plane) for plane in planes] for planes in found]


def same(one, other):
    return all((a is None and b is None) or all(map(np.array_equal, a, b))
               for a, b in zip(one, other))


@pytest.mark.parametrize("count, name", [(2, "tensor"), (5, "groups"), (7, "narrow"),
                                         (16, "groups"), (16, "tensor")])
def test_rows_and_slices(count, name, path):
    """Groups restart in each row, and slices may cut tensors and rows; some slices are empty."""
    shapes, storage = [(5, 70), (3,), (2, 65)], GRADS[name]

    def value(rank, i, shape):
        return gradient(shape, 10 * rank + i, 2.0 ** (i - rank % 3))

    ranks = Threads(count)
    results = ranks.run(lambda r: planes_of(reduced(r, shapes, name, path, value)[0]))
    assert all(same(planes, results[0]) for planes in results)
    for i, shape in enumerate(shapes):
        rows = shape[0] if len(shape) > 1 and storage.group != WHOLE else 1
        values = [value(r, i, shape).float().numpy().reshape(rows, -1) for r in range(count)]
        for row in range(rows):
            codes, scale, _ = model_of(storage, [v[row] for v in values])
            got = [plane.reshape(rows, -1)[row] for plane in results[0][i]]
            assert np.array_equal(got[0], codes) and np.array_equal(got[1], scale)


def test_more_ranks_than_elements(path):
    ranks = Threads(6)
    results = ranks.run(lambda r: planes_of(reduced(
        r, [(2,), (0,), (1,)], "tensor", path, lambda rank, i, s: gradient(s, rank))[0]))
    codes, scale, _ = model_of(
        GRADS["tensor"], [gradient((2,), r).float().numpy() for r in range(6)])
    for planes in results:
        assert np.array_equal(planes[0][0], codes) and np.array_equal(planes[0][1], scale)


@pytest.mark.parametrize("overlap", (False, True))
@pytest.mark.parametrize("size", (25, 1e-4))
def test_a_rank_without_a_gradient(size, overlap, path):
    """A missing gradient counts as zeros; if no rank has one, it stays None. The scale of 1 for
    zeros does not affect the much smaller scales of other ranks."""
    shapes = [(5, 70), (130,), (9,)]

    def value(rank, i, shape):
        if i == 2 or (i == 1 and rank != 1):
            return None
        return gradient(shape, 10 * rank + i, 2.0**-30)

    ranks = Threads(3)
    results = ranks.run(lambda r: planes_of(reduced(
        r, shapes, "groups", path, value, bucket_cap_mb=size, overlap=overlap)[0]))
    zeros = np.zeros(130, np.float32)
    one = gradient((130,), 11, 2.0**-30).float().numpy()
    codes, scale, _ = model_of(GRADS["groups"], [zeros, one, zeros])
    for planes in results:
        assert same(planes, results[0]) and planes[2] is None
        assert np.array_equal(planes[1][0], codes) and np.array_equal(planes[1][1], scale)
        assert np.count_nonzero(planes[1][0]) > 100


@pytest.mark.parametrize("name", ("tensor", "groups", "narrow"))
def test_a_nan_of_one_rank_is_one_of_all(name, path):
    def value(rank, i, shape):
        grad = gradient(shape, rank)
        if rank == 1:
            grad[3] = torch.nan
        return grad

    for gradients in Threads(3).run(lambda r: (lambda o: [o.gradient(p) for p in params_of(o)])(
            reduced(r, [(130,)], name, path, value)[0])):
        assert gradients[0].isnan().tolist() == [i == 3 for i in range(130)]


@pytest.mark.parametrize("size", (301, 3))
def test_wide_gradients_are_added_in_f32_in_the_order_of_ranks(size, path):
    """The sum is rounded once, also if some ranks have no slice."""
    values = [gradient((size,), r, 2.0**r) for r in range(5)]

    def work(rank):
        (p,) = parameters([(size,)], torch.bfloat16)
        optimizer = tt.AdamW([p], strategy="sent-tensor", path=[path])
        p.grad = values[rank.rank].clone()
        tt.GradientAllReduce(optimizer, rank)()
        return p.grad

    total = values[0].float().numpy()
    for value in values[1:]:
        total = total + value.float().numpy()
    for grad in Threads(5).run(work):
        assert np.array_equal(bits(grad), encode("bf16", total / np.float32(5)))


def test_kinds_that_differ(path):
    """One rank has a gradient that is set manually in p.grad."""
    def work(rank):
        params = parameters([(40,)], torch.bfloat16)
        optimizer = tt.AdamW(params, strategy="sent-tensor", path=[path])
        backward(params, rank.rank)
        if rank.rank:
            params[0].grad = torch.ones(40, dtype=torch.bfloat16)
        with pytest.raises(RuntimeError, match="parameter 0 is in codes on one rank and "
                           "torch.bfloat16 in p.grad on another"):
            tt.GradientAllReduce(optimizer, rank)()

    Threads(2).run(work)


@pytest.mark.parametrize("count", (2, 4, 16))
def test_bytes(count, path):
    """Each rank sends two bytes per parameter, minus its own share; scales and the preceding
    exchange take a few bytes per tensor."""
    def work(rank):
        reduced(rank, [(64, 256)] * 2, "tensor", path, lambda r, i, s: gradient(s, r))
        return rank.sent, rank.received

    size = 2 * 64 * 256
    for sent, received in Threads(count).run(work):
        assert 0 < sent - 2 * size * (count - 1) / count < 400
        assert 0 < received - 2 * size * (count - 1) / count < 400


@pytest.mark.parametrize("size", (0, -1.0))
def test_wrong_sizes_of_buckets(size, path):
    optimizer = tt.AdamW(parameters([(4,)], torch.bfloat16), strategy="sent-tensor",
                         path=[path])
    with pytest.raises(ValueError, match="bucket_cap_mb is .*more than 0"):
        tt.GradientAllReduce(optimizer, one_rank(), bucket_cap_mb=size)


@pytest.mark.parametrize("make, problem", [
    (lambda d: d.FP8CompressState(one_rank(), "collage-plus"), "'collage-plus' stores"),
    (lambda d: d.FP8ReduceScatter("fp8-lm"), "'fp8-lm' has one scale for each gradient"),
    (lambda d: d.FP8ReduceScatter("bf16"), "'bf16' stores gradients as")])
def test_wrong_codes(make, problem):
    with pytest.raises(ValueError, match=problem):
        make(tt.distributed)


#===----------------------------------------------------------------------===#
# Delayed scaling
#===----------------------------------------------------------------------===#


def test_delayed_gradients(path):
    """A gradient's history continues between backward passes, and is saved in the optimizer's
    state."""
    storage, (p,) = GRADS["history"], parameters([(70,)], torch.bfloat16)
    optimizer = tt.AdamW([p], strategy="sent-history", path=[path])
    planes = {n: np.zeros(storage.entries("grad", 70)[n], d)
              for n, d in storage.planes("grad").items()}
    for seed in range(5):
        value = gradient((70,), seed, 2.0**seed)
        (p * value).sum().backward()
        planes |= storage.renew(planes, "grad", value.float().numpy(), Draw())
        if seed % 2:
            more = gradient((70,), seed + 50)
            (p * more).sum().backward()
            both = storage.decode(planes, "grad") + more.float().numpy()
            planes |= storage.renew(planes, "grad", both, Draw())
        codes, scale = encoded(optimizer, p)
        assert np.array_equal(codes, planes["grad"])
        assert np.array_equal(scale, planes["grad.scale"])
        want = encode("bf16", storage.decode(planes, "grad"))
        assert np.array_equal(bits(optimizer.gradient(p)), want)
        optimizer.step()
        state = optimizer.state[p]
        assert np.array_equal(bits(state["grad.history"]), planes["grad.history"])
        assert np.array_equal(bits(state["grad.next_scale"]), planes["grad.next_scale"])
    # State dicts contain the history, and conversions to other strategies drop it.
    (q,) = parameters([(70,)], torch.bfloat16)
    twin = tt.AdamW([q], strategy="sent-history", path=[path])
    twin.load_state_dict(optimizer.state_dict())
    q.data.copy_(p.data)
    for o, param in ((optimizer, p), (twin, q)):
        (param * gradient((70,), 9)).sum().backward()
        o.step()
    assert np.array_equal(bits(p), bits(q))
    for strategy, names in (("sent-tensor", set()),
                            ("sent-history", {"grad.history", "grad.next_scale"})):
        state, _ = tt.convert_state(optimizer.state_dict(), [p], strategy, path=[path])
        assert {n for n in state["state"][0] if n.startswith("grad")} == names


#===----------------------------------------------------------------------===#
# The factor mu
#===----------------------------------------------------------------------===#


def test_doubles_and_halves():
    """FP8-LM's rule halves mu above 0.001 % and doubles it over 1000 steps."""
    scaling = tt.AutomaticScaling()
    for _ in range(1000):
        scaling.update(10, 1_000_000)  # exactly 0.001 %
    assert scaling.mu == pytest.approx(2.0, rel=1e-12)
    scaling.update(11, 1_000_000)
    assert scaling.mu == pytest.approx(1.0, rel=1e-12)
    quick = tt.AutomaticScaling(threshold=0.5, doubling=1, mu=0.25)
    quick.update(1, 2)
    assert quick.mu == 0.5
    for _ in range(100):
        quick.update(0, 0)
    assert quick.mu == 2.0**32
    for _ in range(100):
        quick.update(2, 2)
    assert quick.mu == 2.0**-32


def test_mu_is_in_the_state_dict(path):
    def make(scaling):
        optimizer = tt.AdamW(parameters([(4,)], torch.bfloat16), strategy="sent-tensor",
                             path=[path])
        return tt.GradientAllReduce(optimizer, one_rank(), scaling)

    one, other = make(tt.AutomaticScaling(0.25, 7, 3.0)), make(tt.AutomaticScaling())
    one.scaling.update(0, 1)
    other.load_state_dict(one.state_dict())
    assert other.scaling.state_dict() == one.scaling.state_dict()
    assert make(None).state_dict() == {}
    with pytest.raises(ValueError, match="of a GradientAllReduce with automatic scaling"):
        make(None).load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="without automatic scaling"):
        one.load_state_dict({})


@pytest.mark.parametrize("options, problem", [
    ({"threshold": 1.0}, "threshold is 1.0"), ({"doubling": 0}, "doubling is 0"),
    ({"mu": 0.0}, "mu is 0.0"), ({"mu": 2.0**40}, "from 2\\^-32 to 2\\^32")])
def test_wrong_options(options, problem):
    with pytest.raises(ValueError, match=problem):
        tt.AutomaticScaling(**options)
