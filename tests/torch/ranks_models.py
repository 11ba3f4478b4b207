"""Runs on every rank: what is built on the operations. Each result is compared with one process."""

import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from differences import difference
from rank_device import DEVICE, take_device
from rank_tests import run_tests
from torch import nn
from torch.nn.parallel import DistributedDataParallel

warnings.filterwarnings("ignore", category=FutureWarning)
BACKEND = os.environ.get("TEST_BACKEND", "mpi")


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    x, y = (torch.randn(24, width, generator=generator, device="cpu") for width in (10, 4))
    return x.to(DEVICE), y.to(DEVICE)


def train(network, parameters, rank, size, steps=5):
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(network(x[rank::size]).to(y.dtype), y[rank::size]).backward()  # alike: for torch 2.10
        optimizer.step()


def reference():
    model = make_model()
    train(model, model.parameters(), 0, 1)
    return list(model.parameters())


def close(actual, expected, what, tolerance=1e-5):
    for a, e in zip(actual, expected):
        apart = (a - e).abs().max().item()
        assert apart <= tolerance, f"rank {dist.get_rank()}: {what}: weights differ by {apart}: {difference(a, e)}"


def test_ddp(rank, size):
    for options in ({}, {"bucket_cap_mb": 0.01}, {"gradient_as_bucket_view": True},
                    {"static_graph": True}, {"find_unused_parameters": True}):
        model = make_model()
        network = DistributedDataParallel(model, **options)
        train(network, model.parameters(), rank, size)
        close(model.parameters(), reference(), f"DDP {options}")


def test_ddp_hooks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for name, tolerance in (("allreduce_hook", 1e-5), ("fp16_compress_hook", 1e-2), ("bf16_compress_hook", 2e-2)):
        model = make_model()
        network = DistributedDataParallel(model, bucket_cap_mb=0.01)
        hook = getattr(default_hooks, name)
        # By another name: torch takes its bf16 hook with NCCL alone.
        network.register_comm_hook(None, lambda state, bucket, hook=hook: hook(state, bucket))
        train(network, model.parameters(), rank, size)
        close(model.parameters(), reference(), name, tolerance)
    for buckets in ({}, {"bucket_cap_mb": 0.001}):
        model = make_model()
        network = DistributedDataParallel(model, **buckets)
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=64, start_powerSGD_iter=2)
        network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        train(network, model.parameters(), rank, size, steps=20)
        gathered = [torch.empty_like(model[0].weight) for _ in range(size)]
        dist.all_gather(gathered, model[0].weight.detach())
        for other in gathered:
            close([other], gathered[:1], "PowerSGD: ranks differ", 0.0)
    network = DistributedDataParallel(make_model())
    network._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    train(network, network.parameters(), rank, size)
    close(network.parameters(), reference(), "built-in fp16 hook", 1e-2)


def test_ddp_extras(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = make_model()
    network = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05)
    for step in range(5):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(network(x[rank::size]).to(y.dtype), y[rank::size]).backward()  # alike: for torch 2.10
        optimizer.step()
    close(model.parameters(), reference(), "ZeroRedundancyOptimizer")
    norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3))
    assert norm is not None
    embedding = nn.Embedding(20, 4, sparse=True)
    with torch.no_grad():
        embedding.weight.fill_(1.0)
    network = DistributedDataParallel(embedding)
    network(torch.tensor([rank, 19])).sum().backward()
    gradient = embedding.weight.grad.to_dense()
    assert torch.allclose(gradient[19], torch.ones(4)) and torch.allclose(gradient[rank], torch.ones(4) / size)


