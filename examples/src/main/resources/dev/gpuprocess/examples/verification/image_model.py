"""torchvision's resnet152 with random weights and random pictures: image_model.py LOSSES STEPS

Appends a line "step loss" to the file LOSSES after each step, and "done SUM" at the end, where SUM is over the weights.
The program has no support for checkpoints.
"""

import os
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS may add up in another order each time

import torch  # noqa: E402
from torchvision.models import resnet152  # noqa: E402

CLASSES = 1000
PICTURES = 16


def main(path: str, steps: int) -> None:
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    gpu = torch.device("cuda")
    model = resnet152().to(gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    with open(path, "ab", buffering=0) as losses:
        for step in range(1, steps + 1):
            random = torch.Generator().manual_seed(step)
            pictures = torch.randn(PICTURES, 3, 224, 224, generator=random).to(gpu)
            classes = torch.randint(0, CLASSES, (PICTURES,), generator=random).to(gpu)
            loss = torch.nn.functional.cross_entropy(model(pictures), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.write(f"{step} {loss.item()!r}\n".encode())
        total = sum(weight.double().sum().item() for weight in model.parameters())
        losses.write(f"done {total!r}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
