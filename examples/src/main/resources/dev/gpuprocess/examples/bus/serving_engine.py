"""A process like one that serves a model: serving_engine.py READY GPU_MEBIBYTES HOST_MEBIBYTES BACKEND

Holds random data on the GPU and in host memory, and answers GET / on a port of this machine, which it writes to the
file READY. The answer has a checksum that the GPU computes of all data on the GPU, and a checksum of some data on the
host. GET /all has the checksums of all data. BACKEND is torch, cupy, or driver without either: then the data is copied
back to be summed. The program has no support for checkpoints.
"""

import ctypes
import http.server
import os
import sys
import zlib

CHUNK = 256 << 20


class Torch:
    """What PyTorch holds and adds up."""

    def __init__(self, size: int) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(7)
        self.chunks = [
            torch.randint(-(2**62), 2**62, (min(CHUNK, size - at) // 8,), dtype=torch.int64, device="cuda")
            for at in range(0, size, CHUNK)
        ]

    def checksum(self) -> int:
        total = self.torch.zeros((), dtype=self.torch.int64, device="cuda")
        for chunk in self.chunks:
            total += chunk.sum()
        return int(total)


class Cupy:
    """The same by CuPy."""

    def __init__(self, size: int) -> None:
        import cupy

        random = cupy.random.RandomState(7)
        self.chunks = [
            random.randint(-(2**31), 2**31 - 1, min(CHUNK, size - at) // 8, dtype=cupy.int64)
            for at in range(0, size, CHUNK)
        ]
        for chunk in self.chunks:
            chunk *= 0x9E3779B97F4A7C1
        cupy.get_default_memory_pool().free_all_blocks()

    def checksum(self) -> int:
        return sum(int(chunk.sum()) for chunk in self.chunks)


class Driver:
    """The same by the driver's own functions, with the sum made here."""

    def __init__(self, size: int) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
        self.chunks = []
        for at in range(0, size, CHUNK):
            data = os.urandom(1 << 20) * (min(CHUNK, size - at) >> 20)
            address = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
            self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
            self.chunks.append((address, len(data)))

    def call(self, name: str, *arguments: object) -> None:
        answer = getattr(self.cuda, name)(*arguments)
        if answer != 0:
            raise OSError(f"{name} answers {answer}")

    def checksum(self) -> int:
        total = 0
        for address, size in self.chunks:
            data = ctypes.create_string_buffer(size)
            self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
            total = zlib.crc32(data, total)
        return total


def main(ready: str, gpu: int, host: int, backend: str) -> None:
    data = {"torch": Torch, "cupy": Cupy, "driver": Driver}[backend](gpu << 20)
    memory = bytearray(os.urandom(1 << 20) * host)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen = memory if self.path == "/all" else memory[:: 1 << 21]
            text = f"{data.checksum()} {zlib.crc32(seen)}\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    with open(ready + ".new", "w", encoding="ascii") as file:
        file.write(f"{os.getpid()} {server.server_port}\n")
    os.rename(ready + ".new", ready)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
