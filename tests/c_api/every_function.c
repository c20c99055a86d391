/* Uses every function of clora.h from a C program, and checks the results.
 *   every_function MODEL_FOLDER WORK_FOLDER
 * MODEL_FOLDER is a model with a tokeniser and a chat template. Prints the first failed check and
 * exits with 1. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/c_api/clora.h"

#define EXPECT(condition)                                                             \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              clora_last_error());                                                    \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)
#define OK(call) EXPECT((call) == CLORA_OK)

enum { kPrompt = 5, kReply = 12, kMaxIds = 512 };
static const int32_t prompt[kPrompt] = {72, 5, 61, 30, 9};

/* ---- Version, errors, devices ---- */

static void version_and_errors(void) {
  EXPECT(clora_version() == CLORA_VERSION);
  EXPECT(strcmp(clora_version_text(), "0.1.0") == 0);
  EXPECT(strcmp(clora_status_text(CLORA_DEVICE_LOST), "device lost") == 0);
  EXPECT(strcmp(clora_last_error(), "") == 0);
  EXPECT(clora_device_count(NULL) == CLORA_INVALID_ARGUMENT);
  EXPECT(strstr(clora_last_error(), "clora_device_count: count must not be NULL") != NULL);
  EXPECT(clora_last_opencl_status() == 0);
}

static void devices(void) {
  int32_t count = 0;
  clora_device_info info = clora_device_info_init();
  OK(clora_device_count(&count));
  EXPECT(count >= 1);
  OK(clora_device_get_info(0, &info));
  EXPECT(info.name[0] != '\0' && info.memory_bytes > 0 && info.base_alignment_bytes > 0);
  EXPECT(clora_device_get_info(count, &info) == CLORA_INVALID_ARGUMENT);
}

/* ---- Tokenizer ---- */

static size_t chat_prompt(const char* model_folder, int32_t* ids) {
  clora_tokenizer* tokenizer = NULL;
  clora_tokenizer_info info = clora_tokenizer_info_init();
  const clora_chat_message message = {"user", "the llo abc"};
  const char* conversation = "{\"messages\": [{\"role\": \"user\", \"content\": \"the llo abc\"}]}";
  size_t count = 0, json_count = 0;
  OK(clora_tokenizer_load(model_folder, &tokenizer));
  OK(clora_tokenizer_get_info(tokenizer, &info));
  EXPECT(info.has_chat_template == 1 && info.vocabulary > 256);
  OK(clora_tokenizer_encode_chat(tokenizer, &message, 1, ids, kMaxIds, &count));
  EXPECT(count > 3);
  OK(clora_tokenizer_encode_chat_json(tokenizer, conversation, strlen(conversation), ids, kMaxIds,
                                      &json_count));
  EXPECT(json_count == count);
  clora_tokenizer_release(tokenizer);
  return count;
}

static void tokenizer(const char* model_folder) {
  const char* text = "the h\xc3\xa4tte";
  clora_tokenizer* tokenizer = NULL;
  clora_decoder* decoder = NULL;
  int32_t ids[kMaxIds];
  char back[64];
  char streamed[64] = "";
  const char* piece = NULL;
  size_t count = 0, bytes = 0, end_count = 0;
  OK(clora_tokenizer_load(model_folder, &tokenizer));
  OK(clora_tokenizer_encode(tokenizer, text, strlen(text), 0, NULL, 0, &count));
  EXPECT(count > 1);
  OK(clora_tokenizer_encode(tokenizer, text, strlen(text), 0, ids, count, &count));
  OK(clora_tokenizer_decode(tokenizer, ids, count, 0, back, sizeof back, &bytes));
  EXPECT(bytes == strlen(text) && memcmp(back, text, bytes) == 0);
  OK(clora_decoder_create(tokenizer, 0, &decoder));
  OK(clora_tokenizer_end_ids(tokenizer, ids + count, kMaxIds - count, &end_count));
  EXPECT(end_count >= 1);
  clora_tokenizer_release(tokenizer); /* the decoder retains what it needs */
  for (size_t i = 0; i < count; ++i) {
    OK(clora_decoder_push(decoder, ids[i], &piece));
    strcat(streamed, piece);
  }
  OK(clora_decoder_finish(decoder, &piece));
  strcat(streamed, piece);
  EXPECT(strcmp(streamed, text) == 0);
  clora_decoder_release(decoder);
}

