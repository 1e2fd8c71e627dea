"""layers.py: layers of experts of four models, and the problems of the group `experts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator, NamedTuple

TOKENS = (1, 8, 64, 256, 1024, 4096, 16384)
CPU_TOKENS = (1, 16, 256)


def element_bytes(dtype: str) -> int:
    return 4 if dtype == "f32" else 2


class Model(NamedTuple):
    """A layer of experts; `words` are the laboratory's modifiers."""

    experts: int
    k: int
    hidden: int
    inner: int
    words: str = ""


MODELS = {
    "mixtral": Model(8, 2, 4096, 14336),
    "qwen3": Model(128, 8, 2048, 768),
    "gpt-oss": Model(32, 4, 2880, 2880, ",act=swiglu-clamped,gate=interleaved,b1,b2,route=topk"),
    "deepseek-v3": Model(256, 8, 7168, 2048, ",route=sigmoid,scale=2.5,correction,groups=8:4"),
}


@dataclass(frozen=True)
class Problem:
    """A layer and a number of tokens."""

    model: str
    tokens: int
    zipf: bool = False  #: some experts are chosen far more often than others
    dtype: str = "bf16"  #: or "f32"

    @property
    def layer(self) -> Model:
        return MODELS[self.model]

    @property
    def spec(self) -> str:
        m = self.layer
        return f"moe:t{self.tokens}e{m.experts}k{m.k}h{m.hidden}i{m.inner},{self.dtype}{m.words}" + (",load=zipf" if self.zipf else "")

    @property
    def element(self) -> int:
        return element_bytes(self.dtype)

    @property
    def operations(self) -> int:
        return 6 * self.tokens * self.layer.k * self.layer.hidden * self.layer.inner

    @property
    def reached(self) -> float:
        """The number of experts that have tokens if all are equally likely."""
        m = self.layer
        return m.experts * (1 - (1 - m.k / m.experts)**self.tokens)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the weights that are read."""
        return int(3 * self.element * self.reached * self.layer.hidden * self.layer.inner)

    @property
    def input_bytes(self) -> int:
        return self.element * self.tokens * self.layer.hidden

    @property
    def fields(self) -> dict:
        return {"dtype": self.dtype, "spec": self.spec}


def problems() -> Iterator[Problem]:
    """The problems of the group `experts` on a GPU."""
    for model in MODELS:
        for tokens in TOKENS:
            yield Problem(model, tokens)
            if tokens == 4096:
                yield Problem(model, tokens, zipf=True)


def cpu_problems(dtypes: Iterable[str]) -> Iterator[Problem]:
    """Of the group `experts` on a CPU: Qwen3's layer for one token, a few, and a prompt."""
    for dtype in dtypes:
        for tokens in CPU_TOKENS:
            yield Problem("qwen3", tokens, dtype=dtype)
