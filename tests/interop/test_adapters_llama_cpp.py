"""llama.cpp generates with the GGUF adapters that clora writes the ids that clora generates."""
import numpy
import pytest
from conftest import VARIANTS, Sizes

PROMPTS, COUNT = 20, 24
# A choice between two tokens whose logits differ by less may fall to either by rounding alone.
LEAST_MARGIN = 1e-3
STORIES = Sizes(layers=5, hidden=64, intermediate=172, heads=8, kv_heads=4, head_dim=8,
                vocabulary=512)


@pytest.fixture(scope="module")
def tiny_stories(models):
    return (models / "tinystories-656k/gguf-derived/TinyStories-656K-F32.gguf",
            Sizes.of_folder(models / "tinystories-656k"))


@pytest.fixture(scope="module", params=["stories260K", "TinyStories-656K"])
def base(request, models, tiny_stories):
    if request.param == "stories260K":
        return models / "stories260k/stories260K.gguf", STORIES
    return tiny_stories


def margin(model, sizes, prompt, reply, adapter):
    """The least difference of the two largest logits along a reply."""
    logits = model.logits(prompt + reply, sizes.vocabulary, adapter)[len(prompt) - 1:-1]
    ordered = numpy.sort(logits, axis=1)
    return float((ordered[:, -1] - ordered[:, -2]).min())


def clear_prompts(model, sizes, adapter):
    """PROMPTS random prompts with replies that rounding does not decide, and these replies."""
    random = numpy.random.default_rng(11)
    prompts, replies = [], []
    for _ in range(20 * PROMPTS):
        prompt = [1] + random.integers(3, sizes.vocabulary, 5).tolist()
        reply = model.greedy([prompt], COUNT, adapter)[0]
        is_whole = len(reply) == COUNT  # llama.cpp goes on after the end of a reply
        if not is_whole or margin(model, sizes, prompt, reply, adapter) < LEAST_MARGIN:
            continue
        prompts.append(prompt)
        replies.append(reply)
        if len(prompts) == PROMPTS:
            return prompts, replies
    raise AssertionError("the adapter leaves too few prompts with a clear reply")


@pytest.mark.parametrize("name", list(VARIANTS))
def test_llama_cpp_generates_the_same_ids(name, base, clora, convert, llama_cpp, write_adapter,
                                          tmp_path):
    path, sizes = base
    adapter = write_adapter(tmp_path / "peft", sizes, VARIANTS[name])
    convert(path, adapter, "gguf", tmp_path / "adapter.gguf")
    model = clora.model(path)
    prompts, replies = clear_prompts(model, sizes, adapter)
    assert replies != model.greedy(prompts, COUNT)  # the adapter matters
    assert model.greedy(prompts, COUNT, tmp_path / "adapter.gguf") == replies
    assert llama_cpp.greedy(path, prompts, COUNT, tmp_path / "adapter.gguf") == replies
