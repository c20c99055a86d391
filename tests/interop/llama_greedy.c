/* Greedy continuations, or logits, by llama.cpp's library (llama_cpp.py):
 *   llama_greedy BACKENDS MODEL COUNT [ADAPTER] < PROMPTS
 * BACKENDS: the folder of ggml's back ends. A line of the input has the token ids of a prompt; a
 * line of the output has COUNT ids or, with COUNT 0, the logits after the prompt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <llama.h>

enum { MAX_TOKENS = 1024 };

static void log_errors(enum ggml_log_level level, const char* text, void* unused) {
  (void)unused;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void fail(const char* what) {
  fprintf(stderr, "llama_greedy: %s failed\n", what);
  exit(1);
}

static void decode(struct llama_context* context, llama_token* ids, int count) {
  if (llama_decode(context, llama_batch_get_one(ids, count)) != 0) fail("llama_decode");
}

static int read_ids(char* line, llama_token* ids) {
  int count = 0;
  for (char* word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
    if (count == MAX_TOKENS) fail("a prompt of that length");
    ids[count++] = (llama_token)strtol(word, NULL, 10);
  }
  return count;
}

static llama_token likeliest(const float* logits, int vocabulary) {
  llama_token best = 0;
  for (llama_token i = 1; i < vocabulary; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return best;
}

static struct llama_context* make_context(struct llama_model* model) {
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = MAX_TOKENS;
  params.n_threads = params.n_threads_batch = 1; /* threads of tiny models only wait */
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = GGML_TYPE_F32; /* as clora's on a CPU */
  return llama_init_from_model(model, params);
}

static void answer(struct llama_context* context, int count, int vocabulary) {
  if (count == 0) {
    const float* logits = llama_get_logits_ith(context, -1);
    for (int i = 0; i < vocabulary; ++i) printf("%.9g ", (double)logits[i]);
  }
  for (int i = 0; i < count; ++i) {
    llama_token id = likeliest(llama_get_logits_ith(context, -1), vocabulary);
    printf("%d ", (int)id);
    if (i + 1 < count) decode(context, &id, 1);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  llama_log_set(log_errors, NULL);
  ggml_backend_load_all_from_path(argv[1]);
  llama_backend_init();
  struct llama_model* model = llama_model_load_from_file(argv[2], llama_model_default_params());
  if (model == NULL) fail("the load of the model");
  struct llama_context* context = make_context(model);
  if (context == NULL) fail("llama_init_from_model");
  if (argc == 5) {
    struct llama_adapter_lora* adapter = llama_adapter_lora_init(model, argv[4]);
    float scale = 1;
    if (adapter == NULL) fail("the load of the adapter");
    if (llama_set_adapters_lora(context, &adapter, 1, &scale) != 0) fail("the use of the adapter");
  }
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  static char line[MAX_TOKENS * 16];
  while (fgets(line, sizeof line, stdin) != NULL) {
    llama_token ids[MAX_TOKENS];
    const int length = read_ids(line, ids);
    if (length == 0) continue;
    llama_memory_clear(llama_get_memory(context), true);
    decode(context, ids, length);
    answer(context, (int)strtol(argv[3], NULL, 10), vocabulary);
  }
  return 0;
}
