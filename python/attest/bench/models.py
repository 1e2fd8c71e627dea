"""models.py: the group `models`: models of transformers with attn_implementation="attest", and with
experts_implementation="attest", beside the implementations that transformers has.

Weights are random; layers have the sizes of the models that they are named after, and there are few of them. What is
timed is tokens per second of

    prefill                 a batch of sequences of one length; of an encoder and a decoder, both
    prefill, left-padded    the same with padding, up to half of a sequence; only real tokens count
    generation              new tokens of generate(), the prompt included, with a dynamic and with a static cache. Nothing
                            but flex is compiled, and every implementation generates the same given tokens

Before the clock starts, every answer is compared with that of eager attention and experts in float32. Its error (the
relative error of a token; the median over a sequence; of the worst sequence) may be at most twice that of "eager" in the
model's own type, plus 1e-5. A wrong answer is reported and not timed. Samples are interleaved, in random order; `attest
judge` evaluates them. For the models of experts the implementations are those of the experts; attention is "sdpa".
"""

from __future__ import annotations

import copy
import math
import random
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import torch
import transformers

import attest.torch

from . import record
from .model_shapes import MODELS, Model

SCHEMA = "attest-python-models-1"
ATTENTION = {"attest": "attest", "sdpa": "sdpa", "eager": "eager", "flex": "flex_attention"}
EXPERTS = {"attest": "attest", "grouped_mm": "grouped_mm", "eager": "eager"}
ROUNDING = 1e-5  # of float32, in a whole model


class Size(NamedTuple):
    batch: int
    rows: int  #: of a prefill; a prompt has an eighth
    new: int  #: tokens that are generated
    dtype: torch.dtype


SIZES = {"cpu": Size(2, 24, 3, torch.float32), "cuda": Size(2, 4096, 64, torch.bfloat16)}


class Cell(NamedTuple):
    """What is timed: `run(model)` gives an answer, of which the rows of `real` count."""

    name: str
    problem: str
    tokens: int
    run: Callable
    real: Optional[torch.Tensor] = None

    def answer(self, model) -> List[torch.Tensor]:
        """Of every sequence, (tokens, numbers)."""
        made = self.run(model)
        return list(made) if self.real is None else [each[real] for each, real in zip(made, self.real)]


class Forced(transformers.LogitsProcessor):
    """Lets a model generate given tokens, whatever its logits are."""

    def __init__(self, tokens: torch.Tensor, start: int):
        self.tokens, self.start = tokens, start

    def __call__(self, input_ids, scores):
        step = input_ids.shape[1] - self.start
        return torch.full_like(scores, -torch.inf).scatter_(1, self.tokens[:, step:step + 1], 0.0)


def build(model: Model, device: str, dtype: torch.dtype):
    """The model with random weights, of a scale at which attention and experts matter to its answer."""
    kind, before = getattr(transformers, model.kind), torch.get_default_dtype()
    config = kind.config_class(**(model.tiny if device == "cpu" else model.config))
    config._attn_implementation = "eager"
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            built = kind(config).eval()
    finally:
        torch.set_default_dtype(before)
    torch.manual_seed(5)
    convolved = {id(each.weight) for each in built.modules() if isinstance(each, (torch.nn.Conv1d, torch.nn.Conv2d))}
    for name, weight in built.named_parameters():
        if weight.ndim > 1:
            weight.data.normal_().mul_((weight[0].numel() if id(weight) in convolved else weight.shape[-1]) ** -0.5)
        else:
            weight.data.normal_().mul_(0.1).add_(0.0 if name.endswith(("bias", "sinks")) else 1.0)
    return built


def switch(model, experts: bool, name: str) -> None:
    """Have the model use an implementation; an error if it does not take it."""
    wanted = EXPERTS[name] if experts else ATTENTION[name]
    (model.set_experts_implementation if experts else model.set_attn_implementation)(wanted)
    used = model.config._experts_implementation if experts else model.config._attn_implementation
    if used != wanted:
        raise LookupError(f"{type(model).__name__} does not take {wanted}")


