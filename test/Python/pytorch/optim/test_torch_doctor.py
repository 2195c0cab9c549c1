#===- test_torch_doctor.py - What parameters lose --------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file tests tandem.torch.doctor: it changes no bit of a run, its shadows are the run, its
# numbers agree with float64 and with optimizer.metrics(), and its verdicts are right.
#
#===----------------------------------------------------------------------===#

import builtins
import json
import math

import pytest

torch = pytest.importorskip("torch")
import tandem.torch as tt  # noqa: E402
from support.torch_needs import needs_names  # noqa: E402
from tandem.torch.optim.diagnosis._findings import Ratio, ratio  # noqa: E402
from tandem.torch.optim.diagnosis._samples import BLOCKS, Layout, sample_of  # noqa: E402
from tandem.torch.optim.diagnosis._watch import Watch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*stores gradients in codes")

RECOMMENDED = ("remainder", "flash-f16", "dither-softsign-root")


class Model(torch.nn.Module):
    """A model with an embedding, matrices wider and narrower than a segment, and norms."""

    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(100, 96)
        self.norm = torch.nn.LayerNorm(96)
        self.up, self.down = torch.nn.Linear(96, 300), torch.nn.Linear(300, 96)
        self.lm_head = torch.nn.Linear(96, 100, bias=False)
        self.to(dtype)

    def forward(self, at):
        x = self.embed(at)
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return torch.nn.functional.cross_entropy(self.lm_head(x).float().flatten(0, 1),
                                                 at.roll(1, -1).flatten())


def batch(step):
    return torch.randint(100, (8, 16), generator=torch.Generator().manual_seed(step))


def make(name, model=None, **options):
    """Returns a model and an optimizer of torch.optim or of a strategy."""
    model = model or Model()
    options = {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.1} | options
    if name == "torch":
        return model, torch.optim.AdamW(model.parameters(), **options)
    return model, tt.AdamW(model.parameters(), strategy=name, **options)


def train(model, optimizer, steps, first=0, change=None):
    """Takes steps and returns a copy of the weights and of the random state."""
    for step in range(first, first + steps):
        optimizer.zero_grad()
        model(batch(step)).backward()
        if change:
            change(step)
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()], torch.get_rng_state()


def own(doctor):
    """Returns the rows under what the run has, by parameter."""
    return {row["parameter"]: row for row in doctor.rows if row["is_own"]}


def diagnosed(name, steps=60, first=0, **options):
    """Returns the doctor of a run, its model and its optimizer."""
    settings = {key: options.pop(key) for key in ("lr", "betas", "max_norm") if key in options}
    model, optimizer = make(name, **settings)
    train(model, optimizer, first)
    with tt.doctor(optimizer, model, **options) as doctor:
        train(model, optimizer, steps, first)
    return doctor, model, optimizer


#===------------------------------------------------------------------------===#
# The run
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("name", ("torch", "bf16", "adam8bit", "flash-f16", "collage-plus",
                                  "dither-softsign-root", "residual-softsign-root"))
@pytest.mark.parametrize("first", (0, 5))
def test_the_run_does_not_change(name, first):
    results = []
    for watch in (False, True):
        torch.manual_seed(3)
        model, optimizer = make(name)
        tt.compress_activations(model, recipe="te-delayed")
        train(model, optimizer, first)
        if watch:
            with tt.doctor(optimizer, model, every=2):
                weights, rng = train(model, optimizer, 6, first)
        else:
            weights, rng = train(model, optimizer, 6, first)
        after, _ = train(model, optimizer, 3, first + 6)
        results.append([*weights, *after, rng, *(
            value for p in model.parameters() for key, value in sorted(
                optimizer.state[p].items()) if isinstance(value, torch.Tensor))])
    for one, other in zip(*results, strict=True):
        # Bytes, since NaN and codes do not compare.
        assert torch.equal(one.contiguous().view(-1).view(torch.uint8),
                           other.contiguous().view(-1).view(torch.uint8))


def test_no_hook_stays():
    model, optimizer = make("dither-softsign-root")
    before = dict(vars(model.up)["_forward_pre_hooks"])
    with pytest.raises(ZeroDivisionError):
        with tt.doctor(optimizer, model):
            train(model, optimizer, 2)
            raise ZeroDivisionError
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
    assert dict(vars(model.up)["_forward_pre_hooks"]) == before
    from tandem.torch.nn import _layer
    assert _layer.OBSERVERS == []
    assert not model.up.weight._backward_hooks


