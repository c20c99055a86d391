"""The rounds: every contender of a group runs once per round, one at a time, in a shuffled order.
The result is the measurement, a dictionary that is written as JSON and that tables, charts and
verdicts are derived from:

  format, date, rounds, quick
  plan       the plan (plans.py); that of tools/bench_report if absent
  machine    the machine (machine.py)
  peers      {peer: version}
  groups     {group: {commit, date, rounds}}: all groups measured, even without results
  runs       [{round, group, contender, seconds, figures: {work: {figure: value}}}]
  skipped    [{contender, why, install}]: not available
  failed     [{group, contender, why}]: failed; not tried again
  growth     see growth.py
  profiles   {work: a table of device times by op}, in measurements of a GPU
"""

import datetime
import random

from report import contenders as who
from report import figures, machine, plans, process

FORMAT = 1


def described(plan, setup):
    """The machine as clora sees it in the plan's environment."""
    found = machine.describe(setup.root, setup.build, plan.environment(setup, figures.OURS))
    return {**found, "flags": [flag for flag in found["flags"] if not plan.hides_flag(flag)]}


class Session:
    def __init__(self, setup, groups, rounds, say, seed=None, plan=plans.CPU):
        self.setup = setup
        self.groups = groups
        self.rounds = rounds
        self.say = say
        self.plan = plan
        self.random = random.Random(seed)
        self.out = set()  # (group, contender) excluded from further rounds
        self.measurement = {
            "format": FORMAT, "plan": plan.name, "date": datetime.date.today().isoformat(),
            "rounds": rounds, "quick": setup.quick,
            "machine": described(plan, setup), "peers": {}, "groups": {},
            "runs": [], "skipped": [], "failed": [], "growth": {}, "profiles": {}}
        for group in groups:
            self.note(group.name)

    def note(self, group):
        """Records that the group is measured in this run."""
        whole = self.measurement
        whole["groups"][group] = {"commit": whole["machine"]["commit"], "date": whole["date"],
                                  "rounds": self.rounds}

    def skip_the_absent(self):
        reported = set()
        for group in self.groups:
            for contender in group.contenders:
                why = contender.absent(self.setup)
                if not why:
                    continue
                self.out.add((group.name, contender.name))
                if contender.name not in reported:
                    reported.add(contender.name)
                    self.skip(contender, why)

    def skip(self, contender, why):
        if figures.is_ours(contender.name) and contender.absent(self.setup) == "":
            return self.say(f"{contender.name}: {why}")  # no matrix unit: its f32 rows count
        self.measurement["skipped"].append(
            {"contender": contender.name, "why": why, "install": contender.install})
        self.say(f"skipped: {contender.name}: {why}; to install it: {contender.install}")

    def fail(self, group, contender, error):
        self.out.add((group.name, contender.name))
        self.measurement["failed"].append(
            {"group": group.name, "contender": contender.name, "why": str(error)})
        self.say(f"FAILED: {group.name}: {contender.name}: {error}")

    def process_of(self, contender):
        """Runs the contender's process in the plan's environment."""
        variables = self.plan.environment(self.setup, contender.name) | contender.environment()
        return process.run(contender.command(self.setup), variables)

    def run_once(self, number, group, contender):
        try:
            done = self.process_of(contender)
            found = contender.figures(done)
        except (process.Failed, ValueError, KeyError) as error:
            return self.fail(group, contender, error)
        if not found:  # no such workload: bf16 products on a CPU without a matrix unit
            self.out.add((group.name, contender.name))
            return self.skip(contender, f"it has none of the workloads of {group.name}")
        self.measurement["peers"].update(who.peer_versions(done))
        self.measurement["profiles"].update(contender.profiles(done))
        self.measurement["runs"].append(
            {"round": number, "group": group.name, "contender": contender.name,
             "seconds": round(done.seconds, 2), "figures": found})
        self.say(f"round {number}: {group.name}: {contender.name}: {done.seconds:.1f} s")

    def run_round(self, number, keep):
        for group in self.groups:
            turns = [contender for contender in group.contenders
                     if (group.name, contender.name) not in self.out and number <= contender.rounds]
            self.random.shuffle(turns)
            for contender in turns:
                self.run_once(number, group, contender)
            keep(self.measurement)

    def run(self, keep):
        """Runs all rounds; calls keep(measurement) after each group, so an abort loses little."""
        self.skip_the_absent()
        self.warm_caches()
        for number in range(1, self.rounds + 1):
            self.run_round(number, keep)
        return self.measurement

    def warm_caches(self):
        """Fills the caches with an untimed run for the warm start."""
        for group in self.groups:
            if group.name == "start":
                for contender in group.contenders:
                    if (group.name, contender.name) not in self.out:
                        self.try_once(contender)

    def try_once(self, contender):
        try:
            self.process_of(contender)
        except process.Failed:
            pass  # the first round reports it
