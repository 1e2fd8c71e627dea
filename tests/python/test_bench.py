"""test_bench.py: attest.bench: problems, files that the program reads and judges; and a whole small run if PyTorch
is installed."""

import gzip
import json
import os
import random
import subprocess
import sys
import xml.etree.ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
from attest.bench import __main__ as bench
from attest.bench import laboratory, layers, plot, problems, record
from attest.bench.problems import Problem, Row
from attest.bench.samples import Result, Timed

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", "build")).resolve()


def program(*arguments, name="attest"):
    return subprocess.run([BUILD / name, *map(str, arguments)], check=False, capture_output=True, text=True)


def timed(row, mode="warm", rounds=12, spread=0.001, **speeds):
    """A row with made-up samples: times in microseconds, by rival."""
    chance, made = random.Random(row.name), Timed(row)
    for rival, us in speeds.items():
        made.add(Result("attest" if rival == "attest" else f"PyTorch 2.11.0 {rival}", rival, "cpu" if row.threads else "graph",
                        mode, [1e3 * us * (1 + spread * chance.random()) for _ in range(rounds)], 10,
                        "fwd_sm80" if rival == "attest" else ""))
    return made


@pytest.fixture
def judged(tmp_path):
    """What the program says about rows with made-up samples: (whether all holds, its text, its JSON)."""

    def judge(done, goals, facts=None, device="cuda"):
        made = record.document(done, "cpu", facts or {})
        made["machine"]["device"] = device
        for result in made["results"] if device == "cuda" else ():
            result["isa"] = "auto"
        record.write(tmp_path / "samples.json", made)
        said = program("judge", tmp_path / "samples.json", "--goals", goals, "--json", tmp_path / "judged.json")
        assert said.returncode in (0, 1), said.stderr
        return said.returncode == 0, said.stdout, json.loads((tmp_path / "judged.json").read_text())["standing"]

    return judge


def test_problems_are_the_programs_own():
    """Names and operations match those of `attest bench`."""
    small = [Problem(1, 2, 2, 8, 8, 16, 16, "f32"), Problem(2, 4, 2, 8, 8, 16, 8, "bf16", True),
             Problem(1, 4, 1, 1, 40, 16, 16, "fp16"), Problem(1, 1, 1, 9, 5, 8, 8, "f32", True),
             Problem(1, 1, 1, 5, 9, 8, 8, "f32", True), Problem(1, 4, 1, 1, 40, 16, 16, "fp16", page=8),
             Problem(1, 2, 1, 9, 9, 16, 8, "bf16", True, backward=True)]
    small += [Problem(4, 2, 2, 37, 37, 8, 8, "f32", causal, feature=feature)
              for feature in problems.FEATURES for causal in (False, True) if not causal or feature not in problems.MASKS]
    small += [Problem(2, 2, 1, 37, 37, 8, 8, "bf16", True, feature="window", window=window) for window in (1, 16, 37)]
    small += [Problem(3, 4, 2, 37, 37, 8, 8, "bf16", causal, lengths=(5, 37, 1)) for causal in (False, True)]
    small += [Problem(3, 4, 2, 1, 40, 8, 8, "bf16", lengths=(5, 37, 1))]
    said = program("bench", *(each.spec for each in small), "--device", "cpu", "--seconds", 0, "--min-samples", 1,
                   "--max-samples", 1, "--json", "-")
    results = json.loads(said.stdout)["results"]
    assert [each["problem"]["spec"] for each in results] == [each.spec for each in small]
    assert [each["flops"] for each in results] == [each.operations for each in small]


