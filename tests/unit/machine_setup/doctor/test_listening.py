"""Which TCP ports a process listens on, while it opens and closes files like any busy daemon."""

import os
import socket
import threading

from machine_setup.doctor.listening import tcp_ports


def test_a_port_is_found_while_other_files_come_and_go() -> None:
    end = threading.Event()

    def churn() -> None:
        while not end.is_set():
            for descriptor in [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]:
                os.close(descriptor)

    busy = threading.Thread(target=churn)
    busy.start()
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            assert all(port in tcp_ports(os.getpid()) for _ in range(200))
        assert port not in tcp_ports(os.getpid())
    finally:
        end.set()
        busy.join()


def test_a_process_that_has_ended_listens_nowhere() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert tcp_ports(pid) == ()