#===------------------------------------------------------------------------===#
# Shadows
#===------------------------------------------------------------------------===#


def watched(optimizer, model, steps, first=0, change=None, **options):
    """Returns the doctor and the weights of its own shadow when the last step has been taken."""
    kept = {}
    finish = Watch.finish

    def keep(watch):
        kept["own"] = watch.own.weights().clone()
        kept["run"] = torch.cat([sample.take(watch.origin.weight(param)) for param, sample in
                                 zip(watch.params, watch.layout.samples)])
        return finish(watch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watch, "finish", keep)
        with tt.doctor(optimizer, model, strategies=(), **options) as doctor:
            train(model, optimizer, steps, first, change)
    return doctor, kept["own"], kept["run"]


@pytest.mark.parametrize("sample", (512, None))
@pytest.mark.parametrize("first", (0, 7))
@pytest.mark.parametrize("name", ("torch", "bf16", "fp32-optim", "remainder", "collage-plus",
                                  "bf16-kahan", "master-weights"))
def test_the_shadow_of_what_the_run_has_is_the_run(name, first, sample):
    """It has the same bits, wherever it starts, if the strategy rounds to nearest."""
    model, optimizer = make(name)
    train(model, optimizer, first)
    doctor, shadow, run = watched(optimizer, model, 10, first, sample=sample)
    assert torch.equal(shadow, run)
    assert doctor.agreement == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", ("adam8bit", "flash-f16", "dither-softsign-root", "coat"))
def test_the_shadow_of_a_dithered_strategy_moves_as_the_run(name):
    doctor, *_ = diagnosed(name, steps=30, first=5)
    assert doctor.agreement == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("name", ("torch", "bf16"))
def test_shadows_follow_the_settings_of_groups(name):
    """Two groups have settings of their own, which change, and a parameter sometimes has no
    gradient."""
    model = Model()
    model.up.bias.requires_grad_(False)
    groups = [{"params": [model.embed.weight, model.up.weight], "lr": 2e-3},
              {"params": [model.up.bias, model.norm.weight, model.down.weight],
               "weight_decay": 0.0, "betas": (0.8, 0.95)},
              {"params": [model.lm_head.weight.data.clone().requires_grad_()]}]
    optimizer = (torch.optim.AdamW if name == "torch" else
                 lambda groups: tt.AdamW(groups, strategy=name))(groups)

    def change(step):
        optimizer.param_groups[0]["lr"] = 2e-3 / (step + 1)
        optimizer.param_groups[1]["weight_decay"] = 0.1 * step
        if step % 3 == 1:
            model.down.weight.grad = None

    doctor, shadow, run = watched(optimizer, model, 9, change=change)
    assert torch.equal(shadow, run)
    assert own(doctor)["down.weight"]["moments"]["exp_avg_sq"]["at_rest"]
    assert own(doctor)["4: 100x96"]["verdict"] == "no gradient"
    assert own(doctor)["4: 100x96"]["kept"] is None
    assert len(own(doctor)) == 5


@pytest.mark.parametrize("name", ("torch", "bf16", "fp32"))
def test_float32_and_bfloat16_parameters_together(name):
    model = Model()
    model.norm.float()
    model.norm.forward = lambda x: torch.nn.functional.layer_norm(
        x.float(), (96,), model.norm.weight, model.norm.bias).to(x.dtype)
    if name == "fp32":
        model.float()
    model, optimizer = make(name, model)
    doctor, shadow, run = watched(optimizer, model, 8)
    assert torch.equal(shadow, run)
    assert own(doctor)["norm.weight"]["bytes_per_parameter"] == (12 if name == "bf16" else 16)
    assert own(doctor)["norm.weight"]["lost"] < 0.01


@pytest.mark.parametrize(("name", "kind"), (
    *(("bf16", kind) for kind in ("clip", "max_norm", "scaler", "closure", "accumulate")),
    *(("torch", kind) for kind in ("clip", "scaler", "fused scaler", "closure", "accumulate"))))
