#===- test_torch_foreign.py - States of other optimizers -------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests the reading of states of torch.optim, bitsandbytes, torchao and FlashOptim.
# States follow the layouts of the libraries. Expected bits without a derivation are what
# bitsandbytes 0.50.2 and FlashOptim 0.1.3 (in Triton's interpreter) have decoded; the tests at
# the end run bitsandbytes and torchao themselves if they are installed.
#
#===----------------------------------------------------------------------===#

import contextlib
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tandem
import tandem.torch as tt
from support.torch_bits import bits, parameters, train
from support.torch_needs import needs_adafactor, needs_dtensors
from tandem._plane import RoleKind
from tandem.torch.optim.peers._dynamic_map import dynamic_map
from tandem.torch.optim.peers._foreign import _ROLES, _UNCOUNTED, ForeignState, read_foreign


def read(state, weight, graph="adamw", **options):
    """Returns a state that has been read, after checking that reading has changed nothing."""
    before = {name: value.clone() if type(value) is torch.Tensor else value
              for name, value in state.items()}
    found = read_foreign(state, weight, graph, "parameter 0", **options)
    assert isinstance(found, ForeignState) and type(found.step) is int
    assert {value.dtype for value in found.values.values()} <= {torch.float32}
    for name, value in before.items():
        if type(value) is torch.Tensor and not value.dtype.is_complex:
            assert np.array_equal(bits(state[name]), bits(value))
    return found


def assert_bits(tensor, expected):
    """Compares float32 values with a tensor, or with integers that have their bits."""
    if isinstance(expected, torch.Tensor):
        assert tensor.shape == expected.shape
        expected = bits(expected)
    assert bits(tensor).tolist() == list(expected)


def test_roles():
    """The states are those of the library's graphs."""
    assert list(_ROLES) and set(_ROLES) == set(tandem.graphs())
    for graph, roles in _ROLES.items():
        kernel = tandem.compile(graph, "fp32")
        assert roles == tuple(p.name for p in kernel.planes if p.kind is RoleKind.STATE)
        counts = bool(kernel.integers) or graph.startswith(("adafactor", "asgd", "soap"))
        assert counts == (graph not in _UNCOUNTED)


#===----------------------------------------------------------------------===#
# torch.optim
#===----------------------------------------------------------------------===#

