"""Runs on every rank: what trains by torch.distributed without naming its functions.

Argument: "accelerate" (Hugging Face's) or "lightning". Each trains a model on shares of a data set,
told nothing but the backend's name, and arrives at the weights of one process that has it all.
"""

import os
import sys
import warnings

import torch
import torch.distributed as dist
from ranks_models import batch, close, make_model, reference
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import pomona

STEPS, ROWS = 5, 24


def data():
    """The batches of ranks_models, one after the other."""
    batches = [batch(step) for step in range(STEPS)]
    return TensorDataset(*(torch.cat([each[part] for each in batches]) for part in (0, 1)))


def check(parameters, size):
    assert dist.get_backend() == "mpi" and dist.get_world_size() == size > 1, dist.get_backend()
    assert pomona.info()["size"] == size, pomona.info()
    close(parameters, reference(), sys.argv[1])
    assert pomona.metrics()["all_reduce"]["count"] >= STEPS, pomona.metrics()


def accelerate():
    from accelerate import Accelerator, DataLoaderConfiguration
    from accelerate.utils import InitProcessGroupKwargs

    accelerator = Accelerator(
        cpu=True,
        kwargs_handlers=[InitProcessGroupKwargs(backend="mpi")],
        dataloader_config=DataLoaderConfiguration(split_batches=True),
    )
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    network, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data(), batch_size=ROWS))
    seen = []
    for x, y in loader:
        assert len(x) == ROWS // accelerator.num_processes
        seen.append(accelerator.gather_for_metrics(x))
        optimizer.zero_grad()
        accelerator.backward(nn.functional.mse_loss(network(x), y))
        optimizer.step()
    assert torch.equal(torch.cat(seen), data().tensors[0]), "gather_for_metrics"
    rank = accelerator.reduce(torch.tensor([float(accelerator.process_index)]), reduction="sum")
    assert rank.item() == sum(range(accelerator.num_processes)), rank
    check(model.parameters(), accelerator.num_processes)
    accelerator.end_training()


def lightning():
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = make_model()

        def training_step(self, rows, _number):
            x, y = rows
            loss = nn.functional.mse_loss(self.model(x), y)
            self.log("loss", loss, sync_dist=True, on_step=False, on_epoch=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    rank, size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    trainer = lightning.Trainer(
        accelerator="cpu", devices=size, strategy=DDPStrategy(process_group_backend="mpi"), max_epochs=1,
        use_distributed_sampler=False, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    module = Module()
    mine = list(range(rank, STEPS * ROWS, size))  # Lightning's own sampler deals rows in another order
    trainer.fit(module, DataLoader(data(), batch_size=ROWS // size, sampler=mine))
    assert trainer.world_size == size, trainer.world_size
    losses = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(losses, trainer.callback_metrics["loss"].view(1))
    assert losses[0] > 0 and all(torch.equal(losses[0], each) for each in losses), losses
    check(module.parameters(), size)


def main():
    warnings.filterwarnings("ignore")
    globals()[sys.argv[1]]()
    sys.stdout.write(f"rank {os.environ['RANK']}: all passed\n")
    sys.stdout.flush()


main()
