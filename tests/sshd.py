"""sshd on the nodes of a rack, and a user who may log in: nothing of this machine's own."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from nodes import Node


@dataclass(frozen=True, slots=True)
class Access:
    """The keys of a cluster: the user's, and the nodes', each of which is known."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Access:
        """Make the user's key, and the configuration by which ssh uses it and nothing else."""
        access = cls(folder)
        _keygen(folder / "user")
        access.known_hosts.touch()
        access.config.write_text(
            f"IdentityFile {folder}/user\n"
            "IdentitiesOnly yes\n"
            f"UserKnownHostsFile {access.known_hosts}\n"
            "GlobalKnownHostsFile /dev/null\n"
        )
        return access

    @property
    def config(self) -> Path:
        """The file for ``ssh -F``."""
        return self.folder / "config"

    @property
    def known_hosts(self) -> Path:
        """The keys of the nodes."""
        return self.folder / "known_hosts"

    def serve(self, node: Node, *, name: str = "", port: int = 22, shell: str = "/bin/sh") -> None:
        """Start sshd with a new key, known as ``name``, for a user with a home there and a login shell."""
        home = self.home(node)
        home.mkdir(exist_ok=True)
        passwd = self.folder / f"passwd-{node.name}"
        passwd.write_text(f"root:x:0:0::{home}:{shell}\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n")
        node.cover("/etc/passwd", passwd)
        key = self.folder / f"{node.name}-{port}"
        _keygen(key)
        public = key.with_suffix(".pub").read_text()
        with self.known_hosts.open("a") as known:
            known.write(f"{name or node.name} {public}")
        config = self.folder / f"sshd-{node.name}-{port}"
        config.write_text(
            f"Port {port}\nHostKey {key}\nAuthorizedKeysFile {self.folder}/user.pub\n"
            "SetEnv PATH=/usr/local/bin:/usr/bin:/bin\n"
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PidFile none\n"
        )
        node.run(shutil.which("sshd") or "/usr/sbin/sshd", "-f", str(config))

    def home(self, node: Node) -> Path:
        """Give the user's home on a node."""
        return self.folder / f"home-{node.name}"

    def forget(self, name: str) -> None:
        """Take the key of a node out of what is known."""
        lines = self.known_hosts.read_text().splitlines(keepends=True)
        self.known_hosts.write_text("".join(line for line in lines if not line.startswith(f"{name} ")))

    def mistake(self, name: str) -> None:
        """Make what is known of a node the key of another: what one sees when a key has changed."""
        self.forget(name)
        _keygen(self.folder / "stranger")
        with self.known_hosts.open("a") as known:
            known.write(f"{name} {(self.folder / 'stranger.pub').read_text()}")


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