def test_groups():
    rows = {group: problems.gpu_rows([group]) for group in problems.GPU_GROUPS}
    assert [len(rows[group]) for group in ("forward", "fp16", "gqa", "dims", "seed", "decode")] == [24, 24, 2, 16, 8, 6]
    assert {row.problem.spec for row in rows["gqa"]} == {"b2h32hkv8s8192d128,bf16,causal", "b2h32hkv8s8192d128,fp16,causal"}
    assert any(row.problem.dv == 128 and row.problem.d == 192 for row in rows["dims"])
    assert all(2 <= row.problem.sq <= 256 and row.problem.sk >= 1024 for row in rows["chunk"])
    assert {row.problem.d for row in rows["chunk"]} == {row.problem.d for row in rows["few_heads"]} == {64, 128, 256}
    assert all(row.problem.hq <= 8 and row.problem.sq == row.problem.sk for row in rows["few_heads"])
    assert {row.problem.page for row in rows["pages"]} == {16, 32, 64, 128, 256}
    assert all(row.problem.sk % row.problem.page == 0 for row in rows["pages"])
    for forward, backward in (("forward", "backward"), ("dims", "backward_dims"), ("seed", "backward_seed")):
        assert [f"backward:{row.problem.spec}" for row in rows[forward]] == [row.problem.spec for row in rows[backward]]
    assert {row.problem.feature for row in rows["features"]} == set(problems.FEATURES)
    assert {row.problem.d for row in rows["features"]} == {64, 128, 256}
    assert all(len(each) == 1 and each[0].threads == 2 for each in problems.cpu_features([2], [64]))
    swept = [row.problem for row in rows["decode_sweep"]]
    assert len({problem.spec for problem in swept}) == 60 and sum(problem.kv_bytes for problem in swept) < 20e9
    assert {(problem.hq / problem.hkv, problem.d) for problem in swept} == {
        (group, d) for group in (1, 2, 3, 4, 5, 7, 8, 16) for d in (64, 128, 256)}
    for sizes, least, most in (({problem.b for problem in swept}, 1, 256), ({problem.sk for problem in swept}, 128, 131072)):
        assert (min(sizes), max(sizes)) == (least, most) and sum(size % 2 for size in sizes) > 5
    assert {row.problem.window for row in rows["windows"]} == {128, 256, 512, 1024, 2048, 4096}
    assert all(row.problem.sq == 16384 and row.problem.causal for row in rows["windows"]) and len(rows["windows"]) == 24
    assert len(rows["lengths"]) == 36 and sum(row.problem.packed for row in rows["lengths"]) == 24
    for problem in (row.problem for row in rows["lengths"]):
        assert len(problem.lengths) == problem.b <= 64 and max(problem.lengths) == problem.sk  # the laboratory lists up to 64
        assert problem.equal.operations == pytest.approx(problem.operations, rel=2e-3)
        assert problem.packed or problem.equal.kv_bytes == pytest.approx(problem.kv_bytes, rel=2e-3)
    for group, ranks in problems.RINGS.items():
        assert {(row.problem.ranks, row.problem.sq, row.problem.causal) for row in rows[group]} == {(ranks, 65536, True)}
        assert {row.problem.hkv for row in rows[group]} == {16, 4}
    assert len(rows["experts"]) == 32 and {row.problem.tokens for row in rows["experts"]} == set(layers.TOKENS)
    swept = {(row.problem.sq, row.problem.hq) for row in rows["sweep"]}
    assert {s for s, _ in swept} == set(problems.SWEEP_SIZES) and {h for _, h in swept} == set(problems.SWEEP_HEADS)
    together = problems.cpu_rows(["f32", "bf16"], [1, 2], [512])
    assert len(together) == 2 * (2 + 2 + 2) and all(len(rows) == 2 for rows in together if rows[0].group != "decode")


def test_files_hold_samples_and_nothing_that_is_computed_from_them(tmp_path):
    """Two implementations give two numbers: only the program computes medians, intervals, spreads and speeds."""
    write(tmp_path / "a.json")
    for result in json.loads((tmp_path / "a.json").read_text())["results"]:
        assert not {"median_ns", "low_ns", "high_ns", "spread_percent", "gflops"} & set(result)
    source = "".join(path.read_text() for path in (ROOT / "python/attest/bench").glob("*.py"))
    for word in ("statistics", "median(", "quantiles", "sorted(samples", "geometric", "must "):
        assert word not in source


def test_intervals_and_ratios_are_the_laboratorys(judged):
    """From the ratios per round, with a verdict."""
    row = Row("seed", problems.square(2, 8, 512, 64, "fp16"))
    made = Timed(row)
    drift = [1.0, 3.0, 1.5, 2.0, 1.0, 2.5, 1.2, 1.1]
    for rival, us in (("attest", 10.0), ("flash", 15.0)):
        made.add(Result(rival, rival, "graph", "warm", [1e3 * us * x for x in drift], 10))
    _, text, found = judged([made], "none")
    ours, theirs = found["rows"]
    assert theirs["attest"] == {"speed": pytest.approx(1.5), "low": pytest.approx(1.5), "high": pytest.approx(1.5),
                                "verdict": "FASTER"}
    assert ours["median_ns"] == pytest.approx(13.5e3) and ours["low_ns"] < ours["median_ns"] < ours["high_ns"]
    assert "1.500 [1.500, 1.500]  FASTER" in text


def goals_of(found):
    return {goal["goal"]: (round(goal["found"], 3), goal["holds"]) for goal in found["goals"]}


def test_goals_of_a_gpu(judged):
    forward = [timed(row, attest=10.0, flash=12.0, cudnn=9.0) for row in problems.gpu_rows(["forward", "seed"])]
    decode = [timed(row, attest=10.0, flash=16.0, cudnn=10.1) for row in problems.gpu_rows(["decode"])]
    rate = max(each.row.problem.kv_bytes for each in decode) / 10e-6
    assert judged(forward + decode[:1], "flash")[0]
    holds, text, found = judged(forward + decode, "flash", {"copy_bytes": rate})  # B = 8 reads less in the same time
    share, held = goals_of(found)["decode at B >= 8, Sk >= 8192, least share of the copy rate"]
    assert not holds and not held and share == pytest.approx(0.125, abs=0.002) and "MISSED" in text
    slow = timed(Row("seed", problems.square(1, 8, 64, 64, "fp16")), attest=10.0, flash=9.9)
    assert not judged([*forward, slow], "flash")[0]
    assert not judged(forward, "hopper")[0]
    fast = [timed(row, attest=10.0, flash=16.0, cudnn=16.0) for row in problems.gpu_rows(["forward", "gqa", "dims"])]
    assert judged(fast, "hopper")[0]
    fast[0] = timed(fast[0].row, attest=10.0, flash=16.0, cudnn=16.0, fa3=10.1)  # a rival that is in the run counts
    holds, _, found = judged(fast, "hopper")
    assert not holds and found["goals"][0]["at"] == fast[0].row.problem.spec


def test_goals_are_of_the_sustained_pace_where_there_is_one(judged):
    row = problems.gpu_rows(["seed"])[0]
    made = timed(row, attest=10.0, flash=20.0)
    assert judged([made], "flash")[0]
    for rival, us in (("attest", 10.0), ("flash", 9.0)):
        made.add(Result(rival, rival, "graph", "sustained", [1e3 * us] * 5))
    holds, _, found = judged([made], "flash")
    assert not holds and found["mode"] == "sustained"