def test_shadows_get_the_gradients_of_the_step(name, kind):
    options = {"max_norm": {"max_norm": 0.05}, "fused scaler": {"fused": True}}.get(kind, {})
    model, optimizer = make(name, lr=1e-2, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0) if "scaler" in kind else None
    with tt.doctor(optimizer, model, strategies=()) as doctor:
        for step in range(12):
            optimizer.zero_grad()
            if kind == "closure":
                def closure(step=step):
                    optimizer.zero_grad()
                    loss = model(batch(step))
                    loss.backward()
                    return loss
                optimizer.step(closure)
                continue
            loss = model(batch(step))
            (scaler.scale(loss) if scaler else loss).backward()
            if kind == "accumulate":
                model(batch(step + 100)).backward()
            if kind == "clip":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
    # max_norm's factor is rounded elsewhere, and its gradients are rounded after it.
    assert doctor.agreement == pytest.approx(1, abs=0.02 if kind == "max_norm" else 1e-6)
    assert doctor.steps == 12


def test_gradients_are_those_before_codes():
    """Under gradients in codes the reference has the gradients of the backward pass."""
    model, optimizer = make("dither-softsign-root")
    found = []
    read = Watch.read

    def keep(watch, gradients, factor):
        read(watch, gradients, factor)
        found.append(watch.gradients.values.clone())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watch, "read", keep)
        with tt.doctor(optimizer, model, sample=None, strategies=()):
            for step in range(3):
                optimizer.zero_grad()
                wide = torch.autograd.grad(model(batch(step)), list(model.parameters()))
                other = torch.autograd.grad(model(batch(step + 9)), list(model.parameters()))
                model(batch(step + 50)).backward()
                optimizer.zero_grad()  # a batch that is left out
                model(batch(step)).backward()
                model(batch(step + 9)).backward()
                optimizer.step()
                want = torch.cat([(a.float() + b.float()).flatten()
                                  for a, b in zip(wide, other)])
                assert torch.equal(found[-1], want)


def test_a_step_that_is_skipped_is_not_watched():
    model, optimizer = make("bf16")
    optimizer = tt.AdamW(model.parameters(), lr=1e-3, strategy="bf16", skip_nonfinite=True)

    def change(step):
        if step == 2:
            model.up.weight.grad[0, 0] = math.nan

    doctor, shadow, run = watched(optimizer, model, 5, change=change)
    assert torch.equal(shadow, run)
    assert doctor.steps == 4


#===------------------------------------------------------------------------===#
# Numbers
#===------------------------------------------------------------------------===#


def float64_run(starts, gradients, lr, betas, eps=1e-8):
    """Returns the weights after AdamW in float64, without decay."""
    weights = [w.double().clone() for w in starts]
    first = [torch.zeros_like(w) for w in weights]
    second = [torch.zeros_like(w) for w in weights]
    for step, grads in enumerate(gradients, 1):
        for w, m, v, g in zip(weights, first, second, grads):
            m.lerp_(g.double(), 1 - betas[0])
            v.lerp_(g.double().square(), 1 - betas[1])
            w -= lr * (m / (1 - betas[0]**step)) / (
                (v / (1 - betas[1]**step)).sqrt() + eps)
    return weights, second


@pytest.mark.parametrize("name", ("torch", "bf16", "remainder"))
def test_numbers_are_those_of_float64(name):
    """``error``, ``kept`` and the ratio of moments, from the run itself and float64."""
    model, optimizer = make(name, weight_decay=0.0)
    starts, gradients = [p.detach().clone() for p in model.parameters()], []

    def change(step):
        gradients.append([p.grad.clone() for p in model.parameters()])

    with tt.doctor(optimizer, model, sample=None, strategies=()) as doctor:
        train(model, optimizer, 20, change=change)
    exact, second = float64_run(starts, gradients, 1e-3, (0.9, 0.999))
    whole = ([w for _, w in tt.weights(optimizer)] if name != "torch"
             else [p.detach() for p in model.parameters()])
    for row, start, got, want, v, p in zip(own(doctor).values(), starts, whole, exact, second,
                                           model.parameters()):
        change, wanted = got.double() - start.double(), want - start.double()
        assert row["error"] == pytest.approx(
            float((change - wanted).norm() / wanted.norm()), abs=1e-4)
        assert row["kept"] == pytest.approx(
            float((change * wanted).sum() / wanted.square().sum()), abs=1e-4)
        stored = optimizer.state[p]["exp_avg_sq"].double().sqrt()
        assert row["moments"]["exp_avg_sq"]["ratio"]["value"] == pytest.approx(
            float(stored.sum() / v.sqrt().sum()), abs=1e-3)


