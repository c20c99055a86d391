/* serve MODEL ADAPTER_FOLDER ADAPTER_FOLDER PROMPT...: generates after all prompts at once, each
 * with one of two adapters, in one loop without threads (docs/embedding.md). */
#include <clora.h>
#include <stdio.h>
#include <string.h>

enum { kMaxReplies = 16, kMaxText = 1024, kMaxPrompt = 256 };
static const char* const names[2] = {"first", "second"};

struct reply {
  uint64_t request;
  char text[kMaxText];
};

struct state {
  clora_context* context;
  clora_model* model;
  clora_adapter* adapters[2];
  clora_tokenizer* tokenizer;
  clora_engine* engine;
  struct reply replies[kMaxReplies];
  int reply_count;
  int failures;
};

static clora_status open_engine(struct state* s, char** paths) {
  clora_status status;
  clora_engine_options options = clora_engine_options_init();
  if ((status = clora_context_create(NULL, &s->context)) != CLORA_OK) return status;
  if ((status = clora_model_load(s->context, paths[0], NULL, &s->model)) != CLORA_OK) return status;
  if ((status = clora_tokenizer_load(paths[0], &s->tokenizer)) != CLORA_OK) return status;
  options.max_positions = kMaxPrompt;
  options.tokenizer = s->tokenizer; /* for the texts of events */
  options.device_adapters = 2;      /* that replies can use at once */
  if ((status = clora_engine_create(s->model, &options, &s->engine)) != CLORA_OK) return status;
  for (int i = 0; i < 2; ++i) {
    status = clora_adapter_load(s->model, paths[1 + i], &s->adapters[i]);
    if (status != CLORA_OK) return status;
    status = clora_engine_add_adapter(s->engine, names[i], s->adapters[i]);
    if (status != CLORA_OK) return status;
  }
  return CLORA_OK;
}

static clora_status submit(struct state* s, const char* prompt) {
  int32_t ids[kMaxPrompt];
  struct reply* reply = &s->replies[s->reply_count];
  const clora_adapter_use use = {names[s->reply_count % 2], 1};
  clora_request request = clora_request_init();
  clora_status status = clora_tokenizer_encode(s->tokenizer, prompt, strlen(prompt), 0, ids,
                                               kMaxPrompt, &request.prompt_count);
  if (status != CLORA_OK) return status;
  request.prompt = ids; /* copied, as all of the request */
  request.max_tokens = 32;
  request.adapters = &use;
  request.adapter_count = 1;
  status = clora_engine_submit(s->engine, &request, &reply->request);
  if (status == CLORA_OK) ++s->reply_count;
  return status;
}

static void take(struct state* s, const clora_event* event) {
  for (int i = 0; i < s->reply_count; ++i) {
    struct reply* reply = &s->replies[i];
    if (reply->request != event->request) continue;
    strncat(reply->text, event->text, kMaxText - 1 - strlen(reply->text));
    if (event->kind == CLORA_EVENT_FINISHED) printf("%d %s: %s\n", i, names[i % 2], reply->text);
    if (event->kind != CLORA_EVENT_FAILED) continue;
    fprintf(stderr, "%d: %s\n", i, event->error);
    ++s->failures;
  }
}

static clora_status serve(struct state* s) {
  int32_t idle = 0;
  clora_event event = clora_event_init();
  while (!idle) { /* a program with a network would look for new requests here */
    clora_status status = clora_engine_step(s->engine, &idle); /* one token of each reply */
    if (status != CLORA_OK) return status;
    for (;;) {
      if ((status = clora_engine_poll(s->engine, &event)) != CLORA_OK) return status;
      if (event.kind == CLORA_EVENT_NONE) break;
      take(s, &event);
    }
  }
  return CLORA_OK;
}

int main(int argc, char** argv) {
  static struct state s;
  clora_status status;
  if (argc < 5 || argc > 4 + kMaxReplies) return 2;
  status = open_engine(&s, argv + 1);
  for (int i = 4; i < argc && status == CLORA_OK; ++i) status = submit(&s, argv[i]);
  if (status == CLORA_OK) status = serve(&s);
  if (status != CLORA_OK) {
    fprintf(stderr, "%s: %s\n", clora_status_text(status), clora_last_error());
  }
  clora_engine_release(s.engine);
  for (int i = 0; i < 2; ++i) clora_adapter_release(s.adapters[i]);
  clora_tokenizer_release(s.tokenizer);
  clora_model_release(s.model);
  clora_context_release(s.context);
  return status == CLORA_OK && s.failures == 0 ? 0 : 1;
}
