"""A plain training script, for one process: torch_plain.py MODEL STEPS WARM

What psd_run runs, as it is; bench/torch_ddp.py is the same for DDP.
"""
import sys

import torch
from torch_models import MODELS, train

torch.manual_seed(1)
net, data, target = MODELS[sys.argv[1]]()
train(net, data, target, int(sys.argv[2]), int(sys.argv[3]))
