"""test_bench.py: attest.bench: problems, goals, files that the program reads; and a whole small run where PyTorch is."""

import json
import os
import random
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest
from attest.bench import __main__ as bench
from attest.bench import fa3, judge, plot, problems, record, samples, table
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


def judged(done, goals, facts=None, modes=("warm",)):
    return judge.judge(done, facts or {}, goals, list(modes))


def test_problems_are_the_programs_own():
    """Names and operations, as `attest bench` has them."""
    small = [Problem(1, 2, 2, 8, 8, 16, 16, "f32"), Problem(2, 4, 2, 8, 8, 16, 8, "bf16", True),
             Problem(1, 4, 1, 1, 40, 16, 16, "fp16"), Problem(1, 1, 1, 9, 5, 8, 8, "f32", True),
             Problem(1, 1, 1, 5, 9, 8, 8, "f32", True)]
    said = program("bench", *(each.spec for each in small), "--device", "cpu", "--seconds", 0, "--min-samples", 1,
                   "--max-samples", 1, "--json", "-")
    results = json.loads(said.stdout)["results"]
    assert [each["problem"]["spec"] for each in results] == [each.spec for each in small]
    assert [each["flops"] for each in results] == [each.operations for each in small]
    assert [record.parse_spec(each.spec) for each in small] == small
    with pytest.raises(ValueError, match="no problem"):
        record.parse_spec("b1h1s8d8,fp16,paged=16")


def test_groups():
    rows = {group: problems.gpu_rows([group]) for group in problems.GPU_GROUPS}
    assert [len(rows[group]) for group in ("forward", "fp16", "gqa", "dims", "seed", "decode")] == [24, 24, 2, 16, 8, 6]
    assert {row.problem.spec for row in rows["gqa"]} == {"b2h32hkv8s8192d128,bf16,causal", "b2h32hkv8s8192d128,fp16,causal"}
    assert any(row.problem.dv == 128 and row.problem.d == 192 for row in rows["dims"])
    swept = {(row.problem.sq, row.problem.hq) for row in rows["sweep"]}
    assert {s for s, _ in swept} == set(problems.SWEEP_SIZES) and {h for _, h in swept} == set(problems.SWEEP_HEADS)
    together = problems.cpu_rows(["f32", "bf16"], [1, 2], [512])
    assert len(together) == 2 * (2 + 2 + 2) and all(len(rows) == 2 for rows in together if rows[0].group != "decode")


def test_intervals_and_ratios():
    assert samples.interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert samples.interval([float(x) for x in range(15)]) == (3.0, 11.0)
    assert samples.paired([2.0, 40.0, 6.0], [1.0, 20.0, 1.0]) == 2.0
    assert samples.spread_percent([1.0]) == 0.0 and samples.spread_percent([1.0, 2.0, 3.0]) == 50.0


def test_fa3_is_placed_by_its_ratio_to_cudnn():
    cell = problems.square(1, 16, 16384, 128, "bf16", True)
    assert fa3.over_cudnn(cell) == pytest.approx(max(669 / 564, 645 / 527))
    assert fa3.over_cudnn(problems.square(1, 16, 16384, 96, "bf16")) is None
    assert fa3.over_cudnn(problems.square(3, 16, 512, 128, "bf16")) is None
    row = timed(Row("forward", cell), attest=100.0, cudnn=110.0, flash=150.0, spread=0.0)
    assert table.placed_ratio(row, "warm") == pytest.approx(1.1 * 527 / 645)
    assert judge.best_rival(row, "warm") == (pytest.approx(1.1 * 527 / 645), "FA3")


def test_goals_of_a_gpu(capsys):
    forward = [timed(row, attest=10.0, flash=12.0, cudnn=9.0) for row in problems.gpu_rows(["forward", "seed"])]
    decode = [timed(row, attest=10.0, flash=16.0, cudnn=10.1) for row in problems.gpu_rows(["decode"])]
    rate = max(each.row.problem.kv_bytes for each in decode) / 10e-6
    assert judged(forward + decode[:1], ["flash"])
    assert not judged(forward + decode, ["flash"], {"copy_bytes": rate})  # B = 8 reads less in the same time
    assert "least share of the copy rate: 0.12" in capsys.readouterr().out
    assert not judged([*forward, timed(Row("seed", problems.square(1, 8, 64, 64, "fp16")), attest=10.0, flash=9.9)], ["flash"])
    assert not judged(forward, ["hopper"])
    assert "x FA3 (must 1.0" in capsys.readouterr().out
    assert judged([timed(row, attest=10.0, flash=16.0, cudnn=16.0) for row in problems.gpu_rows(["forward", "gqa", "dims"])],
                  ["hopper"])