/* ---- Contexts ---- */

struct seen {
  int64_t bytes;   /* the sum of the allocation hook's values */
  uint64_t in_use; /* the hook's last value */
  double metrics;  /* number of calls */
  int logs;
  int progress;    /* number of calls */
  double fraction; /* the last value */
  int tokens;
  int stop_after;
};

static void on_log(void* user, clora_log_level level, const char* message) {
  EXPECT(level >= CLORA_LOG_DEBUG && level <= CLORA_LOG_ERROR && message != NULL);
  ++((struct seen*)user)->logs;
}
static void on_allocation(void* user, const char* tag, int64_t bytes, uint64_t in_use_bytes) {
  struct seen* seen = user;
  EXPECT(tag[0] != '\0');
  seen->bytes += bytes;
  seen->in_use = in_use_bytes;
  EXPECT(seen->bytes >= 0 && (uint64_t)seen->bytes == in_use_bytes);
}
static void on_metric(void* user, const char* name, double value) {
  EXPECT(name[0] != '\0' && !isnan(value));
  ((struct seen*)user)->metrics += 1;
}
static int32_t on_progress(void* user, double fraction) {
  struct seen* seen = user;
  EXPECT(fraction >= seen->fraction && fraction <= 1);
  seen->fraction = fraction;
  ++seen->progress;
  return 0;
}
static int32_t on_token(void* user, int32_t id) {
  struct seen* seen = user;
  EXPECT(id >= 0);
  return ++seen->tokens == seen->stop_after;
}

static clora_context* own_context(struct seen* seen) {
  clora_context* context = NULL;
  clora_context_options options = clora_context_options_init();
  clora_device_info info = clora_device_info_init();
  int32_t lost = -1;
  options.device = getenv("CLORA_DEVICE");
  options.user = seen;
  options.log = on_log;
  options.allocation = on_allocation;
  options.metric = on_metric;
  OK(clora_context_create(&options, &context));
  OK(clora_context_get_device(context, &info));
  EXPECT(info.name[0] != '\0');
  OK(clora_context_is_lost(context, &lost));
  EXPECT(lost == 0);
  return context;
}

/* Checks that the hook's sum equals the memory in use that the context reports. */
static uint64_t counted_bytes(clora_context* context, const struct seen* seen) {
  clora_statistics s = clora_statistics_init();
  OK(clora_context_get_statistics(context, &s));
  EXPECT(seen->bytes >= 0 && (uint64_t)seen->bytes == s.memory_in_use_bytes);
  EXPECT(seen->in_use == s.memory_in_use_bytes);
  return s.memory_in_use_bytes;
}

static clora_model* load(clora_context* context, const char* folder, struct seen* seen) {
  clora_model* model = NULL;
  clora_model_options options = clora_model_options_init();
  clora_model_info info = clora_model_info_init();
  options.user = seen;
  options.progress = on_progress;
  OK(clora_model_load(context, folder, &options, &model));
  OK(clora_model_get_info(model, &info));
  EXPECT(strcmp(info.architecture, "llama") == 0 && info.layers == 2 && info.weight_bytes > 0);
  EXPECT(seen->progress > 10 && seen->fraction == 1); /* called at 0 and for each weight */
  return model;
}

/* ---- Training ---- */