@pytest.mark.parametrize("name", ("bf16", "remainder", "flash-f16"))
def test_lost_updates_are_those_of_the_kernels_metrics(name):
    """The kernel compares with the change that it intends itself, from the states that it has,
    and the doctor with float32's; at first these are nearly the same."""
    model = Model()
    optimizer = tt.AdamW(model.parameters(), lr=1e-3, strategy=name, weight_decay=0.1,
                         metrics=True)
    metrics = []
    with tt.doctor(optimizer, model, sample=None, every=1, strategies=()) as doctor:
        for step in range(10):
            train(model, optimizer, 1, step)
            metrics.append(optimizer.metrics())
    shadow = doctor.shadows[0]
    found = doctor.finding(shadow)
    assert found.lost == pytest.approx(
        sum(one["lost_share"] for one in metrics) / 10, abs=0.02)
    squares = [one["update_norm"]**2 for one in metrics]
    assert found.edq == pytest.approx(
        sum(one["edq_ratio"] * square for one, square in zip(metrics, squares)) / sum(squares),
        abs=0.02)


def test_zeros_of_codes_are_counted():
    """One element in 64 is so large that the codes of the others are zeros."""
    weight = torch.nn.Parameter(torch.randn(64, 256).bfloat16())
    optimizer = tt.AdamW([weight], lr=1e-3, strategy="flash-f16")
    with tt.doctor(optimizer, strategies=(), sample=None) as doctor:
        for _ in range(10):
            weight.grad = torch.full_like(weight, 1e-6)
            weight.grad[:, ::32] = 1.0
            optimizer.step()
    found = own(doctor)["0: 64x256"]["moments"]["exp_avg"]
    assert found["zeros"] > 0.9
    assert found["saturated"] == 0


def test_gradients_below_a_range_are_counted():
    weight = torch.nn.Parameter(torch.ones(16, 256).bfloat16())
    optimizer = torch.optim.AdamW([weight])
    grad = torch.full((16, 256), 1.0)
    grad[:, 0:64] = 2.0**-26      # zero in f16 and E5M2, and in E4M3 beside 1
    grad[:, 64:96] = 2.0**-20     # zero in E5M2 and E4M3
    grad[:, 96:112] = 2.0**-18    # zero in E5M2, smallest in E4M3
    grad[:, 128:160] = 0.0        # no gradient
    with tt.doctor(optimizer, strategies=(), every=1) as doctor:
        weight.grad = grad.bfloat16()
        optimizer.step()
    below, count = doctor.rows[0]["gradients_below"], 224
    assert below["f16"] == pytest.approx(64 / count)
    assert below["e5m2"] == pytest.approx(112 / count)
    assert below["e4m3"] == pytest.approx(96 / count)
    for key, dtype in (("f16", torch.float16), ("e5m2", torch.float8_e5m2)):
        cast = grad.to(dtype).float()
        assert below[key] == pytest.approx(float(((cast == 0) & (grad != 0)).sum()) / 16 / count)


def test_a_margin_is_two_standard_errors():
    """The margins of many samples of noise cover 95 % of the errors."""
    generator, inside = torch.Generator().manual_seed(0), 0
    for _ in range(400):
        below = torch.rand(BLOCKS, generator=generator, dtype=torch.float64) + 0.5
        above = below + 0.3 * torch.randn(BLOCKS, generator=generator, dtype=torch.float64)
        found = ratio(above, below)
        inside += abs(found.value - 1) <= found.margin
    assert 0.9 < inside / 400 < 0.98
    assert ratio(torch.ones(4), torch.zeros(4)) is None
    assert ratio(torch.ones(2), torch.ones(2)).margin == math.inf


@pytest.mark.parametrize(("value", "margin", "verdict"), (
    (1.0, 0.05, "enough"), (0.96, 0.05, "enough"), (0.95, 0.06, "unclear"), (0.5, 0.3, "too little"),
    (0.85, 0.06, "unclear"), (1.5, 0.1, "too little"), (math.nan, 0.0, "too little")))
def test_verdicts_need_a_margin(value, margin, verdict):
    assert Ratio(value, margin).judge(0.1) == verdict


#===------------------------------------------------------------------------===#
# Samples
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("shape", ((5000,), (300, 96), (96, 300), (40, 1000), (30, 10, 40),
                                   (100, 7), (3,), ()))