def _padding(size: Size, rows: int, device: str) -> torch.Tensor:
    """Sequences of rows to half as many, padded on the left."""
    first = torch.tensor([rows // 2 * i // max(size.batch - 1, 1) for i in range(size.batch)], device=device)
    return torch.arange(rows, device=device) >= first[:, None]


def _inputs(model: Model, built, size: Size, device: str, rows: int) -> Dict[str, torch.Tensor]:
    """A batch of the model's inputs, of so many rows where their number is free."""
    config, generator = built.config, torch.Generator(device).manual_seed(rows)

    def tokens(count, start=None):
        drawn = torch.randint(5, config.vocab_size, (size.batch, count), device=device, generator=generator)
        if start is not None:
            drawn[:, 0] = start
        return drawn

    def reals(*shape):
        return torch.randn(shape, device=device, generator=generator)

    if model.inputs == "image":
        return {"pixel_values": reals(16 * size.batch, 3, config.image_size, config.image_size)}
    if model.inputs in ("decoder", "encoder"):
        return {"input_ids": tokens(rows)}
    asked = {"decoder_input_ids": tokens(max(2, min(rows // 8, 256)), config.decoder_start_token_id)}
    if model.inputs == "sound":
        return {"input_features": reals(size.batch, config.num_mel_bins, 2 * config.max_source_positions), **asked}
    return {"input_ids": tokens(rows), **asked}


def _in_type_of(model, inputs: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    return {name: each.to(model.dtype) if each.is_floating_point() else each for name, each in inputs.items()}


def _prefill(inputs: Dict[str, torch.Tensor], **options) -> Callable:
    """The last hidden states, of T5 its logits: no other model here has its head apart from its class."""
    return lambda model: getattr(model, "model", model)(**_in_type_of(model, inputs), **options)[0]


def _generation(inputs: Dict[str, Any], forced: Forced, cache: str) -> Callable:
    options = {"max_new_tokens": forced.tokens.shape[1], "do_sample": False, "eos_token_id": None, "pad_token_id": 0,
               "disable_compile": True, "return_dict_in_generate": True, "output_logits": True}
    if cache == "static":
        options["cache_implementation"] = "static"

    def run(model):
        made = transformers.GenerationMixin.generate(model, **_in_type_of(model, inputs), **options,
                                                     logits_processor=transformers.LogitsProcessorList([forced]))
        return torch.stack(made.logits, 1)

    return run


def cells(model: Model, built, size: Size, device: str) -> Iterator[Cell]:
    inputs, config = _inputs(model, built, size, device, size.rows), built.config
    if model.inputs == "image":
        images = len(inputs["pixel_values"])
        patches = images * ((config.image_size // config.patch_size) ** 2 + 1)
        yield Cell("prefill", f"{images} images", patches, _prefill(inputs))
        return
    options = {"use_cache": False} if model.inputs == "decoder" else {}
    padded = "decoder_input_ids" if model.inputs == "sound" else "input_ids"
    texts = [each for name, each in inputs.items() if name.endswith("input_ids")]
    sound = size.batch * config.max_source_positions if model.inputs == "sound" else 0
    count = sound + sum(each.numel() for each in texts)
    yield Cell("prefill", f"{size.batch} x {count // size.batch} tokens", count, _prefill(inputs, **options))
    seen = _padding(size, inputs[padded].shape[1], device)
    real = count - int((~seen).sum())
    mask = {padded.replace("input_ids", "attention_mask"): seen.long()}
    yield Cell("prefill, left-padded", f"{size.batch} sequences, {real} tokens", real, _prefill({**inputs, **mask}, **options),
               None if model.inputs == "both" else seen)
    if model.inputs == "encoder":
        return
    prompt = _inputs(model, built, size, device, max(2, size.rows // 8))
    start = prompt.get("decoder_input_ids", prompt.get("input_ids")).shape[1]
    tokens = torch.randint(5, config.vocab_size, (size.batch, size.new), device=device)
    for cache in ("dynamic", "static"):
        yield Cell(f"generation, {cache} cache", f"{size.batch} x {size.new} new tokens", tokens.numel(),
                   _generation(prompt, Forced(tokens, start), cache))


def distance(got: List[torch.Tensor], wanted: List[torch.Tensor]) -> float:
    """Of the worst sequence, the median over its tokens of the relative error: a rounding that sends a token to another
    expert is no fault of who computes the experts."""
    worst = [((g.float() - w).norm(dim=-1) / w.norm(dim=-1)).quantile(0.5) for g, w in zip(got, wanted)]
    return torch.stack(worst).max().item()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0][:200]


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def check(cell: Cell, built, experts: bool, names: Sequence[str], exact: List[torch.Tensor],
          row: Dict[str, Any]) -> List[str]:
    """The implementations whose answers are right; the row says what is wrong with the others."""
    right = []
    switch(built, experts, "eager")
    row["bar"] = 2 * distance(cell.answer(built), exact) + ROUNDING
    for name in names:
        try:
            switch(built, experts, name)
            if name == "attest" and not experts:
                with attest.torch.enable() as report:
                    error = distance(cell.answer(built), exact)
                row.update(served=report.served, passed_on=report.passed_on)
            else:
                error = distance(cell.answer(built), exact)
        except Exception as raised:  # of any implementation: it is reported, and the others continue
            row["trouble"][name] = f"refused: {_first_line(raised)}"
            continue
        if math.isfinite(error):
            row["errors"][name] = error
        if error <= row["bar"]:
            right.append(name)
        else:
            row["trouble"][name] = f"wrong: error {error:.3g}, bar {row['bar']:.3g}"
    return right


def sample(cell: Cell, built, experts: bool, names: Sequence[str], rounds: int, device: str) -> Dict[str, List[float]]:
    """Seconds of each implementation, round by round."""
    spent: Dict[str, List[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in random.sample(list(names), len(names)):
            switch(built, experts, name)
            _wait(device)
            start = time.perf_counter()
            cell.run(built)
            _wait(device)
            spent[name].append(time.perf_counter() - start)
    return spent


def measure_model(name: str, size: Size, device: str, rivals: Sequence[str], rounds: int) -> Iterator[Dict[str, Any]]:
    """A row per cell."""
    model = MODELS[name]
    built = build(model, device, size.dtype)
    if model.experts:
        built.set_attn_implementation("sdpa")
    exact = copy.deepcopy(built).float()
    exact.set_experts_implementation("eager")
    names = ["attest", *(each for each in (EXPERTS if model.experts else ATTENTION) if each in rivals)]
    for cell in cells(model, built, size, device):
        row: Dict[str, Any] = {"model": name, "cell": cell.name, "problem": cell.problem, "tokens": cell.tokens,
                               "compared": "experts" if model.experts else "attention", "dtype": str(size.dtype)[6:],
                               "errors": {}, "trouble": {}}
        right = check(cell, built, model.experts, names, cell.answer(exact), row)
        row["seconds"] = sample(cell, built, model.experts, right, rounds, device)
        print(f"{name}, {cell.name}, {cell.problem}: {rounds} samples of {', '.join(right) or 'none'}", flush=True)
        for each, text in row["trouble"].items():
            print(f"    {each}: {text}", flush=True)
        yield row


def measure(options, path: str) -> None:
    """Take every sample; the file is rewritten after every model."""
    attest.torch.register_transformers()
    transformers.utils.logging.set_verbosity_error()
    device, size = options.device, SIZES[options.device]
    rivals = options.rivals if options.rivals_given else ["sdpa", "eager", "grouped_mm"] + ["flex"] * (device == "cuda")
    made = {"schema": SCHEMA, **record.heading(), "command": record.command(), "torch": torch.__version__,
            "transformers": transformers.__version__, "machine": dict(record.machine(device)), "rows": []}
    chosen = [name for name in MODELS if not options.only or options.only in name]
    if not chosen:
        raise ValueError(f"no model has {options.only!r} in its name: {', '.join(MODELS)}")
    with torch.no_grad():
        for name in chosen:
            made["rows"] += measure_model(name, size, device, rivals, options.rounds)
            record.write(path, made)
            if device == "cuda":
                torch.compiler.reset()
                torch.cuda.empty_cache()