def test_goals_of_a_cpu(judged):
    def rows(causal_us):
        return [timed(row, attest=causal_us if row.problem.causal else 100.0, default=250.0)
                for together in problems.cpu_rows(["bf16"], [1], [2048]) for row in together if row.group == "bf16"]

    assert judged(rows(55.0), "cpu", device="cpu")[0]
    holds, _, found = judged(rows(70.0), "cpu", device="cpu")
    assert not holds and goals_of(found)["causal over full time at S >= 2048, worst"] == (0.7, False)


def test_wrong_answers_fail(judged):
    made = timed(problems.gpu_rows(["seed"])[0], attest=10.0)
    made.add(Result("PyTorch 2.11.0 math", "math", trouble="too large"))
    holds, text, _ = judged([made], "none")
    assert holds and "PyTorch 2.11.0 math: refused: too large" in text
    made.results.clear()
    made.add(Result("attest", "attest", trouble="error 1 is above 0.1", wrong=True))
    holds, text, found = judged([made], "none")
    assert not holds and found["wrong"] == 1 and "error 1 is above 0.1" in text


def test_cliffs(judged):
    rows = problems.gpu_rows(["sweep"])
    done = [timed(row, attest=row.problem.operations / 5e8, spread=0.0) for row in rows]
    holds, _, found = judged(done, "none")
    assert holds and found["swept"] == len(rows) and found["cliffs"] == []
    slow = next(i for i, row in enumerate(rows) if row.problem.sq == 1449 and row.problem.hq == 8)
    done[slow] = timed(rows[slow], attest=1.3 * rows[slow].problem.operations / 5e8, spread=0.0)
    holds, text, found = judged(done, "none")
    assert not holds and found["cliffs"] == [{"problem": rows[slow].problem.spec, "fall": pytest.approx(1 - 1 / 1.3)}]
    assert f"{rows[slow].problem.spec}: 23 % below its neighbour" in text
    last = max((row.problem.sq, i) for i, row in enumerate(rows) if row.problem.hq == 1 and row.problem.d == 64)[1]
    done[last] = timed(rows[last], attest=1.3 * rows[last].problem.operations / 5e8, spread=0.0)
    assert rows[last].problem.spec in [cliff["problem"] for cliff in judged(done, "none")[2]["cliffs"]]


def test_pictures(judged):
    done = [timed(row, attest=10.0, flash=12.0) for row in problems.gpu_rows(["forward", "sweep"])]
    root = xml.etree.ElementTree.fromstring(plot.svg(judged(done, "none")[2]["rows"], "warm"))
    assert len(root.findall(".//{*}polyline")) == 4 * 2 + 4 * len(problems.SWEEP_HEADS) * 2
    xml.etree.ElementTree.fromstring(plot.svg([], "warm"))


def test_without_the_program(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench.main(["--read", "a.json", "--build", str(tmp_path)]) == 3
    assert "is neither" in capsys.readouterr().err
    (tmp_path / "attest").symlink_to(BUILD / "attest")
    assert laboratory.find("nowhere") == str(tmp_path / "attest")


def write(path, scale=1.0):
    done = [timed(row, attest=1000.0 * scale, default=1500.0) for together in problems.cpu_rows(["f32"], [2], [512])
            for row in together]
    refused = done[0].add(Result("PyTorch 2.11.0 math", "math", trouble="not today"))
    assert not refused.samples_ns
    record.write(path, record.document(done, "cpu", {"command": "python -m attest.bench", "torch": "2.11.0"}))
    return done


def test_the_program_compares_and_reports_the_files(tmp_path):
    done = write(tmp_path / "a.json")
    write(tmp_path / "b.json", 0.8)
    said = program("compare", tmp_path / "a.json", tmp_path / "b.json", "--json", tmp_path / "verdicts.json")
    assert said.returncode == 0, said.stdout + said.stderr
    tally = json.loads((tmp_path / "verdicts.json").read_text())["comparison"]["tally"]
    assert tally == {"FASTER": len(done), "SLOWER": 0, "SAME": len(done), "AMBIGUOUS": 0}
    report = program("report", tmp_path / "a.json")
    assert report.returncode == 0 and "PyTorch 2.11.0 default" in report.stdout and done[0].row.problem.spec in report.stdout
    assert program("report", tmp_path / "a.json", "-o", tmp_path / "a.html").returncode == 0


def test_a_file_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / "c.json").write_text('{"schema": "other"}')
    assert bench.main(["--read", str(tmp_path / "c.json"), "--build", str(BUILD)]) == 2
    assert "c.json: schema" in capsys.readouterr().err


def test_tables_of_the_docs_come_from_the_files(tmp_path):
    if not (BUILD / "evidence_table").exists():
        pytest.skip("evidence_table is not built")
    done = [timed(row, attest=10.0, flash=15.0) for row in problems.gpu_rows(["seed"])]
    for each in done:
        for rival, us in (("attest", 8.0), ("flash", 16.0)):
            each.add(Result(rival, rival, "graph", "burst", [1e3 * us] * 5))
    made = record.document(done, "cpu", {})
    made["machine"]["device"] = "cuda"
    record.write(tmp_path / "a.json", made)
    summary = program(tmp_path / "a.json", "summary", name="evidence_table")
    assert "| seed | flash | 8 | 8 | 1.50 |" in summary.stdout, summary.stderr
    assert "| 8.00 | 16.00 | 2.00 |" in program(tmp_path / "a.json", "seed:burst", name="evidence_table").stdout
    assert program(tmp_path / "a.json", "decode", name="evidence_table").returncode == 1


