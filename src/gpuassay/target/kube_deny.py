"""A trial of NetworkPolicy: two servers, of which a policy shuts one, and a client on another node."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuassay.evidence.item import Item
from gpuassay.target import kube_objects
from gpuassay.target.kube_api import Api, ApiError
from gpuassay.target.kube_clean import NAMESPACES
from gpuassay.target.kube_stage import stage
from gpuassay.target.kube_trial import hear, removed, until_ended

if TYPE_CHECKING:
    from collections.abc import Sequence

_PART = "gpuassay-part"
_PORT = 20480
_LOOK_S = 0.5

# A server binds its pod's own address, greets whoever connects, and ends by itself.
_SERVE = """\
import os, socket, sys, time
until = time.monotonic() + float(sys.argv[2])
server = socket.create_server((os.environ["POD_IP"], int(sys.argv[1])))
server.settimeout(1)
while time.monotonic() < until:
    try:
        server.accept()[0].close()
    except TimeoutError:
        pass
"""
# The client waits for the open server, so that the network is known to be there, then tries the shut one.
_CONNECT = """\
import json, socket, sys, time
port, until = int(sys.argv[3]), time.monotonic() + float(sys.argv[4])
def reached(address):
    try:
        socket.create_connection((address, port), 2).close()
    except OSError:
        return False
    return True
told = {"open": False, "shut": False}
while not told["open"] and time.monotonic() < until:
    told["open"] = reached(sys.argv[1])
    time.sleep(0.2)
for _ in range(3):
    told["shut"] = told["shut"] or reached(sys.argv[2])
print(json.dumps(told), flush=True)
"""


@dataclass(frozen=True, slots=True)
class DenyTrial:
    """Servers on the first node, the client on the second; each part may take ``wait_s``."""

    api: Api
    run: kube_objects.Run
    nodes: Sequence[str]
    wait_s: float

    async def all(self) -> list[Item]:
        """Try it, and tell what the client reached; what was made is left for ``removed``."""
        try:
            if self.run.owns_namespace:
                await self.api.create(NAMESPACES, kube_objects.namespace(self.run))
            told = await self._tried()
        except ApiError as error:
            return [Item("trial", 0, error.status, why=str(error))]
        return [Item("client", 0, out=json.dumps(told, ensure_ascii=False).encode())]

    async def removed(self) -> Item:
        """Remove what was made, look whether it is gone, and tell."""
        return await removed(self.api, self.run)

    async def _tried(self) -> dict[str, Any]:
        space = f"namespaces/{self.run.namespace}"
        await self.api.create(f"/apis/networking.k8s.io/v1/{space}/networkpolicies", self._policy())
        pods, (here, there) = f"{NAMESPACES}/{self.run.namespace}/pods", self.nodes
        for part in ("open", "shut"):
            await self.api.create(pods, self._server(part, here))
        addresses = [await self._address(f"{pods}/{self.run.name}-{part}") for part in ("open", "shut")]
        if not all(addresses):
            return {"node": here, "why": "the servers did not come up"}
        name = f"{self.run.name}-client"
        program = (_CONNECT, *addresses, str(_PORT), f"{self.wait_s:g}")
        await self.api.create(pods, kube_objects.alone(self.run, name, there, program))
        await until_ended(self.api, [f"{pods}/{name}"], 2 * self.wait_s)
        return await hear(self.api, f"{pods}/{name}", there)

    async def _address(self, path: str) -> str:
        """Wait for a pod to run, and give its address; empty if it does not."""
        waited_s = 0.0
        while waited_s < self.wait_s:
            pod = await self.api.get(path)
            address = (pod.get("status") or {}).get("podIP")
            if stage(pod).state == "running" and address:
                return str(address)
            await asyncio.sleep(_LOOK_S)
            waited_s += _LOOK_S
        return ""

    def _server(self, part: str, node: str) -> dict[str, Any]:
        program = (_SERVE, str(_PORT), f"{4 * self.wait_s:g}")
        made = kube_objects.alone(self.run, f"{self.run.name}-{part}", node, program)
        made["metadata"]["labels"][_PART] = part
        own = {"fieldRef": {"fieldPath": "status.podIP"}}
        made["spec"]["containers"][0]["env"] = [{"name": "POD_IP", "valueFrom": own}]
        return made

    def _policy(self) -> dict[str, Any]:
        """Shut one of our own servers, and nobody else's pod."""
        mine = {kube_objects.RUN: self.run.id, _PART: "shut"}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.run.metadata(self.run.name),
            "spec": {"podSelector": {"matchLabels": mine}, "policyTypes": ["Ingress"]},
        }
