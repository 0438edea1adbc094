"""Data parallel training on several GPUs with NCCL, a rank on each: ranks.py LOSSES STEPS

The first rank appends a line "step loss" to the file LOSSES after each step, where the loss is the mean over the ranks,
and "done SUM" at the end, where SUM is over the weights. torchrun starts the program, which
has no support for checkpoints.
"""

import os
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS may add up in another order each time

import torch  # noqa: E402

PAUSE = 0.02  # seconds between steps, so that there is a middle to be suspended in


def main(path: str, steps: int) -> None:
    rank = int(os.environ["LOCAL_RANK"])
    gpu = torch.device("cuda", rank)
    torch.cuda.set_device(gpu)
    torch.distributed.init_process_group("nccl", device_id=gpu)
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).to(gpu)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with open(path if rank == 0 else os.devnull, "ab", buffering=0) as losses:
        for step in range(1, steps + 1):
            x = torch.randn(512, 256, generator=torch.Generator().manual_seed(2 * step + rank)).to(gpu)
            loss = torch.nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            torch.distributed.all_reduce(mean)
            losses.write(f"{step} {mean.item() / torch.distributed.get_world_size()!r}\n".encode())
            time.sleep(PAUSE)
        total = sum(weight.double().sum().item() for weight in model.parameters())
        losses.write(f"done {total!r}\n".encode())
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
