"""A small BERT with random weights, trained by the Trainer of transformers: text_classifier.py LOSSES STEPS

Appends a line "step loss" to the file LOSSES after each step, and "done SUM" at the end, where SUM is over the weights.
The program has no support for checkpoints.
"""

import os
import sys
import tempfile
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it cuBLAS may add up in another order each time

import torch  # noqa: E402
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments  # noqa: E402

WORDS = 1000
PAUSE = 0.02  # seconds between steps, so that there is a middle to be suspended in


class Texts(torch.utils.data.Dataset):
    """The same for each step in every run."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return self.steps * 8

    def __getitem__(self, number: int) -> dict:
        text = torch.randint(0, WORDS, (64,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": text, "labels": int(text.sum()) % 2}


class TellingTrainer(Trainer):
    """Tells the loss of each step in full."""

    losses = None
    steps_done = 0

    def training_step(self, *arguments, **more) -> torch.Tensor:
        loss = super().training_step(*arguments, **more)
        self.steps_done += 1
        self.losses.write(f"{self.steps_done} {loss.item()!r}\n".encode())
        time.sleep(PAUSE)
        return loss


def main(path: str, steps: int) -> None:
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    shape = BertConfig(
        vocab_size=WORDS,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    model = BertForSequenceClassification(shape)
    with tempfile.TemporaryDirectory() as place, open(path, "ab", buffering=0) as losses:
        arguments = TrainingArguments(
            output_dir=place,
            max_steps=steps,
            per_device_train_batch_size=8,
            seed=7,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = TellingTrainer(model=model, args=arguments, train_dataset=Texts(steps))
        if trainer.args.device.type != "cuda":
            sys.exit(f"this trains on {trainer.args.device}")
        trainer.losses = losses
        trainer.train()
        total = sum(weight.double().sum().item() for weight in model.parameters())
        losses.write(f"done {total!r}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