def uneven_reference(size, by_initial_size):
    """One process: in step `s` ranks above `s - 2` still have a batch."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(size + 1):
        optimizer.zero_grad()
        active = [r for r in range(size) if step < 2 + r]
        for r in active:
            x, y = batch(100 * r + step)
            (nn.functional.mse_loss(model(x), y) / (size if by_initial_size else len(active))).backward()
        optimizer.step()
    return list(model.parameters())


def test_join(rank, size):
    """Ranks with fewer batches join the others' sums with zeros; all end with one process's
    weights."""
    for by_initial_size in (True, False):
        for options in ({}, {"bucket_cap_mb": 0.01}):
            model = make_model()
            network = DistributedDataParallel(model, **options)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            with network.join(divide_by_initial_world_size=by_initial_size):
                for step in range(2 + rank):
                    x, y = batch(100 * rank + step)
                    optimizer.zero_grad()
                    nn.functional.mse_loss(network(x), y).backward()
                    optimizer.step()
            close(model.parameters(), uneven_reference(size, by_initial_size), f"join {by_initial_size} {options}")
    if size == 1:
        return
    network = DistributedDataParallel(make_model())
    try:
        with network.join(throw_on_early_termination=True):
            for step in range(2 + rank):
                x, y = batch(step)
                nn.functional.mse_loss(network(x), y).backward()
    except RuntimeError as error:
        assert "exhausted" in str(error), error
    else:
        raise AssertionError("no error of a rank without inputs")


def test_fsdp2(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE, (size,))
    model = make_model()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, model.parameters(), rank, size)
    close([p.full_tensor() for p in model.parameters()], reference(), "FSDP2")


def test_fsdp2_mixed_precision(rank, size):
    """Parameters in bf16, gradients added in fp32: as with gloo, which sums two ranks alike to the
    bit."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if DEVICE != "cpu":
        return  # gloo has the CPU only; ranks_cuda.py has a test of its own
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    results = []
    for group in (dist.group.WORLD, dist.new_group(backend="gloo")):
        mesh = DeviceMesh.from_group(group, DEVICE)
        model = make_model()
        for layer in (*(each for each in model if isinstance(each, nn.Linear)), model):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        train(model, model.parameters(), rank, size)
        results.append([p.full_tensor() for p in model.parameters()])
    close(results[0], results[1], "FSDP2 in bf16 and gloo's", 1e-6 if size <= 2 else 2e-3)
    close(results[0], reference(), "FSDP2 in bf16", 2e-2)


def test_compiled(rank, size):
    """Collectives in a compiled function, and a compiled model under DistributedDataParallel."""
    import torch.distributed._functional_collectives as funcol

    if size != 2 or DEVICE != "cpu":
        return  # compiling takes seconds, and is the same for any number

    @torch.compile(backend="aot_eager", fullgraph=True)
    def sums(x):
        summed = funcol.all_reduce(2 * x, "sum", dist.group.WORLD)
        return funcol.all_gather_tensor(summed + x, 0, dist.group.WORLD)

    x = torch.arange(6.0) + rank
    want = [2 * (2 * torch.arange(6.0) + 1) + torch.arange(6.0) + other for other in range(size)]
    assert torch.equal(sums(x), torch.cat(want)), sums(x)
    model = make_model()
    network = torch.compile(DistributedDataParallel(model), backend="aot_eager")
    train(network, model.parameters(), rank, size)
    close(model.parameters(), reference(), "a compiled model")


