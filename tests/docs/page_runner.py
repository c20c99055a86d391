"""Runs the commands of the sh blocks of a page in docs/, in order, in a copy of clora's sources, and
compares the output of each with the lines below it. tests/docs/pages_test.py uses it.

In a comparison, a run of blanks equals one blank, and a number before a unit of time or speed equals
any other number. In a block that opens with `sh measured`, every number, unit and verdict equals any
other, consecutive lines that are equal in this way count once, and exit code 1 is accepted as well
as 0. `…` matches any text, and on a line of its own any lines.

Two commands are replaced, so that a page takes seconds instead of a build:
- `cmake --build ... --target NAME...` compiles the sources that differ from those of the tree, and
  links them with the libraries of this build. Other sources are not compiled again. So a page may
  change a header only in ways that keep their objects valid, for example by adding a declaration.
- `ctest ... -R '^NAME$'` runs that test with the kernels of the copy, which a build would embed.
"""
import concurrent.futures
import filecmp
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(os.environ.get("CLORA_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("CLORA_BINARY_DIR", ROOT / "build/release"))

BLOCK = re.compile(r"^```sh( measured)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?(?= ?(?:s|ms|us|ns|GB/s|GFLOP/s|GiB/s|%)(?![\w/]))")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
VERDICT = re.compile(r"\b(?:timed|slow|faster|slower|no difference)\b|0 [num]?s\b|(?<=% of )[\w ]+")
# The last line of clc tune, which differs if the default is already the fastest.
CONCLUSION = re.compile(r"^(?:written to|no gain:) .*")
HERE_DOCUMENT = re.compile(r"<<'(\w+)'")
# Programs outside of this build that some commands need.
NEEDED = {"clc check": "oclgrind", "clc lint": "clang-14", "clc stats": "clang-14"}


def steps(block):
    """Returns the commands of a block, each with the lines that the page shows as its output."""
    lines = block.splitlines()
    found = []
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            found[-1][1].append(line)
            continue
        command = [line[2:]]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        if end := HERE_DOCUMENT.search(line):
            while command[-1] != end[1]:
                command.append(lines.pop(0))
        found.append(("\n".join(command), []))
    return found


def comparable(line, measured):
    if measured:
        line = CONCLUSION.sub("concluded", VERDICT.sub("?", NUMBER.sub("0", line)))
    else:
        line = MEASURED.sub("0", line)
    return re.sub(r"\s+", " ", line).strip() + "\n"


def matches(lines, printed, measured=False):
    """Whether a command's output matches the lines below it in the page."""
    def of(text):
        compared = [comparable(line, measured) for line in text]
        return [line for line, _ in itertools.groupby(compared)] if measured else compared

    pattern = ""
    for line in of(lines):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += re.escape(line).replace("…", ".*")
    text = "".join(of(printed.splitlines()))
    return re.fullmatch(pattern, text) is not None


def missing_programs(page):
    """The programs that the page's commands need and that this machine lacks."""
    return sorted({program for command, program in NEEDED.items()
                   if command in page and not shutil.which(program)})


class Sources:
    """A copy of clora's sources, which the page's commands change."""

    LIBRARIES = ["runtime", "ops", "lora", "model", "serving"]
    INCLUDE = ".include"
    COPIED = ["cl", "cmake", *LIBRARIES, "tools", "tests", "bench", "CMakeLists.txt", "README.md"]

    def __init__(self, folder):
        self.folder = folder
        for name in self.COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        # clora/PATH is the copy of a public header, not the one of the build.
        (folder / self.INCLUDE / "clora").mkdir(parents=True)
        for name in self.LIBRARIES:
            (folder / self.INCLUDE / "clora" / name).symlink_to(folder / name)
        self.environment = os.environ | {
            "LC_ALL": "C.UTF-8",  # the order in which `sort` prints
            "PATH": f"{BUILD / 'tools'}:{os.environ['PATH']}",
            "CLORA_SOURCE_DIR": str(folder),
            "CLORA_BINARY_DIR": str(folder / "build/release"),
            "CLORA_CACHE_DIR": str(folder / "cache"),
            "CLORA_DEVICE": "cpu",  # as the pages were written
        }

    def run(self, command):
        """Runs the command. Returns its output and its exit code."""
        if command.startswith("cmake "):
            return self.build(re.search(r"--target ([\w ]+)", command)[1].split())
        command = re.sub(r"^ctest .*-R '\^(\w+)\$'", r"CLORA_KERNEL_DIR=cl CLORA_SELF_TEST=0 "
                         r"build/release/tests/\1_test", command)
        return self.call(["bash", "-c", command])

    def call(self, arguments):
        done = subprocess.run(arguments, cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout, done.returncode

    def build(self, targets):
        """Builds tests and the program clora. Returns the compiler's output and exit code."""
        printed = ""
        if any(target.startswith("command_line") for target in targets):
            targets = ["clora", *targets]  # which these tests run
        for target in targets:
            output, code = self.build_one(target)
            printed += output
            if code != 0:
                return printed, code
        return printed, 0

    def build_one(self, target):
        is_test = target.endswith("_test")
        main = self.source_of_test(target) if is_test else f"tools/{target}/main.cpp"
        changed_in = ["tests/support"] if is_test else ["tools/clora", "tools/command_line"]
        sources = [main, *self.families(), *(
            source for source in self.changed(self.LIBRARIES + changed_in) if source != main)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            done = list(pool.map(self.compile, sources))
        if code := max(code for _, code in done):
            return "".join(output for output, _ in done), code
        program = self.folder / "build/release" / ("tests" if is_test else "tools") / target
        program.parent.mkdir(parents=True, exist_ok=True)
        return self.call([BUILD / "tests/compile_op_test", "--clora",
                          *map(self.object_of, sources), "-o", program])

    def families(self):
        """The list of model families that a build would generate, if it is another one."""
        if not self.changed(["model/families"]):
            return []
        listed = "build/release/families.cpp"
        self.call(["cmake", f"-DFOLDER={self.folder / 'model/families'}",
                   f"-DOUTPUT={self.folder / listed}", "-P", "cmake/write_families.cmake"])
        return [listed]

    def source_of_test(self, name):
        return str(next(self.folder.glob(f"tests/*/{name}.cpp")).relative_to(self.folder))

    def changed(self, folders):
        """The sources in these folders that differ from those of the tree or are not in it."""
        paths = [path.relative_to(self.folder) for name in folders
                 for path in sorted((self.folder / name).rglob("*.cpp"))]
        return [str(path) for path in paths if not (ROOT / path).exists() or
                not filecmp.cmp(ROOT / path, self.folder / path, shallow=False)]

    @staticmethod
    def object_of(source):
        return f"build/release/objects/{source}.o"

    def compile(self, source):
        (self.folder / self.object_of(source)).parent.mkdir(parents=True, exist_ok=True)
        return self.call([BUILD / "tests/compile_op_test", "-I.", f"-I{self.INCLUDE}", "-c", source,
                          "-o", self.object_of(source)])

    def device(self):
        printed, code = self.run("clc devices --device cpu --json")
        return json.loads(printed)["devices"][0]["name"] if code == 0 else None


def walk(sources, page, check):
    """Calls check(command, lines, printed, exit_code, same) for each command. check() returns the
    lines for the page. Returns the resulting page."""
    def of_block(match):
        text = f"```sh{match[1] or ''}\n"
        for command, lines in steps(match[2]):
            printed, code = sources.run(command)
            measured = match[1] is not None
            same = matches(lines, printed, measured) and code in ([0, 1] if measured else [0])
            lines = check(command, lines, printed, code, same)
            text += "\n".join([f"$ {command}", *lines]) + "\n"
        return text + "```"
    return BLOCK.sub(of_block, page)
