"""A real Slurm that keeps account of its jobs: a database and slurmdbd, where one logs in."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodes import needs
from slurmd import LOGIN, Slurm

if TYPE_CHECKING:
    import pytest

_SETTINGS = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={folder}/munge
AccountingStorageTRES=gres/gpu
{enforced}TopologyPlugin=topology/tree
Prolog={folder}/prolog
HealthCheckProgram={folder}/health
HealthCheckInterval=300
"""
_DATABASE = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge
DbdHost=localhost
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
StorageLoc=accounts
"""
_FIRST = """\
CREATE DATABASE accounts;
CREATE USER 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm';
GRANT ALL ON accounts.* TO 'slurm'@'127.0.0.1';
"""


def needs_accounts() -> pytest.MarkDecorator:
    """Mark tests that start Slurm with a database: they are skipped where it cannot be had."""
    return needs("slurmctld", "slurmd", "srun", "munged", "slurmdbd", "mariadbd", "mariadb-install-db")


@dataclass(frozen=True)
class Accounted(Slurm):
    """A Slurm with accounts, a topology, a prolog that takes ``prolog_s``, and a health check.

    ``enforced`` is AccountingStorageEnforce: which limits hold.
    """

    prolog_s: int = 2
    enforced: str = ""

    def start(self) -> None:
        """Start the database first: the controller has to find it."""
        self._write()
        login = self.rack[LOGIN]
        login.run(*self._munged())
        self._begin_database()
        login.run("slurmdbd", env=self.environment)
        self.wait("sacctmgr --immediate add cluster test", lambda shown: "test" in shown)
        login.run("slurmctld", env=self.environment)
        for node in self.nodes:
            self.rack[node].run("slurmd", "-N", node, env=self.environment)
        self.wait("sinfo --noheader --Node --format=%T", lambda shown: {*shown.split()} == {"idle"})

    def _begin_database(self) -> None:
        data, first = self.folder / "database", self.folder / "first.sql"
        first.write_text(_FIRST)
        login = self.rack[LOGIN]
        login.run("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db")
        login.start(
            "mariadbd",
            "--no-defaults",
            "--user=root",
            f"--datadir={data}",
            f"--socket={self.folder}/database.sock",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=32M",
            f"--init-file={first}",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.wait("ss -Hltn sport = :3306", lambda shown: ":3306" in shown)

    def _write(self) -> None:
        super()._write()
        conf = self.folder / "slurm.conf"
        enforced = f"AccountingStorageEnforce={self.enforced}\n" if self.enforced else ""
        conf.write_text(conf.read_text() + _SETTINGS.format(folder=self.folder, enforced=enforced))
        (self.folder / "topology.conf").write_text(f"SwitchName=leaf Nodes={','.join(self.nodes)}\n")
        accounts = self.folder / "slurmdbd.conf"
        accounts.write_text(_DATABASE.format(folder=self.folder))
        accounts.chmod(0o600)
        self._program("prolog", f"sleep {self.prolog_s}")
        self._program("health", "nvidia-smi -L >/dev/null || exit 0")

    def _program(self, name: str, command: str) -> None:
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(0o755)
