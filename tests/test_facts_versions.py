"""Software: what packages and programs say becomes a version of a known origin or a reason, never a guess."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts_evidence import Evidence
from gpuassay.evidence.item import Item
from gpuassay.facts import Node
from gpuassay.facts.versions import COMPONENTS
from gpuassay.judge.fact import Read, Unread

if TYPE_CHECKING:
    from gpuassay.evidence.item import Status
    from gpuassay.judge.fact import Fact

UBUNTU = 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'


def item(name: str, out: str | bytes = "", status: Status = "ok", why: str = "") -> Item:
    """Make an item."""
    return Item(name, 1, status=status, why=why, out=out.encode() if isinstance(out, str) else out)


def made(*items: Item) -> Node:
    """Make a node of items; of two of one name the later one counts."""
    return Node("n1", Evidence({one.id: one for one in items}))


def node(*items: Item, release: str = UBUNTU, **packages: Any) -> Node:
    """Make a node with some packages, each a version or a whole entry, and further items."""
    listed = {
        name.replace("_", "-").replace("--", "."): {"version": one} if isinstance(one, str) else one
        for name, one in packages.items()
    }
    base = [item("os-release", release), item("packages", json.dumps(listed))]
    return made(*base, *items)


def value(fact: Fact[Any]) -> Any:
    """Give a value, or the kind of its absence."""
    return fact.value if isinstance(fact, Read) else fact.kind


@pytest.mark.parametrize(
    ("packages", "component", "expected"),
    [
        ({"containerd__io": "1.7.29-1~ubuntu.24.04~noble"}, "containerd", "upstream/containerd 1.7.29"),
        ({"docker_ce": "5:29.7.0-1~ubuntu.24.04~noble"}, "docker", "upstream/docker 29.7.0"),
        ({"docker_ce": "5:29.7.0~rc.1-1"}, "docker", "upstream/docker 29.7.0-rc.1"),
        (
            {"runc": {"version": "1.1.12-0ubuntu2~22.04.3", "source": "runc-app"}},
            "runc",
            "ubuntu:24.04/runc-app 1.1.12-0ubuntu2~22.04.3",
        ),
        (
            {"docker__io": {"version": "27.5.1-0ubuntu3", "source": "docker.io-app (27.5.2-0ubuntu3)"}},
            "docker",
            "ubuntu:24.04/docker.io-app 27.5.2-0ubuntu3",
        ),
        ({"datacenter_gpu_manager": "1:3.3.9"}, "dcgm", "upstream/dcgm 3.3.9"),
        ({"cri_o": "1.31.3-1.1"}, "crio", "upstream/cri-o 1.31.3"),
        ({"cri_o": "1.30.9-4.rhaos4.17.el9"}, "crio", "ubuntu:24.04/cri-o 1.30.9-4.rhaos4.17.el9"),
        ({"runc": 7}, "runc", "ubuntu:24.04/runc garbled"),
        ({"runc": {"version": "1.1\n"}}, "runc", "ubuntu:24.04/runc garbled"),
        ({}, "dcgm", "not_found"),
    ],
)
def test_a_package_is_of_its_maker_or_of_a_distribution(
    packages: dict[str, Any], component: str, expected: str
) -> None:
    """The maker's number loses what a packager added; a distribution's is kept, under its source's name."""
    assert value(getattr(node(**packages).versions, component)) == expected


@pytest.mark.parametrize(
    ("name", "said", "component", "expected"),
    [
        ("runc", "runc version 1.2.5\ncommit: v1.2.5-0-g59923ef\n", "runc", "upstream/runc 1.2.5"),
        ("runc", "runc version 1.5.0-rc.3\n", "runc", "upstream/runc 1.5.0-rc.3"),
        (
            "containerd",
            "containerd github.com/containerd/containerd v1.7.2 0cae528dd6\n",
            "containerd",
            "upstream/containerd 1.7.2",
        ),
        (
            "containerd",
            "containerd containerd.io 1.7.27 05044ec0a9\n",
            "containerd",
            "upstream/containerd 1.7.27",
        ),
        ("dockerd", "Docker version 29.7.0, build 34dfa2b\n", "docker", "upstream/docker 29.7.0"),
        (
            "nvidia-ctk",
            "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: f202b80\n",
            "container_toolkit",
            "upstream/container-toolkit 1.17.8",
        ),
        ("runc", "runc: command failed\n", "runc", "garbled"),
    ],
)
def test_a_program_in_no_package_names_itself(name: str, said: str, component: str, expected: str) -> None:
    """What came without a package of its own is its maker's."""
    assert value(getattr(node(item(name, said)).versions, component)) == expected


def test_rpm_is_asked_where_there_is_no_dpkg() -> None:
    """One line for each package, several for kernels; of another distribution by its own name."""
    lines = (
        "runc 4:1.2.5-2.el9_6 x86_64\ndocker-ce 3:29.7.0-1.el9 x86_64\n"
        "kernel-core 5.14.0-570.12.1.el9_6 x86_64\nkernel-core 5.14.0-570.58.1.el9_6 x86_64\n"
    )
    versions = made(
        item("packages", status="not_found", why="no such file"),
        item("rpm", lines),
        item("os-release", 'ID="rocky"\nVERSION_ID="9.6"\n'),
        item("host", json.dumps({"kernel": "5.14.0-570.12.1.el9_6.x86_64"})),
    ).versions
    assert value(versions.runc) == "rocky:9/runc 4:1.2.5-2.el9_6"
    assert value(versions.docker) == "upstream/docker 29.7.0"
    assert value(versions.kernel.package) == "rocky:9/kernel 5.14.0-570.12.1.el9_6"
    newest = versions.kernel.is_newest
    assert isinstance(newest, Read)
    assert not newest.value
    assert "5.14.0-570.58.1.el9_6.x86_64 is installed" in newest.note