OPTIMIZERS = {
    "adamw": ("AdamW", {}),
    "adam": ("Adam", {"foreach": False}),
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd_momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd_nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "rmsprop": ("RMSprop", {}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "adamax": ("Adamax", {}),
    "asgd": ("ASGD", {}),
    "rprop": ("Rprop", {}),
    "adadelta": ("Adadelta", {}),
    "adagrad": ("Adagrad", {"initial_accumulator_value": 0.5}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("graph", OPTIMIZERS)
def test_torch_optim(graph, dtype):
    """Values, also of 16 bits, are those of the state. SGD counts no steps."""
    name, options = OPTIMIZERS[graph]
    params = parameters([(6, 5), (), (0, 3)], dtype)
    optimizer = getattr(torch.optim, name)(params, **options)
    train(optimizer, range(3))
    states = optimizer.state_dict()["state"]
    for index, param in enumerate(params):
        state = states.get(index, {})
        found = read(state, param, graph)
        assert found.origin == "torch.optim" and found.weight is None
        assert found.step == (0 if name == "SGD" else 3)
        assert tuple(found.values) == _ROLES[graph]
        for role, value in found.values.items():
            theirs = {"previous": "prev"}.get(role, role)
            assert_bits(value, state[theirs].float())
            assert not value.requires_grad


PEERS = {
    "mars": lambda p: pytest.importorskip("pytorch_optimizer").MARS(p),
    "came": lambda p: pytest.importorskip("came_pytorch").CAME(p, 1e-3),
}


@pytest.mark.parametrize("graph", PEERS)
def test_mars_and_came(graph):
    """States of the peers go on: their steps and ours stay as close as last bits."""
    theirs, ours = ([p.detach().clone().requires_grad_() for p in
                     parameters([(6, 5), (7,)], torch.float32)] for _ in range(2))
    peer = PEERS[graph](theirs)
    train(peer, range(3))
    for p, q in zip(ours, theirs):
        with torch.no_grad():
            p.copy_(q)
    make = {"mars": tt.MARS, "came": tt.CAME}[graph]
    optimizer = make(ours, lr=1e-3, strategy="fp32")
    optimizer.load_state_dict(peer.state_dict())
    for group in [*peer.param_groups, *optimizer.param_groups]:
        group["lr"] = 1e-3
    train(peer, range(3, 6))
    train(optimizer, range(3, 6))
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=2e-4, atol=1e-6)


@needs_adafactor
def test_torch_adafactor():
    """Means are vectors, and the graph of matrices stands for that of vectors too."""
    params = parameters([(6, 5), (1, 7), (1, 1), (4,), ()], torch.bfloat16)
    optimizer = torch.optim.Adafactor(params, lr=0.1)
    train(optimizer, range(2))
    for param, state in zip(params, optimizer.state_dict()["state"].values()):
        found = read(state, param, "adafactor")
        assert found.step == 2
        if param.dim() < 2:
            assert_bits(found.values["variance"], state["variance"].float())
            again = read(state, param, "adafactor_vector")
            assert_bits(again.values["variance"], found.values["variance"])
            continue
        assert_bits(found.values["row_var"], state["row_var"][:, 0].float())
        assert_bits(found.values["col_var"], state["col_var"][0].float())
        flat = state | found.values  # as tandem.torch.Adafactor stores them
        assert_bits(read(flat, param, "adafactor").values["row_var"], found.values["row_var"])


def test_lion():
    """The Lions of others keep exp_avg, and most count no steps."""
    weight, average = torch.zeros(2, 3), torch.randn(2, 3)
    assert read({"exp_avg": average}, weight, "lion").step == 0
    found = read({"exp_avg": average, "step": 4}, weight, "lion")
    assert found.step == 4
    assert_bits(found.values["exp_avg"], average)


@pytest.mark.parametrize("step", [
    7, 7.0, torch.tensor(7.0), torch.tensor(7), torch.tensor([7.0]), torch.tensor(7.0).double(),
    torch.tensor(7.0, requires_grad=True)], ids=str)
def test_steps(step):
    weight = torch.zeros(3)
    state = {"step": step, "exp_avg": torch.ones(3), "exp_avg_sq": torch.ones(3)}
    assert read_foreign(state, weight, "adamw", "parameter 0").step == 7


def test_momentum_that_has_not_begun():
    weight = torch.full((2, 3), 5, dtype=torch.bfloat16)
    found = read({"momentum_buffer": None}, weight, "sgd_momentum")
    assert_bits(found.values["momentum_buffer"], torch.zeros(2, 3))
    assert read({"momentum_buffer": None}, weight, "sgd").values == {}


def test_layout():
    """Values belong to indices, whatever the strides."""
    weight = torch.nn.Parameter(torch.randn(5, 4).t())
    optimizer = torch.optim.Adam([weight])
    train(optimizer, [0])
    state = optimizer.state_dict()["state"][0]
    assert not state["exp_avg"].is_contiguous()
    assert_bits(read(state, weight).values["exp_avg"], state["exp_avg"])


#===----------------------------------------------------------------------===#
# bitsandbytes
#===----------------------------------------------------------------------===#

CODES = ((torch.arange(300) * 37) % 256).to(torch.uint8).view(2, 150)
ABSMAX = torch.tensor([0.3, 7.25e-9])
PLACES = [0, 1, 2, 3, 100, 255, 256, 257, 258, 299]
DECODED = {
    True: (0xbe98851f, 0xbe113334, 0xbcad2f1a, 0xb9c985f0, 0xb91b5202, 0x3e19d70a, 0xb1f75b48,
           0xb16b7c2a, 0xb00c6f48, 0xb0dabf81),
    False: (0x0, 0x3a5e69ad, 0x3c00a3d8, 0x3cc03128, 0x3cd178d5, 0x3e668520, 0x0, 0x2db45ab1,
            0x2f50a0c8, 0x2e7b9964),
}


def moment(number, signed):
    return {f"state{number}": CODES, f"qmap{number}": dynamic_map(signed),
            f"absmax{number}": ABSMAX}


def test_bitsandbytes_8bit():
    state = {"step": 5} | moment(1, True) | moment(2, False)
    weight = torch.zeros(2, 150, dtype=torch.bfloat16)
    for graph in ("adamw", "lamb", "adamw_clip", "adamw_eps_inside_root"):
        found = read(state, weight, graph)
        assert found.origin == "bitsandbytes" and found.step == 5 and found.weight is None
        for (role, value), expected in zip(found.values.items(), DECODED.values()):
            assert value.shape == weight.shape and role in ("exp_avg", "exp_avg_sq")
            assert_bits(value.view(-1)[PLACES], expected)
    wrapped = {"step": 5, "__bnb_optimizer_quant_state__": moment(1, True) | moment(2, False)}
    assert_bits(read(wrapped, weight).values["exp_avg"], found.values["exp_avg"])


def test_bitsandbytes_ademamix():
    """Its first tensor has both averages, each with scales of its own."""
    weight = torch.zeros(2, 150, dtype=torch.bfloat16)
    both = {"state1": torch.stack([CODES, CODES.flip(1)]), "qmap1": dynamic_map(True),
            "absmax1": torch.stack([ABSMAX, 2 * ABSMAX])}
    found = read({"step": 5} | both | moment(2, False), weight, "ademamix")
    assert list(found.values) == ["exp_avg", "exp_avg_slow", "exp_avg_sq"]
    assert_bits(found.values["exp_avg"].view(-1)[PLACES], DECODED[True])
    assert_bits(found.values["exp_avg_sq"].view(-1)[PLACES], DECODED[False])
    slow = dynamic_map(True)[CODES.flip(1).int()].view(-1) * (
        2 * ABSMAX).repeat_interleave(256)[:300]
    assert_bits(found.values["exp_avg_slow"].view(-1), slow)
    wide = {"step": 5, "state1": torch.randn(2, 2, 150), "state2": torch.rand(2, 150)}
    assert_bits(read(wide, weight, "ademamix").values["exp_avg_slow"], wide["state1"][1])
    with pytest.raises(ValueError, match=r"AdEMAMix has two averages of the weight's shape \(2, 150\)"):
        read({"step": 5} | moment(1, True) | moment(2, False), weight, "ademamix")


@pytest.mark.parametrize("graph", [g for g, roles in _ROLES.items() if len(roles) == 1
                                   and g not in ("adafactor_vector", "asgd", "muon")])
def test_bitsandbytes_of_one_state(graph):
    """8-bit second moments have the signed code where they are the only state."""
    found = read({"step": 2} | moment(1, True), torch.zeros(2, 150), graph)
    (value,) = found.values.values()
    assert tuple(found.values) == _ROLES[graph]
    assert_bits(value.view(-1)[PLACES], DECODED[True])


def test_bitsandbytes_32bit():
    state = {"step": torch.tensor(5), "state1": torch.randn(7), "state2": torch.rand(7)}
    found = read(state, torch.zeros(7))
    assert_bits(found.values["exp_avg"], state["state1"])
    assert_bits(found.values["exp_avg_sq"], state["state2"])


#===----------------------------------------------------------------------===#
# torchao
#===----------------------------------------------------------------------===#


class _Codes(torch.Tensor):
    """A tensor like torchao's, of which only the decoded values can be read."""

    @staticmethod
    def __new__(cls, values, dtype=torch.bfloat16):
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=dtype)

    def __init__(self, values, dtype=torch.bfloat16):
        self.values = values

    def dequantize(self):
        return self.values

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.view.default:  # DTensor.from_local() needs it
            return cls(args[0].values.view(args[1]))
        raise AssertionError(f"{func} was called")


class OptimState8bit(_Codes):
    """The name by which states of torchao are known."""


def test_torchao():
    """Tensors decode themselves. Their type is only apparent, so it rounds nothing."""
    weight = torch.zeros(2, 3, dtype=torch.bfloat16)
    values = [torch.randn(2, 3), torch.rand(2, 3)]
    state = {"step": torch.tensor(4.0), "exp_avg": OptimState8bit(values[0]),
             "exp_avg_sq": OptimState8bit(values[1])}
    found = read(state, weight, "adamw_decay_before")
    assert found[:2] == ("torchao", 4) and found.weight is None
    for value, expected in zip(found.values.values(), values):
        assert_bits(value, expected)
    with pytest.raises(ValueError, match=r"'exp_avg' of shape \(2, 3\), and the weight, of"):
        read(state, weight.t())


@contextlib.contextmanager
def one_rank_mesh():
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield dist.device_mesh.init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


@needs_dtensors
def test_dtensors():
    """States of DTensors are DTensors, also in codes."""
    with one_rank_mesh() as mesh:
        from torch.distributed.tensor import DTensor, Shard

        def spread(tensor):
            return DTensor.from_local(tensor, mesh, [Shard(0)], run_check=False)

        values = torch.randn(2, 150)
        weight = spread(values.bfloat16())
        state = {"step": 2, "exp_avg": spread(OptimState8bit(values)),
                 "exp_avg_sq": spread(values.bfloat16())}
        found = read(state, weight)
        assert found.origin == "torchao"
        assert {value.placements for value in found.values.values()} == {(Shard(0),)}
        assert_bits(found.values["exp_avg"].to_local(), values)
        assert_bits(found.values["exp_avg_sq"].to_local(), values.bfloat16().float())
        plain = compressed()
        parts = {name: spread(value) if name != "step" else value
                 for name, value in plain.items()}
        errors = torch.ones(4, 10, dtype=torch.int8)
        weight = torch.randn(4, 10).bfloat16()
        found = read(parts | {"error_bits": spread(errors)}, spread(weight))
        whole = read(plain | {"error_bits": errors}, weight)
        assert_bits(found.values["exp_avg"].to_local(), whole.values["exp_avg"])
        assert_bits(found.weight.to_local(), whole.weight)
        begun = read({"momentum_buffer": None}, spread(weight), "sgd_momentum")
        assert_bits(begun.values["momentum_buffer"].to_local(), torch.zeros(4, 10))


#===----------------------------------------------------------------------===#
# FlashOptim
#===----------------------------------------------------------------------===#

#: The bits of the values of compressed().
FIRST = """
    bc498000 bba5ad83 ba91499d 3ae85c41 3bcab13a bc2c157e bb87bf53 ba11f140 3b1fade3 3bf0c942
    bc12ab8a bb599eb9 b84be3ac 3b4f7c33 3c0dff25 bbf8fcbd bb28e04f 39ecdd86 3b8222aa 3c26b569
    bbd1f232 baf92095 3a8254f9 3b9f6db7 3c43407f bbaf50fe baa8356d 3acfc4d6 3bc020bd bc3472a1
    bb9063ef ba3c1110 425a0987 432aa782 c3658c73 c2ade4b6 c099db22 428fa757 4349a6bc c343213f"""
SECOND = """
    00000000 2f87e81e 3087e81e 2e6b7124 3011e986 30ce820b 2f6b7124 307d4d21 2e2a886a 30046fa5
    30c30f6f 2f49ae8a 306b7124 2de8234d 2fef39c7 30b7f064 2f2a886a 305a3c47 2d9019ac 2fd6e27f
    30ad24e8 2f0dfeca 3049ae8a 2d19e7eb 2fbfd978 30a2acfb 2ee8234d 3039c7eb 2c75913d 2faa1eb0
    3098889f 2eb981fe 3e6f092f 396f092f 3dd1d425 3ec80c3d 3cc9fc3d 3e5a93e7 3f169a18 3db707cf"""


def words(text):
    """Returns the numbers in a text with their hexadecimal digits."""
    return [int(word, 16) for word in text.split()]


def compressed():
    """Returns a state of FlashAdamW with compress_state_dict, whose last group is short."""
    numbers = torch.arange(40)
    first, second = (numbers * 53) % 255 - 127, (numbers * 101) % 256
    return {
        "step": torch.tensor(9.0),
        "exp_avg::quantized": first.to(torch.int8).view(4, 10),
        "exp_avg::scales": torch.tensor([0.0123, 300.5]).half(),
        "exp_avg_sq::quantized": second.to(torch.uint8).view(4, 10),
        "exp_avg_sq::scales": torch.tensor([2.0**-15 * 1.3, 0.77]).half(),
    }


def test_flashoptim():
    state, weight = compressed(), torch.zeros(4, 10)
    found = read(state, weight)
    assert found[:2] == ("FlashOptim", 9) and found.weight is None
    assert_bits(found.values["exp_avg"], words(FIRST))
    assert_bits(found.values["exp_avg_sq"], words(SECOND))
    for graph in ("lion", "sgd_momentum"):
        (role,) = _ROLES[graph]
        one = {f"{role}::{part}": state[f"exp_avg::{part}"] for part in ("quantized", "scales")}
        found = read(one, weight, graph)
        assert found[:2] == ("FlashOptim", 0)
        assert_bits(found.values[role], words(FIRST))
    scalar = {"exp_avg::quantized": torch.tensor(-127, dtype=torch.int8),
              "exp_avg::scales": torch.tensor([0.75]).half()}
    assert read(scalar, torch.tensor(1.0), "lion").values["exp_avg"].item() == -0.75


WEIGHTS = [0.0, -0.0, 1.0, -1.0078125, 3.140625, 1e-6, -65280.0, 6.1e-5]
#: The restored weights for the largest correction.
RESTORED = {
    (torch.bfloat16, 127): """0000050a 00000000 3f808000 bf818000 40492a55 3585ecda c77ec081
                              38800102""",
    (torch.bfloat16, 32767): """00000005 00000000 3f808000 bf818000 40492aaa 3585edb7 c77ec000
                                38800001""",
    (torch.float16, 127): """30a14285 00000000 3f801000 bf811000 4049054b 358766ce c77ef810
                             387fc041""",
    (torch.float16, 32767): """2ca00140 00000000 3f801000 bf811000 40490555 35876db7 c77ef800
                               387fc000""",
}


@pytest.mark.parametrize("most", [127, 32767])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_flashoptim_weights(dtype, most):
    """Error bits restore f32 weights, as the optimizer has them and as state dicts do."""
    weight = torch.tensor(WEIGHTS).to(dtype)
    errors = torch.tensor([5, 0, most, -most, most // 3, -most // 7, most // 2, 1])
    errors = errors.to(torch.int8 if most == 127 else torch.int16)
    saved = errors.to(dtype) if most == 127 else errors.view(dtype)
    group = {"master_bytewidth": 3 if most == 127 else 4}
    for bits_of in (errors, saved):
        found = read({"error_bits": bits_of}, weight, "sgd", group=group)
        assert found[:3] == ("FlashOptim", 0, {})
        assert_bits(found.weight, words(RESTORED[dtype, most]))
    # States that are not compressed have the values as bf16.
    state = {"step": torch.tensor(1.0), "exp_avg": weight.bfloat16(),
             "exp_avg_sq": weight.abs().bfloat16(), "error_bits": saved}
    found = read(state, weight, group=group)
    assert found.origin == "FlashOptim"
    assert_bits(found.values["exp_avg"], weight.bfloat16().float())


def test_error_bits_of_all_weights():
    """Errors are fractions of half the unit of the weight, also of subnormal numbers and zero."""
    for dtype, mantissa, least in ((torch.bfloat16, 7, -133), (torch.float16, 10, -24)):
        weight = torch.arange(-2**15, 2**15).to(torch.int16).view(dtype)
        weight = weight[weight.isfinite()]
        numbers = weight.double().numpy()
        exponent = np.where(numbers == 0, least, np.frexp(numbers)[1] - 1 - mantissa)
        unit = torch.from_numpy(np.ldexp(1.0, np.maximum(exponent, least)))
        for error, most in ((torch.int8, 127), (torch.int16, 32767)):
            for code in (-most, -1, 0, 2, most):
                errors = torch.full(weight.shape, code, dtype=error)
                found = read({"error_bits": errors}, weight, "sgd").weight
                fraction = float(np.float32(code) / np.float32(most))
                # The sum has at most 51 bits, so it is exact in f64.
                part = (unit * 0.5 * fraction).float().double()
                assert torch.equal(found, (weight.double() + part).float())


#===----------------------------------------------------------------------===#
# Messages
#===----------------------------------------------------------------------===#

ONES = torch.ones(4, 10)
ADAM = {"step": 1, "exp_avg": ONES, "exp_avg_sq": ONES}
NARROW = torch.ones(4, 10, dtype=torch.bfloat16)


def without(state, name):
    return {key: value for key, value in state.items() if key != name}


MESSAGES = {
    "graph": (ADAM, {"graph": "mine"}, "graph 'mine' is none of .* under strategy 'fp32', and"),
    "amsgrad": (ADAM | {"max_exp_avg_sq": ONES}, {}, "leave 'max_exp_avg_sq' out of the states"),
    "centered": ({"step": 1, "square_avg": ONES, "grad_avg": ONES}, {"graph": "rmsprop"},
                 "centered=True, which no graph .* leave 'grad_avg' out"),
    "another Adafactor": ({"step": 1, "exp_avg_sq_row": ONES, "exp_avg_sq_col": ONES, "RMS": 1.0},
                          {"graph": "adafactor"}, "a different Adafactor .* begin anew"),
    "master weights": (ADAM | {"master_param": ONES}, {}, "leave 'master_param' out"),
    "another graph": (ADAM, {"graph": "lion"}, "has 'exp_avg', 'exp_avg_sq', but graph 'lion' "
                      "keeps 'exp_avg'; pass the graph that keeps these, which 'adamw', "),
    "more": (ADAM | {"mu_product": 0.5}, {}, "'mu_product', but graph 'adamw' keeps .* leave"),
    "less": (without(ADAM, "exp_avg"), {}, "has 'exp_avg_sq', but graph 'adamw' keeps"),
    "nothing": ({}, {}, "has no tensors, but graph 'adamw' .* which 'sgd' do"),
    "none": (ADAM | {"exp_avg": None}, {}, "has 'exp_avg_sq', but graph"),
    "momentum": ({"momentum_buffer": ONES}, {"graph": "sgd"},
                 "graph 'sgd' keeps no tensors; pass the graph .* 'sgd_momentum', 'sgd_nesterov'"),
    "no step": (without(ADAM, "step"), {}, "has step=None; it must be the number of steps"),
    "step": (ADAM | {"step": torch.tensor(float("nan"))}, {}, "it must be the number of steps"),
    "steps": (ADAM | {"step": torch.ones(2)}, {}, "it must be the number of steps"),
    "shape": (ADAM | {"exp_avg": ONES.t()}, {}, r"'exp_avg' of shape \(10, 4\), and the weight, "
              r"of shape \(4, 10\), needs \(4, 10\); pass the weights in"),
    "mean": ({"step": 1, "row_var": ONES[:1], "col_var": ONES[:1]}, {"graph": "adafactor"},
             r"'row_var' of shape \(1, 10\), .* needs \(4,\)"),
    "no tensor": (ADAM | {"exp_avg": [1.0]}, {}, "'exp_avg' as list; pass it as state_dict"),
    "double": (ADAM | {"exp_avg": ONES.double()}, {}, "'exp_avg' as torch.float64 in .*; decode"),
    "codes": (ADAM | {"exp_avg": ONES.char()}, {}, "'exp_avg' as torch.int8 in"),
    "complex": (ADAM | {"exp_avg": ONES.cfloat()}, {}, "'exp_avg' as torch.complex64 in"),
    "sparse": (ADAM | {"exp_avg": ONES.to_sparse()}, {}, "in the layout torch.sparse_coo"),
    "bitsandbytes without": ({"step": 1, "state1": ONES, "state2": ONES},
                             {"graph": "adafactor"}, "of no optimizer that bitsandbytes has"),
    "bitsandbytes of one": ({"step": 1, "state1": ONES}, {"graph": "adamw_clip"},
                            "has one tensor, but graph 'adamw' keeps 2"),
    "bitsandbytes' clipping": (
        {"step": 1, "state1": ONES, "state2": ONES, "gnorm_vec": ONES}, {}, "'gnorm_vec' out"),
    "flash scales": (without(compressed(), "exp_avg::scales"), {},
                     "lacks the tensor 'exp_avg::scales'; pass it as FlashOptim"),
    "flash codes": (without(compressed(), "exp_avg::quantized"), {}, "'exp_avg::quantized'"),
    "flash signs": (compressed() | {"exp_avg::quantized": ONES.byte()}, {},
                    "'exp_avg::quantized' as torch.uint8, and FlashOptim's is torch.int8; pass"),
    "flash types": (compressed() | {"exp_avg::scales": torch.ones(2)}, {},
                    "'exp_avg::scales' as torch.float32, and FlashOptim's is torch.float16"),
    "flash groups": (compressed() | {"exp_avg::scales": torch.ones(3).half()}, {},
                     "3 scales, but FlashOptim's 40 codes in C order have 2; save it with"),
    "flash order": (compressed() | {"exp_avg::quantized": torch.ones(10, 4).char().t()}, {},
                    r"'exp_avg' with the strides \(1, 4\)"),
    "flash shape": (compressed() | {"exp_avg::quantized": torch.ones(10, 4).char()}, {},
                    r"'exp_avg::quantized' of shape \(10, 4\)"),
    "errors of f32": (ADAM | {"error_bits": ONES.char()}, {"weight": ONES},
                      "'error_bits' of a 16-bit weight, but the weight is torch.float32; pass"),
    "errors": (ADAM | {"error_bits": 3}, {}, "lacks the tensor 'error_bits'"),
    "errors' shape": (ADAM | {"error_bits": torch.ones(40).char()}, {},
                      r"'error_bits' of shape \(40,\)"),
    "no group": (ADAM | {"error_bits": NARROW}, {}, "'error_bits' as torch.bfloat16, which "
                 "weights of master_bytewidth=None bytes do not have; pass the state dict with"),
    "another group": (ADAM | {"error_bits": NARROW / 2}, {"group": {"master_bytewidth": 3}},
                      "master_bytewidth=3 bytes do not have"),
    "wide errors": (ADAM | {"error_bits": ONES}, {"group": {"master_bytewidth": 4}},
                    "'error_bits' as torch.float32, which weights of master_bytewidth=4"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages(case):
    state, options, message = MESSAGES[case]
    with pytest.raises(ValueError, match=message):
        read(state, **{"weight": NARROW} | options)


def test_states_that_are_none():
    with pytest.raises(TypeError, match="the state of parameter 0 is a list; pass the states as"):
        read_foreign([ONES], ONES, "adamw", "parameter 0")


#===----------------------------------------------------------------------===#
# The libraries themselves
#===----------------------------------------------------------------------===#


@pytest.mark.parametrize("name, graph, number", [
    ("AdamW8bit", "adamw", 2), ("Lion8bit", "lion", 1), ("RMSprop8bit", "rmsprop", 1)])
def test_bitsandbytes_itself(name, graph, number):
    bnb = pytest.importorskip("bitsandbytes")
    params = parameters([(70, 67), (40,)], torch.float32)
    optimizer = getattr(bnb.optim, name)(params)
    try:
        train(optimizer, range(3))
    except Exception as error:
        pytest.skip(f"bitsandbytes {bnb.__version__} has no optimizers here: {error}")
    codes, wide = optimizer.state_dict()["state"].values()
    found, small = (read(state, param, graph) for state, param in zip((codes, wide), params))
    assert found.step == small.step == 3
    codes = codes.get("__bnb_optimizer_quant_state__", codes)
    wide = wide.get("__bnb_optimizer_quant_state__", wide)
    for index, role in enumerate(_ROLES[graph], 1):
        theirs = bnb.functional.dequantize_blockwise(
            codes[f"state{index}"], absmax=codes[f"absmax{index}"], code=codes[f"qmap{index}"],
            blocksize=256)
        assert_bits(found.values[role], theirs)
        assert_bits(small.values[role], wide[f"state{index}"])


def reloaded(state_dict):
    """Returns a state dict that has been in a file."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit", "AdamWFp8", "_AdamW"])
def test_torchao_itself(name, dtype, monkeypatch):
    optim = pytest.importorskip("torchao.optim")
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    options = {"bf16_stochastic_round": True} if dtype is torch.bfloat16 else {}
    params = parameters([(64, 80), (40,)], dtype)
    optimizer = getattr(optim, name)(params, **options)
    train(optimizer, range(3))
    for state_dict in (optimizer.state_dict(), reloaded(optimizer.state_dict())):
        codes, plain = state_dict["state"].values()
        found = read(codes, params[0], "adamw_decay_before")
        assert found[:2] == ("torch.optim" if name == "_AdamW" else "torchao", 3)
        for role, value in found.values.items():
            theirs = codes[role]
            # A step of torchao decodes its states in lerp, which leaves them as they are here.
            assert_bits(value, theirs.float().lerp(torch.zeros(64, 80), 0.0))
            assert value.abs().max() > 0
        small = read(plain, params[1], "adamw_decay_before")
        assert small.origin == "torch.optim"
        assert_bits(small.values["exp_avg_sq"], plain["exp_avg_sq"].float())
