"""Runs on every rank of a machine with CUDA: training steps that need a GPU, or one beside a
CPU."""


import torch
import torch.distributed as dist
from rank_device import take_gpu
from rank_tests import run_tests
from ranks_models import batch, close, make_model, reference, train
from torch import nn

take_gpu()
ROWS = 24


def test_fsdp2_mixed_precision(rank, size):
    """Parameters are gathered as bf16, gradients summed in fp32: near to training in fp32."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cuda", (size,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    model = make_model()
    for layer in (*(each for each in model if isinstance(each, nn.Linear)), model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    train(model, model.parameters(), rank, size)
    close([p.full_tensor() for p in model.parameters()], reference(), "FSDP2, bf16", 1e-2)


def test_ddp_of_a_gpu_and_cpus(rank, size):
    """Rank 0 trains on CUDA with most of each batch, the others on the CPU: the weights of one
    process."""
    with torch.device("cpu"):
        alone, model = make_model(), make_model()
    device = "cuda" if rank == 0 else "cpu"
    model = model.to(device)
    network = nn.parallel.DistributedDataParallel(model)
    limits = [0, *(18 + (ROWS - 18) * (r + 1) // (size - 1) for r in range(-1, size - 1))]
    mine = slice(limits[rank], limits[rank + 1])
    for parameters, part, weight, trained, where in (
        (list(model.parameters()), mine, (mine.stop - mine.start) / ROWS * size, network, device),
        (list(alone.parameters()), slice(0, ROWS), 1.0, alone, "cpu"),
    ):
        optimizer = torch.optim.SGD(parameters, lr=0.05)
        for step in range(5):
            x, y = (whole[part].to(where) for whole in batch(step))
            optimizer.zero_grad()
            (nn.functional.mse_loss(trained(x), y) * weight).backward()
            optimizer.step()
    close([p.cpu() for p in model.parameters()], [p.cpu() for p in alone.parameters()], "a GPU and CPUs", 1e-4)


def test_wait_blocks_only_the_stream(rank, size):
    """wait() returns while the device still works, and a Future's value is read in its stream's
    order."""
    tensor = torch.full((3000000,), float(rank), device="cuda")
    for _ in range(3):
        torch.cuda._sleep(50_000_000)
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future().then(lambda f: f.value()[0].add_(1))
        with torch.cuda.stream(torch.cuda.Stream()):
            result = future.wait()
            copy = (result if isinstance(result, torch.Tensor) else result[0]).clone()
        torch.cuda.synchronize()
        assert torch.equal(copy, tensor)
    want = float(sum(range(size)))
    for turn in range(3):
        want = (want if turn == 0 else want * size) + 1
    assert bool((tensor == want).all()), (tensor, want)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    run_tests(globals(), lambda name: torch.set_default_device("cpu" if "cpus" in name else "cuda"))
    dist.destroy_process_group()


main()
