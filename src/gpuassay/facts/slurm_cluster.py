"""A Slurm cluster as a whole: how it gives out resources, what it accounts for, what it says of nodes."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpuassay.facts.record import mapped
from gpuassay.facts.slurm import CONTROLLERS, MPI, SRUN, TRES, Slurm
from gpuassay.facts.slurm_health import HealthCheck
from gpuassay.facts.slurm_node import OnSlurm
from gpuassay.facts.slurm_topology import Topology
from gpuassay.facts.slurm_words import Reasons
from gpuassay.facts.source import take, text
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuassay.facts.node import Node
    from gpuassay.facts.slurm_limits import Bought
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

_CONTROLLER = re.compile(r"Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)")
_VERSION = re.compile(r"([0-9]{1,2}\.[0-9]{2}\.[0-9]{1,3})", re.ASCII)
_PARTITION_MEMORY = re.compile(r"\bDefMemPer(?:CPU|Node|GPU)=[0-9]|\bJobDefaults=\S*DefMemPerGPU=[0-9]")


class SlurmCluster:
    """What Slurm's controller says of itself; ``bought`` are the pools of nodes that it gives out."""

    where, node = "slurm", ""
    models: tuple[str, ...] = ()
    bought: tuple[Bought, ...] = ()

    def __init__(
        self, evidence: Evidence, nodes: Sequence[Node], out: Collection[str], products: Collection[str]
    ) -> None:
        """Take what Slurm said, the nodes in service, the names of the others, and all products' names."""
        self._evidence = evidence
        self._slurm = Slurm(evidence)
        self._nodes = [node for node in nodes if self._slurm.find(node.name)]
        self._ours = frozenset({*(node.name for node in nodes), *out})
        self._products = products

    @cached_property
    def nodes(self) -> tuple[OnSlurm, ...]:
        """The nodes in service that it knows."""
        return tuple(OnSlurm(node, self._slurm, self.topology, self._products) for node in self._nodes)

    @cached_property
    def topology(self) -> Topology:
        """The network as it knows it, for nodes that answered."""
        return Topology(self._slurm, self._evidence, [node for node in self._nodes if node.silence is None])

    @cached_property
    def health(self) -> HealthCheck:
        """What it does for the health of nodes."""
        return HealthCheck(self._slurm, self._evidence)

    @cached_property
    def reasons(self) -> Reasons:
        """What it says of the nodes of this cluster that no job can have."""
        return Reasons(self._slurm, self._ours)

    # --- isolation --------------------------------------------------------------------------------

    @property
    def isolates_gpus(self) -> Fact[bool]:
        """Whether a job can open only the GPUs that it was given: task/cgroup with ConstrainDevices."""
        plugin = self._slurm.setting("TaskPlugin")
        if isinstance(plugin, Unread):
            return plugin
        if "cgroup" not in plugin.value:
            return Read(
                value=False, evidence=plugin.evidence, note=f"TaskPlugin = {plugin.value or '(null)'}"
            )
        constrain = self._slurm.setting("ConstrainDevices")
        if isinstance(constrain, Unread):
            return constrain
        note = f"ConstrainDevices = {constrain.value}"
        return Read(constrain.value.lower() in ("yes", "true"), constrain.evidence, note)

    @property
    def tracks_by(self) -> Fact[str]:
        """The plugin that knows which processes are of a job: ProctrackType."""
        return self._slurm.setting("ProctrackType")

    # --- accounting -------------------------------------------------------------------------------

    @property
    def accounting(self) -> Fact[str]:
        """Where jobs are accounted: AccountingStorageType; some versions leave it empty for none."""
        return mapped(
            self._slurm.setting("AccountingStorageType"), lambda word: word or "accounting_storage/none"
        )

    @property
    def database_answers(self) -> Fact[bool]:
        """Whether the database of accounts answers from here."""
        shown = take(self._evidence, TRES)
        if isinstance(shown, Unread):
            if shown.kind == "failed":
                return Read(value=False, evidence=shown.evidence, note=shown.why)
            return Unread("denied", shown.why, shown.evidence) if shown.kind == "not_found" else shown
        if not re.search(rb"^cpu\|\|[0-9]+$", shown.value.out, re.MULTILINE):
            return Unread("garbled", f"{TRES} lists no resource", shown.evidence)
        return Read(value=True, evidence=shown.evidence)

    @property
    def accounts_gpus(self) -> Fact[bool]:
        """Whether GPUs are among what is accounted: gres/gpu in AccountingStorageTRES."""
        listed = self._slurm.setting("AccountingStorageTRES")
        if isinstance(listed, Unread):
            return listed
        words = {word.strip() for word in listed.value.split(",")}
        return Read("gres/gpu" in words, listed.evidence, f"AccountingStorageTRES = {brief(listed.value)}")

    @property
    def gathers_usage(self) -> Fact[bool]:
        """Whether what jobs use of processors and memory is measured."""
        plugin = self._slurm.setting("JobAcctGatherType")
        return mapped(plugin, lambda word: word not in ("", "jobacct_gather/none"))

    # --- how resources are given out --------------------------------------------------------------

    @property
    def selects_by(self) -> Fact[str]:
        """The plugin that chooses resources: SelectType."""
        return self._slurm.setting("SelectType")

    @property
    def gives_out_memory(self) -> Fact[bool]:
        """Whether memory is a resource that jobs are given, as processors are."""
        words = self._slurm.setting("SelectTypeParameters")
        if isinstance(words, Unread):
            return words
        note = f"SelectTypeParameters = {words.value or '(null)'}"
        return Read("MEMORY" in words.value.upper(), words.evidence, note)

    @property
    def default_memory(self) -> Fact[bool]:
        """Whether a job that asks for no memory is given a share, by the cluster or by all partitions."""
        keys = ("DefMemPerNode", "DefMemPerCPU", "JobDefaults")
        settings = [self._slurm.setting(key) for key in keys]
        read = [setting for setting in settings if isinstance(setting, Read)]
        if not read:
            return next(setting for setting in settings if isinstance(setting, Unread))
        if any(re.match(r"[0-9]|.*DefMemPerGPU=[0-9]", setting.value) for setting in read):
            return Read(value=True, evidence=read[0].evidence)
        shown = text(self._evidence, "slurm/partitions")
        if isinstance(shown, Unread):
            return shown
        blocks = [block for block in shown.value.split("PartitionName=")[1:] if "State=UP" in block]
        without = [block.split()[0] for block in blocks if not _PARTITION_MEMORY.search(block)]
        note = f"no DefMem of its own: partition {', '.join(without)}" if without else ""
        return Read(bool(blocks) and not without, shown.evidence, note)

    @property
    def requeues(self) -> Fact[bool]:
        """Whether a job is run again when its node has failed, unless it says otherwise: JobRequeue."""
        return mapped(self._slurm.number("JobRequeue"), bool)

    @property
    def node_timeout_s(self) -> Fact[int]:
        """For how long a node may be silent before it counts as down; 0 is for ever."""
        return self._slurm.number("SlurmdTimeout")

    @property
    def controller_timeout_s(self) -> Fact[int]:
        """For how long the controller may be silent before its backup takes over."""
        return self._slurm.number("SlurmctldTimeout")

    # --- its programs -----------------------------------------------------------------------------

    @property
    def version(self) -> Fact[str]:
        """The version of the controller."""
        told = self._slurm.setting("SLURM_VERSION")
        if isinstance(told, Unread):
            return told
        found = _VERSION.match(told.value)
        if found is None:
            return Unread("garbled", f"SLURM_VERSION is {brief(told.value)}, no version", told.evidence)
        return Read(found[1], told.evidence, f"SLURM_VERSION = {told.value}")

    @property
    def controllers_down(self) -> Fact[int]:
        """How many of its controllers, the backups too, do not answer; the note names all."""
        controllers = self._controllers
        if isinstance(controllers, Unread):
            return controllers
        note = ", ".join(f"{role} {host} is {state}" for role, host, state in controllers.value)
        return Read(sum(state == "DOWN" for _, _, state in controllers.value), controllers.evidence, note)

    @property
    def backups(self) -> Fact[int]:
        """How many controllers could take over from the first."""
        return mapped(self._controllers, lambda found: len(found) - 1)

    @property
    def pmix(self) -> Fact[bool]:
        """Whether srun can start MPI programs by PMIx; the note has all that it can."""
        item = take(self._evidence, MPI)
        if isinstance(item, Unread):
            return item
        # Older versions write the list to their standard error, each line after the name of the program.
        lines = [*item.value.out.decode(errors="replace").splitlines(), *item.value.err.splitlines()]
        words = [line.rpartition(":")[2].strip() for line in lines if "error:" not in line]
        kinds = [word for word in words if re.fullmatch(r"[a-z][a-z0-9_]*", word)]
        if not kinds:
            return Unread("garbled", f"{MPI} lists no kind of MPI", item.evidence)
        return Read(any(kind.startswith("pmix") for kind in kinds), item.evidence, ", ".join(kinds))

    @property
    def starts_containers(self) -> Fact[bool]:
        """Whether srun here has pyxis, which starts a job in a container image: by its own help."""
        shown = text(self._evidence, SRUN)
        if isinstance(shown, Unread):
            return shown
        if "--nodelist" not in shown.value:
            return Unread("garbled", f"{SRUN} is no help of srun", shown.evidence)
        return Read("--container-image" in shown.value, shown.evidence)

    @cached_property
    def _controllers(self) -> Fact[list[tuple[str, str, str]]]:
        item = self._evidence.item(CONTROLLERS)
        # scontrol(1) ends with 1 where one is down, and has said all; where it was cut, the next may be down.
        ended = item is not None and item.status in ("ok", "failed") and not item.truncated
        shown = item.out.decode(errors="replace") if item is not None and ended else ""
        found = _CONTROLLER.findall(shown)
        if item is None or not found:
            asked = take(self._evidence, CONTROLLERS)
            return asked if isinstance(asked, Unread) else Unread("garbled", f"{CONTROLLERS} names none")
        if len(found) < shown.count("Slurmctld("):
            why = f"{CONTROLLERS} has a line that is not understood: {brief(shown)}"
            return Unread("garbled", why, self._evidence.ref(item))
        return Read(found, self._evidence.ref(item))