@pytest.mark.parametrize("transposed", (False, True))
def test_samples_are_segments_of_rows(shape, transposed):
    whole = torch.arange(math.prod(shape), dtype=torch.float64).view(shape)
    whole = whole.t() if transposed and len(shape) == 2 else whole
    sample = sample_of(whole, 1024, torch.Generator().manual_seed(1))
    taken = sample.take(whole)
    assert taken.numel() == sample.shape.numel() == len(taken.unique())
    if whole.numel() <= 1024:
        assert taken.sort()[0].tolist() == list(range(whole.numel()))
        return
    assert 768 <= taken.numel() <= 1024
    rows = taken.view(sample.shape)
    assert (rows.diff(dim=1) == 1).all()  # neighbours in memory
    length = math.prod(shape[1:]) if len(shape) > 1 else shape[0]
    assert (rows[:, 0] // length == rows[:, -1] // length).all()  # of one row
    assert (rows[:, 0] % length % min(256, length) == 0).all()  # where groups begin
    assert taken.min() < whole.numel() / 3 and taken.max() > whole.numel() / 2


def test_blocks_divide_samples():
    params = [torch.zeros(40, 1000), torch.zeros(3), torch.zeros(64)]
    generator = torch.Generator().manual_seed(1)
    layout = Layout([sample_of(p, 1024, generator) for p in params], torch.device("cpu"))
    assert layout.block_spans == [(0, BLOCKS), (BLOCKS, BLOCKS + 1), (BLOCKS + 1, 2 * BLOCKS + 1)]
    sums = layout.sums(torch.ones(layout.size))
    assert sums.tolist() == [64.0] * BLOCKS + [3.0] + [4.0] * BLOCKS


#===------------------------------------------------------------------------===#
# Verdicts and advice
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("name", ("torch", "bf16", "fp32-optim"))
def test_weights_that_are_rounded_to_nearest_need_more(name):
    doctor, model, _ = diagnosed(name, steps=60, lr=3e-5)
    for parameter, row in own(doctor).items():
        if parameter != "norm.bias":  # it is near zero, where steps of bf16 are short
            assert row["verdict"] == "too little", parameter
            assert any(reason.startswith("kept 0.") for reason in row["reasons"])
    others = {row["strategy"]: row["verdict"] for row in doctor.rows
              if not row["is_own"] and row["parameter"] == "up.weight"}
    assert others == dict.fromkeys(("remainder", "flash-f16", "flash", "adam8bit"), "enough")
    assert {choice.need for choice in doctor.advice.choices} == {"more"}
    assert doctor.advice.strategies["norms and biases"] == "remainder"
    assert "AdamW(groups, lr=3e-05, betas=(0.9, 0.999)" in doctor.code
    assert ('decay="before"' in doctor.code) == (name == "torch")
    model = Model()
    names = {"tandem": __import__("tandem"), "model": model}
    exec(doctor.code, names)
    train(model, names["optimizer"], 1)


@pytest.mark.parametrize("name", RECOMMENDED)
def test_recommended_strategies_are_enough(name):
    doctor, *_ = diagnosed(name, steps=60, lr=3e-4)
    assert {row["verdict"] for row in own(doctor).values()} == {"enough"}
    assert {choice.need for choice in doctor.advice.choices} <= {"the same", "less"}
    assert "too little" not in repr(doctor).splitlines()[3]


@pytest.mark.parametrize(("name", "beta2", "moves"), (
    ("bf16", 0.999, False), ("torch", 0.999, False), ("bf16", 0.95, True), ("flash", 0.999, True),
    ("bf16-stochastic", 0.9999, False), ("collage-plus", 0.9999, True)))
def test_moments_that_do_not_decay_need_more(name, beta2, moves):
    doctor, *_ = diagnosed(name, steps=20, betas=(0.9, beta2), strategies=())
    for row in own(doctor).values():
        rest = row["moments"]["exp_avg_sq"]["at_rest"]["value"]
        assert abs(rest - 1) < 0.1 if moves else abs(rest) < 0.5
        assert ("exp_avg_sq at rest" in "; ".join(row["reasons"])) == (not moves)


def test_less_is_advised_where_it_is_enough():
    doctor, *_ = diagnosed("fp32-optim", steps=40, lr=3e-4, strategies=("flash", "bf16"))
    assert doctor.advice.strategies["matrices"] == "flash"  # not bf16, which has fewer bytes
    model, optimizer = make("fp32", Model(torch.float32))
    with tt.doctor(optimizer, model, strategies="adam8bit") as doctor:
        train(model, optimizer, 40)
    by_role = {choice.role: choice for choice in doctor.advice.choices}
    assert by_role["matrices"].need == "less" and by_role["matrices"].strategy == "adam8bit"
    assert by_role["matrices"].bytes_then < 0.7 * by_role["matrices"].bytes_now
    assert by_role["norms and biases"].need == "the same"


def test_a_block_that_ends_early_has_a_report():
    model, optimizer = make("bf16")
    with pytest.raises(KeyboardInterrupt):
        with tt.doctor(optimizer, model, strategies=()) as doctor:
            train(model, optimizer, 3)
            raise KeyboardInterrupt
    assert doctor.steps == 3 and own(doctor)["up.weight"]["verdict"] == "too little"


def test_roles_that_keep_what_they_have_get_a_strategy_of_their_own():
    model, optimizer = make("torch", Model(torch.float32))
    with tt.doctor(optimizer, model, strategies="adam8bit") as doctor:
        train(model, optimizer, 40)
    assert doctor.advice.strategies == {"matrices": "adam8bit", "embeddings": "adam8bit",
                                        "head": "adam8bit", "norms and biases": "fp32"}
    names = {"tandem": __import__("tandem"), "model": model}
    exec(doctor.code, names)
    train(model, names["optimizer"], 1)


def test_the_code_stores_ratios_where_moments_have_four_bits():
    model = Model()
    groups = tt.param_groups(model, dict.fromkeys(("matrices", "embeddings", "head"), "dither-ratio4")
                             | {"norms and biases": "bf16"})
    optimizer = tt.AdamW(groups, lr=3e-5, stores_ratio=True, min_8bit_size=0)
    with tt.doctor(optimizer, model, strategies="remainder") as doctor:
        train(model, optimizer, 60)
    assert "dither-ratio4" in doctor.advice.strategies.values()
    assert "stores_ratio=True" in doctor.code


def test_the_code_has_the_rate_before_the_schedule():
    model, optimizer = make("torch", lr=2e-3)

    def change(step):
        optimizer.param_groups[0]["lr"] = 2e-3 / (step + 1)

    with tt.doctor(optimizer, model, strategies="flash") as doctor:
        train(model, optimizer, 20, change=change)
    assert "lr=0.002," in doctor.code
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.1)
    optimizer.step()
    schedule.step()
    with tt.doctor(optimizer, model, strategies="flash") as doctor:
        train(model, optimizer, 20)
    assert "lr=0.0001," in doctor.code  # initial_lr, which the schedule multiplies


