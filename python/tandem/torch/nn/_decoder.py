"""Decoders as Hugging Face's configurations describe them, for counting bytes.

The modules compute and save what those of Transformers do, and have the same names, so that
:func:`tandem.torch.compress_activations` swaps the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch.nn import functional

#: The names of each field, the first of them being the usual one.
_FIELDS = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer"),
    "heads": ("num_attention_heads", "n_head"),
    "vocabulary": ("vocab_size",),
    "inner": ("intermediate_size", "n_inner"),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx"),
}
#: Kinds of models whose queries, keys and values have biases, and those with norms of heads.
_BIASED, _NORMED = ("qwen2", "qwen2_moe"), ("qwen3", "qwen3_moe", "olmo2")


class Config:
    """The fields of a configuration.

    Args:
        config: an object with the fields of Hugging Face's PretrainedConfig, or a mapping such as
            its ``to_dict()`` or ``config.json``.

    Raises:
        ValueError: fields are missing; the message names them.
    """

    def __init__(self, config: object):
        self._config = config
        self.is_gpt2 = self.get("model_type") == "gpt2" or (
            self.get("n_embd") is not None and self.get("intermediate_size") is None)
        needed = ["hidden", "layers", "heads", "vocabulary"]
        needed += ["positions"] if self.is_gpt2 else ["inner"]
        missing = [_FIELDS[name] for name in needed if self._field(name) is None]
        if missing:
            names = ", ".join(" or ".join(map(repr, names)) for names in missing)
            raise ValueError(
                f"the configuration lacks {names}; pass one of a decoder such as Llama, Qwen or "
                "GPT-2, or the model itself, made without memory: with torch.device('meta'): "
                "model = ...")
        self.hidden, self.layers, self.heads, self.vocabulary = map(
            self._field, needed[:4])
        self.inner = self._field("inner") or 4 * self.hidden
        self.positions = self._field("positions") or 2048
        self.kv_heads = self.get("num_key_value_heads") or self.heads
        self.head_size = self.get("head_dim") or self.hidden // self.heads
        self.kind = self.get("model_type") or ""
        self.experts = self.get("num_local_experts") or self.get("num_experts") or 0
        self.active = self.get("num_experts_per_tok") or 2
        self.expert_inner = self.get("moe_intermediate_size") or self.inner
        self.is_tied = self.get("tie_word_embeddings", self.is_gpt2)
        self.attention_bias = bool(self.get("attention_bias", False))
        self.mlp_bias = bool(self.get("mlp_bias", False))

    def get(self, name: str, default: object = None) -> object:
        """Returns a field, or a default if it is missing or None."""
        found = (self._config.get(name) if isinstance(self._config, Mapping)
                 else getattr(self._config, name, None))
        return default if found is None else found

    def _field(self, name: str) -> int | None:
        """Returns a field that has several names."""
        return next((found for one in _FIELDS[name] if (found := self.get(one)) is not None), None)


def is_config(value: object) -> bool:
    """Returns whether something describes a model, as opposed to being one."""
    if isinstance(value, (torch.nn.Module, torch.Tensor, str, bytes)):
        return False
    if isinstance(value, Mapping):
        return not any(isinstance(of, (torch.Tensor, torch.Size, tuple)) for of in value.values())
    return hasattr(value, "to_dict") or any(
        hasattr(value, name) for names in _FIELDS.values() for name in names)


def decoder_of(config: Config, dtype: torch.dtype) -> torch.nn.Module:
    """Returns the model of a configuration on the meta device."""
    with torch.device("meta"):
        return (GPT2 if config.is_gpt2 else Llama)(config).to(dtype).train()


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Computes the loss as Transformers does: the cross entropy of float32 logits."""
    labels = functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    return functional.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.view(-1))


class _Decoder(torch.nn.Module):
    """An embedding, layers, a norm and a head."""

    def _finish(self, config: Config, embedding: torch.nn.Embedding) -> None:
        self.lm_head = torch.nn.Linear(config.hidden, config.vocabulary, bias=False)
        if config.is_tied:
            self.lm_head.weight = embedding.weight


#===------------------------------------------------------------------------===#
# Llama, Mistral, Qwen and Mixtral
#===------------------------------------------------------------------------===#