def test_goals_are_of_the_sustained_pace_where_there_is_one():
    row = problems.gpu_rows(["seed"])[0]
    made = timed(row, attest=10.0, flash=20.0)
    for rival, us in (("attest", 10.0), ("flash", 9.0)):
        made.add(Result(rival, rival, "graph", "sustained", [us] * 5))
    assert judged([made], ["flash"]) and not judged([made], ["flash"], modes=("warm", "sustained"))


def test_goals_of_a_cpu(capsys):
    def rows(causal_us):
        return [timed(row, attest=causal_us if row.problem.causal else 100.0, default=250.0)
                for together in problems.cpu_rows(["bf16"], [1], [2048]) for row in together if row.group == "bf16"]

    assert judged(rows(55.0), ["cpu"])
    assert not judged(rows(70.0), ["cpu"])
    assert "causal   over full time at S >= 2048: worst 0.70 (must 0.6)" in capsys.readouterr().out


def test_wrong_answers_fail():
    made = Timed(problems.gpu_rows(["seed"])[0])
    made.add(Result("PyTorch 2.11.0 math", "math", trouble="refused: too large"))
    assert judged([made], [])
    made.add(Result("attest", "attest", trouble="error 1 is above 0.1", wrong=True))
    assert not judged([made], [])


def test_cliffs():
    rows = problems.gpu_rows(["sweep"])
    done = [timed(row, attest=row.problem.operations / 5e8, spread=0.0) for row in rows]
    assert judge.cliffs(done, "warm") == [] and judged(done, [])
    slow = next(i for i, row in enumerate(rows) if row.problem.sq == 1449 and row.problem.hq == 8)
    done[slow] = timed(rows[slow], attest=1.3 * rows[slow].problem.operations / 5e8, spread=0.0)
    found = judge.cliffs(done, "warm")
    assert [name for _, name in found] == [rows[slow].name] and found[0][0] == pytest.approx(1 / 1.3)
    assert not judged(done, [])
    last = max((row.problem.sq, i) for i, row in enumerate(rows) if row.problem.hq == 1 and row.problem.d == 64)[1]
    done[last] = timed(rows[last], attest=1.3 * rows[last].problem.operations / 5e8, spread=0.0)
    assert rows[last].name in [name for _, name in judge.cliffs(done, "warm")]


def test_pictures():
    done = [timed(row, attest=10.0, flash=12.0) for row in problems.gpu_rows(["forward", "sweep"])]
    root = xml.etree.ElementTree.fromstring(plot.svg(done, "warm"))
    assert len(root.findall(".//{*}polyline")) == 4 * 2 + 4 * len(problems.SWEEP_HEADS) * 2
    assert "1.20 x flash" in plot.bars(done, "warm") and plot.bars(done, "burst") == ""
    xml.etree.ElementTree.fromstring(plot.svg([], "warm"))


def write(path, scale=1.0):
    done = [timed(row, attest=1000.0 * scale, default=1500.0) for together in problems.cpu_rows(["f32"], [2], [512])
            for row in together]
    refused = done[0].add(Result("PyTorch 2.11.0 math", "math", trouble="refused: not today"))
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


def test_files_are_read_back(tmp_path):
    done = write(tmp_path / "a.json")
    back, facts = record.read([str(tmp_path / "a.json")])
    assert facts["torch"] == "2.11.0" and [each.row for each in back] == [each.row for each in done]
    for one, other in zip(back, done):
        assert one.ratio("default") == other.ratio("default")
        assert {key: result.trouble for key, result in one.results.items()} == {
            key: result.trouble for key, result in other.results.items()}
    (tmp_path / "c.json").write_text('{"schema": "other"}')
    with pytest.raises(ValueError, match="c.json: schema is 'other'"):
        record.read([str(tmp_path / "c.json")])


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


@pytest.mark.parametrize("files, arguments, status, text", [
    (["h200/gpu_vs_torch.json"], [], 0, "decode, geometric mean against flash: 1.5"),
    (["h200/gpu_vs_torch.json"], ["--goals", "hopper"], 1, "x FA3 (must"),
    (["xeon-amx/cpu_vs_torch.json", "xeon-amx/cpu_vs_torch_f32.json"], [], 0, "f32      geometric mean 1.36")])
def test_kept_evidence_is_judged(files, arguments, status, text, capsys):
    assert bench.main(["--read", *(str(ROOT / "evidence" / name) for name in files), *arguments]) == status
    assert text in capsys.readouterr().out


def test_usage(capsys, tmp_path, monkeypatch):
    for arguments in (["--groups", "forwards"], ["--threads", "0"], ["--rivals", "nobody"]):
        with pytest.raises(SystemExit) as ended:
            bench.main(arguments)
        assert ended.value.code == 2
    assert bench.main(["--read", str(tmp_path / "none.json")]) == 2
    monkeypatch.setitem(sys.modules, "torch", None)
    assert bench.main([]) == 3
    assert "none.json" in capsys.readouterr().err


