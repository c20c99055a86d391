"""Models for the tests of the package: those of CLORA_TEST_DATA."""
import os
import pathlib

import pytest

import clora

STORIES = [
    "Once upon a time, there was a little girl named Lily. She liked to play in the park.",
    "Tom had a red ball. One day the ball rolled into the river, and Tom was sad.",
    "The cat saw a bird in the tree. The bird sang a song, and the cat fell asleep.",
    "Mia and her mom baked a cake. They shared it with all of their friends.",
    "A small dog lost its way home. A kind boy helped the dog to find its house.",
    "Ben found a shiny stone. He gave it to his sister, and she smiled.",
]


def pytest_addoption(parser):
    parser.addoption("--wheel", help="test this wheel of the package instead of building one")


def model_path(name):
    root = pathlib.Path(os.environ.get("CLORA_TEST_DATA", "../shared/data"))
    path = root / "models" / name
    if not path.exists():
        pytest.skip(f"{path} is missing; CLORA_TEST_DATA names the folder of models")
    return str(path)


@pytest.fixture(scope="session")
def stories_path():
    return model_path("tinystories-656k")


@pytest.fixture(scope="session")
def model(stories_path):
    return clora.load(stories_path)


@pytest.fixture(scope="session")
def gguf_model():
    return clora.load(model_path("stories260k/stories260K.gguf"))


@pytest.fixture
def stories():
    return list(STORIES)