static clora_adapter* trained_adapter(clora_model* model) {
  static const int32_t ids[9] = {72, 5, 61, 30, 9, 11, 12, 13, 14};
  static const uint8_t is_target[9] = {0, 1, 1, 1, 1, 0, 1, 1, 1};
  static const size_t lengths[2] = {5, 4};
  clora_adapter* adapter = NULL;
  clora_trainer* trainer = NULL;
  clora_adapter_options options = clora_adapter_options_init();
  clora_trainer_options settings = clora_trainer_options_init();
  clora_train_batch batch = clora_train_batch_init();
  clora_step_result first = clora_step_result_init();
  clora_step_result last = clora_step_result_init();
  clora_adapter_info info = clora_adapter_info_init();
  options.rank = 4;
  options.seed = 3;
  OK(clora_adapter_create(model, &options, &adapter));
  OK(clora_adapter_get_info(adapter, &info));
  EXPECT(info.rank == 4 && info.alpha == 16 && info.modules == 14 && info.trainable_parameters > 0);
  settings.clip_norm = 1;
  OK(clora_trainer_create(adapter, &settings, &trainer));
  batch.ids = ids;
  batch.is_target = is_target;
  batch.id_count = 9;
  batch.lengths = lengths;
  batch.document_count = 2;
  OK(clora_trainer_step(trainer, &batch, 2e-2, &first));
  EXPECT(first.step == 1 && first.tokens == 7 && first.loss > 0 && first.grad_norm > 0);
  for (int i = 0; i < 20; ++i) OK(clora_trainer_step(trainer, &batch, 2e-2, NULL));
  OK(clora_trainer_step(trainer, &batch, 2e-2, &last));
  EXPECT(last.step == 22 && last.loss < 0.5 * first.loss);
  clora_trainer_release(trainer);
  return adapter;
}

/* Steps of two micro-batches at the rates of a schedule; a checkpoint gives the same next step. */
static void accumulated_steps(clora_model* model, const char* work_folder) {
  static const int32_t ids[2][4] = {{72, 5, 61, 30}, {11, 12, 13, 14}};
  clora_adapter* adapter = NULL;
  clora_trainer* trainer = NULL;
  clora_schedule schedule = clora_schedule_init();
  clora_train_batch one = clora_train_batch_init(), other = clora_train_batch_init();
  const clora_train_batch* batches[2] = {&one, &other};
  clora_step_result next = clora_step_result_init(), again = clora_step_result_init();
  double rate = 0;
  int64_t step = 0;
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/checkpoint", work_folder);
  one.ids = ids[0];
  other.ids = ids[1];
  one.id_count = other.id_count = 4;
  schedule.kind = "linear";
  schedule.learning_rate = 1e-2;
  OK(clora_adapter_create(model, NULL, &adapter));
  OK(clora_trainer_create(adapter, NULL, &trainer));
  for (int i = 1; i <= 3; ++i) {
    OK(clora_learning_rate(&schedule, i, 4, &rate));
    OK(clora_trainer_step_accumulated(trainer, batches, 2, rate, NULL));
  }
  EXPECT(rate == 0.5e-2);
  OK(clora_trainer_finish(trainer, &next));
  EXPECT(next.step == 3 && next.tokens == 6);
  OK(clora_trainer_save_checkpoint(trainer, folder));
  OK(clora_trainer_step_accumulated(trainer, batches, 2, rate, &next));
  OK(clora_trainer_load_checkpoint(trainer, folder, &step));
  EXPECT(step == 3);
  OK(clora_trainer_step_accumulated(trainer, batches, 2, rate, &again));
  EXPECT(again.step == 4 && again.loss == next.loss && again.grad_norm == next.grad_norm);
  clora_trainer_release(trainer);
  clora_adapter_release(adapter);
}

static int32_t on_step(void* user, const clora_step_result* step, double tokens_per_second) {
  EXPECT(tokens_per_second > 0);
  *(double*)user = step->loss;
  return 0;
}

