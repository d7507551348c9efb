"""Running a program to its end: its output whole, its messages line by line, never longer than allowed."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

#: What a program may still print after it has ended: a connection kept for reuse can hold its stderr open.
_LINGER = 1.0


@dataclass(frozen=True)
class Finished:
    """How a program ended. `status` is negative when a signal ended it; `timed_out` when it was us."""

    status: int
    stdout: bytes
    stderr: str
    timed_out: bool = False


def run(
    argv: Sequence[str],
    stdin: bytes | IO[bytes] | None = None,
    timeout: float | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    """Run `argv` with `stdin`, for `timeout` seconds at most; `on_line` hears its stderr, line by line.

    The program is always waited for: it is ended by signal when the time is up, or on an exception.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out: list[bytes] = []
    lines: list[str] = []
    threads = [_thread(_read, process.stdout, out), _thread(_listen, process.stderr, lines, on_line)]
    if stdin is not None:
        threads.append(_thread(_feed, process.stdin, stdin))
    timed_out = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        if process.poll() is None:
            _end(process)
    for thread in threads:
        thread.join(_LINGER)
    return Finished(process.returncode, b"".join(out), "\n".join(lines), timed_out)


def _thread(target: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def _read(pipe: IO[bytes], out: list[bytes]) -> None:
    while block := os.read(pipe.fileno(), 1 << 16):
        out.append(block)


def _listen(pipe: IO[bytes], lines: list[str], on_line: Callable[[str], None] | None) -> None:
    for raw in pipe:
        line = raw.decode(errors="replace").rstrip("\r\n")
        lines.append(line)
        if on_line:
            on_line(line)


def _feed(pipe: IO[bytes], source: bytes | IO[bytes]) -> None:
    # A program that ends without reading its input says why itself.
    with contextlib.suppress(OSError, ValueError), pipe:
        if isinstance(source, bytes):
            pipe.write(source)
        else:
            while block := source.read(1 << 16):
                pipe.write(block)


def _end(process: "subprocess.Popen[bytes]") -> None:
    # What sudo started is root's, and not ours to end: then only its pipe is closed.
    with contextlib.suppress(PermissionError):
        process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(PermissionError):
            process.kill()
            process.wait()
