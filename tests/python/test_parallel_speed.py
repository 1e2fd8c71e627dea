"""The speed of a process group compared with one process, and with the prediction of `attest plan`."""

import os
import re
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("BUILD", "build")).resolve()


WAYS = {"2": ["ring", "gather", "ulysses"], "4": ["ring", "gather", "ulysses", "both"]}


@pytest.mark.parametrize("options, counts", [([], "24"), (["--backward", "--processes", "2"], "2")])
def test_speed__predicts_the_time_of_every_way(capfd, options, counts):
    pytest.importorskip("torch")
    from attest.torch.parallel import speed

    assert speed.main(["--rows", "512", "--d", "32", "--rounds", "1", "--heads", "4", "--predict", str(BUILD / "attest"), *options]) == 0
    printed = capfd.readouterr().out
    found = re.findall(r"(\d) processes x 1 thread [^\n]*\n[^\n]*\none thread [0-9.]+ s(?:, [0-9.]+ processes to a processor)?; the link [0-9.]+ GB/s, [0-9]+ us\n"
                     r"((?:attest plan predicts [0-9.]+ s for [a-z]+; measured [0-9.]+ s: the error is [-+][0-9.]+ %\n|both: [^\n]*\n)+)", printed)
    ways = {count: re.findall(r"for ([a-z]+); measured", lines) for count, lines in found}
    assert ways == {count: WAYS[count] for count in counts}


@pytest.mark.parametrize("arguments, why", [(["--predict", "/no/such"], "there is no such program"),
                                            (["--processes", "2,1"], "expected 2 or more")])
def test_speed__predictions_that_cannot_be__refused(capfd, arguments, why):
    pytest.importorskip("torch")
    from attest.torch.parallel import speed

    with pytest.raises(SystemExit) as stop:
        speed.main(arguments)
    assert stop.value.code == 2 and why in capfd.readouterr().err