/* A run on records of a file, and an evaluation on records of arrays. */
static void complete_run(clora_model* model, const char* model_folder, const char* work_folder) {
  static const int32_t ids[4] = {72, 5, 61, 30};
  char file[4096], folder[4096];
  const char* path = file;
  double loss = 0;
  clora_tokenizer* tokenizer = NULL;
  clora_records *train = NULL, *valid = NULL;
  clora_adapter* adapter = NULL;
  clora_session* session = NULL;
  clora_train_batch batch = clora_train_batch_init();
  clora_records_info info = clora_records_info_init();
  clora_training_options options = clora_training_options_init();
  clora_training_summary summary = clora_training_summary_init();
  clora_evaluation evaluation = clora_evaluation_init();
  snprintf(file, sizeof file, "%s/train.jsonl", work_folder);
  snprintf(folder, sizeof folder, "%s/run", work_folder);
  FILE* data = fopen(file, "w");
  EXPECT(data != NULL);
  fputs("{\"text\": \"the llo abc\"}\n{\"text\": \"the llo\"}\n", data);
  EXPECT(fclose(data) == 0);
  OK(clora_tokenizer_load(model_folder, &tokenizer));
  OK(clora_records_load(tokenizer, &path, 1, NULL, &train));
  OK(clora_records_get_info(train, &info));
  EXPECT(info.records == 2 && info.labelled_tokens > 4 && info.truncated == 0);
  batch.ids = ids;
  batch.id_count = 4;
  OK(clora_records_create(&valid));
  OK(clora_records_add(valid, &batch));
  OK(clora_adapter_create(model, NULL, &adapter));
  options.train = train;
  options.valid = valid;
  options.adapter_out = folder;
  options.steps = 3;
  options.user = &loss;
  options.on_step = on_step;
  OK(clora_train(adapter, &options, &summary));
  EXPECT(summary.steps == 3 && summary.final_loss == loss && loss > 0);
  OK(clora_session_create(model, NULL, &session));
  OK(clora_evaluate(session, valid, &evaluation));
  EXPECT(evaluation.tokens == 3 && evaluation.loss > 0);
  clora_session_release(session);
  clora_adapter_release(adapter);
  clora_records_release(train);
  clora_records_release(valid);
  clora_tokenizer_release(tokenizer);
}

/* Doubles the first matrix B of a copy of the adapter by its values. */
static void values_of_adapters(clora_model* model, const char* folder) {
  clora_adapter* adapter = NULL;
  clora_adapter_tensor tensor = clora_adapter_tensor_init();
  size_t count = 0;
  char file[4096];
  snprintf(file, sizeof file, "%s/adapter.gguf", folder);
  OK(clora_adapter_load(model, folder, &adapter));
  OK(clora_adapter_save_as(adapter, file, "gguf"));
  clora_adapter_release(adapter);
  OK(clora_adapter_load(model, file, &adapter));
  OK(clora_adapter_tensor_count(adapter, &count));
  EXPECT(count == 28); /* A and B of 14 layers */
  OK(clora_adapter_get_tensor(adapter, 1, &tensor));
  EXPECT(strstr(tensor.name, ".lora_B") != NULL && tensor.dimensions == 2);
  EXPECT(tensor.shape[1] == 4 && tensor.scale == 4); /* alpha 16 over rank 4 */
  const size_t elements = (size_t)tensor.elements;
  float* values = malloc(elements * sizeof *values);
  float* again = malloc(elements * sizeof *again);
  EXPECT(values != NULL && again != NULL);
  OK(clora_adapter_read_tensor(adapter, 1, values, elements));
  for (size_t i = 0; i < elements; ++i) values[i] *= 2;
  OK(clora_adapter_write_tensor(adapter, 1, values, elements));
  OK(clora_adapter_read_tensor(adapter, 1, again, elements));
  EXPECT(memcmp(values, again, elements * sizeof *values) == 0);
  free(values);
  free(again);
  clora_adapter_release(adapter);
}

/* ---- Generation and forward ---- */

static size_t greedy(clora_session* session, int32_t* ids) {
  clora_generation_options options = clora_generation_options_init();
  clora_generation generation = clora_generation_init();
  options.max_tokens = kReply;
  options.ignore_end = 1;
  OK(clora_generate(session, prompt, kPrompt, &options, ids, kReply, &generation));
  EXPECT(generation.finish_reason == CLORA_FINISH_LENGTH && generation.token_count == kReply);
  return generation.token_count;
}

static void attached_adapters(clora_session* session, clora_adapter* adapter) {
  int32_t base[kReply], adapted[kReply], again[kReply];
  greedy(session, base);
  OK(clora_session_attach(session, adapter));
  greedy(session, adapted);
  EXPECT(memcmp(base, adapted, sizeof base) != 0);
  OK(clora_session_detach(session));
  greedy(session, again);
  EXPECT(memcmp(base, again, sizeof base) == 0);
  OK(clora_session_attach_scaled(session, adapter, 0.5));
  OK(clora_session_attach_scaled(session, adapter, 0));
  greedy(session, again);
  EXPECT(memcmp(base, again, sizeof base) == 0);
  OK(clora_session_detach(session));
}

