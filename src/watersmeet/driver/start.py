"""Builds a driver: the same for every runner."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.adapt.moving.policies import DEFAULT_ADAPTATION, policies_of
from watersmeet.adapt.policy import MemoryOptions, Policy, View
from watersmeet.adapt.ring.cost import Goal
from watersmeet.adapt.ring.length import RingPolicy
from watersmeet.adapt.ring.relocation import Relocation
from watersmeet.adapt.spilling.policy import Choose
from watersmeet.driver.checkpoint import Expectation
from watersmeet.driver.coordinator import Coordinator
from watersmeet.driver.loop import Loop
from watersmeet.driver.observer import Observer
from watersmeet.driver.ports import Batch, Runner, Versions
from watersmeet.driver.publish import publish
from watersmeet.driver.step import Stepper
from watersmeet.driver.switches import switches
from watersmeet.driver.task_specs import TaskSpecs
from watersmeet.operators.ring.schemes import PSP, Scheme
from watersmeet.site.crash import CrashPlan, reach
from watersmeet.site.result_files import ResultFormat
from watersmeet.site.spec import ROUND_LIMIT_BYTES, Function
from watersmeet.state.changes import Change, ReplacePlan

ROUND_LEAST_BYTES = 8 << 20


@dataclass(frozen=True)
class DriverOptions:
    """The settings of a run; ``driver`` is its own name, ``choose`` replaces the spill strategy."""

    driver: str
    expected: Expectation
    memory: MemoryOptions
    retained_versions: int = 10
    files: ResultFormat | None = None
    choose: Choose | None = None
    round_bytes: int | None = None
    parcels: bool = True
    rejected_path: str | None = None
    retention_us: int | None = None
    cleans_when_idle: bool = True
    adaptation: str = DEFAULT_ADAPTATION
    functions: Mapping[str, Function] = field(default_factory=dict)
    ring_scheme: Scheme = PSP
    ring_goal: Goal | None = None
    ring_relocation: Relocation = "aggressive"


def start_driver(checkpoint: Versions, runner: Runner[Batch], options: DriverOptions) -> Loop[Batch]:
    """Continue a checkpoint: publish pending results, remove leftovers, and apply the options to the manifest."""
    publish(checkpoint.manifest)
    checkpoint.begin(options.retained_versions)
    movers = _movers(options)
    observer = Observer(options.memory.is_limited, has_moves=bool(movers))
    observer.begin(checkpoint.manifest)
    round_bytes = options.round_bytes or _round_bytes(options.memory)
    expected = options.expected
    coordinator = Coordinator.of(
        options.memory,
        expected.sites,
        round_bytes,
        options.choose,
        movers,
        expected.weights,
        options.retention_us,
        sites_follow=expected.sites_follow,
    )
    coordinator.announces = checkpoint.storage.is_remote
    if not options.cleans_when_idle:
        coordinator.registry = coordinator.registry.without("StreamEmpty", "disk join")
    crash = CrashPlan.from_environment()
    specs = TaskSpecs(
        checkpoint.storage,
        options.driver,
        files=options.files,
        crash=crash,
        forget_pairs=switches().forget_pairs,
        slow=switches().slow,
        slow_epochs=switches().slow_epochs,
        is_limited=options.memory.is_limited,
        round_bytes=round_bytes,
        rejected_path=options.rejected_path,
        tells_promises_apart=options.retention_us is not None,
        functions=options.functions,
        ring_scheme=options.ring_scheme,
    )
    stepper = Stepper(runner, checkpoint, specs, coordinator, observer, options.parcels)
    if crash is not None and crash.victim == "driver":
        stepper.reach = lambda point, epoch: reach(crash, point, epoch)
    stepper.adapt(_replan(checkpoint, expected))
    stepper.adapt(coordinator.decide(View("start", checkpoint.manifest, observer.statistics)))
    return Loop(stepper, options.memory)


def _movers(options: DriverOptions) -> list[Policy]:
    """The policies that move groups; one that gives rings their length holds the groups of these."""
    others, goal = policies_of(options.adaptation, options.memory), options.ring_goal
    has_ring = any(operator.kind == "ring" for operator in options.expected.plan.operators)
    return others if goal is None or not has_ring else [RingPolicy(goal, options.ring_relocation), *others]


def _round_bytes(memory: MemoryOptions) -> int:
    return min(ROUND_LIMIT_BYTES, max(memory.budget_bytes or ROUND_LIMIT_BYTES, ROUND_LEAST_BYTES))


def _replan(checkpoint: Versions, expected: Expectation) -> list[Change]:
    """Adopt another output over the same state: steps on the root's rows are not part of the checkpoint."""
    if checkpoint.manifest.written == expected.plan:
        return []
    ids = tuple(operator.id for operator in expected.plan.operators)
    return [ReplacePlan(expected.plan, {}, "the query's output has changed", ids, is_written=True)]
