#!/usr/bin/env python3
"""Starts a server as a service manager does that keeps its sockets, and restarts it on SIGUSR1.

    fdstore.py COMMAND...

Descriptors that the server sends with FDSTORE=1 (sd_pid_notify_with_fds(3)) are kept, and passed to the next one as 3, 4 and so on
(sd_listen_fds(3)). SIGTERM ends the server and then this program. The number of the server's process is in the file that PIDFILE names.
"""

import array
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile

MOST = 64  # descriptors in one message


def receive(notify, kept):
    """Takes one message: {name: [descriptor, ...]} grows by what it carries."""
    text, ancillary, _, _ = notify.recvmsg(4096, socket.CMSG_SPACE(MOST * 4))
    lines = dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)
    name = lines.get("FDNAME", "stored")
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % 4])
    if "FDSTOREREMOVE" in lines:
        for descriptor in kept.pop(name, []):
            os.close(descriptor)
    if "FDSTORE" in lines:
        have = {os.fstat(fd).st_ino for fds in kept.values() for fd in fds}
        kept.setdefault(name, []).extend(fd for fd in descriptors if os.fstat(fd).st_ino not in have)


def start(command, path, kept):
    """Starts the server with what is kept."""
    held = [(name, fd) for name, fds in kept.items() for fd in fds]

    def place():
        # Away from 3, 4, ... first, so that none is overwritten.
        high = [os.dup2(fd, 200 + i) for i, (_, fd) in enumerate(held)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
            os.close(fd)

    env = os.environ | {"NOTIFY_SOCKET": path, "LISTEN_FDS": str(len(held)),
                        "LISTEN_FDNAMES": ":".join(name for name, _ in held)}
    server = subprocess.Popen(command, env=env, preexec_fn=place, close_fds=False)
    if file := os.environ.get("PIDFILE"):
        with open(file, "w", encoding="ascii") as out:
            out.write(str(server.pid))
    return server


def main():
    """Runs until SIGTERM, or until the server ends by itself."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "notify")
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(path)
    wanted = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, _: wanted.append(number))
    kept, server = {}, None
    server = start(sys.argv[1:], path, kept)
    while True:
        readable, _, _ = select.select([notify], [], [], 0.02)
        if readable:
            receive(notify, kept)
            continue
        if wanted:
            server.terminate()
        code = server.poll()
        if code is None and not wanted:
            continue
        while server.poll() is None or select.select([notify], [], [], 0)[0]:
            if select.select([notify], [], [], 0.002)[0]:
                receive(notify, kept)
        if not wanted or wanted.pop() == signal.SIGTERM:
            os.unlink(path)
            os.rmdir(folder)
            sys.exit(server.returncode)
        server = start(sys.argv[1:], path, kept)


if __name__ == "__main__":
    main()
