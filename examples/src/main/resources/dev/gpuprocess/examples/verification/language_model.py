"""A small GPT-2 with random weights, trained with Accelerate: language_model.py LOSSES STEPS

Appends a line "step loss" to the file LOSSES after each step, and "done SUM" at the end, where SUM is over the weights.
`accelerate launch` starts the program, which has no support for checkpoints.
"""

import os
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS may add up in another order each time

import torch  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

WORDS = 1000
PAUSE = 0.02  # seconds between steps, so that there is a middle to be suspended in


class Texts(torch.utils.data.Dataset):
    """The same for each step in every run."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return self.steps * 8

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.randint(0, WORDS, (64,), generator=torch.Generator().manual_seed(number))


def main(path: str, steps: int) -> None:
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    accelerator = Accelerator()
    shape = GPT2Config(vocab_size=WORDS, n_positions=64, n_embd=256, n_layer=4, n_head=4, attn_implementation="eager")
    model = GPT2LMHeadModel(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    texts = torch.utils.data.DataLoader(Texts(steps), batch_size=8)
    model, optimizer, texts = accelerator.prepare(model, optimizer, texts)
    if accelerator.device.type != "cuda":
        sys.exit(f"this trains on {accelerator.device}")
    with open(path, "ab", buffering=0) as losses:
        for step, text in enumerate(texts, start=1):
            loss = model(input_ids=text, labels=text).loss
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.write(f"{step} {loss.item()!r}\n".encode())
            time.sleep(PAUSE)
        total = sum(weight.double().sum().item() for weight in model.parameters())
        losses.write(f"done {total!r}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
