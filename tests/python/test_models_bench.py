"""test_models_bench.py: the models of the bench's group `models` give right answers, wrong ones are not timed, and the
samples are judged."""

import copy
import json
import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
transformers = pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")
pytest.importorskip("transformers.integrations.moe", reason="transformers has no experts interface: its tests are left out")

import attest.torch as at  # noqa: E402
from attest._transformers import attention_forward  # noqa: E402
from attest._transformers_experts import experts_forward  # noqa: E402
from attest.bench import __main__ as bench  # noqa: E402
from attest.bench import models  # noqa: E402
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of transformers and PyTorch about each other

BUILD = Path(os.environ.get("BUILD", "build")).resolve()
TINY = models.SIZES["cpu"]
RIVALS = ["sdpa", "eager", "grouped_mm"]
CELLS = {"image": ["prefill"], "encoder": ["prefill", "prefill, left-padded"]}
ALL_CELLS = ["prefill", "prefill, left-padded", "generation, dynamic cache", "generation, static cache"]


@pytest.fixture(scope="module", autouse=True)
def registered():
    at.register_transformers()


def rows_of(name, size=TINY, rivals=("eager",)):
    with torch.no_grad():
        return list(models.measure_model(name, size, "cpu", rivals, 1))


@pytest.mark.parametrize("name", models.MODELS)
def test_every_model_gives_right_answers(name):
    """Those that transformers does not compute with sdpa are the only ones that refuse."""
    model, rows = models.MODELS[name], rows_of(name, rivals=RIVALS)
    assert [row["cell"] for row in rows] == CELLS.get(model.inputs, ALL_CELLS)
    refuses = ["sdpa"] if name in ("gemma2", "gpt-oss") else []
    names = {"attest", "eager", "grouped_mm" if model.experts else "sdpa"} - set(refuses)
    for row in rows:
        assert list(row["trouble"]) == refuses and all("refused: " in text for text in row["trouble"].values())
        assert set(row["seconds"]) == set(row["errors"]) == names and all(len(each) == 1 for each in row["seconds"].values())
        assert model.experts or (row["served"] > 0 and row["passed_on"] == 0)


@pytest.mark.parametrize("name", ["gemma3", "gpt-oss", "llama4", "whisper", "deepseek-v3"])
def test_bfloat16(name):
    for row in rows_of(name, TINY._replace(dtype=torch.bfloat16)):
        assert not row["trouble"] and set(row["seconds"]) == {"attest", "eager"} and row["dtype"] == "bfloat16"
        assert 1e-3 < row["bar"] < 0.1


def test_tokens_are_the_real_ones():
    prefill, padded, dynamic, static = rows_of("mistral")
    assert (prefill["tokens"], padded["tokens"]) == (2 * 24, 24 + 12)
    assert dynamic["tokens"] == static["tokens"] == 2 * TINY.new