@pytest.mark.parametrize(
    ("release", "signature", "expected"),
    [
        ("24.04", "Ubuntu 6.8.0-137.137-generic 6.8.12\n", "ubuntu:24.04/linux 6.8.0-137.137"),
        (
            "22.04",
            "Ubuntu 6.8.0-124.124~22.04.1-generic 6.8.12\n",
            "ubuntu:22.04/linux-hwe-6.8 6.8.0-124.124~22.04.1",
        ),
        ("22.04", "Ubuntu 5.15.0-1080.87-aws 5.15.180\n", "ubuntu:22.04/linux-aws 5.15.0-1080.87"),
        ("24.04", "Ubuntu 6.8.0-1025.28-nvidia-64k 6.8.12\n", "ubuntu:24.04/linux-nvidia 6.8.0-1025.28"),
        ("24.04", "Ubuntu 6.11.0-1007.7-nvidia 6.11.0\n", "ubuntu:24.04/linux-nvidia-6.11 6.11.0-1007.7"),
        (
            "24.04",
            "Ubuntu 6.14.0-1010.10~24.04.1-gcp 6.14.0\n",
            "ubuntu:24.04/linux-gcp-6.14 6.14.0-1010.10~24.04.1",
        ),
        ("24.04", "Ubuntu 6.8.0-87.88.1-lowlatency 6.8.12\n", "ubuntu:24.04/linux-lowlatency 6.8.0-87.88.1"),
        ("24.04", "Ubuntu my-own\n", "garbled"),
        ("24.04", "", "garbled"),
    ],
)
def test_a_kernel_of_ubuntu_is_of_a_flavour(release: str, signature: str, expected: str) -> None:
    """Each flavour and each later series is a source package of its own, numbered apart."""
    one = node(
        item("host", json.dumps({"kernel": "6.8.0-1-generic"})),
        item("version-signature", signature),
        release=UBUNTU.replace("24.04", release),
    )
    assert value(one.versions.kernel.package) == expected


def test_a_kernel_of_debian_and_one_of_nobody() -> None:
    """Debian names the package where Ubuntu does not; a kernel that nobody names is of no distribution."""
    text = (
        "Linux version 6.1.0-37-amd64 (debian-kernel@lists.debian.org) #1 SMP Debian 6.1.140-1 (2025-05-22)\n"
    )
    host = item("host", json.dumps({"kernel": "6.1.0-37-amd64"}))
    debian = node(host, item("proc-version", text), release="ID=debian\nVERSION_ID=12\n")
    assert value(debian.versions.kernel.package) == "debian:12/linux 6.1.140-1"
    assert value(node(host, release="ID=talos\nVERSION_ID=v1.11\n").versions.kernel.package) == "garbled"
    assert value(node(host, release="ID=alpine\nVERSION_ID=3.22\n").versions.kernel.package) == "garbled"


def test_a_kernel_in_no_package_may_be_in_boot() -> None:
    """A custom kernel is found among those that can be started; of one that is nowhere nobody knows."""
    host = item("host", json.dumps({"kernel": "6.12.0-acme"}))
    boot = item("boot", json.dumps({"kernels": ["vmlinuz-6.12.0-acme", "vmlinuz-6.8.0-137-generic"]}))
    assert value(node(host, boot).versions.kernel.is_newest) is True
    assert value(node(host).versions.kernel.is_newest) == "not_found"


@pytest.mark.parametrize(
    ("word", "kind"), [("docker", "denied"), ("kvm", "not_found"), ("none", "not_found")]
)
def test_a_container_shows_its_own_packages(word: str, kind: str) -> None:
    """What is seen there is no fact about the host, neither what is there nor what lacks."""
    inside = node(item("virt", f"{word}\n"), runc="1.1.0")
    assert value(inside.versions.dcgm) == kind
    assert value(inside.shows("dcgm")) == ("denied" if kind == "denied" else False)


def test_an_older_recording_was_not_asked() -> None:
    """Then nothing is claimed, and nothing is missing."""
    versions = made(item("os-release", UBUNTU)).versions
    for component in COMPONENTS:
        assert value(versions.has(component)) == "not_asked"


@given(
    noise=st.binary(max_size=200),
    name=st.sampled_from(
        [
            "packages",
            "rpm",
            "os-release",
            "version-signature",
            "boot",
            "cuda-toolkit",
            "runc",
            "mlx5-version",
            "virt",
            "infiniband",
            "pci",
        ]
    ),
)
@settings(max_examples=300)
def test_noise_is_never_a_version(noise: bytes, name: str) -> None:
    """Arbitrary bytes give facts or reasons, and no property raises."""
    items = [item(name, noise), item("host", json.dumps({"kernel": "6.8.0-1-generic"}))]
    if name != "os-release":
        items.append(item("os-release", UBUNTU))
    versions = made(*items).versions
    kernel = versions.kernel
    facts = [
        getattr(versions, one)
        for one in dir(type(versions))
        if not one.startswith("_") and one not in ("has", "kernel")
    ]
    for fact in (*facts, kernel.package, kernel.is_newest, kernel.release):
        assert isinstance(fact, (Read, Unread))
