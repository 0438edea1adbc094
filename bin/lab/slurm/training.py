"""A PyTorch training that prints the loss of each step, beside memory on the GPU of a known content.

Ends with CODE once the file STOP exists, or after STEPS, and with 4 if the memory is wrong then.

  training.py STOP CODE MILLISECONDS MIB [STEPS]
"""

import os
import socket
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # the same result in each run

import torch

stop, code, pause, mebibytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) / 1000, int(sys.argv[4])
steps = int(sys.argv[5]) if len(sys.argv) > 5 else None
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
gpu = str(torch.cuda.get_device_properties(0).uuid)[:4]


def known():
    return torch.arange(mebibytes << 17, device="cuda")


memory = known()
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
step = 0
while not os.path.exists(stop) and step != steps:
    step += 1
    batch = torch.randn(256, 512, device="cuda")
    loss = ((model(batch) - batch) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {socket.gethostname()} gpu-{gpu} {loss.item().hex()}", flush=True)
    time.sleep(pause)
if not torch.equal(memory, known()):
    code = 4
print(f"ends after step {step} with {code}", flush=True)
sys.exit(code)