/* The last hidden states are those of the vector that is the text's last row. */
static void hidden_states_and_vectors(clora_session* session, clora_model* model) {
  static const size_t length = kPrompt;
  clora_model_info info = clora_model_info_init();
  clora_texts texts = clora_texts_init();
  OK(clora_model_get_info(model, &info));
  const size_t width = (size_t)info.hidden_size;
  float* hidden = malloc(kPrompt * width * sizeof *hidden);
  float* vector = malloc(width * sizeof *vector);
  EXPECT(hidden != NULL && vector != NULL);
  OK(clora_forward_hidden(session, prompt, kPrompt, info.layers, hidden, kPrompt * width));
  texts.ids = prompt;
  texts.id_count = kPrompt;
  texts.lengths = &length;
  texts.text_count = 1;
  texts.pooling = "last";
  texts.normalise = -1;
  OK(clora_embed(session, &texts, vector, width));
  for (size_t i = 0; i < width; ++i) {
    EXPECT(fabs((double)vector[i] - (double)hidden[(kPrompt - 1) * width + i]) < 1e-4);
  }
  free(hidden);
  free(vector);
}

/* The model with the adapter merged into its weights replies as the two do apart. */
static void merged_model(clora_context* context, clora_adapter* adapter, clora_session* session,
                         const char* work_folder) {
  char folder[4096];
  int32_t want[kReply], got[kReply];
  clora_model* merged = NULL;
  clora_session* alone = NULL;
  snprintf(folder, sizeof folder, "%s/merged", work_folder);
  OK(clora_fuse(adapter, folder, NULL));
  OK(clora_model_load(context, folder, NULL, &merged));
  OK(clora_session_create(merged, NULL, &alone));
  OK(clora_session_attach(session, adapter));
  greedy(session, want);
  greedy(alone, got);
  EXPECT(memcmp(want, got, sizeof want) == 0);
  OK(clora_session_detach(session));
  clora_session_release(alone);
  clora_model_release(merged);
}

static void stopped_by_the_callback(clora_session* session, struct seen* seen) {
  clora_generation_options options = clora_generation_options_init();
  clora_generation generation = clora_generation_init();
  options.ignore_end = 1;
  options.temperature = 0.8;
  options.top_p = 0.9;
  options.seed = 7;
  options.user = seen;
  options.on_token = on_token;
  seen->stop_after = 3;
  OK(clora_generate(session, prompt, kPrompt, &options, NULL, 0, &generation));
  EXPECT(generation.finish_reason == CLORA_FINISH_CANCELLED && generation.token_count == 3);
  EXPECT(seen->tokens == 3);
}

static size_t vocabulary_of(clora_model* model) {
  clora_model_info info = clora_model_info_init();
  OK(clora_model_get_info(model, &info));
  return (size_t)info.vocabulary;
}

static int32_t likeliest(const float* row, size_t count) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) best = row[i] > row[best] ? i : best;
  return (int32_t)best;
}

static void forward_agrees_with_generation(clora_session* session, size_t width) {
  float* all = malloc(kPrompt * width * sizeof *all);
  float* last = malloc(width * sizeof *last);
  int32_t reply[kReply];
  EXPECT(all != NULL && last != NULL);
  greedy(session, reply);
  OK(clora_forward(session, prompt, kPrompt, CLORA_LOGITS_ALL, all, kPrompt * width));
  OK(clora_forward(session, prompt, kPrompt, CLORA_LOGITS_LAST, last, width));
  EXPECT(likeliest(last, width) == reply[0]);
  EXPECT(likeliest(all + (kPrompt - 1) * width, width) == reply[0]);
  free(all);
  free(last);
}

