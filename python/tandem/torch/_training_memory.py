"""The bytes that training takes, before it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from tandem._companions import DEFAULT_STRATEGY
from tandem.torch.optim.advice._kinds import kind_of
from tandem.torch.optim.advice._memory import Bytes, Footprints, text_of
from tandem.torch.optim.advice._recommend import EXACT, on_first_rank, ranks_of, spread
from tandem.torch.optim.advice._roles import ROLES, SMALL_ROLES, Described, describe

#: The most tokens of a sequence if the caller does not pass their number.
USUAL_LENGTH = 2048


@dataclass(frozen=True, repr=False)
class Memory:
    """The bytes that training takes on one rank.

    Attributes:
        weights: weights as they are stored, with their parts in the optimizer's state.
        gradients: gradients between a backward pass and its step.
        states: the rest of the optimizer's state.
        activations: what autograd holds between a forward pass and its backward pass.
        working: what decoding a weight or encoding a gradient takes for the largest tensor.
        parameters: the number of parameters on all ranks.
        tokens: the number of tokens of a batch on this rank; None if the inputs are not tokens.
        ranks: the number of ranks that share the parameters.
        settings: the strategies, the recipe and the optimizer, in words.
    """

    weights: int
    gradients: int
    states: int
    activations: int
    working: int
    parameters: int
    tokens: int | None
    ranks: int
    settings: str

    @property
    def total(self) -> int:
        """The sum of all bytes."""
        return self.weights + self.gradients + self.states + self.activations + self.working

    def __repr__(self) -> str:
        rank = f", on each of {self.ranks} ranks" if self.ranks > 1 else ""
        tokens = "" if self.tokens is None else f" and {self.tokens} tokens"
        parts = ("weights", "gradients", "states", "activations", "working")
        lines = [f"{text_of(self.total)} for {self.parameters:.4g} parameters{tokens}{rank}: "
                 f"{self.settings}", ""]
        return "\n".join(lines + [f"{part:<11}  {text_of(getattr(self, part)):>10}"
                                  for part in parts if getattr(self, part)])


def memory(model: object, strategy: str | Mapping[str, str] = DEFAULT_STRATEGY,
           recipe: str | None = None, ranks: int = 1, *, batch: int = 1,
           length: int | None = None, inputs: object = None, optimizer: str = "AdamW",
           dtype: torch.dtype = torch.bfloat16, gradient_release: bool = False,
           products: str = "bf16") -> Memory:
    """Predicts the bytes of weights, gradients, states and activations in training.

    Weights, gradients and states follow from the storages of the optimizer's kernels.
    Activations are those of a forward pass on the meta device, which takes no memory: all
    tensors that autograd saves, with attention as fused kernels save it. COAT's table 7 is such
    a count (Xi et al. 2025). Not counted are buffers, the working memory of PyTorch's kernels,
    and what its allocator keeps.

    >>> config = {"hidden_size": 2048, "intermediate_size": 5504, "num_hidden_layers": 24,
    ...           "num_attention_heads": 16, "vocab_size": 32000}
    >>> print(tandem.torch.memory(config, "flash-f16", "coat", length=2048))

    Args:
        model: a configuration with Hugging Face's fields (an object, or a mapping such as
            config.json): that of a decoder like Llama, Mistral, Qwen, Mixtral or GPT-2. Or a
            Module, which may be on the meta device.
        strategy: the strategy, or a mapping from roles to strategies, as
            :func:`tandem.torch.recommend` returns it. A name stands for all roles except
            that norms, biases and small tensors have float32 states, as in the optimizers.
        recipe: the recipe of saved activations; None for PyTorch's own modules.
        ranks: the number of ranks over which ``fully_shard`` shards parameters. Activations are
            those of one rank's batch.
        batch: the number of sequences on a rank.
        length: the number of tokens of a sequence; by default the configuration's, at most 2048.
        inputs: for a Module that takes no tokens: its arguments, as a tensor, a tuple or a
            mapping, on any device.
        optimizer: the name of the optimizer's class.
        dtype: the type of a configuration's weights. A Module has its own.
        gradient_release: whether backward passes release gradients.
        products: "fp8" if linear layers multiply 8-bit floats under the recipe. They save the codes
            of their weights, too.

    Raises:
        ValueError: the configuration lacks fields, or an argument is out of its range.
        TypeError: the model is neither, or a Module needs ``inputs``.
    """
    _check_counts(ranks=ranks, batch=batch, **({} if length is None else {"length": length}))
    if products != "bf16" and recipe is None:
        raise ValueError(f"products is {products!r}, and PyTorch's own layers have no such "
                         'products; pass a recipe, such as "coat-fp8"')
    kind = kind_of(optimizer)
    from tandem.torch.nn._decoder import Config, decoder_of, is_config

    found = Config(model) if is_config(model) else None
    if found is None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"a value of type {type(model).__name__} is neither a configuration nor a "
                        "model; pass a torch.nn.Module or Hugging Face's configuration")
    whole = decoder_of(found, dtype) if found else model
    tensors = _described(whole, ranks)
    footprints = Footprints(gradient_release, kind=kind)
    bytes = Bytes()
    for tensor in tensors:
        bytes += _bytes_of(tensor, strategy, footprints)
    tokens = None if inputs is not None else batch * _length(whole, found, length)
    activations = _activations(whole, found, recipe, products, inputs, batch, tokens)
    return Memory(bytes.weights, bytes.gradients, bytes.states, activations, bytes.working,
                  sum(tensor.elements for tensor in tensors), tokens,
                  max(ranks, ranks_of(tensors)), _settings(optimizer, strategy, recipe))


def _check_counts(**counts: object) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}")


def _settings(optimizer: str, strategy: str | Mapping[str, str], recipe: str | None) -> str:
    names = strategy if isinstance(strategy, str) else " and ".join(
        dict.fromkeys(strategy.values()))
    return (f"{optimizer} under {names}, activations "
            + (f"under {recipe}" if recipe else "as PyTorch saves them"))


#===------------------------------------------------------------------------===#
# Weights, gradients and states
#===------------------------------------------------------------------------===#


def _described(model: torch.nn.Module, ranks: int) -> list[Described]:
    """Returns the parameters of a model with the shards of the first rank."""
    return [spread(tensor, ranks) if ranks > 1 else on_first_rank(tensor)
            for tensor in describe(model)]


def _bytes_of(tensor: Described, strategy: str | Mapping[str, str],
              footprints: Footprints) -> Bytes:
    """Returns the bytes of one parameter on the first rank."""
    if not tensor.elements:
        return Bytes()
    if not tensor.trains:
        own = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        return Bytes(weights=(tensor.shard.piece_of(own) if tensor.shard else own).nbytes)
    return footprints.of(tensor.shape, tensor.dtype, _strategy_of(tensor, strategy),
                         tensor.shard)


def _strategy_of(tensor: Described, strategy: str | Mapping[str, str]) -> str:
    """Returns the strategy of a parameter."""
    if isinstance(strategy, str):
        return strategy
    if unknown := [role for role in strategy if role not in ROLES]:
        raise ValueError(f"there is no role {unknown[0]!r}; roles are {', '.join(ROLES)}")
    if tensor.role not in strategy and tensor.role in SMALL_ROLES:
        return EXACT[tensor.dtype]
    if tensor.role not in strategy:
        raise ValueError(f"the model has {tensor.role}, which strategy lacks; add "
                         f"{tensor.role!r}: a strategy's name")
    return strategy[tensor.role]


#===------------------------------------------------------------------------===#
# Activations
#===------------------------------------------------------------------------===#


def _length(model: torch.nn.Module, config: object, length: int | None) -> int:
    """Returns the number of tokens of a sequence."""
    if length is not None:
        return length
    own = getattr(model, "config", None)
    most = config.positions if config else getattr(own, "max_position_embeddings", None)
    return min(most or USUAL_LENGTH, USUAL_LENGTH)


def _activations(model: torch.nn.Module, config: object, recipe: str | None, products: str,
                 inputs: object, batch: int, tokens: int | None) -> int:
    """Returns the bytes that a model saves for its backward pass."""
    from tandem.torch.nn._compress import compress_activations
    from tandem.torch.nn._saved_bytes import arguments_on_meta, on_meta, saved_bytes

    shadow = on_meta(model)
    if recipe is not None:
        compress_activations(shadow, recipe=recipe, products=products)
    if inputs is None and config is None and not hasattr(model, "config"):
        raise TypeError(f"{type(model).__name__} does not say what it takes; pass inputs=, its "
                        "arguments as a tensor, a tuple or a mapping, on any device")
    if inputs is None:
        ids = torch.empty(batch, tokens // batch, dtype=torch.int64, device="meta")
        inputs = (ids,) if config else {"input_ids": ids, "labels": ids}
    args, options = arguments_on_meta(inputs)
    return saved_bytes(lambda: shadow(*args, **options), shadow)
