"""Tokenizers and chat templates."""
import pytest
from conftest import model_path

import clora


def test_texts_come_back_from_their_tokens(model):
    tokenizer = model.tokenizer
    ids = tokenizer.encode("Once upon a time")
    assert tokenizer.decode(ids) == "Once upon a time"
    assert tokenizer("Once upon a time") == ids
    assert len(tokenizer) == 2048


def test_special_tokens_can_be_left_out(model):
    tokenizer = model.tokenizer
    ids = tokenizer.encode("Tom", add_special_tokens=False)
    assert tokenizer.bos_token_id not in ids
    assert tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(ids[0])) == ids[0]


def test_a_tokenizer_needs_no_model():
    qwen = clora.Tokenizer(model_path("../tokenizers/qwen2.5"))
    messages = [{"role": "user", "content": "Hi <|im_end|>"}]
    text = qwen.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text.endswith("<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n")
    ids = qwen.apply_chat_template(messages, add_generation_prompt=True)
    end = qwen.convert_tokens_to_ids("<|im_end|>")
    assert end in qwen.end_of_generation
    # The system message and the user's turn end with the token; the content's is plain text.
    assert ids.count(end) == 2


def test_tools_and_arguments_reach_the_template():
    qwen = clora.Tokenizer(model_path("../tokenizers/qwen2.5"))
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    text = qwen.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False, tools=tools)
    assert '"weather"' in text


def test_a_named_template_replaces_the_models_own(stories_path):
    with pytest.raises(clora.Error) as error:
        clora.Tokenizer(stories_path, chat_template="{% for")
    assert error.value.code == clora.ErrorCode.UNSUPPORTED
    own = clora.Tokenizer(stories_path,
                          chat_template="{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                                        "{% endfor %}")
    text = own.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert text == "user: Hi\n"


def test_refused_conversations_name_the_reason():
    qwen = clora.Tokenizer(model_path("../tokenizers/qwen2.5"))
    with pytest.raises(ValueError, match="role"):
        qwen.apply_chat_template([{"content": "no role"}])
