"""Records what a training step is made of, for `pomona predict`.

    recorder = pomona.predict.Recorder(model)       # DistributedDataParallel or FSDP2's
    for batch in batches:
        with recorder.step():                       # a whole step: forward, backward, optimizer
            ...
    recorder.write("step.json")                     # on rank 0; pomona predict --model step.json

A recording says when each collective was started and waited for, how many bytes it had, and how
long the program computed in between; not how long the collectives took, which is what `pomona
predict` finds out for other networks. One step is too few: the first one has other buckets. Of DDP
the gradients' buckets are recorded, by a communication hook that stays with the model (a model
takes one, so none of your own beside it); of FSDP2 the collectives that torch.distributed is asked
for in a step.
"""

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

# Of torch.distributed, by the names of several versions: the name in recordings; where and under
# which names the tensor is that has all ranks' parts.
Event = dict[str, Any]
FSDP2_CALLS = {
    "all_gather_single": ("all_gather", 0, ("output_tensor", "output")),
    "all_gather_into_tensor": ("all_gather", 0, ("output_tensor",)),
    "reduce_scatter_single": ("reduce_scatter", 1, ("input",)),
    "reduce_scatter_tensor": ("reduce_scatter", 1, ("input",)),
    "all_reduce": ("all_reduce", 0, ("tensor",)),
}


class _Step:
    """The events of one step. Hooks are called by autograd's threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: list[Event] = []
        self.started = 0
        self.buckets: list[int] = []  # of DDP: numbers of collectives that nobody waits for yet
        self.over = 0.0  # when the last of them was
        self.waited = False  # DDP waits, or waited, for all of them
        self.last = time.perf_counter()

    def compute(self, until: float, update: bool = False) -> None:
        if self.waited:
            self.last, self.waited = max(self.last, self.over), False
        seconds = max(0.0, until - self.last)
        self.events.append({"compute_s": seconds, "update": True} if update else {"compute_s": seconds})
        self.last = until

    def start(self, name: str, nbytes: int) -> int:
        with self.lock:
            self.compute(time.perf_counter())
            self.events.append({"start": name, "megabytes": nbytes / 1e6})
            self.started += 1
            return self.started - 1

    def bucket(self, nbytes: int) -> None:
        """A bucket's collective starts. DDP waits for all buckets when the whole backward pass is
        over: autograd then calls what was queued, in the order in which it was, and DDP queues its
        own when the last bucket is ready, which is later than this."""
        if not self.buckets:
            torch.autograd.Variable._execution_engine.queue_callback(self.backward_over)
        self.buckets.append(self.start("all_reduce", nbytes))

    def backward_over(self) -> None:
        with self.lock:
            self.compute(time.perf_counter())
            self.events.extend({"wait": number} for number in self.buckets)
            self.buckets, self.waited = [], True

    def wait(self, number: int, function: Callable[[], Any]) -> Any:
        with self.lock:
            self.compute(time.perf_counter())
            self.events.append({"wait": number})
        try:
            return function()
        finally:
            with self.lock:
                self.last = time.perf_counter()


class _Watched(dist.Work):
    """A Work whose wait() is recorded."""

    def __init__(self, work: dist.Work, step: _Step, number: int) -> None:
        super().__init__()
        self.work, self.step, self.number = work, step, number

    def wait(self, *timeout: Any) -> bool:
        return bool(self.step.wait(self.number, lambda: self.work.wait(*timeout)))

    def is_completed(self) -> bool:
        return self.work.is_completed()

    def get_future(self) -> torch.futures.Future[Any]:
        return self.work.get_future()


class Recorder:
    """Records steps of `model`, a DistributedDataParallel or FSDP2's, in `group` (None: the default
    one). Raises ValueError for a model without parameters that are trained."""

    def __init__(self, model: torch.nn.Module, group: dist.ProcessGroup | None = None) -> None:
        self.group = cast(dist.ProcessGroup, group)  # torch's functions take None as the default group
        self.steps: list[list[Event]] = []
        self.current: _Step | None = None
        self.ddp = isinstance(model, DistributedDataParallel)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not trained:
            raise ValueError("the model has no parameters that are trained")
        self.parameters = [parameter.numel() for parameter in trained]
        self.element_bytes = trained[0].element_size()
        if isinstance(model, DistributedDataParallel):
            model.register_comm_hook(None, self._hook)

    def _hook(self, _: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        step = self.current
        if step is None:
            return allreduce_hook(self.group, bucket)
        step.bucket(bucket.buffer().nbytes)

        def over(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            step.over = time.perf_counter()
            return future.value()

        return allreduce_hook(self.group, bucket).then(over)

    def _wrapped(
        self, function: Callable[..., Any], name: str, place: int, keywords: tuple[str, ...]
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            step = self.current
            tensor = arguments[place] if len(arguments) > place else None
            for keyword in keywords:
                tensor = named.get(keyword, tensor)
            if step is None or tensor is None:
                return function(*arguments, **named)
            number = step.start(name, tensor.nbytes)
            if named.get("async_op"):
                return _Watched(function(*arguments, **named), step, number)
            return step.wait(number, lambda: function(*arguments, **named))

        return call

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Records what is called within it: a whole step. A step that an exception leaves does not
        count."""
        kept: dict[str, Callable[..., Any]] = {}
        if not self.ddp:
            for call, what in FSDP2_CALLS.items():
                if hasattr(dist, call):
                    kept[call] = getattr(dist, call)
                    setattr(dist, call, self._wrapped(kept[call], *what))
        self.current = step = _Step()
        try:
            yield
            step.compute(time.perf_counter(), update=True)
            self.steps.append(step.events)
        finally:
            self.current = None
            for call, function in kept.items():
                setattr(dist, call, function)

    def result(self) -> Event:
        """The recording: of the steps that went like the last one the medians, but for the
        first."""
        steps = self.steps[1:] or self.steps
        if not steps:
            raise RuntimeError("nothing was recorded: use step() around whole steps first")

        def form(events: list[Event]) -> list[tuple[Any, Any, Any]]:
            return [(event.get("start"), event.get("megabytes"), event.get("wait")) for event in events]

        alike = [events for events in steps if form(events) == form(steps[-1])]
        events = []
        for place, event in enumerate(steps[-1]):
            if "compute_s" in event:
                seconds = statistics.median(each[place]["compute_s"] for each in alike)
                event = dict(event, compute_s=round(seconds, 9))
            events.append(event)
        return {
            "kind": "ddp" if self.ddp else "fsdp2",
            "ranks": dist.get_world_size(self.group),
            "steps": len(alike),
            "element_bytes": self.element_bytes,
            "parameters": self.parameters,
            "events": events,
        }

    def write(self, path: str) -> Event:
        """Writes the recording as JSON, times in seconds, and returns it. On rank 0 of the group;
        others write nothing."""
        recording = self.result()
        if dist.get_rank(self.group) == 0:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(recording, file, indent=1)
        return recording
