"""llama.cpp generates with the GGUF adapters that clora writes the ids that clora generates."""
import pytest
from clear_prompts import COUNT, clear_prompts
from conftest import VARIANTS, Sizes

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


@pytest.mark.parametrize("name", list(VARIANTS))
def test_llama_cpp_generates_the_same_ids(name, base, clora, convert, llama_cpp, write_adapter,
                                          tmp_path):
    path, sizes = base
    adapter = write_adapter(tmp_path / "peft", sizes, VARIANTS[name])
    convert(path, adapter, "gguf", tmp_path / "adapter.gguf")
    model = clora.model(path)
    prompts, replies = clear_prompts(model, sizes.vocabulary, LEAST_MARGIN, adapter)
    assert replies != model.greedy(prompts, COUNT)  # the adapter matters
    assert model.greedy(prompts, COUNT, tmp_path / "adapter.gguf") == replies
    assert llama_cpp.greedy(path, prompts, COUNT, tmp_path / "adapter.gguf") == replies
