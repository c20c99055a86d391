"""Replaces groups of an earlier measurement with new measurements of the same groups on the same
machine. Every group keeps the commit, the date and the number of rounds of its measurement:
measurement["groups"] is {group: {commit, date, rounds}}."""

SAME = ("cpu", "family", "flags", "cores")


class OtherMachine(Exception):
    """Figures of different machines cannot be compared; the message states the difference."""


def facts(measurement):
    machine = measurement["machine"]
    return {**{key: machine.get(key) for key in SAME},
            "device": machine.get("device", {}).get("name")}


def require_same_machine(old, new):
    """If the old measurement is of a GPU, machines with that GPU are the same whatever their
    CPUs."""
    its, this = facts(old), facts(new)
    for key in ("device",) if old.get("plan") == "gpu" else SAME:
        if its[key] != this[key]:
            raise OtherMachine(f"measured on another machine: its {key} is {its[key]}, this one's "
                               f"{this[key]}")


def with_groups(old, new):
    """The old measurement with the new one's groups."""
    require_same_machine(old, new)
    measured = set(new["groups"])
    contenders = {item["contender"] for item in new["skipped"] + new["runs"]}
    return {**new,
            "groups": {**old["groups"], **new["groups"]},
            "peers": {**old["peers"], **new["peers"]},
            "runs": [run for run in old["runs"] if run["group"] not in measured] + new["runs"],
            "failed": [item for item in old["failed"] if item["group"] not in measured] +
            new["failed"],
            "skipped": [item for item in old["skipped"] if item["contender"] not in contenders] +
            new["skipped"],
            "profiles": {**old.get("profiles", {}), **new.get("profiles", {})},
            "growth": new["growth"] if "growth" in measured else old["growth"]}
