"""test_parallel.py: attention over a process group: the cut, and answers, bits and messages of several ranks."""

import ast
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: its tests are left out")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("PyTorch has no gloo here", allow_module_level=True)

from attest._parallel.band import Mask, band_of  # noqa: E402
from attest._parallel.parts import Parts  # noqa: E402
from attest._parallel.tree import Tree, nodes_of  # noqa: E402
from attest.torch import parallel  # noqa: E402
from attest.torch.parallel.context import Sharing  # noqa: E402
from attest.torch.parallel.ulysses import head_ranges  # noqa: E402
from attest.torch.parallel.whole_sequence import _begins_at_0, _longest  # noqa: E402


def run(program, *words, seconds=900):
    """The lines that a program of this folder prints."""
    done = subprocess.run([sys.executable, str(Path(__file__).with_name(program)), *map(str, words)], capture_output=True,
                          text=True, timeout=seconds, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


# --------------------------------------------------------------------------------------------------------- the cut


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("make", [parallel.zigzag, parallel.contiguous])
def test_shards_join_to_the_whole(make, ranks):
    cut, x = make(37, ranks), torch.arange(2 * 37 * 3).view(2, 37, 3)
    shards = [cut.shard(x, rank) for rank in range(ranks)]
    assert torch.equal(cut.join(shards), x)
    assert [shard.shape[1] for shard in shards] == [cut.rows_of(rank) for rank in range(ranks)]
    assert all(torch.equal(x[:, cut.positions(rank)], shard) for rank, shard in enumerate(shards))
    lens = torch.tensor([0, 5, 37])
    assert torch.equal(sum(cut.lengths_of(rank, lens) for rank in range(ranks)), lens)


def test_a_cut_of_lists_is_one_of_numbers():
    """It must be hashable; and travels between processes."""
    cut = parallel.Cut([4, 4], torch.tensor([0, 1]), 2)
    assert cut == parallel.Cut((4, 4), (0, 1), 2) and hash(cut) and pickle.loads(pickle.dumps(cut)) == cut


def test_zigzag_is_equal_work():
    cut = parallel.zigzag(1024, 4)
    assert cut.owners == (0, 1, 2, 3, 3, 2, 1, 0)
    assert len({int((cut.positions(rank) + 1).sum()) for rank in range(4)}) == 1
    assert parallel.zigzag(1024, 2, pieces=8).owners == (0, 0, 1, 1, 1, 1, 0, 0)


def test_a_cut_of_two_groups():
    """Ranks of a heads group become one rank of the ring; its pieces are adjacent."""
    cut = parallel.zigzag(64, 4)
    assert cut.of_groups(2) == parallel.Cut((16, 32, 16), (0, 1, 0), 2)
    assert cut.of_ranks(2, 2) == parallel.Cut((8, 8, 8, 8), (0, 1, 1, 0), 2)


@pytest.mark.parametrize("cut", [parallel.zigzag(64, 4), parallel.contiguous(64, 4), parallel.zigzag(37, 3), parallel.zigzag(64, 2, pieces=16),
                                 parallel.Cut((5, 0, 7, 9, 3, 0), (0, 1, 0, 1, 1, 0), 2)])
def test_positions_of_a_rank_are_known_as_such(cut, monkeypatch):
    """transformers counts where positions jump. Equal shards need two comparisons at most: the host waits for each."""
    compared, equal = [], torch.equal
    monkeypatch.setattr(torch, "equal", lambda a, b: compared.append(1) or equal(a, b))
    sharing = Sharing(cut, None, "ring", None, None, None, None)
    for rank in range(cut.ranks):
        positions = cut.positions(rank)
        packed = (positions.diff(prepend=positions[:1] - 1) != 1).cumsum(-1)[None]
        compared.clear()
        assert sharing._has_positions(packed)
        packed[0, -1] += 1
        assert not sharing._has_positions(packed)
        assert len(set(cut.lengths)) > 1 or len(compared) <= 4


def test_the_last_position_of_a_rank():
    """Counted from the start of each document; a rank that has only first rows of documents may count from 0."""
    cut = parallel.contiguous(12, 3)
    assert [_longest(cut, None, rank) for rank in range(3)] == [4, 8, 12] and _longest(cut, None, None) == 12
    assert [_longest(cut, (0, 3, 4, 10, 12), rank) for rank in range(3)] == [3, 4, 6]
    assert _longest(parallel.Cut((12,), (0,), 2), None, 1) == 0
    assert [_begins_at_0(cut, rank, None) for rank in range(3)] == [True, False, False]
    assert [_begins_at_0(cut, rank, (0, 4, 4, 9, 12)) for rank in range(3)] == [True, True, False]


@pytest.mark.parametrize("wrong", [
    lambda: parallel.zigzag(8, 0), lambda: parallel.zigzag(8, 2, pieces=6), lambda: parallel.contiguous(8, 2, pieces=3),
    lambda: parallel.zigzag(8, 2).shard(torch.zeros(1, 9), 0), lambda: parallel.zigzag(8, 2).join([torch.zeros(1, 4)]),
    lambda: parallel.zigzag(8, 2).join([torch.zeros(1, 4), torch.zeros(1, 5)]), lambda: parallel.zigzag(-8, 2),
    lambda: parallel.Cut((4, 4), (0, 2), 2), lambda: parallel.Cut((4, 4), (0, -1), 2), lambda: parallel.Cut((4, 4), (0,), 2),
    lambda: parallel.Cut((4, -4), (0, 1), 2), lambda: parallel.Cut((), (), 0)])
def test_a_cut_that_does_not_fit(wrong):
    with pytest.raises(ValueError):
        wrong()


# ------------------------------------------------------------------------------------------------- parts and order


def test_bands_are_the_mask():
    """Every part, for every small pair of pieces, sees what the mask of the whole makes visible."""
    for mask in (Mask(), Mask(True), Mask(True, 2), Mask(False, 1, 3), Mask(True, None, None, 4), Mask(False, 0, 0, -3),
                 Mask(True, 3, None, -2)):
        for rows in ((0, 5), (3, 4), (6, 11), (2, 2)):
            for keys in ((0, 5), (4, 12), (7, 8)):
                seen = {(i, j) for i in range(*rows) for j in range(*keys)
                        if not (mask.causal and j > i + mask.shift)
                        and not (mask.left is not None and j < i + mask.shift - mask.left)
                        and not (mask.right is not None and j > i + mask.shift + mask.right)}
                band, found = band_of(mask, rows, keys), set()
                if band is not None:
                    for i in range(*band.rows):
                        for j in range(*band.keys):
                            off = (j - band.keys[0]) - (i - band.rows[0])
                            if (band.left is None or off >= -band.left) and (band.right is None or off <= band.right):
                                found.add((rows[0] + i, keys[0] + j))
                assert found == seen, (mask, rows, keys)
                if band is not None:
                    placed = band.placed()
                    first_row, first_key = rows[0] + band.rows[0] + mask.shift, keys[0] + band.keys[0]
                    assert placed["q_offset"] - placed["k_offset"] == first_row - first_key
                    left, right = placed.get("window", (None, None))
                    assert left in (None, mask.left) and right in (None, mask.right)
                    assert mask.causal or mask.right == 0 or "causal" not in placed


def test_the_order_does_not_depend_on_what_comes_first():
    leaves = frozenset((0, 1, 3, 4, 6))
    for order in ((0, 1, 3, 4, 6), (6, 4, 3, 1, 0), (3, 0, 6, 1, 4)):
        tree = Tree(7, leaves, lambda left, right: f"({left}{right})")
        for leaf in order:
            tree.put((0, leaf), str(leaf))
        assert tree.root() == "(((01)3)(46))"
    assert nodes_of(7, leaves, frozenset((0, 1, 6))) == [(1, 0), (1, 3)]
    assert Tree(7, frozenset(), None).root() is None


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_gradients_return_once(ranks):
    """A step returns d_k and d_v of no more rows than a shard has: causal with zigzag, and contiguous cuts."""
    for cut, mask in ((parallel.zigzag(64, ranks), Mask(True)), (parallel.contiguous(64, ranks), Mask())):
        parts = Parts(cut, cut, mask)
        for rank in range(ranks):
            for owner in range(ranks):
                assert sum(cut.lengths[piece] for piece, _ in parts.gifts(rank, owner)) <= 64 // ranks or rank == owner


def test_heads_are_dealt():
    assert head_ranges(8, 4, 2) == (((0, 4), (4, 8)), ((0, 2), (2, 4)))
    assert head_ranges(8, 2, 4)[1] == ((0, 1), (0, 1), (1, 2), (1, 2))
    for wrong in ((6, 6, 4), (12, 3, 2), (12, 6, 4)):
        with pytest.raises(ValueError, match="heads"):
            head_ranges(*wrong)


# ------------------------------------------------------------------------------------------------------- on ranks


SCENES = ("masks=2,3,4,8", "alibi=2,3", "heads=2,4", "two_groups=4", "unequal=1,2,3", "digest=1,2,2,4,8", "bytes=4")


@pytest.fixture(scope="module")
def scenes():
    """The output of each scene; one program for all, because it takes seconds to start."""
    lines = [line.split(maxsplit=2) for line in run("parallel_path.py", *SCENES)]
    return {name: [(int(ranks), answer) for scene, ranks, answer in lines if scene == name]
            for name in ("masks", "alibi", "heads", "two_groups", "unequal", "digest", "bytes")}


def test_every_mask_on_several_ranks(scenes):
    """O and gradients of 2, 3, 4 and 8 ranks, float32 and bfloat16, within the bar of one process."""
    assert [ranks for ranks, _ in scenes["masks"]] == [2, 3, 4, 8]


def test_slopes_count_distances_in_the_whole(scenes):
    """ALiBi by ring and gather on 2 and 3 ranks, both cuts, with masks and without: O and all gradients."""
    assert [ranks for ranks, _ in scenes["alibi"]] == [2, 3]


def test_heads_over_ranks(scenes):
    """Ulysses on 2 and 4 ranks, k with 2 heads; and a ring of 2 groups of 2 ranks."""
    assert [ranks for ranks, _ in scenes["heads"]] == [2, 4] and [ranks for ranks, _ in scenes["two_groups"]] == [4]


def test_unequal_and_empty_shards(scenes):
    assert [ranks for ranks, _ in scenes["unequal"]] == [1, 2, 3]


def test_the_same_cut_has_the_same_bits(scenes):
    """From run to run, and on 1, 2, 4 and 8 ranks."""
    assert len(scenes["digest"]) == 5 and len({digest for _, digest in scenes["digest"]}) == 1


def test_a_step_sends_k_and_v_once(scenes):
    """A header of constant size, then at most K and V of the shard per step; with a window, what is visible."""
    (_, answer), = scenes["bytes"]
    for rank, found in ast.literal_eval(answer).items():
        assert len({steps[0] for steps in found.values()}) == 1
        for rows in (64, 128):
            shard = 2 * (rows // 4) * 2 * 16 * 4
            assert found["full", rows][1:] == [shard] * 3
            assert len(found["causal", rows]) == 4 and max(found["causal", rows][1:]) <= shard
            assert sum(found["window", rows][1:]) <= shard, rank


def test_unusual_calls():
    """Sizes, strides, graphs and mistakes of every method, on 2 and 3 ranks."""
    assert run("parallel_odd.py", 2, 3) == ["2", "3"]


def test_models_and_the_function_in_place():
    """Llama, Mistral, Gemma 2 and gpt-oss, PyTorch's function and a layer of torch.nn within enable(), on 2 ranks: logits
    and gradients of one process."""
    pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")
    assert run("parallel_models.py", 2)[-1] == "2"


def test_the_examples_of_the_page_run(tmp_path):
    """Those of docs/parallel.md one after another, with fewer rows, on 2 ranks."""
    pytest.importorskip("transformers", reason="transformers is not here: its tests are left out")
    page = (Path(__file__).resolve().parents[2] / "docs/parallel.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(examples) == 3 and all("parallel." in each for each in examples) and "16384" in examples[0]
    program = tmp_path / "examples.py"
    program.write_text("\n".join(examples).replace("16384", "64") + "\nprint(tuple(logits.shape), tuple(o.shape), q.grad.any().item(), flush=True)\n"
                       "dist.destroy_process_group()\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(program)], capture_output=True, text=True,
                          timeout=900, check=False, env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("(1, 32, 32000) (1, 8, 32, 128) True") == 2, done.stdout + done.stderr[-3000:]


def test_faults_name_rank_and_field():
    """Rank 1 of 3 calls with other arguments, dies or hangs: the others report it, within the timeout plus a second."""
    told = dict(line.split(maxsplit=1) for line in run("parallel_faults.py"))
    for found in ast.literal_eval(told.pop("shapes")).values():
        assert len(found) == 31
        for (method, field), error in found.items():
            assert error is not None and error[:2] == (1, field) and "rank 1" in error[2], (method, error)
    for rank, found in ast.literal_eval(told.pop("two_groups")).items():
        error = found["two groups"]
        assert error is not None and error[:2] == (3, "heads_q") and error[3] < 2, error
        assert ("rank 1 (of all processes, 3) has heads_q=8" if rank > 1 else "rank 3 of all processes: heads_q") in error[2]
    fields = {"dies_before": "the header of the call", "dies_within": "k and v", "dies_in_backward": "the header of the call",
              "dies_in_heads": "q", "raises_alone": "the header of the call", "hangs": "the header of the call",
              "hangs_within": "k and v", "hangs_in_heads": "q", "hangs_in_backward": "d_k and d_v"}
    assert told.keys() == fields.keys()
    for name, text in told.items():
        found = ast.literal_eval(text)
        assert found.keys() == {0, 2}
        for error in found.values():
            assert error is not None and error[:2] == (1, fields[name]) and error[2].startswith("rank 1 did not exchange"), name
            assert error[3] < (7 if name.startswith("hangs") else 4), (name, error)