def test_none_of_the_strategies_may_be_enough():
    doctor, *_ = diagnosed("torch", steps=20, strategies=("bf16",))
    assert {choice.strategy for choice in doctor.advice.choices} == {None}
    assert "None of the compared strategies is enough for matrices" in repr(doctor)
    assert doctor.code == "# nothing to change"


def test_weights_that_something_else_writes_are_noted():
    model, optimizer = make("bf16")
    with tt.doctor(optimizer, model, strategies=()) as doctor:
        train(model, optimizer, 10)
        with torch.no_grad():
            model.up.weight.mul_(1.5)
            model.embed.weight.zero_()
    assert not 0.8 < doctor.agreement < 1.25
    assert "something other than the optimizer writes them" in repr(doctor)
    doctor, *_ = diagnosed("bf16", steps=10, strategies=())
    assert "something other" not in repr(doctor)


def test_another_graph():
    for make_one in (lambda p: tt.Lion(p, lr=1e-4, strategy="bf16"),
                     lambda p: tt.SGD(p, lr=1e-2, momentum=0.9, strategy="bf16"),
                     lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
                     lambda p: torch.optim.SGD(p, lr=1e-2),
                     lambda p: torch.optim.Adam(p, lr=1e-4),
                     lambda p: torch.optim.RMSprop(p, lr=1e-4),
                     lambda p: torch.optim.Adagrad(p, lr=1e-3)):
        model = Model()
        optimizer = make_one(model.parameters())
        doctor, shadow, run = watched(optimizer, model, 8)
        assert torch.equal(shadow, run), type(optimizer)
        assert 0 < own(doctor)["up.weight"]["kept"] < 1.2 and repr(doctor)


#===------------------------------------------------------------------------===#
# Activations
#===------------------------------------------------------------------------===#


