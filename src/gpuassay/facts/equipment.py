"""What a node offers to jobs: containers, libraries, modules and users. That it is there proves little."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuassay.facts.source import document
from gpuassay.facts.text import brief
from gpuassay.judge.fact import Read, Unread
from gpuassay.judge.names import natural

if TYPE_CHECKING:
    from gpuassay.facts.record import Record
    from gpuassay.facts.source import Evidence
    from gpuassay.judge.fact import Fact

# Sources of users that are files of the node's own: nsswitch.conf(5). Any other is a service.
_LOCAL = frozenset({"files", "compat", "systemd", "db", "altfiles", "myhostname"})
_MAX, _CLONE, _APPARMOR = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
_NCCL = re.compile(r"libnccl\.so\.([0-9]+\.[0-9]+\.[0-9]+)", re.ASCII)


class Equipment:
    """Reads what the probe looked for."""

    def __init__(self, evidence: Evidence) -> None:
        """Look at what was found; nothing was started."""
        self._all = document(evidence, "equipment")

    # --- containers -------------------------------------------------------------------------------

    @property
    def enroot(self) -> Fact[bool]:
        """Whether enroot is installed."""
        return self._program("enroot")

    @property
    def namespaces(self) -> Fact[bool]:
        """Whether a user may make namespaces: enroot, and Apptainer without setuid, start nothing without.

        AppArmor's restriction is no bar where a profile lets the program through, so it is only told.
        """
        told = self._all.record("namespaces")
        if told.unread:
            return told.unread
        values = {path: value for path in (_MAX, _CLONE) if isinstance(value := told.text(path), Read)}
        restricted = told.text(_APPARMOR)
        note = "; ".join(f"{path} = {value.value}" for path, value in values.items())
        if isinstance(restricted, Read):
            note += f"; {_APPARMOR} = {restricted.value}"
        if _MAX not in values:
            return Unread("garbled", f"no number at {_MAX}", told.evidence)
        return Read(all(value.value != "0" for value in values.values()), told.evidence, note)

    @property
    def apptainer(self) -> Fact[bool]:
        """Whether Apptainer or Singularity is installed."""
        found = (self._program(name) for name in ("apptainer", "singularity"))
        first, second = found
        return second if isinstance(first, Read) and not first.value else first

    @property
    def starts_images(self) -> Fact[bool]:
        """Whether Apptainer has what it needs to start an image: a setuid starter, or user namespaces."""
        starters = self._list("setuid_starters")
        return Read(value=True, evidence=self._all.evidence) if _filled(starters) else self.namespaces

    @property
    def docker(self) -> Fact[bool]:
        """Whether Docker's client is installed."""
        return self._program("docker")

    @property
    def docker_open(self) -> Fact[bool]:
        """Whether this user could ask Docker's daemon."""
        socket = self._all.record("docker_socket")
        there, opened = socket.flag("there"), socket.flag("open")
        if isinstance(there, Read) and not there.value:
            return Read(value=False, evidence=there.evidence, note="there is no /var/run/docker.sock")
        return opened

    @property
    def pyxis(self) -> Fact[bool]:
        """Whether Slurm's plugins on this node name pyxis; the plugin itself may lie anywhere."""
        return self._all.record("pyxis").flag("loaded")

    # --- software ---------------------------------------------------------------------------------

    @property
    def nccl(self) -> Fact[str]:
        """The version of NCCL by the name of its library, the newest; empty where there is none."""
        names = self._list("nccl")
        if isinstance(names, Unread):
            return names
        versions = sorted((found[1] for name in names.value if (found := _NCCL.match(name))), key=natural)
        note = brief(", ".join(names.value)) or "no libnccl.so in the usual folders"
        return Read(versions[-1] if versions else "", names.evidence, note)

    @property
    def has_nccl(self) -> Fact[bool]:
        """Whether NCCL is installed for all users."""
        names = self._list("nccl")
        if isinstance(names, Unread):
            return names
        return Read(bool(names.value), names.evidence, brief(", ".join(names.value)))

    @property
    def hpc_sdk(self) -> Fact[bool]:
        """Whether NVIDIA's HPC SDK is installed; the note names its releases."""
        return self._any("hpc_sdk")

    @property
    def lmod(self) -> Fact[bool]:
        """Whether environment modules (Lmod) are set up for shells."""
        return self._any("lmod")

    @property
    def mpi(self) -> Fact[bool]:
        """Whether mpirun can be found without a module."""
        return self._program("mpirun")

    # --- users ------------------------------------------------------------------------------------

    @property
    def central_users(self) -> Fact[bool]:
        """Whether users come from a service, such as sssd or LDAP; what stands behind it is not seen."""
        sources = self._list("passwd")
        if isinstance(sources, Unread):
            return sources
        words = [word for word in sources.value if not word.startswith("[")]
        return Read(bool(set(words) - _LOCAL), sources.evidence, f"passwd: {brief(' '.join(words))}")

    @property
    def user_sources(self) -> Fact[str]:
        """Where the system looks for users, in order."""
        sources = self._list("passwd")
        return sources if isinstance(sources, Unread) else Read(" ".join(sources.value), sources.evidence)

    @property
    def user_known(self) -> Fact[bool]:
        """Whether the user as whom this ran has a name on this node."""
        return self._all.flag("user_known")

    @property
    def own_ssh(self) -> Fact[bool]:
        """Whether a user's own key, or the machines' keys, could open the next node without a password.

        It takes a home that all nodes share, or sshd's HostbasedAuthentication; that it works is not tried.
        """
        ssh = self._all.record("ssh")
        ways = {
            "HostbasedAuthentication": ssh.flag("hostbased"),
            "a key of the user's own": ssh.flag("own_key"),
        }
        for way, has in ways.items():
            if isinstance(has, Read) and has.value:
                return Read(value=True, evidence=has.evidence, note=way)
        unread = next((has for has in ways.values() if isinstance(has, Unread)), None)
        return unread or Read(value=False, evidence=ssh.evidence, note=f"neither {' nor '.join(ways)}")

    def _program(self, name: str) -> Fact[bool]:
        programs: Record = self._all.record("programs")
        if programs.unread:
            return programs.unread
        path = programs.text(name)
        return Read(isinstance(path, Read), programs.evidence, path.value if isinstance(path, Read) else "")

    def _any(self, key: str) -> Fact[bool]:
        found = self._list(key)
        if isinstance(found, Unread):
            return found
        return Read(bool(found.value), found.evidence, brief(", ".join(found.value)))

    def _list(self, key: str) -> Fact[list[str]]:
        found = self._all.look(key)
        if isinstance(found, Unread):
            return found
        if not isinstance(found.value, list) or not all(isinstance(one, str) for one in found.value):
            return self._all.garbled(key, found.value, "a list of names")
        return Read(found.value, found.evidence)


def _filled(fact: Fact[list[str]]) -> bool:
    return isinstance(fact, Read) and bool(fact.value)