def test_tables_of_medians_name_the_best_rival(tmp_path):
    """What others measured has only medians; a lost cell is counted and shown."""
    cell = {"group": "forward", "batch": 2, "heads_q": 32, "heads_kv": 8, "seq_q": 8192, "seq_k": 8192, "d_qk": 128, "d_v": 128,
            "dtype": "bfloat16", "causal": 1}
    cells = [{**cell, "us": {"attest": 10.0, "cudnn": 15.0, "fa3": 12.0}},
             {**cell, "causal": 0, "us": {"attest": 10.0, "cudnn": 9.0, "fa3": 11.0}}]
    (tmp_path / "a.json").write_text(json.dumps({"schema": "attest-rival-medians-1", "cells": cells}))
    best = program(tmp_path / "a.json", "best", name="evidence_table")
    assert "| forward | 2 | 1 | 1.04 | 0.90, `b2h32hkv8s8192d128,bf16`, cudnn |" in best.stdout, best.stderr
    shown = program(tmp_path / "a.json", "forward", name="evidence_table").stdout
    assert "| `b2h32hkv8s8192d128,bf16,causal` | 10.00 | 15.00 | 1.50 | 12.00 | 1.20 |" in shown
    cells[0]["dtype"] = "int8"
    (tmp_path / "a.json").write_text(json.dumps({"schema": "attest-rival-medians-1", "cells": cells}))
    assert program(tmp_path / "a.json", "best", name="evidence_table").returncode == 1


def test_tables_of_goals_show_what_is_missed(tmp_path):
    done = [timed(row, attest=100.0, default=150.0) for together in problems.cpu_rows(["bf16"], [1], [512])
            for row in together if row.group == "bf16"]
    record.write(tmp_path / "a.json", record.document(done, "cpu", {}))
    said = program("goals", "cpu", tmp_path / "a.json", name="evidence_table").stdout
    assert "| bf16, geometric mean against PyTorch | at least 2.00 | 1.50 | **missed** |" in said
    assert "bf16, worst cell against PyTorch | at least 1.00 | 1.50, `b1h8s512d" in said
    assert program("goals", "hopper", tmp_path / "a.json", name="evidence_table").returncode == 1


def test_tables_of_the_readme_are_generated():
    """Numbers against PyTorch that no command writes could be wrong unnoticed."""
    inside = False
    for line in (ROOT / "README.md").read_text().splitlines():
        inside = line.startswith("<!-- begin: ") or (inside and line != "<!-- end -->")
        assert inside or not (line.startswith("|") and ("holds" in line or "missed" in line)), line


@pytest.mark.parametrize("files, arguments, status, text", [
    (["h200/gpu_vs_torch.json"], [], 0, "decode, geometric mean against flash: 1.5"),
    (["h200/gpu_vs_torch.json"], ["--goals", "hopper"], 1, "forward, worst cell over its own goal"),
    (["xeon-amx/cpu_vs_torch.json", "xeon-amx/cpu_vs_torch_f32.json"], [], 0, "f32, geometric mean against PyTorch: 1.36"),
    (["epyc-avx512/cpu_vs_torch.json"], [], 1, "bf16, geometric mean against PyTorch: 1.45")])
def test_kept_evidence_is_judged(files, arguments, status, text, capsys):
    kept = [str(ROOT / "evidence" / name) for name in files]
    assert bench.main(["--read", *kept, "--build", str(BUILD), *arguments]) == status
    assert text in capsys.readouterr().out


# The sets of goals that kept files are held to, and those that they miss.
KEPT_GOALS = [
    ("features", ["h200/features.json.gz"], set()),
    ("windows", ["h200/windows.json"], {"windows: worst time over that of the visible tiles"}),
    ("lengths", ["h200/lengths.json"], {"unequal lengths, decode: worst cell against equal ones"}),
    ("pages", ["h200/pages.json"], {"decode from pages: worst time over contiguous"}),
    ("chunk", ["h200/chunk.json"], {"chunk: worst cell against the best of FA2, cuDNN, FA3"}),
    ("few_heads", ["h200/few_heads.json"], {"few heads: worst cell against the best of FA2, cuDNN, FA3"}),
    ("decode_sweep", ["h200/decode_sweep.json"], {"decode sweep: worst cell against the best rival",
                                                  "decode sweep: more than 64 MB: least share of 4.6 TB/s"}),
    ("backward", ["h200/backward.json", "h200/backward_dims.json"], {
        "backward: geometric mean against FA3's fastest mode", "backward: worst cell against FA3's fastest mode",
        "backward: geometric mean against FA3, deterministic", "backward: worst cell against FA3, deterministic",
        "backward: worst cell against cuDNN", "backward, GQA: worst cell against the best rival",
        "backward, D = 96, 192, 256, 192/128: worst cell against cuDNN"}),
    ("experts", ["h200/experts.json"], {"Qwen3, 1 token, us", "gpt-oss, 1 token, us", "DeepSeek-V3, 1 token, us"}),
    ("parallel", ["h200/parallel.json"], {"ring of 4: worst sum of parts and merges over one call",
                                          "ring of 8: worst sum of parts and merges over one call"}),
    ("cpu_backward", ["epyc-avx512_bf16/cpu_backward.json"], {"backward, float32: worst cell against PyTorch"}),
    ("cpu_experts", ["epyc-avx512_bf16/cpu_experts.json"], set())]