def test_what_a_call_costs(tmp_path, monkeypatch):
    from attest.bench import calls

    if not (BUILD / "bench/call_cost").exists():
        pytest.skip("call_cost is not built")
    for name, value in (("ROUNDS", 1), ("BLOCKS", 2), ("CALLS", 5), ("CALL_GOAL_US", 1e6), ("IMPORT_GOAL_MS", 1e6)):
        monkeypatch.setattr(calls, name, value)
    arguments = ["--groups", "calls", "--device", "cpu", "--build", str(BUILD), "--json", str(tmp_path / "calls.json")]
    assert bench.main(arguments) == 0
    kept = json.loads((tmp_path / "calls.json").read_text())
    assert kept["cpu"]["rows"][0]["python_us"] > 0
    monkeypatch.setattr(calls, "CALL_GOAL_US", 0.0)
    assert bench.main(arguments) == 1


def test_what_a_call_costs_on_a_gpu(monkeypatch, capsys):
    """The way of it, on a CPU in the place of the GPU."""
    torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    from attest.bench import calls

    for name, value in (("GPU_ROUNDS", 2), ("GPU_CALLS", 3), ("GPU", "cpu"), ("HOST_GOAL_US", 1e6), ("EAGER_GOAL", 1e6)):
        monkeypatch.setattr(calls, name, value)
    for name in ("synchronize", "_sleep", "get_device_name"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: "no GPU")
    monkeypatch.setattr(problems, "gpu_rows", lambda groups: [Row(groups[0], Problem(1, 2, 2, 8, 8, 16, 16, "fp16", True))])
    kept = calls.measure_gpu()
    row = kept["rows"][0]
    host = row["median_us"]["host"]
    assert kept["holds"] and row["own_us"] == host["attention"] - host["run"] - host["empty"]
    assert all(len(samples) == 2 for names in row["samples_us"].values() for samples in names.values())
    assert "the extension's own at most" in capsys.readouterr().out
    for name in ("HOST_GOAL_US", "EAGER_GOAL"):
        with monkeypatch.context() as patch:
            patch.setattr(calls, name, -1e6)
            assert not calls.measure_gpu()["holds"]


SMALL = ["--device", "cpu", "--sizes", "32", "--dtypes", "f32", "--threads", "1", "--rounds", "2", "--budget", "0",
         "--rivals", "default,math"]


def test_a_run(tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    path = tmp_path / "a.json"
    assert bench.main([*SMALL, "--goals", "none", "--build", str(BUILD), "--json", str(path), "--plot",
                       str(tmp_path / "a.svg")]) == 0
    said = capsys.readouterr().out
    assert "b1h8s32d64,f32,causal t1" in said and "times the speed of the fastest rival" in said
    kept = json.loads(path.read_text())
    assert len(kept["results"]) == 4 * 3 and all(each["timed"] for each in kept["results"])
    ours = kept["results"][0]
    assert ours["verify"]["outcome"] == "pass" and ours["verify"]["error_o"]["kernel"] < ours["verify"]["error_o"]["bar"]
    assert ours["kernel"].startswith("fwd_cpu") and len(ours["samples_ns"]) == 2
    assert program("report", path).returncode == 0
    assert bench.main(["--read", str(path), "--goals", "none"]) == 0
    xml.etree.ElementTree.parse(tmp_path / "a.svg")


def test_a_wrong_answer_is_not_timed(monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
    import attest

    right = attest.attention
    monkeypatch.setattr(attest, "attention", lambda *arrays, **options: right(*arrays, **options).mul_(1.01))
    path = tmp_path / "a.json"
    assert bench.main([*SMALL, "--only", "d64,f32 t1", "--json", str(path)]) == 1
    kept = json.loads(path.read_text())["results"]
    assert [each["timed"] for each in kept] == [False, True, True] and kept[0]["verify"]["outcome"] == "fail"
    assert "attest: error" in capsys.readouterr().out


def test_paces_and_clocks_of_a_gpu(monkeypatch):
    """The way of a GPU's rows, with calls on the CPU in the place of graphs: every pace, and rivals that have no graph."""
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
    assert done.results["math", "warm", "cpu"].trouble == "refused: not today"
    assert done.ratio("flash", "burst") == 1.0
    assert done.ratio("jax") == samples.paired(done.results["jax", "warm", "wall"].samples_ns,
                                               done.results["attest", "warm", "wall"].samples_ns)
    assert done.ratio("math") is None and table.modes_of([done]) == ["warm", "sustained", "burst"]
