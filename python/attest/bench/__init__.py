"""attest.bench: attest beside the attention of other frameworks, in one process, in turn.

    python -m attest.bench                          # what this machine has: a GPU's tables, or a CPU's
    python -m attest.bench --groups forward,gqa --rivals flash,cudnn --pace sustained,burst --json out.json
    python -m attest.bench --groups training        # tokens/s of training steps of models of transformers
    python -m attest.bench --groups models          # tokens/s of their prefill and generation
    python -m attest.bench --read out.json          # kept samples judged again, as `attest judge out.json` does
    attest compare old.json out.json                # the files are the laboratory's own (attest-bench-2)
    attest report out.json -o report.html

Every answer is compared with float32 math before it is timed. Rivals take turns, in random order, round after round. What is
taken here are samples; medians, intervals, verdicts, cliffs and goals are computed from them by the program `attest judge`.
Exit status: 0 all goals hold, 1 one is missed or an answer is wrong, 2 usage, 3 not possible here.
"""