def test_errors_of_activations_by_layer():
    model = Model()
    tt.compress_activations(model.norm, recipe="coat")
    model.up = torch.nn.Linear(96, 300, dtype=torch.bfloat16)
    norm = tt.nn.LayerNorm(96, dtype=torch.bfloat16, recipe="coat")
    norm.load_state_dict(model.norm.state_dict())
    model.norm = norm
    _, optimizer = make("remainder", model)
    with tt.doctor(optimizer, model, recipes=("coat", "mxfp8", "te-delayed"), every=1) as doctor:
        train(model, optimizer, 2)
    found = {(edge["layer"], edge["tensor"], edge["recipe"]): edge for edge in doctor.edges}
    assert found["norm", "x", "coat"]["is_own"]
    assert {key[0] for key in found} == {"norm", "up", "down", "lm_head"}
    assert not found["up", "x", "coat"]["is_own"]
    assert ("up", "x", "te-delayed") not in found  # its scales are those of earlier steps
    assert "activations saved by" in repr(doctor) and "PyTorch's" in repr(doctor)
    assert found.pop(("norm", "x", "te-delayed"))["error"] == 0  # which keeps it in bf16
    for edge in found.values():
        assert 0.005 < edge["error"] < 0.06, edge


def test_errors_of_activations_are_those_of_the_codes():
    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Sequential(torch.nn.Linear(96, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.doctor(optimizer, model, recipes="te-current", every=1) as doctor:
        model(x).sum().backward()
        optimizer.step()
    scale = 448 / x.abs().max()
    coded = (x * scale).to(torch.float8_e4m3fn).float() / scale
    (edge,) = doctor.edges
    assert edge["error"] == pytest.approx(float((coded - x).norm() / x.norm()), rel=1e-3)


def test_layers_as_functions_have_numbers():
    weight = torch.nn.Parameter(torch.randn(8, 96))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with tt.doctor(optimizer, recipes=(), every=1) as doctor:
        x = torch.randn(4, 96, requires_grad=True)
        tt.nn.functional.linear(tt.nn.functional.silu(x), weight, recipe="coat").sum().backward()
        optimizer.step()
    assert [(edge["layer"], edge["tensor"]) for edge in doctor.edges] == [
        ("silu 0", "x"), ("keep 1", "x")]


#===------------------------------------------------------------------------===#
# The report
#===------------------------------------------------------------------------===#


def test_rows_are_data():
    doctor, model, _ = diagnosed("bf16", steps=10)
    rows = json.loads(json.dumps(doctor.rows))
    assert len(rows) == 5 * len(list(model.parameters()))
    assert {row["role"] for row in rows} == {"matrices", "embeddings", "head", "norms and biases"}
    assert rows[0]["parameter"] == "embed.weight" and rows[0]["is_own"]
    assert rows[0]["sampled"] == 2 * 96 * 21 and rows[0]["elements"] == 9600
    assert json.dumps(doctor.edges)


@needs_names
def test_names_of_the_optimizer():
    model = Model()
    optimizer = tt.AdamW(model.named_parameters(), strategy="bf16")
    with tt.doctor(optimizer, strategies=()) as doctor:
        train(model, optimizer, 2)
    assert doctor.names == [name for name, _ in model.named_parameters()]
    assert doctor.roles[0] == "embeddings" and doctor.roles[-1] == "head"


def test_many_parameters_are_cut_to_the_worst():
    params = [torch.nn.Parameter(torch.ones(8).bfloat16()) for _ in range(60)]
    optimizer = tt.AdamW(params, lr=1e-4, strategy="bf16", betas=(0.9, 0.9))
    with tt.doctor(optimizer, strategies=()) as doctor:
        for _ in range(3):
            for at, p in enumerate(params):
                p.grad = torch.ones_like(p) if at >= 30 else None
            optimizer.step()
    text = repr(doctor)
    assert "... and 20 more" in text
    assert all(f"\n{at}: 8" in text for at in range(30, 60))
    assert "\n5: 8" in text and "\n25: 8" not in text


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    doctor, *_ = diagnosed("torch", steps=5)
    for name in ("doctor.png", "doctor.svg"):
        doctor.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    text = (tmp_path / "doctor.svg").read_text()
    assert "lm_head.weight" in text and "adam8bit" in text and "stuck" in text


def test_a_picture_needs_matplotlib(tmp_path, monkeypatch):
    doctor, *_ = diagnosed("torch", steps=2, strategies=())
    real = builtins.__import__

    def missing(name, *arguments, **options):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match="pip install matplotlib, or print the doctor"):
        doctor.plot(tmp_path / "doctor.png")
    assert not list(tmp_path.iterdir())


#===------------------------------------------------------------------------===#
# Mistakes
#===------------------------------------------------------------------------===#


@pytest.mark.parametrize("read", (repr, lambda d: d.rows, lambda d: d.code, lambda d: d.advice,
                                  lambda d: d.plot("never.png"), lambda d: d.agreement))
def test_no_step_was_watched(read):
    model, optimizer = make("bf16")
    with tt.doctor(optimizer, model) as doctor:
        pass
    if read is repr:
        assert repr(doctor) == "<tandem.torch.doctor, not watching, 0 steps>"
        return
    with pytest.raises(RuntimeError, match=r"no step has been watched; call backward\(\) and "
                                           r"optimizer.step\(\), some hundred times, inside"):
        read(doctor)


def test_the_report_is_for_after_the_block():
    model, optimizer = make("bf16")
    with tt.doctor(optimizer, model, strategies=()) as doctor:
        train(model, optimizer, 1)
        assert repr(doctor) == "<tandem.torch.doctor, watching, 1 steps>"
        with pytest.raises(RuntimeError, match="still watches; read its report after the with"):
            doctor.rows
    assert doctor.rows
    with pytest.raises(RuntimeError, match="has been used; call tandem.torch.doctor again"):
        doctor.__enter__()


def test_steps_without_gradients_are_not_watched():
    model, optimizer = make("torch")
    with tt.doctor(optimizer, model) as doctor:
        optimizer.step()
    with pytest.raises(RuntimeError, match="no step has been watched"):
        doctor.rows


@pytest.mark.parametrize(("options", "error", "text"), (
    ({"strategies": ("no-such",)}, ValueError, "no-such"),
    ({"strategies": (3,)}, TypeError, "strategies are names such as 'coat', got 3"),
    ({"recipes": ("no-such",)}, ValueError, "unknown recipe 'no-such'; there are "),
    ({"sample": 100}, ValueError, "sample must be a whole number of at least 256, got 100"),
    ({"every": 0}, ValueError, "every must be a whole number of at least 1, got 0"),
    ({"every": None}, ValueError, "every must be a whole number of at least 1, got None")))
def test_options_out_of_their_range(options, error, text):
    model, optimizer = make("bf16")
    with pytest.raises(error, match=text):
        tt.doctor(optimizer, model, **options)


class Other(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def step(self):
        pass


@pytest.mark.parametrize(("make_one", "error", "text"), (
    (Other, TypeError, r"watches optimizers of tandem.torch and torch.optim's AdamW, Adam, SGD, "
                       r"RMSprop, Adagrad, got .*\.Other; take one of those"),
    (lambda p: torch.optim.NAdam(p), TypeError, "got torch.optim.nadam.NAdam"),
    (lambda p: torch.optim.AdamW(p, amsgrad=True), ValueError,
     "param group 0 of AdamW has amsgrad=True, which no graph"),
    (lambda p: torch.optim.RMSprop(p, momentum=0.5), ValueError, "RMSprop has momentum=0.5"),
    (lambda p: tt.LAMB(p), ValueError, "lamb computes values from several elements of a tensor"),
    (lambda p: tt.Adafactor(p), ValueError, "adafactor computes values from several elements"),
    (lambda p: tt.AdamW(p, gradient_release=True), ValueError,
     "has gradient_release=True, whose steps are inside of backward passes")))
def test_optimizers_that_are_refused(make_one, error, text):
    with pytest.raises(error, match=text):
        tt.doctor(make_one([torch.nn.Parameter(torch.ones(8, 8))]))


def test_scales_of_whole_tensors_need_whole_samples():
    doctor, *_ = diagnosed("bf16", steps=2, strategies=("fp8-lm",), sample=None)
    assert doctor.shadows[1].name == "fp8-lm"
    with pytest.raises(ValueError, match="'fp8-lm' has scales for the tensor, which a sample does "
                                         "not determine; pass sample=None"):
        diagnosed("bf16", steps=2, strategies=("fp8-lm",), sample=256)


def test_strategies_that_do_not_support_a_type():
    half = torch.nn.Linear(64, 64).half()
    optimizer = torch.optim.SGD(half.parameters(), lr=0.1)

    def step():
        half(torch.ones(2, 64).half()).sum().backward()
        optimizer.step()

    with tt.doctor(optimizer) as doctor:
        step()
    assert [shadow.name for shadow in doctor.shadows] == ["torch.optim.SGD"]
    with pytest.raises(TypeError, match="float16"):
        with tt.doctor(optimizer, strategies=("flash",)):
            step()
    frozen = torch.nn.Linear(4, 4).requires_grad_(False)
    optimizer = torch.optim.SGD(frozen.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="no parameters that need a gradient"):
        with tt.doctor(optimizer):
            optimizer.step()