@pytest.mark.parametrize("name", ["llama", "mixtral"])
@pytest.mark.parametrize("fault", ["wrong", "refused"])
def test_what_is_wrong_is_not_timed(monkeypatch, name, fault):
    """One sequence's answer by one percent, or an error."""
    def spoil(o):
        if fault == "refused":
            raise ValueError("out of order. Come back later")
        o[len(o) // 2:] *= 1.01  # of two sequences, or of the tokens of both
        return o

    def spoiled_attention(*arguments, **named):
        o, weights = attention_forward(*arguments, **named)
        return spoil(o), weights

    transformers.AttentionInterface.register("spoiled", spoiled_attention)
    ALL_EXPERTS_FUNCTIONS.register("spoiled", lambda *arguments: spoil(experts_forward(*arguments)))
    monkeypatch.setitem(models.ATTENTION, "attest", "spoiled")
    monkeypatch.setitem(models.EXPERTS, "attest", "spoiled")
    for row in rows_of(name):
        assert list(row["seconds"]) == ["eager"] and list(row["trouble"]) == ["attest"]
        assert row["trouble"]["attest"].startswith("refused: out of order" if fault == "refused" else "wrong: error ")


@pytest.mark.parametrize("name", models.MODELS)
def test_real_sizes(name):
    """transformers takes their configurations, and the longest input fits."""
    model, size = models.MODELS[name], models.SIZES["cuda"]
    kind = getattr(transformers, model.kind)
    with torch.device("meta"):
        built = kind(kind.config_class(**model.config))
    config = built.config
    most = {"sound": getattr(config, "max_target_positions", 0)}.get(model.inputs, getattr(config, "max_position_embeddings", size.rows))
    assert most >= (min(size.rows // 8, 256) if model.inputs == "sound" else size.rows)
    assert sum(weight.numel() for weight in built.parameters()) < 15e9


def test_the_group_of_the_bench(tmp_path, capfd):
    path, common = tmp_path / "models.json", ["--device", "cpu", "--build", str(BUILD)]
    assert bench.main(["--groups", "models", "--only", "bert", "--rounds", "2", "--json", str(path), *common]) == 0
    said, kept = capfd.readouterr().out, json.loads(path.read_text())
    assert "attest tokens/s" in said and "left-padded" in said and "sdpa" in said and "holds" in said
    assert kept["schema"] == models.SCHEMA and [row["model"] for row in kept["rows"]] == ["bert", "bert"]
    assert all(len(samples) == 2 for row in kept["rows"] for samples in row["seconds"].values())
    assert bench.main(["--groups", "models", "--only", "vit", "--rivals", "none", "--rounds", "1", "--json", str(path), *common]) == 0
    assert list(json.loads(path.read_text())["rows"][0]["seconds"]) == ["attest"]
    assert bench.main(["--groups", "models", "--only", "nothing", *common]) == 2
    assert bench.main(["--groups", "models,seed", *common]) == 2


def kept_samples():
    row = {"model": "llama", "cell": "prefill", "problem": "2 x 32 tokens", "tokens": 64, "compared": "attention", "dtype": "float32",
           "errors": {"attest": 1e-7, "sdpa": 1e-7}, "bar": 1e-5, "served": 2, "passed_on": 0, "trouble": {"eager": "refused: late"},
           "seconds": {"attest": [0.1 + 0.001 * i for i in range(9)], "sdpa": [0.2 + 0.002 * i for i in range(9)]}}
    return {"schema": models.SCHEMA, "machine": {"device": "cuda"}, "rows": [row]}


def spoiled(change):
    made = copy.deepcopy(kept_samples())
    change(made["rows"][0])
    return made


@pytest.mark.parametrize("change, status, text", [
    (lambda row: None, 0, "2.000"), (lambda row: None, 0, "FASTER"), (lambda row: None, 0, "llama, prefill: eager: refused: late"),
    (lambda row: row["seconds"].update(sdpa=row["seconds"]["attest"]), 0, "SAME"),
    (lambda row: row["seconds"].update(sdpa=[0.05] * 9), 0, "SLOWER"),
    (lambda row: row["seconds"].update(sdpa=[0.2]), 2, "the numbers of samples differ"),
    (lambda row: row["seconds"].pop("attest"), 1, "MISSED"), (lambda row: row.update(passed_on=1), 1, "MISSED"),
    (lambda row: row.update(passed_on="one"), 2, "passed_on"), (lambda row: row["trouble"].update(eager=1), 2, "eager"),
    (lambda row: row["seconds"].update(sdpa=[None]), 2, "sdpa"), (lambda row: row.pop("tokens"), 2, "tokens"),
    (lambda row: row.update(tokens=0), 2, "tokens"), (lambda row: row.pop("seconds"), 2, "seconds"),
    (lambda row: row.clear(), 2, "model")])
def test_kept_samples_are_judged(tmp_path, change, status, text):
    """Speeds with a verdict, and the goals: right answers, and nothing passed on."""
    path = tmp_path / "models.json"
    path.write_text(json.dumps(spoiled(change)))
    done = subprocess.run([BUILD / "attest", "judge", path], check=False, capture_output=True, text=True)
    assert done.returncode == status and text in done.stdout + done.stderr


def test_a_file_without_rows(tmp_path):
    path = tmp_path / "models.json"
    path.write_text(json.dumps({**kept_samples(), "rows": []}))
    done = subprocess.run([BUILD / "attest", "judge", path], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "has no rows" in done.stderr