def test_hsdp(rank, size):
    """Sharded within rows of a mesh, replicated across them."""
    if size % 2:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE, (2, size // 2), mesh_dim_names=("replicas", "shards"))
    model = make_model()
    for layer in (*(each for each in model if isinstance(each, nn.Linear)), model):
        fully_shard(layer, mesh=mesh)
    train(model, model.parameters(), rank, size)
    close([p.full_tensor() for p in model.parameters()], reference(), "HSDP")


def test_accumulation(rank, size):
    """Gradients of two parts of a batch: nothing is exchanged for the first."""
    import pomona

    def sums():
        return pomona.metrics().get("all_reduce", {"count": 0})["count"]

    model = make_model()
    network = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        x, y = (part[rank::size] for part in batch(step))
        optimizer.zero_grad()
        before = sums()
        with network.no_sync():
            (nn.functional.mse_loss(network(x[::2]), y[::2]) / 2).backward()
        assert sums() == before
        (nn.functional.mse_loss(network(x[1::2]), y[1::2]) / 2).backward()
        assert sums() > before
        optimizer.step()
    alone = make_model()
    train(alone, alone.parameters(), 0, 1, steps=3)
    close(model.parameters(), list(alone.parameters()), "accumulated gradients")


def test_pipeline(rank, size):
    """One layer a rank, by messages: gradients as of one process."""
    from torch.distributed.pipelining import (
        PipelineStage,
        Schedule1F1B,
        ScheduleGPipe,
        ScheduleInterleaved1F1B,
    )

    for schedule in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(1)
        layers = [nn.Linear(8, 8) for _ in range(size)]
        x, y = torch.randn(8, 8), torch.randn(8, 8)
        whole = nn.Sequential(*layers)
        nn.functional.mse_loss(whole(x), y).backward()
        want = layers[rank].weight.grad.clone()
        layers[rank].zero_grad()
        stage = PipelineStage(layers[rank], rank, size, torch.device(DEVICE))
        pipe = schedule(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        if rank == 0:
            pipe.step(x, target=y) if size == 1 else pipe.step(x)
        else:
            pipe.step(target=y) if rank == size - 1 else pipe.step()
        close([layers[rank].weight.grad], [want], schedule.__name__)
    torch.manual_seed(2)
    layers = [nn.Linear(8, 8) for _ in range(2 * size)]  # two a rank
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    nn.functional.mse_loss(nn.Sequential(*layers)(x), y).backward()
    mine = [rank, rank + size]
    wants = [layers[number].weight.grad.clone() for number in mine]
    for layer in layers:
        layer.zero_grad()
    stages = [PipelineStage(layers[number], number, 2 * size, torch.device(DEVICE)) for number in mine]
    pipe = ScheduleInterleaved1F1B(stages, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    pipe.step(*([x] if rank == 0 else []), **({"target": y} if rank == size - 1 else {}))
    close([layers[number].weight.grad for number in mine], wants, "ScheduleInterleaved1F1B")


def test_device_mesh_and_dtensor(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    rows = 2 if size % 2 == 0 else 1
    mesh = init_device_mesh(DEVICE, (rows, size // rows), mesh_dim_names=("dp", "tp"))
    x = torch.ones(1)
    dist.all_reduce(x, group=mesh.get_group("tp"))
    assert x.item() == size // rows
    torch.manual_seed(0)
    a, b = torch.randn(8, 12), torch.randn(12, 6)
    tp = mesh["tp"]
    product = distribute_tensor(a, tp, [Shard(1)]) @ distribute_tensor(b, tp, [Shard(0)])
    assert torch.allclose(product.full_tensor(), a @ b, atol=1e-5)
    moved = distribute_tensor(a, tp, [Shard(0)]).redistribute(tp, [Shard(1)]).redistribute(tp, [Replicate()])
    assert torch.equal(moved.to_local(), a)


def test_tensor_parallel(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(DEVICE, (size,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4 * size), nn.ReLU(), nn.Linear(4 * size, 6))
    x = torch.randn(5, 6)
    expected = model(x)
    expected.pow(2).sum().backward()
    want = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    parallel = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    result = parallel(x)
    assert torch.allclose(result, expected, atol=1e-5)
    result.pow(2).sum().backward()
    close([parameter.grad.full_tensor() for parameter in model.parameters()], want, "TP", 1e-4)


def test_sequence_parallel(rank, size):
    """Each rank has its part of the words, and of the classes that the loss is of."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        SequenceParallel,
        loss_parallel,
        parallelize_module,
    )

    mesh = init_device_mesh(DEVICE, (size,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4 * size))
    x, classes = torch.randn(2, 4 * size, 8), torch.randint(0, 4 * size, (8 * size,))
    expected = nn.functional.cross_entropy(model(x).flatten(0, 1), classes)
    expected.backward()
    want = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    last = ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(model, mesh, {"0": SequenceParallel(), "1": last})
    with loss_parallel():
        words = model(x.chunk(size, 1)[rank].contiguous()).flatten(0, 1)
        loss = nn.functional.cross_entropy(words, classes)
        loss.backward()
    close([loss.full_tensor(), *(parameter.grad.full_tensor() for parameter in model.parameters())], [expected, *want], "SP")


def test_checkpoint(rank, size):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    box = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    mesh = init_device_mesh(DEVICE, (size,))
    values = torch.arange(40.0).view(10, 4)
    checkpoint.save({"w": distribute_tensor(values, mesh, [Shard(0)])}, checkpoint_id=box[0])
    loaded = {"w": distribute_tensor(torch.zeros(10, 4), mesh, [Shard(1)])}
    checkpoint.load(loaded, checkpoint_id=box[0])
    assert torch.equal(loaded["w"].full_tensor(), values)


def test_checkpoint_of_a_training(rank, size):
    """FSDP2's model and its optimizer, saved beside further steps and loaded into new ones, go on
    as one process that was never interrupted."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if DEVICE != "cpu":
        return  # async_save wants a group for the CPU
    mesh = init_device_mesh(DEVICE, (size,))

    def made():
        model = make_model()
        fully_shard(model, mesh=mesh)
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    def steps(model, optimizer, numbers, rank, size):
        for number in numbers:
            x, y = batch(number)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[rank::size]), y[rank::size]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()

    def state(model, optimizer):
        return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))

    box = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    model, optimizer = made()
    steps(model, optimizer, range(3), rank, size)
    saved = checkpoint.async_save(state(model, optimizer), checkpoint_id=box[0], process_group=dist.new_group())
    steps(model, optimizer, range(10, 13), rank, size)
    saved.result()
    model, optimizer = made()
    loaded = state(model, optimizer)
    checkpoint.load(loaded, checkpoint_id=box[0])
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    steps(model, optimizer, range(3, 5), rank, size)
    alone = make_model()
    steps(alone, torch.optim.Adam(alone.parameters(), lr=0.01), range(5), 0, 1)
    close([p.full_tensor() for p in model.parameters()], list(alone.parameters()), "a training that was loaded")


def test_averaged_models(rank, size):
    """Post-local SGD: steps alone, then the mean of all ranks' weights; as one process that makes
    all ranks' steps."""
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    alone = [dist.new_group([each]) for each in range(size)][rank]
    model = make_model()
    network = DistributedDataParallel(model)
    state = post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=0)
    network.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=2, warmup_steps=0))
    for step in range(5):  # the weights are averaged after the first, the third and the fifth
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(network(x[rank::size]).to(y.dtype), y[rank::size]).backward()  # alike: for torch 2.10
        optimizer.step()
    models = [make_model() for _ in range(size)]
    for step in range(5):
        x, y = batch(step)
        for other, each in enumerate(models):
            loss = nn.functional.mse_loss(each(x[other::size]), y[other::size])
            for p, gradient in zip(each.parameters(), torch.autograd.grad(loss, list(each.parameters()))):
                p.data -= 0.05 * gradient
        if step % 2 == 0:
            for same in zip(*(each.parameters() for each in models)):
                mean = sum(p.data for p in same) / size
                for p in same:
                    p.data = mean.clone()
    close(model.parameters(), list(models[rank].parameters()), "post-local SGD")


def test_data_loader_workers(rank, size):
    """Forked workers inherit MPI's state and must leave it alone."""
    if DEVICE != "cpu":
        return  # CUDA itself forbids fork() once it is in use
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    seen = torch.cat([x for (x,) in torch.utils.data.DataLoader(data, batch_size=2, num_workers=1)])
    assert seen.tolist() == list(range(8))
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == size


def main():
    torch.set_num_threads(1)
    take_device()
    dist.init_process_group(BACKEND)
    run_tests(globals())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
