"""The way out of the cluster, as far as the site file declares one: names, mirrors, images and models."""

from gpuassay.fixtures import Measure, Observe


def test_lookups(measure: Measure, observe: Observe) -> None:
    """Each resolver of every node tells the address of every declared name, soon.

    Downloads, licence servers and metadata all begin with a name. A resolver that loses one question in
    twenty makes a job of many nodes wait for five seconds, again and again, and nobody looks there.

    Fix: look at the resolver named here (dig @ADDRESS NAME). Take one that is dead out of /etc/resolv.conf;
    put a cache on each node (systemd-resolved, NodeLocal DNSCache); show the provider the times.
    """
    for node in measure("lookups"):
        for resolver in node.resolvers:
            observe(resolver, median_ms=resolver.median_ms, worst_ms=resolver.worst_ms)
            observe(resolver, lost=resolver.lost, unknown=resolver.unknown)


def test_mirrors(measure: Measure, observe: Observe) -> None:
    """Each node can fetch from the mirrors that were declared, as fast as was sold.

    Packages and data come from outside on the first day. All nodes fetch at the same time, as a job's do, by
    one connection each, and no more than the site file allows.

    Fix: open the way in firewall, NAT or proxy ([outside] proxy in the site file); where it is open and slow,
    show the provider the rates of all nodes.
    """
    for node in measure("fetches"):
        observe(node, best_mbps=node.best_mbps)
        for fetched in node.fetched:
            observe(fetched, reached=fetched.reached)


def test_pulls(measure: Measure, observe: Observe) -> None:
    """Each node can pull the image and the model that were declared, as fast as was sold.

    Before a job's first step stands its image, and its weights: at 1 Gbit/s, 140 GB of them take twenty
    minutes of every GPU. What is pulled is counted, and not kept.

    Fix: a registry and a model cache within the cluster; else as for mirrors.
    """
    for node in measure("pulls"):
        observe(node, best_mbps=node.best_mbps)
        for fetched in node.fetched:
            observe(fetched, reached=fetched.reached)
