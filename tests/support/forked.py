"""The stand-in for a server of a `fork_server`: it passes on its input and output, and ends with it.

A separate program that loads almost nothing. Arguments: the fork server's socket, a module of the
tests' support, and that module's arguments.
"""

import json
import os
import signal
import socket
import sys


def main(path: str, *arguments: str) -> int:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        socket.send_fds(line, [json.dumps(arguments).encode()], [0, 1, 2])
        signal.signal(signal.SIGTERM, lambda *_: line.shutdown(socket.SHUT_WR))
        for end in (0, 1):
            os.close(end)
        return int(line.recv(16) or 1)


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
