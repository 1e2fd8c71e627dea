#!/usr/bin/env bash
# test_progress.sh: bars on a terminal are correct and have an estimate, and there are none elsewhere; long runs are
# announced.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

# on_terminal PATTERN ARGUMENT...: attest with its stderr on a terminal, ended as soon as it has drawn what the pattern
# says, at the latest after a minute; what it drew is in .drawn, one state per line.
cat >on_terminal.py <<'PYTHON'
import os, pty, re, select, subprocess, sys, time
master, slave = pty.openpty()
environment = dict(os.environ, TERM="xterm", NO_COLOR="1")
program = subprocess.Popen(["attest"] + sys.argv[2:], stdout=subprocess.DEVNULL, stderr=slave, env=environment)
os.close(slave)
drawn, end, pattern = b"", time.time() + 60, sys.argv[1].encode()
while time.time() < end and not (pattern and re.search(pattern, drawn)):
    if select.select([master], [], [], 0.1)[0]:
        try:
            drawn += os.read(master, 65536)
        except OSError:
            break
    elif program.poll() is not None:
        break
if program.poll() is None:
    program.kill()
program.wait()
open(".drawn", "wb").write(drawn.replace(b"\r\x1b[K", b"\n"))
PYTHON
on_terminal() {
    python3 on_terminal.py "$@"
}

shapes=(b1h1s16d64 b1h1s17d64 b1h1s18d64 b1h1s19d64 b1h1s20d64 b1h1s21d64 b1h1s22d64 b1h1s23d64)
on_terminal '' bench "${shapes[@]}" --seconds 0 --precision 0 --min-samples 4000 --max-samples 4000
check 'a bench draws a bar' grep -qE 'timing [0-7]/8 .*round [0-9]+' .drawn
check 'which is not full before the end' bash -c '! grep -q "timing 8/8" .drawn'
check 'and has no bound that does not hold' bash -c '! grep -q "at most" .drawn'
check 'it comes from 0' grep -q 'timing 0/8' .drawn
check 'and goes on' grep -qE 'timing [4-7]/8' .drawn

mapfile -t many < <(for i in $(seq 3000); do echo "b1h8s512d$((i % 3 * 8 + 64)),f32"; done)
on_terminal 'verifying [0-9]+/3000, about [0-9.]+ (s|min|h) left b1h8s512d' verify "${many[@]}" --device cpu
check 'after a while it says how long it will take' grep -qE 'verifying [0-9]+/3000, about [0-9.]+ (s|min|h) left b1h8s512d' .drawn
check 'and not at first' bash -c '! grep -m 1 "verifying" .drawn | grep -q left'

long=(b1h8s16384d64 --isa portable --threads 1)
on_terminal 'running 0/5 [0-9]+ s of about [0-9]+' run "${long[@]}"
check 'a long run says how long' grep -qE 'note: a run will take about [0-9.]+ (s|minutes|hours), .*; 5 runs about' .drawn
check 'and draws a bar' grep -qE 'running 0/5 [0-9]+ s of about [0-9]+' .drawn
timeout 5 attest run "${long[@]}" >.out 2>.err
check 'also where there is no terminal' grep -qE '^note: a run will take about' .err
check 'but no bar there' bash -c '! grep -q "running" .err'
on_terminal 60 certify --check --evidence "$root/evidence"
check 'evidence takes a while to read' grep -qE 'reading evidence 0/1 [0-9]+ s' .drawn
on_terminal 60 report "$root/evidence" -o report.html
check 'and so do results' grep -qE 'reading results 0/1 [0-9]+ s' .drawn
expect 'a short run says nothing' 0 -- run b1h1s64d64
check 'nothing at all' test ! -s .err
on_terminal '' run b1h1s64d64
check 'and draws nothing' test ! -s .drawn
finish
