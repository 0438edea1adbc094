"""A CuPy program that writes a line `step loss` for each step, and polls the stream: cupy_trainer.py FILE STEPS"""
import sys

import cupy


def main(path, steps):
    generator = cupy.random.RandomState(7)
    weights = generator.standard_normal((1024, 1024)).astype(cupy.float32) * 0.02
    data = generator.standard_normal((1024, 1024)).astype(cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, open(path, "a", buffering=1) as out:
        for step in range(steps):
            for _ in range(20):
                weights = cupy.tanh(weights - 0.001 * (data.T @ (data @ weights)))
            event = cupy.cuda.Event()
            event.record(stream)
            while not event.done or not stream.done:
                pass
            out.write(f"{step} {float(cupy.abs(weights).sum()).hex()}\n")
        out.write(f"done {float(cupy.abs(weights).max()).hex()}\n")


main(sys.argv[1], int(sys.argv[2]))
