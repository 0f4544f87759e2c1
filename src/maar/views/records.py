"""The answers: plain data, with camelCase names in JSON.

Amounts are whole numbers: CPU in thousandths, all else in units and bytes. Times are seconds since 1970. `None` where a
name could be means that the viewer may not know it.
"""

from __future__ import annotations

import enum

import msgspec

Amounts = dict[str, int]


class State(enum.StrEnum):
    """How far a job is."""

    INVALID = "invalid"
    """Its owner has to correct it."""
    WAITING = "waiting"
    STARTING = "starting"
    """Room for its minimum is being freed."""
    RUNNING = "running"
    """It has its minimum."""
    SUSPENDED = "suspended"
    """Its owner has stopped it (`maar hold --stop`)."""
    FINISHED = "finished"


class View(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One answer, or a part of it."""


class Others(View, frozen=True):
    """Jobs that the viewer may not see, as amounts."""

    pods: int = 0
    amounts: Amounts = {}


class ReasonView(View, frozen=True):
    """Why a job waits."""

    plugin: str
    code: str
    message: str
    never: bool = False
    """Whether it can never start as things are."""
    resource: str = ""
    needs: int | None = None
    has: int | None = None
    limit: int | None = None
    nodes: dict[str, int] = {}
    """The number of refused nodes by cause."""
    queue: str = ""
    since: float | None = None


class BoundsView(View, frozen=True):
    """The workers of an elastic job."""

    min: int
    max: int
    now: int


class OwnerView(View, frozen=True):
    """The object that stands for a job: the one that a person submitted."""

    api_version: str
    kind: str
    name: str


class StartView(View, frozen=True):
    """When a waiting job starts: by p50 with a chance of 50 %, by p90 with one of 90 %."""

    verdict: str
    """`expected`, `never` (proved, as things are) or `unknown`."""
    start_p50: float | None = None
    start_p90: float | None = None


class JobView(View, frozen=True):
    """A job, as an item of a list."""

    namespace: str
    name: str
    queue: str
    state: State
    priority: int
    created: float
    since: float
    """Since when it waits, or when it was created."""
    minimum: int
    pods: dict[str, int]
    """The number of pods by status."""
    requests: Amounts
    """The requests of all its pods that have not ended."""
    allocated: Amounts
    """The requests of its pods that have a node, or room that is being freed."""
    elastic: BoundsView | None = None
    owner: OwnerView | None = None
    condition: str = ""
    """Why it waits, in one word for programs; empty if it does not wait or its reason is not known yet."""
    why: str = ""
    """Why it waits, for people."""
    held: bool = False
    """Whether its owner holds it (`maar.dev/hold`); one that runs may go on."""
    nodes: tuple[str, ...] = ()
    """The nodes of its pods."""
    place: int | None = None
    """Its place in its queue at the last forecast, from 1."""
    forecast: StartView | None = None
    """When the waiting job starts, by the last forecast."""
    shard: int | None = None
    """The shard that decides for it; `None`: the cluster has no shards."""


class PodView(View, frozen=True):
    """A pod of a job."""

    name: str
    status: str
    node: str = ""
    role: str = ""
    started: float | None = None
    amounts: Amounts = {}


class NeedsView(View, frozen=True):
    """Equal pods of a job: how many, and what each requests, in Kubernetes' notation."""

    pods: int
    requests: dict[str, str]
    role: str = ""


class AheadView(View, frozen=True):
    """One that goes first, and what put it there."""

    name: str | None
    by: str
    """The plugin, or `created` or `name`."""
    words: str


class PlaceView(View, frozen=True):
    """A waiting job's place in its queue."""

    queue: str
    number: int
    waiting: int
    ahead: tuple[AheadView, ...] = ()
    queues_ahead: tuple[AheadView, ...] = ()
    namespaces_ahead: tuple[AheadView, ...] = ()


class ChangeView(View, frozen=True):
    """A change that would start the job."""

    kind: str
    words: str
    start: str
    """How far the job is with it: `starts`, `nominated` or `admitted`."""
    evicts: tuple[str, ...] = ()
    """Jobs that lose pods or workers by it."""
    delays: tuple[str, ...] = ()
    others_lose: int = 0
    """The number of other jobs that lose or wait by it, whose names the viewer may not know."""


class UnblockView(View, frozen=True):
    """What would start the job. No changes and `complete`: none of the list does."""

    changes: tuple[ChangeView, ...] = ()
    complete: bool = True
    """False: the time for the search ended before the list of changes."""
    decisions: int = 0


class StoryView(View, frozen=True):
    """One thing that happened to a job."""

    at: float
    what: str
    """`Admitted`, `Scheduled`, `Evicted`, `Resized` and so on, or the reason of an event."""
    words: str
    source: str
    """`object`, `event` or `history`."""
    workers: int | None = None
    """Workers that it has from then on, where that is known."""


class SpeedView(View, frozen=True):
    """How fast a job is with a number of workers, relative to one."""

    workers: int
    speed: float
    measured: bool
    """False: no job like it ran with as many workers, so the speed is computed from smaller numbers."""


class QualityView(View, frozen=True):
    """How good forecasts of starts were, of one queue and one age of jobs."""

    queue: str
    age: str
    """The age of the jobs when the forecasts were made: `at submission`, `after 1 minute` or `after 1 hour`."""
    judged: int
    censored: int
    """The number of these jobs that still wait or were deleted before they started: they waited at least until then."""
    coverage_p90: float | None = None
    """The share of jobs that started by the p90 that was shown."""
    median_error: float | None = None
    """Median seconds between p50 and the real start."""
    coverage_as_made: float | None = None
    """As `coverageP90`, before calibration."""
    factor: float = 1.0
    """What the wait until p90 of new forecasts is multiplied by."""


class ForecastView(View, frozen=True):
    """When a job starts and ends, if that is known."""

    known: bool = False
    verdict: str = "unknown"
    """`expected`, `never` (proved, as things are) or `unknown`."""
    words: str = ""
    start_p50: float | None = None
    start_p90: float | None = None
    finish_p50: float | None = None
    finish_p90: float | None = None
    within_hour: float | None = None
    rollouts: int = 0
    """How many futures were played; fewer than `wanted` if the time for it ended."""
    wanted: int = 0
    made_at: float | None = None
    age: float | None = None
    """Seconds since then."""
    arrivals: bool = False
    """Whether jobs that are submitted later, as in the past, were played too."""
    trust: QualityView | None = None
    """How good such forecasts were: of its queue, for jobs of its age."""


class JobDetail(View, frozen=True):
    """Everything about one job."""

    job: JobView
    needs: tuple[NeedsView, ...]
    declared: dict[str, str]
    start: str
    """How far it is after the decision of this moment: `runs`, `starts`, `nominated`, `admitted` or `waits`."""
    place: PlaceView | None
    reasons: tuple[ReasonView, ...]
    unblock: UnblockView
    pods: tuple[PodView, ...]
    speeds: tuple[SpeedView, ...] = ()
    """The speed-up that was measured of an elastic job, or of jobs like it; empty: nothing was measured."""
    story: tuple[StoryView, ...] = ()
    story_without: tuple[str, ...] = ()
    """Sources of the story that could not be read: `events`, `history`."""
    forecast: ForecastView = ForecastView(words="unknown")


class QueueView(View, frozen=True):
    """A queue, with all queues below it."""

    name: str
    parent: str
    weight: int
    priority: int
    open: bool
    reclaimable: bool
    broken: str
    capability: Amounts
    guarantee: Amounts
    deserved: Amounts
    """What it deserves by the plugin that shares the cluster, else what the queue states."""
    allocated: Amounts
    borrowed: Amounts
    """Allocated above what it deserves."""
    waiting: Amounts
    """What its waiting pods request."""
    jobs: dict[str, int]
    """The number of its own jobs by state."""


class NodeJob(View, frozen=True):
    """The pods of one job on a node."""

    job: str
    queue: str
    pods: int
    amounts: Amounts
    leaving: bool = False


class NodeView(View, frozen=True):
    """A node."""

    name: str
    state: str
    """`ready`, `cordoned`, `failed`, `tainted` or `locked`."""
    allocatable: Amounts
    used: Amounts
    releasing: Amounts
    promised: Amounts
    """Reserved for pods that wait until the room is free."""
    taints: tuple[str, ...] = ()
    domains: dict[str, str] = {}
    """Labels that say where it is."""
    locked: bool = False
    locked_for: str | None = None
    jobs: tuple[NodeJob, ...] = ()
    others: Others = Others()
    system: Others = Others()
    """Pods that belong to the node, and those of other schedulers."""
    shard: int | None = None
    """The shard that owns it; `None`: the cluster has no shards."""


class ElectView(View, frozen=True):
    """The job for which nodes are being locked."""

    job: str | None
    since: float
    nodes: int


class ShardView(View, frozen=True):
    """One of several schedulers that share the cluster, by the ShardMap."""

    shard: int
    wanted: bool
    """False: it gives away what it has, and ends."""
    holder: str | None
    """The process that holds it; empty: it never had one. Only for viewers who may see everything."""
    epoch: int
    """How often it got a new holder."""
    nodes: int
    lent: int
    """Nodes of its slots that other shards own now."""
    borrowed: int
    """Nodes that it owns now, and that belong to slots of other shards."""
    queues: int
    waiting: int
    """Jobs that wait, also those that the viewer may not see."""
    wants: int
    """Jobs for which it asks other shards for nodes."""


class ClusterView(View, frozen=True):
    """The whole."""

    nodes: dict[str, int]
    """The number of nodes by state."""
    allocatable: Amounts
    used: Amounts
    releasing: Amounts
    waiting: Amounts
    pods: dict[str, int]
    jobs: dict[str, int]
    """The number of jobs by state, with those that the viewer may not see."""
    visible: dict[str, int]
    """The same of those that she may see."""
    others: Others
    """What the others have."""
    queues: int
    accelerators: tuple[str, ...]
    reserved: ElectView | None = None
    shards: tuple[ShardView, ...] = ()
    """Empty: one Maar leads."""


class UtilisationView(View, frozen=True):
    """How many GPUs were in use at a time; CPU in thousandths where the cluster has none."""

    at: float
    total: int
    used: int
    waiting: int
    """What waiting pods request."""
    queues: dict[str, int]
    """In use by the jobs of each top-level queue, with the queues below it: those with the most."""
    others: int
    """In use by all else: other queues, and pods that no queue pays for."""
    until: float | None = None
    """Until when it is known to hold, if nothing was heard from the cluster after that; else until the next point."""


class Moved(View, frozen=True):
    """Pods of a job and their nodes."""

    job: str
    pods: dict[str, str]


class EvictView(View, frozen=True):
    """Pods of a job that go for another."""

    job: str
    pods: tuple[str, ...]
    beneficiary: str | None
    reason: str
    cause: str


class SizeView(View, frozen=True):
    """Another size of an elastic job; 0: suspended."""

    job: str
    before: int
    after: int
    why: str


class Happened(View, frozen=True):
    """How the cluster is now, beside what the decision would do."""

    same_node: int = 0
    """Pods that it would bind or promise room, and that are on that node."""
    other_node: int = 0
    waiting: int = 0
    gone: int = 0
    admitted: int = 0
    """Jobs that it would admit, and that are admitted."""
    not_admitted: int = 0
    """Jobs that it would admit, and that are not admitted or are gone."""
    evicted: int = 0
    """Pods that it would evict, and that have left or are leaving."""
    stayed: int = 0
    resized: int = 0
    """Jobs that it would resize, and that have that size."""
    other_size: int = 0


class RecordingView(View, frozen=True):
    """A recording of `maar run`: a file, and how far it has been read."""

    name: str
    bytes: int
    modified: float
    cycles: int = 0
    """Cycles that have been read."""
    dropped: int = 0
    """The oldest cycles that moved something and are no longer listed."""
    complete: bool = False
    """Whether it has been read to its end; else the next request reads on."""
    problem: str = ""
    """Why it cannot be read, or not to its end."""


class PlanView(View, frozen=True):
    """What one plan does."""

    bind: tuple[Moved, ...]
    nominate: tuple[Moved, ...]
    evict: tuple[EvictView, ...]
    admit: tuple[str, ...]
    sizes: tuple[SizeView, ...]
    waiting: int
    """The number of jobs that it looked at and left waiting."""
    others: dict[str, int]
    """The number of pods or jobs of each kind of operation that the viewer may not see."""


class DecisionView(PlanView, frozen=True):
    """One cycle: of the shadow, which is what this process would do and does not do, or of a recording."""

    number: int
    at: float
    seconds: float
    """How long it took; 0 if that is not known."""
    shadow: bool
    wake_at: float | None = None
    happened: Happened = Happened()
    recording: str = ""
    """The recording of the scheduler that it comes from; empty: this process decided it in shadow."""
