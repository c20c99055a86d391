/* generate MODEL PROMPT [ADAPTER_FOLDER]: embeds clora in a C program (docs/embedding.md). */
#include <clora.h>
#include <stdio.h>
#include <string.h>

struct state {
  clora_context* context;
  clora_model* model;
  clora_adapter* adapter;
  clora_session* session;
  clora_tokenizer* tokenizer;
  clora_decoder* decoder;
};

static int32_t on_token(void* user, int32_t id) {
  const char* text = NULL;
  if (clora_decoder_push(user, id, &text) != CLORA_OK) return 1; /* non-zero ends the reply */
  fputs(text, stdout);
  return 0;
}

static clora_status generate(struct state* s, const char* prompt) {
  int32_t ids[256], end_ids[64];
  size_t count = 0;
  const char* rest = NULL;
  clora_status status;
  clora_generation_options options = clora_generation_options_init();
  options.max_tokens = 32;
  options.end_ids = end_ids;
  options.user = s->decoder;
  options.on_token = on_token;
  status = clora_tokenizer_end_ids(s->tokenizer, end_ids, 64, &options.end_id_count);
  if (status != CLORA_OK) return status;
  status = clora_tokenizer_encode(s->tokenizer, prompt, strlen(prompt), 0, ids, 256, &count);
  if (status != CLORA_OK) return status;
  status = clora_generate(s->session, ids, count, &options, NULL, 0, NULL);
  if (status != CLORA_OK) return status;
  status = clora_decoder_finish(s->decoder, &rest); /* bytes of an incomplete character */
  if (status == CLORA_OK) puts(rest);
  return status;
}

static clora_status run(struct state* s, const char* model, const char* prompt,
                        const char* adapter) {
  clora_status status;
  clora_context_options options = clora_context_options_init();
  options.memory_limit_share = 0.5; /* all that is left 0 takes its default */
  if ((status = clora_context_create(&options, &s->context)) != CLORA_OK) return status;
  if ((status = clora_model_load(s->context, model, NULL, &s->model)) != CLORA_OK) return status;
  if ((status = clora_tokenizer_load(model, &s->tokenizer)) != CLORA_OK) return status;
  if ((status = clora_decoder_create(s->tokenizer, 0, &s->decoder)) != CLORA_OK) return status;
  if ((status = clora_session_create(s->model, NULL, &s->session)) != CLORA_OK) return status;
  if (adapter != NULL) {
    status = clora_adapter_load(s->model, adapter, &s->adapter);
    if (status == CLORA_OK) status = clora_session_attach(s->session, s->adapter);
    if (status != CLORA_OK) return status;
  }
  return generate(s, prompt);
}

int main(int argc, char** argv) {
  struct state s = {NULL, NULL, NULL, NULL, NULL, NULL};
  clora_status status;
  if (argc < 3) return 2;
  status = run(&s, argv[1], argv[2], argc > 3 ? argv[3] : NULL);
  if (status != CLORA_OK) {
    fprintf(stderr, "%s: %s\n", clora_status_text(status), clora_last_error());
  }
  clora_context_release(s.context); /* in any order: each object retains what it was created from */
  clora_model_release(s.model);
  clora_adapter_release(s.adapter);
  clora_session_release(s.session);
  clora_decoder_release(s.decoder);
  clora_tokenizer_release(s.tokenizer);
  return status == CLORA_OK ? 0 : 1;
}
