"""Records from files, lists, generators and tokens."""
import json

import numpy as np
import pytest

import clora


def test_texts_dictionaries_and_generators_give_the_same_records(model, stories):
    tokenizer = model.tokenizer
    texts = clora.load_records(stories, tokenizer)
    dictionaries = clora.load_records([{"text": story} for story in stories], tokenizer)
    generated = clora.load_records(({"text": story} for story in stories), tokenizer)
    assert len(texts) == len(dictionaries) == len(generated) == len(stories)
    for i in range(len(stories)):
        for other in (dictionaries, generated):
            np.testing.assert_array_equal(texts[i]["input_ids"], other[i]["input_ids"])
    assert texts.targets == texts.tokens - len(texts)  # all but the first of each


def test_files_are_read_as_the_command_line_reads_them(model, stories, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"text": story}) + "\n" for story in stories))
    records = clora.load_records(path, model.tokenizer)
    same = clora.load_records(stories, model.tokenizer)
    np.testing.assert_array_equal(records[0]["input_ids"], same[0]["input_ids"])


def test_completions_alone_are_targets(model):
    records = clora.load_records([{"prompt": "Once upon", "completion": " a time"}],
                                 model.tokenizer)
    mask = records[0]["loss_mask"]
    assert mask[0] == 0 and mask[-1] == 1 and 0 < mask.sum() < len(mask)


def test_rows_of_data_sets_may_have_numpy_values(model):
    row = {"text": "A small dog", "weight": np.float32(0.5), "index": np.int64(3)}
    assert len(clora.load_records([row], model.tokenizer)) == 1


def test_records_may_be_tokens(model):
    records = clora.load_records(
        [{"input_ids": np.array([1, 2, 3, 4]), "labels": [-100, -100, 3, 4]},
         {"input_ids": [5, 6]}], model.tokenizer)
    assert records[0]["loss_mask"].tolist() == [0, 0, 1, 1]
    assert records[1]["loss_mask"].tolist() == [0, 1]
    with pytest.raises(ValueError, match="label"):
        clora.load_records([{"input_ids": [1, 2], "labels": [1, 3]}], model.tokenizer)
    with pytest.raises(ValueError, match="2048"):
        clora.load_records([{"input_ids": [1, 5000]}], model.tokenizer)


def test_long_records_are_cut_and_counted(model, stories):
    records = clora.load_records(stories, model.tokenizer, max_seq_length=5)
    assert records.truncated == len(stories)
    assert records.tokens == 5 * len(stories)
    assert len(clora.load_records(stories, model.tokenizer, limit=2)) == 2


def test_errors_name_the_record(model, stories):
    with pytest.raises(clora.Error, match="data: record 2") as error:
        clora.load_records([stories[0], {"prompt": 5, "completion": "x"}], model.tokenizer)
    assert error.value.code == clora.ErrorCode.INVALID_DATA
    with pytest.raises(clora.Error, match="no records"):
        clora.load_records([], model.tokenizer)
    with pytest.raises(ValueError, match="int"):
        clora.load_records([7], model.tokenizer)