def judged_copy(folder, kept, goals, slower=1.0):
    """What the program says about copies of kept files in which attest takes that many times as long."""
    folder.mkdir(exist_ok=True)
    copies = []
    for name in kept:
        path = ROOT / "evidence" / name
        made = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_text())
        for result in made["results"]:
            if result["rival"] == "attest" and result["timed"]:
                result["samples_ns"] = [slower * each for each in result["samples_ns"]]
                for derived in ("median_ns", "low_ns", "high_ns", "spread_percent", "gflops"):
                    result.pop(derived, None)
        copies.append(folder / path.name.replace(".gz", ""))
        copies[-1].write_text(json.dumps(made))
    said = program("judge", *copies, "--goals", goals, "--json", folder / "judged.json")
    assert said.returncode in (0, 1), said.stderr
    found = json.loads((folder / "judged.json").read_text())["standing"]["goals"]
    return said, {goal["goal"] for goal in found}, {goal["goal"] for goal in found if not goal["holds"]}


@pytest.mark.parametrize("goals, kept, missed", KEPT_GOALS, ids=[each[0] for each in KEPT_GOALS])
def test_kept_evidence_holds_what_it_held(goals, kept, missed, tmp_path):
    """A goal that holds today is missed once the evidence is worse."""
    said, found, misses = judged_copy(tmp_path / "now", kept, goals)
    assert misses == missed and said.returncode == bool(missed)
    page = (ROOT / "docs/goals.md").read_text()
    assert all(f"| {goal} | " in page for goal in found)
    said, again, misses = judged_copy(tmp_path / "slower", kept, goals, 6.0)
    assert said.returncode == 1 and misses == again == found


def test_sets_of_goals_are_the_programs_own(tmp_path):
    refused = program("judge", tmp_path / "none.json", "--goals", "best").stderr
    assert f"is not among {' '.join(laboratory.GOALS)}" in refused
    write(tmp_path / "a.json")
    for name in laboratory.GOALS:
        assert program("judge", tmp_path / "a.json", "--goals", name).returncode in (0, 1)


def test_a_feature_is_held_to_its_factor(judged):
    """To plain, to the time in which a bias can be read, and to the tiles that a mask leaves."""
    def goal(made, of):
        holds, text, found = judged([made], "features")
        assert holds == goals_of(found)[of][1] and "not measured" in text  # the others of the set
        return goals_of(found)[of][0]

    rows = problems.gpu_rows(["features"])

    def row(feature, causal):
        return next(each for each in rows if each.problem.feature == feature and each.problem.causal == causal and each.problem.b == 4)

    assert goal(timed(row("softcap", True), attest=13.0, plain=10.0, spread=0.0), "softcap, causal: worst time over plain") == 1.3
    assert goal(timed(row("alibi", False), attest=13.0, plain=10.0, spread=0.0), "ALiBi, full: worst time over plain") == 1.3
    bias, of = row("bias", False), "bias: worst time over plain or the bias's bytes"
    bytes_us = 2 * 16 * 8192**2 / 4.6e6
    assert goal(timed(bias, attest=1300.0, plain=1000.0, spread=0.0), of) == 1.3
    assert goal(timed(bias, attest=1.4 * bytes_us, plain=0.5 * bytes_us, spread=0.0), of) == 1.4
    documents, of = row("documents", False), "masks of intervals: worst time over that of the visible tiles"
    share = documents.problem.fields["visible_tiles"]
    assert share == pytest.approx(372 / 2080)  # eight documents of 1, 3 ... 15 tiles
    assert goal(timed(documents, attest=1100.0 * share, plain=1000.0, spread=0.0), of) == 1.1


def test_usage(capsys, tmp_path, monkeypatch):
    for arguments in (["--groups", "forwards"], ["--threads", "0"], ["--rivals", "nobody"]):
        with pytest.raises(SystemExit) as ended:
            bench.main(arguments)
        assert ended.value.code == 2
    assert bench.main(["--read", str(tmp_path / "none.json"), "--build", str(BUILD)]) == 2
    monkeypatch.setitem(sys.modules, "torch", None)
    assert bench.main(["--build", str(BUILD)]) == 3
    assert "none.json" in capsys.readouterr().err


def test_what_a_call_costs(tmp_path, monkeypatch, capsys):
    from attest.bench import calls

    if not (BUILD / "bench/call_cost").exists():
        pytest.skip("call_cost is not built")
    for name, value in (("ROUNDS", 2), ("BLOCKS", 3), ("CALLS", 5)):
        monkeypatch.setattr(calls, name, value)
    path = tmp_path / "calls.json"
    status = bench.main(["--groups", "calls", "--device", "cpu", "--build", str(BUILD), "--json", str(path)])
    kept = json.loads(path.read_text())
    row = kept["cpu"]["rows"][0]
    assert len(row["python_samples_us"]) == 6 and len(row["c_samples_us"]) == 2 and len(kept["cpu"]["import_samples_ms"]) == 7
    said = capsys.readouterr().out
    assert status == (1 if "MISSED" in said else 0) and "must: at most 3 us more than from C" in said
    for more, wanted in ((2.9, 0), (3.1, 1)):
        for each in kept["cpu"]["rows"]:
            each.update(c_samples_us=[9.0, 5.0], python_samples_us=[5.0 + more, 50.0])  # the smallest counts
        kept["cpu"]["import_samples_ms"] = [80.0, 40.0]
        path.write_text(json.dumps(kept))
        assert program("judge", path).returncode == wanted
    kept["cpu"]["rows"][0]["c_samples_us"] = []
    path.write_text(json.dumps(kept))
    refused = program("judge", path)
    assert refused.returncode == 2 and "c_samples_us" in refused.stderr


