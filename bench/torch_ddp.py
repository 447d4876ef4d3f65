"""torch_plain.py rewritten for DDP: torch_ddp.py MODEL STEPS WARM

Rank, size and where to meet are in the environment, as torchrun sets them.
"""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_models import MODELS, train

dist.init_process_group("gloo")
torch.manual_seed(1)
net, data, target = MODELS[sys.argv[1]]()
train(DistributedDataParallel(net), data, target, int(sys.argv[2]),
      int(sys.argv[3]))
dist.destroy_process_group()
