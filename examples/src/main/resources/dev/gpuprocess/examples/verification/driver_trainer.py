"""What trainer.py does, without PyTorch: driver_trainer.py LOSSES STEPS MEBIBYTES

Each step reads a number from GPU memory, computes the next one and writes it back. Appends a line "step number" to the
file LOSSES after each step, and "done SUM" at the end, where SUM is over all of the MEBIBYTES of GPU memory. The program
has no support for checkpoints.
"""

import ctypes
import sys
import time
import zlib

PAUSE = 0.02  # seconds between steps, so that there is a middle to be suspended in
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    answer = getattr(cuda, name)(*arguments)
    if answer != 0:
        raise OSError(f"{name} answers {answer}")


def main(path: str, steps: int, mebibytes: int) -> None:
    size = mebibytes << 20
    data = bytes(range(256)) * (size >> 8)
    number = ctypes.create_string_buffer(8)
    memory = ctypes.c_uint64()
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    call("cuMemcpyHtoD_v2", memory, data, ctypes.c_size_t(size))
    with open(path, "ab", buffering=0) as losses:
        for step in range(1, steps + 1):
            call("cuMemcpyDtoH_v2", number, memory, ctypes.c_size_t(8))
            following = (int.from_bytes(number.raw, "little") * 6364136223846793005 + step) % 2**64
            number.raw = following.to_bytes(8, "little")
            call("cuMemcpyHtoD_v2", memory, number, ctypes.c_size_t(8))
            losses.write(f"{step} {following}\n".encode())
            time.sleep(PAUSE)
        found = ctypes.create_string_buffer(size)
        call("cuMemcpyDtoH_v2", found, memory, ctypes.c_size_t(size))
        losses.write(f"done {zlib.crc32(found)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