def test_what_a_call_costs_on_a_gpu(monkeypatch, tmp_path):
    """The code path, on a CPU instead of the GPU; then the goals, on made-up samples."""
    torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import calls

    for name, value in (("GPU_ROUNDS", 2), ("GPU_CALLS", 3), ("GPU", "cpu")):
        monkeypatch.setattr(calls, name, value)
    for name in ("synchronize", "_sleep", "get_device_name"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: "no GPU")
    monkeypatch.setattr(problems, "gpu_rows", lambda groups: [Row(groups[0], Problem(1, 2, 2, 8, 8, 16, 16, "fp16", True))])
    kept = {"schema": calls.SCHEMA, "cuda": calls.measure_gpu()}
    row = kept["cuda"]["rows"][0]["samples_us"]
    assert all(len(samples) == 2 for names in row.values() for samples in names.values())
    for own, ratio, wanted in ((4.9, 0.49, 0), (5.1, 0.49, 1), (4.9, 0.51, 1)):
        row["host"].update(attention=[own + 3.0, own + 3.0], run=[1.0, 1.0], empty=[2.0, 2.0])
        row["eager"].update(sdpa=[10 * ratio] * 2, torch=[10.0] * 2)
        (tmp_path / "calls.json").write_text(json.dumps(kept))
        assert program("judge", tmp_path / "calls.json").returncode == wanted


def test_kept_calls_are_judged():
    for name, text in (("epyc-avx512", "import attest: 22.9 ms"), ("h200", "NVIDIA H200; microseconds of a call")):
        said = program("judge", ROOT / "evidence" / name / "python_calls.json")
        assert said.returncode == 0 and text in said.stdout, said.stderr


SMALL = ["--device", "cpu", "--sizes", "32", "--dtypes", "f32", "--threads", "1", "--rounds", "2", "--budget", "0",
         "--rivals", "default,math"]


def test_gradients_that_are_wrong_are_not_timed():
    torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import gradients, rivals

    for dtype, causal in (("f32", False), ("bf16", True)):
        inputs = rivals.make_inputs(Problem(2, 4, 2, 40, 40, 16, 16, dtype, causal, backward=True), "cpu", 1)
        checker = gradients.Checker(inputs)
        right = gradients.ATTEST.prepare(inputs)(0)
        assert checker.judge(right, rival=False)[1] == ""
        for i in range(3):
            stale = [each.clone() for each in right]
            stale[i][0, :, 0] = stale[i][0, :, 1]  # another head's
            assert "above" in checker.judge(stale, rival=True)[1]
        lost = [each.clone() for each in right]
        lost[2][1, 3, 1, 0] = torch.nan  # outside the part that is compared
        assert "finite" in checker.judge(lost, rival=False)[1]


