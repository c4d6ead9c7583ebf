"""From a kubeconfig, or a pod's service account, to a client that the API server lets in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2 as httpx
import msgspec
import yaml
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from gpuassay.facts.text import brief
from gpuassay.target import TargetError
from gpuassay.target.channel import close

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from lightkube.config.models import UserExec

    from gpuassay.judge.reach import KubernetesReach

_PLUGIN_S = 60.0  # a plugin that waits for somebody at a keyboard waits in vain
_UNREADABLE = (
    AttributeError,
    ConfigError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    yaml.YAMLError,
)


def configuration(reach: KubernetesReach) -> SingleConfig:
    """Find the cluster and the user: ``[kubernetes]`` of the site file, as ``kubectl``, then a pod's own.

    Raises TargetError.
    """
    named = reach.kubeconfig or os.environ.get("KUBECONFIG", "")
    place = Path(named or "~/.kube/config").expanduser()
    try:
        if named or place.is_file():
            config = KubeConfig.from_file(place)
        else:
            place = Path(SERVICE_ACCOUNT)
            config = KubeConfig.from_service_account(place)
        found = config.get(reach.context or None)
    except _UNREADABLE as error:
        raise TargetError(
            f"--target=kubernetes: {place} leads to no cluster: {brief(f'{type(error).__name__}: {error}')}; "
            "name one file, and if need be a context, in [kubernetes] of the site file or in KUBECONFIG"
        ) from error
    if found is None:
        raise TargetError(f"--target=kubernetes: {place} has no current context: name one in [kubernetes]")
    return found


def client(config: SingleConfig, timeout_s: float) -> httpx.AsyncClient:
    """Make the client; ``timeout_s`` is how long the server may be silent. Raises TargetError."""
    user = config.user or User()
    try:
        auth = PluginAuth(user.exec, config) if user.exec and not user.token else user_auth(user)
        verify = verify_cluster(config.cluster, user, config.abs_file)
        return httpx.AsyncClient(
            base_url=config.cluster.server,
            verify=verify,
            auth=auth,
            timeout=httpx.Timeout(timeout_s),
            limits=httpx.Limits(max_connections=None),
            headers={"Accept": "application/json", "User-Agent": "gpuassay"},
        )
    except (*_UNREADABLE, httpx.InvalidURL) as error:
        raise TargetError(
            f"--target=kubernetes: context {config.context_name} cannot be used: {error}"
        ) from error


class PluginAuth(httpx.Auth):
    """The token of a credential plugin: asked for when it is first needed, and again when it is refused.

    lightkube's own speaks no ``client.authentication.k8s.io/v1``, and leaves a plugin running that hangs.
    """

    def __init__(self, plugin: UserExec, config: SingleConfig) -> None:
        self._plugin = plugin
        self._config = config
        self._token = ""
        self._asking = asyncio.Lock()

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send the request with the token; once more with a fresh one if that is refused."""
        for _ in range(2):
            token = await self._fresh(request.headers.get("Authorization", ""))
            request.headers["Authorization"] = token
            response = yield request
            if response.status_code != httpx.codes.UNAUTHORIZED:
                return

    async def _fresh(self, refused: str) -> str:
        """Give a token other than the one that was refused; of many requests at once, one asks for it."""
        async with self._asking:
            if not self._token or self._token == refused:
                self._token = f"Bearer {await self._ask()}"
            return self._token

    async def _ask(self) -> str:
        command = self._plugin.command
        if os.sep in command:  # kubectl takes a path from the folder of the kubeconfig
            command = str(self._config.abs_file(command))
        try:
            out = await _printed([command, *(self._plugin.args or ())], self._environment())
            return str(json.loads(out)["status"]["token"])
        except (OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
            hint = f" ({self._plugin.installHint.strip()})" if self._plugin.installHint else ""
            raise TargetError(
                f"--target=kubernetes: the credential plugin {command} gave no token: {error!r}{hint}"
            ) from error

    def _environment(self) -> dict[str, str]:
        told = {
            "kind": "ExecCredential",
            "apiVersion": self._plugin.apiVersion,
            "spec": {"interactive": False, "cluster": {"server": self._config.cluster.server}},
        }
        named = {one.name: one.value for one in self._plugin.env or ()}
        return {**os.environ, **named, "KUBERNETES_EXEC_INFO": json.dumps(told)}


async def _printed(argv: list[str], environment: dict[str, str]) -> bytes:
    """Run a program to its end and give what it printed; it is killed if it does not end, or we do."""
    process = await asyncio.create_subprocess_exec(
        *argv, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(_PLUGIN_S):
            out, err = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        close(process)
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {err.decode(errors='replace').strip()[-300:]}")
    return out
