"""interrupt.py COUNT SECONDS LIMIT ARGUMENT...: run attest, send it COUNT SIGINTs after SECONDS, and print its exit code, or
"hangs" if it runs for LIMIT seconds more. Its output goes to int.out and int.err.

Background jobs of a shell ignore SIGINT, and so would their children: it is taken up again first. Two signals that a busy
machine delivers together are one: the next is sent when the program has answered the last one.
"""

import signal
import subprocess
import sys
import time

signal.signal(signal.SIGINT, signal.default_int_handler)
count, seconds, limit = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
program = subprocess.Popen(["attest"] + sys.argv[4:], stdout=open("int.out", "w"), stderr=open("int.err", "w"), start_new_session=True)
time.sleep(seconds)
for i in range(count):
    program.send_signal(signal.SIGINT)
    given_up = time.monotonic() + limit
    while "interrupted" not in open("int.err").read() and program.poll() is None and time.monotonic() < given_up:
        time.sleep(0.01)
try:
    print(program.wait(timeout=limit))
except subprocess.TimeoutExpired:
    program.kill()
    print("hangs")
