"""terminal.py COLUMNS out|err ARGUMENT...: run attest with that stream on a terminal that is so wide; print what came there, and
exit with its status."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

columns, name, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "std" + name: slave}
program = subprocess.Popen(["attest"] + arguments, stdin=subprocess.DEVNULL, **streams)
os.close(slave)
drawn = b""
while True:
    try:
        drawn += os.read(master, 65536)
    except OSError:  # the terminal is closed
        break
sys.stdout.buffer.write(drawn.replace(b"\r\n", b"\n"))
sys.exit(program.wait())
