"""The wheel in a new environment: its types, the example of ten lines, the notebook.

Builds the package by pip, which takes as long as the library takes to compile.
"""
import os
import pathlib
import subprocess
import sys
import venv

import pytest
from conftest import model_path

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = pathlib.Path(__file__).resolve().parent

pytestmark = pytest.mark.long


def run(*command, folder=None, **environment):
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=folder, check=False, timeout=3600,
                          capture_output=True, text=True, env={**own, **environment})
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def pip_install(python, *packages):
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


@pytest.fixture(scope="module")
def wheel(request, tmp_path_factory):
    given = request.config.getoption("--wheel")
    if given:
        return pathlib.Path(given)
    folder = tmp_path_factory.mktemp("wheels")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
        "-w", folder, ROOT)
    return next(folder.glob("clora-*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of a new environment into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("package")
    venv.create(folder / "environment", with_pip=True)
    interpreter = folder / "environment/bin/python"
    pip_install(interpreter, wheel)
    return interpreter


def test_the_installed_package_trains_in_ten_lines(python, stories_path, tmp_path):
    lines = (ROOT / "examples/python/ten_lines.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.startswith('"""')]
    assert len(code) <= 10
    run(python, ROOT / "examples/python/ten_lines.py", stories_path, folder=tmp_path)
    assert (tmp_path / "fox-adapter/adapter_model.safetensors").exists()


def test_the_installed_package_comes_from_the_environment(python, tmp_path):
    where = run(python, "-c", "import clora, clora._clora; print(clora._clora.__file__)",
                folder=tmp_path)
    assert "environment/lib" in where
    folder = pathlib.Path(where.strip()).parent
    assert (folder / "py.typed").exists() and (folder / "_clora.pyi").exists()


def test_mypy_accepts_the_package_and_a_program_that_uses_it(python, tmp_path):
    pip_install(python, "mypy")
    run(python, "-m", "mypy", "--strict", TESTS / "typed_program.py", folder=tmp_path)
    # The generated stub has dictionaries and lists without the types of their elements.
    run(python, "-m", "mypy", "--strict", "--disable-error-code", "type-arg", "-p", "clora",
        folder=tmp_path)


def test_mypy_refuses_wrong_types(python, tmp_path):
    pip_install(python, "mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import clora\nclora.LoraConfig(r='16')\n")
    done = subprocess.run([python, "-m", "mypy", "--strict", wrong], capture_output=True, text=True,
                          check=False, cwd=tmp_path)
    assert done.returncode == 1 and "LoraConfig" in done.stdout


def test_the_notebook_runs(python, tmp_path):
    pip_install(python, "nbclient", "ipykernel", "matplotlib")
    run(python, "-c",
        "import nbformat, sys\n"
        "from nbclient import NotebookClient\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        "assert not any(cell.get('outputs') for cell in notebook.cells)\n"
        "NotebookClient(notebook, kernel_name='python3').execute()\n"
        "shown = [kind for cell in notebook.cells for output in cell.get('outputs', [])\n"
        "         for kind in output.get('data', {})]\n"
        "assert 'image/png' in shown, shown\n",
        ROOT / "examples/python/finetune.ipynb", folder=tmp_path,
        CLORA_MODEL=model_path("tinystories-656k"))
