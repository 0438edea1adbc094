"""A JAX program that writes a line `step loss` for each step: jax_trainer.py FILE STEPS

XLA polls cuStreamQuery from a thread of its own.
"""
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

import jax
import jax.numpy as jnp


@jax.jit
def train(weights, data, wanted):
    def loss_of(weights):
        return jnp.mean((jnp.tanh(data @ weights[0]) @ weights[1] - wanted) ** 2)

    loss, gradients = jax.value_and_grad(loss_of)(weights)
    return [w - 0.01 * g for w, g in zip(weights, gradients)], loss


def main(path, steps):
    keys = jax.random.split(jax.random.PRNGKey(7), 4)
    weights = [jax.random.normal(keys[0], (512, 1024)) * 0.05, jax.random.normal(keys[1], (1024, 256)) * 0.05]
    data = jax.random.normal(keys[2], (4096, 512))
    wanted = jax.random.normal(keys[3], (4096, 256))
    with open(path, "a", buffering=1) as out:
        for step in range(steps):
            for _ in range(10):
                weights, loss = train(weights, data, wanted)
            out.write(f"{step} {float(loss).hex()}\n")
        out.write(f"done {float(sum(jnp.sum(jnp.abs(w)) for w in weights)).hex()}\n")


main(sys.argv[1], int(sys.argv[2]))