@pytest.mark.parametrize("model", ["mixtral", "qwen3", "gpt-oss", "deepseek-v3"])
def test_experts_that_are_wrong_are_not_timed(model, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import experts

    small = layers.MODELS[model]._replace(hidden=64, inner=96, experts=16, k=min(4, layers.MODELS[model].k))
    monkeypatch.setitem(layers.MODELS, model, small)
    problem = layers.Problem(model, 20)
    said = program("bench", problem.spec, "--device", "cpu", "--seconds", 0, "--min-samples", 1, "--max-samples", 1, "--json", "-")
    result = json.loads(said.stdout)["results"][0]
    assert result["problem"]["spec"] == problem.spec and result["flops"] == problem.operations
    inputs = experts.make_inputs(problem, "cpu", 1)
    checker = experts.Checker(inputs)
    right = experts.ATTEST.prepare(inputs)(0)
    assert checker.judge(right, rival=False)[1] == ""
    if hasattr(torch.nn.functional, "grouped_mm"):
        assert checker.judge(experts._grouped_mm(inputs)(0), rival=True)[1] == ""
    stale = right.clone()
    stale[1] = right[2]  # another token's
    assert "wrong" in checker.judge(stale, rival=True)[1]
    experts._kept.clear()


def test_a_run_of_gradients(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    path = tmp_path / "a.json"
    assert bench.main([*SMALL[:-1], "flash", "--groups", "backward", "--build", str(BUILD), "--json", str(path)]) == 0
    assert "backward f32 against PyTorch" in capsys.readouterr().out
    kept = json.loads(path.read_text())["results"]
    assert {each["rival"] for each in kept} == {"attest", "flash"} and all(each["timed"] for each in kept)
    assert all(each["kernel"].startswith("bwd_cpu") for each in kept if each["rival"] == "attest")


def test_a_run(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    path = tmp_path / "a.json"
    assert bench.main([*SMALL, "--goals", "none", "--build", str(BUILD), "--json", str(path), "--plot",
                       str(tmp_path / "a.svg")]) == 0
    said = capsys.readouterr().out
    assert "b1h8s32d64,f32,causal t1: samples of attest 2" in said and "times its speed [95 %]" in said
    kept = json.loads(path.read_text())
    assert len(kept["results"]) == 4 * 3 and all(each["timed"] for each in kept["results"])
    ours = kept["results"][0]
    assert ours["verify"]["outcome"] == "pass" and ours["verify"]["error_o"]["kernel"] < ours["verify"]["error_o"]["bar"]
    assert ours["kernel"].startswith("fwd_cpu") and len(ours["samples_ns"]) == 2
    assert program("report", path).returncode == 0
    assert bench.main(["--read", str(path), "--goals", "none", "--build", str(BUILD)]) == 0
    xml.etree.ElementTree.parse(tmp_path / "a.svg")


def test_a_wrong_answer_is_not_timed(monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    import attest

    right = attest.attention
    monkeypatch.setattr(attest, "attention", lambda *arrays, **options: right(*arrays, **options).mul_(1.01))
    path = tmp_path / "a.json"
    assert bench.main([*SMALL, "--only", "d64,f32 t1", "--json", str(path), "--build", str(BUILD)]) == 1
    kept = json.loads(path.read_text())["results"]
    assert [each["timed"] for each in kept] == [False, True, True] and kept[0]["verify"]["outcome"] == "fail"
    assert "attest: error" in capsys.readouterr().out


def test_paces_and_clocks_of_a_gpu(monkeypatch):
    """The code path for a GPU's rows, with calls on the CPU instead of graphs: every pace, and rivals without a
    graph."""
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import clocks, rivals, run

    asked = []

    class Clock:
        timer = "graph"

        def __init__(self, call, calls):
            self.calls, self._call = calls, call
            call(1)

        def sample(self, mode):
            asked.append(mode)
            self._call(len(asked))
            return 1e3

    def refuse(inputs):
        raise rivals.Refused("not today")

    monkeypatch.setattr(clocks, "GraphClock", Clock)
    found = rivals.find(["default", "flash"], "cpu")
    plain = rivals.Subject("jax", "JAX of another name", found["default"].prepare, graph=False)
    monkeypatch.setattr(run, "_finish_of", lambda subject: lambda output: None)
    subjects = [rivals.ATTEST, found["flash"], plain, rivals.Subject("math", "math", refuse)]
    row = Row("seed", problems.square(1, 2, 32, 16, "fp16", True))
    (done,) = run.time_rows([row], subjects, "cpu", ["warm", "sustained", "burst"], 3, 0.0, run.Progress(1))
    assert set(asked) == {"warm", "sustained", "burst"}
    kept = {key: len(result.samples_ns) for key, result in done.results.items()}
    assert kept == {**{(rival, mode, timer): 3 for mode in ("warm", "sustained", "burst")
                       for rival, timer in (("attest", "graph"), ("flash", "graph"), ("attest", "wall"), ("jax", "wall"))},
                    ("math", "warm", "cpu"): 0}
    assert done.results["math", "warm", "cpu"].trouble == "not today"
    assert "    math: refused: not today" in done.line()


FEATURES = ["--device", "cpu", "--groups", "features", "--threads", "1", "--sizes", "48", "--rivals", "math,plain", "--rounds", "2",
            "--budget", "0", "--goals", "none"]


def test_features_are_timed_beside_plain_scores(tmp_path, capsys):
    """Every feature is right, and its time is shown beside that of attest without it."""
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    path = tmp_path / "a.json"
    assert bench.main([*FEATURES, "--json", str(path), "--build", str(BUILD)]) == 0
    assert "features against attest, plain scores" in capsys.readouterr().out
    kept = json.loads(path.read_text())["results"]
    ours = [each for each in kept if each["rival"] == "attest"]
    assert len(ours) == len(problems.cpu_features([1], [48])) and all(each["verify"]["outcome"] == "pass" for each in ours)
    assert sum(each["timed"] for each in kept if each["rival"] == "plain") == len(ours)
    refused = [each["problem"]["spec"] for each in kept if each["rival"] == "math" and not each["timed"]]
    assert refused and all("softcap" in spec for spec in refused)


def test_windows_are_timed_beside_plain_scores(tmp_path):
    """Answers, the time without a window, and the share of tiles that it is held to."""
    torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import features, run

    rows = [Row("windows", Problem(2, 4, 2, 300, 300, 16, 16, dtype, True, feature="window", window=window), 1)
            for dtype, window in (("f32", 1), ("bf16", 130), ("f32", 300))]
    done = run.run([[row] for row in rows], ["math", "plain"], "cpu", ["warm"], 2, 0.0, lambda timed: None)
    for row, timed in zip(rows, done):
        assert {rival for (rival, _, _), result in timed.results.items() if result.samples_ns} == {"attest", "math", "plain"}
        visible = features.scores(row.problem, "cpu", torch.bfloat16)[0, 0]
        _, mask = features.for_flex(row.problem, "cpu", torch.bfloat16)
        assert torch.equal(mask(0, 0, torch.arange(300)[:, None], torch.arange(300)), visible)
        assert row.problem.pairs == 2 * int(visible.sum())
        tiles = torch.nn.functional.pad(visible, (0, 84, 0, 84)).view(3, 128, 3, 128).any(3).any(1).sum()
        assert row.problem.fields["visible_tiles"] == pytest.approx(int(tiles) / 6)
    record.write(tmp_path / "a.json", record.document(done, "cpu", {}))
    assert program("judge", tmp_path / "a.json", "--goals", "none").returncode == 0


def test_flash_3_gets_the_window():
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import rivals

    asked = []

    class Package:
        @staticmethod
        def flash_attn_func(q, k, v, **options):
            asked.append(options)
            return q

    plain = Problem(1, 2, 2, 32, 32, 16, 16, "bf16", True)
    for problem in (plain, Problem(1, 2, 2, 32, 32, 16, 16, "bf16", True, feature="window", window=8)):
        rivals._flash_3(Package)(rivals.make_inputs(problem, "cpu", 1))(0)
    assert asked == [{"causal": True, "num_splits": 0}, {"causal": True, "num_splits": 0, "window_size": (7, 0)}]
    with pytest.raises(rivals.Refused, match="it has no softcap"):
        rivals._flash_3(Package)(rivals.make_inputs(Problem(1, 2, 2, 32, 32, 16, 16, "bf16", feature="softcap"), "cpu", 1))


def test_a_feature_that_is_left_out_is_not_timed(monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import features

    monkeypatch.setattr(features, "for_attest", lambda *arguments: {})
    path = tmp_path / "a.json"
    assert bench.main([*FEATURES, "--json", str(path), "--build", str(BUILD)]) == 1
    ours = [each for each in json.loads(path.read_text())["results"] if each["rival"] == "attest"]
    wrong = {each["problem"]["spec"] for each in ours if each["verify"]["outcome"] == "fail"}
    seen_whole = {each["problem"]["spec"] for each in ours if each["problem"]["batch"] == 1 and "padding" in each["problem"]["spec"]}
    assert {each["problem"]["spec"] for each in ours} - wrong == seen_whole  # a mask that hides nothing
    capsys.readouterr()


def test_groups_of_features():
    """Every shape and type of bias, every mask, features with one another; and every line is the program's own."""
    rows = {group: [row.problem for row in problems.gpu_rows([group])] for group in problems.GPU_GROUPS}
    assert {(p.shape, p.dtype, p.bias_dtype) for p in rows["bias"]} >= {
        (shape, *types) for shape in ("1hqk", "b1qk", "bhqk", "1h1k")
        for types in (("bf16", "bf16"), ("fp16", "fp16"), ("bf16", "f32"), ("fp16", "f32"))}
    assert {p.d for p in rows["bias"]} == {p.d for p in rows["patterns"]} == {64, 128, 256}
    assert {p.dtype for p in rows["features_fp16"]} == {"fp16"}
    assert {p.feature for p in rows["patterns"]} >= set(problems.MORE_MASKS)
    assert {(p.feature, p.window > 0, p.sinks, p.hkv < p.hq, p.used, p.page > 0) for p in rows["combinations"]} >= {
        (feature, *(i == j for j in range(5))) for feature in ("alibi", "softcap", "bias") for i in range(5)}
    assert {p.call for group in ("masks", "masks_inf", "masks_min") for p in rows[group]} == {"bool", "inf", "min"}
    assert all(p.dtype == "f32" for p in rows["float32"]) and sum(p.sq == 2048 for p in rows["float32"]) == 5
    for group in ("features_fp16", "patterns", "bias", "combinations", "masks", "masks_inf", "masks_min", "float32"):
        lines = [p.spec for p in rows[group]]
        assert len(set(lines)) == len(lines)


def small(problem, s=150):
    """A problem of a GPU's group, small enough for a CPU."""
    rows = s if problem.sq == problem.sk else s // 2
    page = 30 if problem.page else 0
    return replace(problem, b=4 if problem.b > 1 else 1, hq=4, hkv=4 if problem.hq == problem.hkv else 2, sq=rows, sk=s, d=16, dv=16,
                   window=40 if problem.window else 0, page=page, lengths=())


@pytest.mark.parametrize("group", ["features_fp16", "patterns", "bias", "combinations", "masks", "masks_inf", "masks_min", "float32"])
def test_groups_of_features_run(group, tmp_path):
    """On a CPU, small: attest's answers are right, every line is the program's own, and PyTorch takes the same problem."""
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import run

    made = dict.fromkeys(small(row.problem) for row in problems.gpu_rows([group]))
    done = run.run([[Row(group, problem, 1)] for problem in made], ["default", "plain"], "cpu", ["warm"], 1, 0.0, lambda timed: None)
    for timed_row in done:
        results = {rival: result for (rival, _, _), result in timed_row.results.items()}
        assert results["attest"].samples_ns, (timed_row.row.name, results["attest"].trouble)
        problem = timed_row.row.problem
        if problem.feature != "softcap" and not problem.sinks and (problem.bias_dtype or problem.dtype) == problem.dtype:
            assert results["default"].samples_ns, (timed_row.row.name, results["default"].trouble)
    if group not in ("masks", "masks_inf", "masks_min"):
        assert all(rival in {name for name, _, _ in timed_row.results} for timed_row in done for rival in ("attest", "default"))
    record.write(tmp_path / "a.json", record.document(done, "cpu", {}))
    said = program("judge", tmp_path / "a.json", "--goals", "none")
    assert said.returncode == 0, said.stdout + said.stderr
    lines = [problem.spec for problem in made]
    said = program("bench", *lines, "--device", "cpu", "--seconds", 0, "--min-samples", 1, "--max-samples", 1, "--json", "-")
    results = json.loads(said.stdout)["results"]
    assert [each["problem"]["spec"] for each in results] == lines
    assert [each["flops"] for each in results] == [problem.operations for problem in made]
