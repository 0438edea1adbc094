"""A process like one that serves a model: serving_engine.py READY GPU_MEBIBYTES HOST_MEBIBYTES BACKEND

Holds random data on the GPU and in host memory, and answers GET / on a port of this machine, which it writes to the
file READY. The answer has a checksum that the GPU computes of all data on the GPU, and a checksum of some data on the
host. GET /all has the checksums of all data. BACKEND is torch, cupy, or driver without either: then the data is copied
back to be summed. With allocated or registered, followed by any of -portable, -mapped and -combined, the data is in
page-locked host memory: GET /write writes other data there and has the checksum of what was written, /read that of what
the CPU reads, /seen those of what the GPU reads, by a copy and at the address that it has on the GPU, and /free has what the
driver answers when the memory is given back. The program has no support for checkpoints.
"""

import ctypes
import faulthandler
import http.server
import mmap
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


class Calls:
    """The driver's own functions, in a context."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)

    def call(self, name: str, *arguments: object) -> None:
        answer = getattr(self.cuda, name)(*arguments)
        if answer != 0:
            raise OSError(f"{name} answers {answer}")


class Driver(Calls):
    """The same by the driver's own functions, with the sum made here."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.chunks = []
        for at in range(0, size, CHUNK):
            data = os.urandom(1 << 20) * (min(CHUNK, size - at) >> 20)
            address = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(data)))
            self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
            self.chunks.append((address, len(data)))

    def checksum(self) -> int:
        total = 0
        for address, size in self.chunks:
            data = ctypes.create_string_buffer(size)
            self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
            total = zlib.crc32(data, total)
        return total


class PageLocked(Calls):
    """Page-locked memory of one kind."""

    FLAGS = {"portable": 1, "mapped": 2, "combined": 4}  # as CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*

    def __init__(self, size: int, kind: str) -> None:
        super().__init__()
        faulthandler.enable()
        self.size = ctypes.c_size_t(size)
        self.device = ctypes.c_uint64()
        self.address = ctypes.c_void_p()
        self.call("cuMemAlloc_v2", ctypes.byref(self.device), self.size)
        how, *names = kind.split("-")
        flags = sum(self.FLAGS[name] for name in names)
        self.free_function = "cuMemFreeHost"
        if how == "registered":
            self.own = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.address.value = ctypes.addressof(ctypes.c_char.from_buffer(self.own))
            self.call("cuMemHostRegister_v2", self.address, self.size, flags)
            self.free_function = "cuMemHostUnregister"
        else:
            self.call("cuMemHostAlloc", ctypes.byref(self.address), self.size, flags)
        self.commands = {"/write": self.write, "/read": self.sum_of_own, "/seen": self.seen, "/free": self.free}

    def write(self) -> str:
        data = os.urandom(1 << 20) * (self.size.value >> 20)
        ctypes.memmove(self.address, data, len(data))
        return str(zlib.crc32(data))

    def sum_of_own(self) -> str:
        return str(zlib.crc32(ctypes.string_at(self.address, self.size.value)))

    def seen(self) -> str:
        self.call("cuMemcpyHtoD_v2", self.device, self.address, self.size)
        by_copy = self.read()
        mapped = ctypes.c_uint64()
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(mapped), self.address, 0)
        self.call("cuMemcpyDtoD_v2", self.device, mapped, self.size)
        return f"{by_copy} {self.read()}"

    def read(self) -> int:
        data = ctypes.create_string_buffer(self.size.value)
        self.call("cuMemcpyDtoH_v2", data, self.device, self.size)
        return zlib.crc32(data)

    def free(self) -> str:
        return f"{self.free_function} {getattr(self.cuda, self.free_function)(self.address)}"

    def checksum(self) -> int:
        return zlib.crc32(self.seen().encode())


def main(ready: str, gpu: int, host: int, backend: str) -> None:
    backends = {"torch": Torch, "cupy": Cupy, "driver": Driver}
    data = backends[backend](gpu << 20) if backend in backends else PageLocked(gpu << 20, backend)
    memory = bytearray(os.urandom(1 << 20) * host)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            command = getattr(data, "commands", {}).get(self.path)
            seen = memory if self.path == "/all" else memory[:: 1 << 21]
            text = (command() if command else f"{data.checksum()} {zlib.crc32(seen)}").encode() + b"\n"
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