/* The token that greedy generation takes first is the likeliest one of all choices of one token. */
static void choices_agree_with_generation(clora_session* session, size_t width) {
  clora_choices choices = clora_choices_init();
  int32_t* ids = malloc(width * sizeof *ids);
  size_t* lengths = malloc(width * sizeof *lengths);
  double* logprobs = malloc(width * sizeof *logprobs);
  int32_t reply[kReply];
  double sum = 0;
  size_t best = width;
  EXPECT(ids != NULL && lengths != NULL && logprobs != NULL);
  for (size_t i = 0; i < width; ++i) {
    ids[i] = (int32_t)i;
    lengths[i] = 1;
  }
  choices.prompt = prompt;
  choices.prompt_count = kPrompt;
  choices.ids = ids;
  choices.id_count = choices.choice_count = width;
  choices.lengths = lengths;
  greedy(session, reply);
  OK(clora_score_choices(session, &choices, logprobs, &best));
  EXPECT(best == (size_t)reply[0]);
  for (size_t i = 0; i < width; ++i) sum += exp(logprobs[i]);
  EXPECT(fabs(sum - 1) < 1e-4);
  free(ids);
  free(lengths);
  free(logprobs);
}

/* ---- Engines ---- */

/* Runs the engine until it is idle, and appends the tokens of request i to replies[i]. */
static void run_engine(clora_engine* engine, const uint64_t* requests, size_t count,
                       int32_t (*replies)[kReply], size_t* lengths) {
  int32_t idle = 0;
  clora_event event = clora_event_init();
  while (!idle) {
    OK(clora_engine_step(engine, &idle));
    for (;;) {
      OK(clora_engine_poll(engine, &event));
      if (event.kind == CLORA_EVENT_NONE) break;
      EXPECT(event.kind != CLORA_EVENT_FAILED && event.error == NULL);
      for (size_t i = 0; i < count; ++i) {
        if (event.request != requests[i]) continue;
        EXPECT(lengths[i] + event.id_count <= kReply);
        if (event.id_count > 0) {
          memcpy(replies[i] + lengths[i], event.ids, event.id_count * sizeof(int32_t));
        }
        lengths[i] += event.id_count;
      }
    }
  }
}

/* The prompt and the reply to it have a page of the cache. */
static void saved_prefix(clora_engine* engine, const int32_t* reply, const char* work_folder) {
  char path[4096];
  int32_t ids[kPrompt + kReply];
  size_t saved = 0, loaded = 0;
  clora_prefix prefix = clora_prefix_init();
  memcpy(ids, prompt, kPrompt * sizeof ids[0]);
  memcpy(ids + kPrompt, reply, kReply * sizeof ids[0]);
  prefix.ids = ids;
  prefix.id_count = kPrompt + kReply;
  snprintf(path, sizeof path, "%s/prefix.safetensors", work_folder);
  OK(clora_engine_save_prefix(engine, path, &prefix, &saved));
  OK(clora_engine_load_prefix(engine, path, NULL, 0, &loaded));
  EXPECT(saved == 16 && loaded == 16);
}

/* A request of the model, one of the adapter and one that is cancelled, at once: the first two get
 * what a session gives to each alone. */
static void engine(clora_model* model, clora_session* session, clora_adapter* adapter,
                   const char* work_folder) {
  clora_engine* engine = NULL;
  clora_engine_options options = clora_engine_options_init();
  clora_engine_statistics statistics = clora_engine_statistics_init();
  clora_request request = clora_request_init();
  const clora_adapter_use use = {"mine", 1};
  uint64_t ids[3];
  int32_t want[2][kReply], got[3][kReply];
  size_t lengths[3] = {0, 0, 0};
  greedy(session, want[0]);
  OK(clora_session_attach(session, adapter));
  greedy(session, want[1]);
  OK(clora_session_detach(session));
  options.max_positions = 64;
  options.device_adapters = 1;
  OK(clora_engine_create(model, &options, &engine));
  OK(clora_engine_add_adapter(engine, "mine", adapter));
  request.prompt = prompt;
  request.prompt_count = kPrompt;
  request.max_tokens = kReply;
  request.ignore_end = 1;
  OK(clora_engine_submit(engine, &request, &ids[0]));
  OK(clora_engine_submit(engine, &request, &ids[2]));
  request.adapters = &use;
  request.adapter_count = 1;
  OK(clora_engine_submit(engine, &request, &ids[1]));
  OK(clora_engine_remove_adapter(engine, "mine")); /* requests that use it go on */
  OK(clora_engine_cancel(engine, ids[2]));
  run_engine(engine, ids, 3, got, lengths);
  EXPECT(lengths[0] == kReply && lengths[1] == kReply && lengths[2] == 0);
  EXPECT(memcmp(want[0], got[0], sizeof want[0]) == 0);
  EXPECT(memcmp(want[1], got[1], sizeof want[1]) == 0);
  OK(clora_engine_get_statistics(engine, &statistics));
  EXPECT(statistics.generated_tokens == 2 * kReply && statistics.steps >= kReply);
  EXPECT(statistics.running == 0 && statistics.waiting == 0);
  saved_prefix(engine, got[0], work_folder);
  clora_engine_release(engine);
}