class RMSNorm(torch.nn.Module):
    """The norm as a sequence of PyTorch's operations."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.variance_epsilon = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype, x = x.dtype, x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(dtype)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Attention(torch.nn.Module):
    """Grouped-query attention with rotary embeddings."""

    def __init__(self, config: Config):
        super().__init__()
        self.size, bias = config.head_size, config.attention_bias or config.kind in _BIASED
        width, narrow = config.heads * self.size, config.kv_heads * self.size
        self.q_proj = torch.nn.Linear(config.hidden, width, bias=bias)
        self.k_proj = torch.nn.Linear(config.hidden, narrow, bias=bias)
        self.v_proj = torch.nn.Linear(config.hidden, narrow, bias=bias)
        self.o_proj = torch.nn.Linear(width, config.hidden, bias=config.attention_bias)
        if config.kind in _NORMED:
            self.q_norm, self.k_norm = RMSNorm(self.size), RMSNorm(self.size)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = (layer(x).view(*x.shape[:2], -1, self.size)
                   for layer in (self.q_proj, self.k_proj, self.v_proj))
        if hasattr(self, "q_norm"):
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        y = functional.scaled_dot_product_attention(
            _turned(q, cos, sin), _turned(k, cos, sin), v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(*x.shape[:2], -1))


class MLP(torch.nn.Module):
    """The gated feed-forward block."""

    def __init__(self, config: Config):
        super().__init__()
        sizes = config.hidden, config.inner
        self.gate_proj = torch.nn.Linear(*sizes, bias=config.mlp_bias)
        self.up_proj = torch.nn.Linear(*sizes, bias=config.mlp_bias)
        self.down_proj = torch.nn.Linear(*sizes[::-1], bias=config.mlp_bias)
        self.act_fn = torch.nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Experts(torch.nn.Module):
    """A router, and gated blocks of which each token takes some; here all get as many tokens."""

    def __init__(self, config: Config):
        super().__init__()
        count, inner = config.experts, config.expert_inner
        self.gate = torch.nn.Linear(config.hidden, count, bias=False)
        self.gate_up_proj = torch.nn.Parameter(torch.empty(count, 2 * inner, config.hidden))
        self.down_proj = torch.nn.Parameter(torch.empty(count, config.hidden, inner))
        self.act_fn, self.active = torch.nn.SiLU(), config.active

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        scores = self.gate(rows).float().softmax(-1).topk(self.active, -1)[0]
        scores = scores / scores.sum(-1, keepdim=True)
        result, count = torch.zeros_like(rows), len(self.down_proj)
        each = -(-len(rows) * self.active // count)
        for expert in range(count):
            token = torch.empty(each, dtype=torch.int64, device=x.device)
            gate, up = functional.linear(rows[token], self.gate_up_proj[expert]).chunk(2, -1)
            y = functional.linear(self.act_fn(gate) * up, self.down_proj[expert])
            y = y * scores[token, torch.empty_like(token), None]
            result.index_add_(0, token, y.to(result.dtype))
        return result.view(x.shape)


class LlamaLayer(torch.nn.Module):
    """A norm, attention, a norm and a feed-forward block."""

    def __init__(self, config: Config):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden)
        self.mlp = (Experts if config.experts else MLP)(config)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(_Decoder):
    """A decoder with rotary embeddings and gated blocks."""

    def __init__(self, config: Config):
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(config.vocabulary, config.hidden)
        self.layers = torch.nn.ModuleList(LlamaLayer(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden)
        self.size = config.head_size
        self._finish(config, self.embed_tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens)
        cos, sin = (torch.empty(1, 1, tokens.shape[1], self.size, dtype=x.dtype, device=x.device)
                    for _ in range(2))
        for layer in self.layers:
            x = layer(x, cos, sin)
        return loss_of(self.lm_head(self.norm(x)), tokens)


#===------------------------------------------------------------------------===#
# GPT-2
#===------------------------------------------------------------------------===#


class Conv1D(torch.nn.Module):
    """A linear layer whose weight is transposed."""

    def __init__(self, outputs: int, inputs: int):
        super().__init__()
        self.nf, self.weight = outputs, torch.nn.Parameter(torch.empty(inputs, outputs))
        self.bias = torch.nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return y.view(*x.shape[:-1], self.nf)


class NewGELU(torch.nn.Module):
    """GELU by tanh, as a sequence of PyTorch's operations."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        inside = math.sqrt(2.0 / math.pi) * (input + 0.044715 * torch.pow(input, 3.0))
        return 0.5 * input * (1.0 + torch.tanh(inside))


class GPT2Layer(torch.nn.Module):
    """A norm, attention, a norm and a feed-forward block, with dropout."""

    def __init__(self, config: Config):
        super().__init__()
        hidden, drop = config.hidden, float(config.get("resid_pdrop", 0.1))
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.c_attn, self.c_proj = Conv1D(3 * hidden, hidden), Conv1D(hidden, hidden)
        self.c_fc, self.c_out = Conv1D(config.inner, hidden), Conv1D(hidden, config.inner)
        new = config.get("activation_function", "gelu_new") == "gelu_new"
        self.act = NewGELU() if new else torch.nn.GELU()
        self.drop, self.heads = torch.nn.Dropout(drop), config.heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).chunk(3, -1))
        # Transformers copies keys and values into a cache, in training as well.
        y = functional.scaled_dot_product_attention(q, k.contiguous(), v.contiguous(),
                                                    is_causal=True)
        x = x + self.drop(self.c_proj(y.transpose(1, 2).reshape(x.shape)))
        return x + self.drop(self.c_out(self.act(self.c_fc(self.ln_2(x)))))


class GPT2(_Decoder):
    """A decoder with learned positions."""

    def __init__(self, config: Config):
        super().__init__()
        self.wte = torch.nn.Embedding(config.vocabulary, config.hidden)
        self.wpe = torch.nn.Embedding(config.positions, config.hidden)
        self.drop = torch.nn.Dropout(float(config.get("embd_pdrop", 0.1)))
        self.h = torch.nn.ModuleList(GPT2Layer(config) for _ in range(config.layers))
        self.ln_f = torch.nn.LayerNorm(config.hidden)
        self._finish(config, self.wte)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(places))
        for layer in self.h:
            x = layer(x)
        return loss_of(self.lm_head(self.ln_f(x)), tokens)
