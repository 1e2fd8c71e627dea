"""python -m attest.bench: see the package."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from typing import List, Optional

from . import __doc__ as about
from . import laboratory, problems

WRITE_SECONDS = 2.0  # interval between writes of the file
MODES = {"turns": "warm", "sustained": "sustained", "burst": "burst"}


def _words(allowed):
    def parse(text):
        words = text.split(",")
        unknown = [word for word in words if word not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not among {', '.join(allowed)}")
        return words

    return parse


def _numbers(text):
    numbers = [int(word) for word in text.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{min(numbers)} is less than 1")
    return numbers


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attest.bench", description=about,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="cuda where PyTorch finds one")
    parser.add_argument("--groups", type=_words((*problems.GPU_GROUPS, "calls", "training", "models")),
                        help="of a GPU: forward, fp16, gqa, dims, seed, decode, decode_sweep, chunk, few_heads, pages, features, features_fp16, patterns, bias, combinations, masks, masks_inf, masks_min, float32, windows, lengths, experts, sweep "
                        "(default forward,seed,decode), "
                        "and gradients: backward, backward_fp16, backward_gqa, backward_dims, backward_seed; on a CPU: backward, features, experts; "
                        "on either: parallel_4, parallel_8, the parts and merges of a ring of so many ranks beside one call; "
                        "calls, what a call costs the host; training, training steps of models of "
                        "transformers, and forward and backward of the attention alone, beside PyTorch's; models, tokens/s of models of transformers in prefill and "
                        "generation")
    parser.add_argument("--model-size", choices=("tiny", "small", "1b"), help="of the group training (GPU 1b, CPU small)")
    parser.add_argument("--rivals", type=_words(("default", "flash", "cudnn", "efficient", "math", "fa3", "flex", "jax", "contiguous", "plain", "whole", "equal", "sdpa", "eager", "grouped_mm", "none")),
                        help="default: all of them that are here, without flex on a CPU, where it compiles for minutes; fa3: FlashAttention-3, where "
                        "flash_attn_interface can be imported; contiguous: attest itself, where "
                        "the group pages has it read pages; plain: attest itself, without what the groups features and windows add; whole: attest itself, one call "
                        "where the groups parallel_4 and parallel_8 play a ring; equal: attest itself, with equal lengths, "
                        "beside the group lengths; sdpa, eager, grouped_mm: of the group models, as is flex; none: attest alone")
    parser.add_argument("--pace", type=_words(tuple(MODES)), default=["turns"],
                        help="of a GPU, several with commas. turns: one replay in turn; sustained: replays back to back, "
                        "at the clock that the power allows; burst: one replay after 12 ms of rest")
    parser.add_argument("--dtypes", type=_words(("f32", "bf16", "fp16")), default=["f32", "bf16", "fp16"], help="of a CPU")
    parser.add_argument("--threads", type=_numbers, default=[1, 2], help="of a CPU")
    parser.add_argument("--sizes", type=_numbers, default=[512, 2048, 4096], help="of a CPU")
    parser.add_argument("--only", metavar="TEXT", help="rows whose problem has this in its line, or models whose name has it")
    parser.add_argument("--rounds", type=int, help="least samples of each (GPU 15, CPU 5)")
    parser.add_argument("--budget", type=float, help="seconds that rows may go on once they have them (GPU 0, CPU 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goals", type=_words(laboratory.GOALS), help="what to be held to, as attest judge has it: flash, cpu, hopper (the best of cuDNN, "
                        "FlashAttention-2 and -3 that is in the run), names of groups, all or none")
    parser.add_argument("--build", default="build",
                        help="folder with the programs attest (else the one on the path), cpu_peaks and call_cost")
    parser.add_argument("--json", metavar="FILE", help="keep every sample; rewritten as rows are done")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw TFLOP/s over the length")
    parser.add_argument("--read", nargs="+", metavar="FILE", help="judge kept samples instead, of a row that is in several "
                        "files the newest one's")
    return parser


def _peaks(build: str, threads: List[int]) -> Optional[dict]:
    """The peak rates of the processor, by the number of threads; None if the program is not built."""
    program = os.path.join(build, "bench", "cpu_peaks")
    if not os.access(program, os.X_OK):
        print(f"{program} is not there (make builds it): no shares of the processor's peaks", file=sys.stderr)
        return None
    return {str(count): json.loads(subprocess.run([program, str(count)], check=True, capture_output=True,
                                                  text=True).stdout) for count in threads}


def _facts(options, device: str) -> dict:
    import torch

    from . import clocks, record, run

    facts = {"command": record.command(), "load_average_before": run.load_average(), "torch": torch.__version__,
             "options": {"seed": options.seed, "rounds": options.rounds, "seconds": options.budget,
                         "mode": ",".join(options.modes)}}
    if device == "cuda":
        facts["cudnn"] = torch.backends.cudnn.version()
        facts["copy_bytes"] = clocks.copy_rate()
    else:
        facts["peaks"] = _peaks(options.build, options.threads)
    return facts


def _print_facts(facts: dict) -> None:
    for count, peak in (facts.get("peaks") or {}).items():
        print(f"peaks, {count} threads: {json.dumps(peak)}")
    text = f"PyTorch {facts.get('torch') or facts.get('device', {}).get('torch')}"
    text += f", cuDNN {facts['cudnn']}" if facts.get("cudnn") else ""
    text += f", copy {facts['copy_bytes'] / 1e12:.2f} TB/s" if facts.get("copy_bytes") else ""
    print(text)


def _measure(options, path: str) -> None:
    """Time everything; print and save results as they come."""
    from . import record, run

    device = options.device
    groups = ([[row] for row in problems.gpu_rows(options.groups)] if device == "cuda" else
              problems.cpu_features(options.threads, options.sizes) if options.groups == ["features"] else
              problems.cpu_experts(options.dtypes, options.threads) if options.groups == ["experts"] else
              problems.cpu_parallel(options.groups, options.dtypes, options.threads, options.sizes)
              if options.groups and set(options.groups) <= set(problems.RINGS) else
              problems.cpu_rows(options.dtypes, options.threads, options.sizes, "backward" in options.groups))
    if options.only:
        groups = [kept for kept in ([row for row in rows if options.only in row.name] for rows in groups) if kept]
    if not groups:
        raise ValueError(f"no row has {options.only!r} in its line")
    facts = _facts(options, device)
    _print_facts(facts)
    kept, written = [], time.monotonic()

    def show(timed):
        nonlocal written
        print(timed.line(), flush=True)
        kept.append(timed)
        if time.monotonic() > written + WRITE_SECONDS:
            record.write(path, record.document(kept, device, facts))
            written = time.monotonic()

    done = run.run(groups, options.rivals, device, options.modes, options.rounds, options.budget, show)
    record.write(path, record.document(done, device, facts))


def _fill_defaults(options) -> None:
    """Set the defaults that depend on the device."""
    import torch

    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    gpu = options.device == "cuda"
    if gpu and not torch.cuda.is_available():
        raise LookupError("PyTorch finds no GPU here")
    options.modes = [MODES[pace] for pace in options.pace] if gpu else ["warm"]
    options.groups = options.groups or (list(problems.GPU_DEFAULT) if gpu else [])
    options.rounds = options.rounds or (15 if gpu else 5)
    options.budget = (0.0 if gpu else 1.0) if options.budget is None else options.budget
    options.rivals_given = bool(options.rivals)
    options.rivals = options.rivals or ["default", "flash", "cudnn", "efficient", "math", "jax", "whole", "equal"] + ["flex", "fa3"] * gpu
    options.rivals = [name for name in options.rivals if name != "none"]
    random.seed(options.seed)
    torch.manual_seed(options.seed)


def _judge(options, program: str, files: List[str]) -> int:
    """Judge the samples with the program `attest`; and draw the plot."""
    from . import plot

    print()
    status, judged = laboratory.judge(program, files, options.goals)
    if judged and options.plot and "rows" in judged:
        modes = list(dict.fromkeys(row["mode"] for row in judged["rows"] if "median_ns" in row))
        for mode in modes:
            path = options.plot if len(modes) == 1 else options.plot.replace(".svg", f"_{mode}.svg")
            with open(path, "w", encoding="utf-8") as file:
                file.write(plot.svg(judged["rows"], mode))
    return status


def _run(options) -> int:
    program = laboratory.find(options.build)  # before hours of samples that nothing could judge
    if options.read:
        return _judge(options, program, options.read)
    with tempfile.TemporaryDirectory() as folder:
        path = options.json or os.path.join(folder, "samples.json")
        if options.groups == ["calls"]:
            from . import calls

            calls.measure(options.build, options.device, path)
            return _judge(options, program, [path])
        if options.groups == ["training"]:
            from . import training

            training.measure(options.device, options.rounds, options.model_size, path)
            return _judge(options, program, [path])
        _fill_defaults(options)
        if options.groups == ["models"]:
            from . import models

            models.measure(options, path)
            return _judge(options, program, [path])
        for alone in ("calls", "training", "models"):
            if alone in options.groups:
                raise ValueError(f"the group {alone} is measured by itself")
        _measure(options, path)
        return _judge(options, program, [path])


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (ValueError, OSError) as error:
        print(f"attest.bench: {error}", file=sys.stderr)
        return 2
    except (ImportError, LookupError) as error:
        print(f"attest.bench: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