/* ---- On this program's queue ---- */

struct host {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
};

static struct host open_host(clora_context* like) {
  struct host host = {NULL, NULL, NULL};
  clora_device_info wanted = clora_device_info_init();
  cl_platform_id platforms[8];
  cl_device_id found[8];
  cl_uint platform_count = 0, count = 0;
  char name[256];
  OK(clora_context_get_device(like, &wanted));
  EXPECT(clGetPlatformIDs(8, platforms, &platform_count) == CL_SUCCESS);
  for (cl_uint p = 0; p < platform_count; ++p) {
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 8, found, &count) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < count; ++d) {
      EXPECT(clGetDeviceInfo(found[d], CL_DEVICE_NAME, sizeof name, name, NULL) == CL_SUCCESS);
      if (host.device == NULL && strcmp(name, wanted.name) == 0) host.device = found[d];
    }
  }
  EXPECT(host.device != NULL);
  host.context = clCreateContext(NULL, 1, &host.device, NULL, NULL, NULL);
  host.queue = clCreateCommandQueueWithProperties(host.context, host.device, NULL, NULL);
  EXPECT(host.context != NULL && host.queue != NULL);
  return host;
}

static void close_host(struct host host) {
  EXPECT(clReleaseCommandQueue(host.queue) == CL_SUCCESS);
  EXPECT(clReleaseContext(host.context) == CL_SUCCESS);
}

/* Enqueues a forward after an event that is not complete yet: a call that waited would hang. */
static void forward_after_an_open_event(struct host host, clora_session* session, size_t width) {
  clora_forward_target target = clora_forward_target_init();
  const size_t bytes = kPrompt * width * sizeof(float);
  float* want = malloc(bytes);
  float* got = malloc(bytes);
  cl_mem logits = clCreateBuffer(host.context, CL_MEM_READ_WRITE, bytes, NULL, NULL);
  cl_event open = clCreateUserEvent(host.context, NULL);
  cl_event done = NULL;
  cl_int state = -1;
  EXPECT(want != NULL && got != NULL && logits != NULL && open != NULL);
  OK(clora_forward(session, prompt, kPrompt, CLORA_LOGITS_ALL, want, kPrompt * width));
  target.logits = logits;
  target.wait_list = &open;
  target.wait_count = 1;
  OK(clora_forward_enqueue(session, prompt, kPrompt, &target, &done));
  EXPECT(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) ==
         CL_SUCCESS);
  EXPECT(state > CL_COMPLETE);
  EXPECT(clSetUserEventStatus(open, CL_COMPLETE) == CL_SUCCESS);
  EXPECT(clEnqueueReadBuffer(host.queue, logits, CL_TRUE, 0, bytes, got, 1, &done, NULL) ==
         CL_SUCCESS);
  EXPECT(memcmp(want, got, bytes) == 0);
  EXPECT(clReleaseEvent(done) == CL_SUCCESS && clReleaseEvent(open) == CL_SUCCESS);
  EXPECT(clReleaseMemObject(logits) == CL_SUCCESS);
  free(want);
  free(got);
}

