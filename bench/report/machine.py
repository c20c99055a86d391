"""The machine of a measurement: CPU, memory, kernel, driver, commit, versions."""

import json
import os
import platform
import re
import subprocess

# The CPU flags that affect the choice of kernels.
RELEVANT_FLAGS = ("avx2", "fma", "avx_vnni", "avx512f", "avx512_bf16", "avx512_fp16",
                  "avx512_vnni", "amx_bf16", "amx_int8", "amx_tile")


def cpu_facts(text):
    """Model, family and relevant flags of the first CPU in the text of /proc/cpuinfo."""
    facts = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip(), value.strip())
    flags = set(facts.get("flags", "").split())
    return {"cpu": facts.get("model name", "unknown"),
            "family": f"{facts.get('cpu family', '?')}/{facts.get('model', '?')}",
            "flags": [flag for flag in RELEVANT_FLAGS if flag in flags]}


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def output_of(command, folder=None, variables=None):
    """The output of a command, with variables added to its environment; empty if it fails or does
    not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder,
                              env=os.environ | (variables or {}), check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def memory_gib():
    found = re.search(r"MemTotal:\s+(\d+) kB", read_text("/proc/meminfo"))
    return round(int(found[1]) / 2**20, 1) if found else None


def taken_device(clora, variables, *options):
    """The entry of the selected device in the output of `clora devices`."""
    try:
        text = output_of([str(clora), "devices", "--json", *options], variables=variables)
        devices = json.loads(text.splitlines()[0])["devices"]
    except (IndexError, KeyError, ValueError):
        return {}
    return next((device for device in devices if device.get("taken")), {})


def opencl_device(clora, variables=None):
    """Name, platform, driver and peaks of the device that clora selects."""
    taken = taken_device(clora, variables)
    if taken and "peaks" not in taken:  # first run on this machine
        taken = taken_device(clora, variables, "--measure") or taken
    wanted = ("name", "kind", "platform", "driver", "opencl", "matrix_unit", "peaks")
    return {key: taken[key] for key in wanted if key in taken}


def built_commit(build):
    """The commit as clora_bench reports it, for sources outside a repository."""
    text = output_of([str(build / "bench/clora_bench"), "--benchmark_filter=^launch/record/",
                      "--benchmark_format=json", "--benchmark_min_time=0.001"])
    try:
        return json.loads(text[text.index("{"):])["context"]["commit"]
    except (KeyError, ValueError):
        return ""


def describe(root, build, variables=None):
    """build: the folder with tools/clora and bench/clora_bench; variables: for clora."""
    cores = len(os.sched_getaffinity(0))
    changed = output_of(["git", "status", "--porcelain", "--untracked-files=no"], root)
    commit = output_of(["git", "rev-parse", "--short=12", "HEAD"], root)
    return {**cpu_facts(read_text("/proc/cpuinfo")), "cores": cores, "memory_gib": memory_gib(),
            "kernel": platform.release(), "system": system_name(),
            "device": opencl_device(build / "tools/clora", variables),
            "commit": commit + ("+changes" if changed else "") if commit else built_commit(build),
            "load_before": os.getloadavg()[0]}


def system_name():
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', read_text("/etc/os-release"), re.M)
    return found[1] if found else platform.system()


def slug(machine):
    """A part of a file's name: amd-epyc-25-17-2-cores, nvidia-h200."""
    if machine.get("device", {}).get("kind") == "gpu":
        return re.sub(r"[^a-z0-9]+", "-", machine["device"]["name"].lower()).strip("-")
    words = f"{machine['cpu']} {machine['family']} {machine['cores']} cores".lower()
    words = re.sub(r"\((r|tm)\)|processor|cpu", "", words)
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")
