"""A small training run that repeats itself bit by bit: trainer.py LOSSES STEPS MEBIBYTES LOADERS

Appends a line "step loss" to the file LOSSES after each step, and "done SUM" at the end, where SUM is over all of the
MEBIBYTES of GPU memory that it holds besides the model. LOADERS is how the four processes that make its data start:
spawn or fork, or none when it makes them itself. The program has no support for checkpoints.
"""

import os
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS may add up in another order each time

import torch  # noqa: E402

CHUNK = 256  # MiB
PAUSE = 0.02  # seconds between steps, so that there is a middle to be suspended in


class Rows(torch.utils.data.Dataset):
    """The same for each step in whatever process it is made."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> torch.Tensor:
        return torch.randn(512, 256, generator=torch.Generator().manual_seed(step))


def batches(steps: int, loaders: str) -> torch.utils.data.DataLoader:
    if loaders == "none":
        return torch.utils.data.DataLoader(Rows(steps), batch_size=None)
    return torch.utils.data.DataLoader(Rows(steps), batch_size=None, num_workers=4, multiprocessing_context=loaders)


def main(path: str, steps: int, mebibytes: int, loaders: str) -> None:
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    gpu = torch.device("cuda")
    held = [
        torch.randint(0, 2**31 - 1, (CHUNK << 18,), dtype=torch.int32, device=gpu) for _ in range(mebibytes // CHUNK)
    ]
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).to(gpu)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with open(path, "ab", buffering=0) as losses:
        for step, rows in enumerate(batches(steps, loaders), start=1):
            x = rows.to(gpu)
            loss = torch.nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.write(f"{step} {loss.item()!r}\n".encode())
            time.sleep(PAUSE)
        total = sum(int(chunk.sum(dtype=torch.int64)) for chunk in held)
        losses.write(f"done {total}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