static void as_a_guest(struct host host, const char* model_folder) {
  clora_context* context = NULL;
  clora_model* model = NULL;
  clora_session* session = NULL;
  clora_session_options options = clora_session_options_init();
  cl_event marker = NULL;
  OK(clora_context_adopt(host.context, host.device, host.queue, NULL, &context));
  OK(clora_model_load(context, model_folder, NULL, &model));
  options.max_positions = 32;
  OK(clora_session_create(model, &options, &session));
  EXPECT(clEnqueueMarkerWithWaitList(host.queue, 0, NULL, &marker) == CL_SUCCESS);
  OK(clora_context_wait_for(context, 1, &marker));
  forward_after_an_open_event(host, session, vocabulary_of(model));
  clora_context_release(context); /* parents first: each child retains what it needs */
  clora_model_release(model);
  clora_session_release(session);
  EXPECT(clReleaseEvent(marker) == CL_SUCCESS);
}

/* ---- The complete test ---- */

static void statistics(clora_context* context, const struct seen* seen) {
  clora_statistics s = clora_statistics_init();
  OK(clora_context_finish(context));
  OK(clora_context_trim(context));
  OK(clora_context_get_statistics(context, &s));
  EXPECT(s.weights_bytes > 0 && s.cache_bytes > 0 && s.adapters_bytes > 0);
  EXPECT(s.memory_in_use_bytes == s.weights_bytes + s.activations_bytes + s.adapters_bytes +
                                      s.cache_bytes + s.scratch_bytes);
  EXPECT(s.memory_high_water_bytes >= s.memory_in_use_bytes);
  EXPECT(s.memory_limit_bytes > s.memory_high_water_bytes);
  EXPECT(s.trained_tokens > 22 * 9 + 5 * 8 && s.generated_tokens > kReply && s.forward_tokens > 0);
  EXPECT(s.prompt_tokens >= 4 * kPrompt);
  EXPECT(seen->metrics > 0);
}

static void run(const char* model_folder, const char* work_folder) {
  struct seen seen;
  int32_t chat[kMaxIds], reply[8];
  clora_adapter* loaded = NULL;
  clora_session* session = NULL;
  memset(&seen, 0, sizeof seen);
  clora_context* context = own_context(&seen);
  const uint64_t empty_bytes = counted_bytes(context, &seen);
  clora_model* model = load(context, model_folder, &seen);
  const uint64_t model_bytes = counted_bytes(context, &seen);
  EXPECT(model_bytes > empty_bytes);
  clora_adapter* adapter = trained_adapter(model);
  EXPECT(counted_bytes(context, &seen) > model_bytes);
  OK(clora_adapter_save(adapter, work_folder));
  OK(clora_adapter_load(model, work_folder, &loaded));
  accumulated_steps(model, work_folder);
  complete_run(model, model_folder, work_folder);
  values_of_adapters(model, work_folder);
  OK(clora_session_create(model, NULL, &session));
  attached_adapters(session, loaded);
  hidden_states_and_vectors(session, model);
  merged_model(context, loaded, session, work_folder);
  engine(model, session, loaded, work_folder);
  stopped_by_the_callback(session, &seen);
  forward_agrees_with_generation(session, vocabulary_of(model));
  choices_agree_with_generation(session, vocabulary_of(model));
  const size_t count = chat_prompt(model_folder, chat);
  OK(clora_generate(session, chat, count, NULL, reply, 8, NULL));
  statistics(context, &seen);
  struct host host = open_host(context);
  as_a_guest(host, model_folder);
  close_host(host);
  clora_adapter_release(adapter);
  clora_adapter_release(loaded);
  clora_session_release(session);
  counted_bytes(context, &seen);
  clora_model_release(model);
  EXPECT(counted_bytes(context, &seen) == empty_bytes);
  clora_context_release(context);
  EXPECT(seen.bytes == 0 && seen.in_use == 0); /* all memory is released */
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: every_function MODEL_FOLDER WORK_FOLDER\n");
    return 2;
  }
  version_and_errors();
  devices();
  tokenizer(argv[1]);
  run(argv[1], argv[2]);
  puts("every function was used");
  return 0;
}
