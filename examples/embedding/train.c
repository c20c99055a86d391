/* train MODEL FOLDER TEXT...: fine-tunes an adapter on texts, each a micro-batch of every step, and
 * saves it as a checkpoint to FOLDER (docs/embedding.md). */
#include <clora.h>
#include <stdio.h>
#include <string.h>

enum { kSteps = 20, kMaxTexts = 16, kMaxIds = 512 };

struct state {
  clora_context* context;
  clora_model* model;
  clora_tokenizer* tokenizer;
  clora_adapter* adapter;
  clora_session* session;
  clora_trainer* trainer;
  clora_records* records; /* the texts again, for evaluation */
  int32_t ids[kMaxTexts][kMaxIds];
  clora_train_batch texts[kMaxTexts];
  const clora_train_batch* batches[kMaxTexts];
  size_t text_count;
};

static clora_status open_all(struct state* s, const char* model) {
  clora_status status;
  clora_adapter_options adapter = clora_adapter_options_init();
  clora_trainer_options trainer = clora_trainer_options_init();
  adapter.rank = 8;
  trainer.clip_norm = 1;
  if ((status = clora_context_create(NULL, &s->context)) != CLORA_OK) return status;
  if ((status = clora_model_load(s->context, model, NULL, &s->model)) != CLORA_OK) return status;
  if ((status = clora_tokenizer_load(model, &s->tokenizer)) != CLORA_OK) return status;
  if ((status = clora_adapter_create(s->model, &adapter, &s->adapter)) != CLORA_OK) return status;
  if ((status = clora_session_create(s->model, NULL, &s->session)) != CLORA_OK) return status;
  if ((status = clora_session_attach(s->session, s->adapter)) != CLORA_OK) return status;
  if ((status = clora_records_create(&s->records)) != CLORA_OK) return status;
  return clora_trainer_create(s->adapter, &trainer, &s->trainer);
}

static clora_status add_text(struct state* s, const char* text) {
  clora_train_batch* batch = &s->texts[s->text_count];
  int32_t* ids = s->ids[s->text_count];
  clora_status status;
  *batch = clora_train_batch_init();
  status =
      clora_tokenizer_encode(s->tokenizer, text, strlen(text), 0, ids, kMaxIds, &batch->id_count);
  if (status != CLORA_OK) return status;
  batch->ids = ids;
  s->batches[s->text_count++] = batch;
  return clora_records_add(s->records, batch);
}

static clora_status train(struct state* s, const char* folder, clora_evaluation* evaluation) {
  clora_status status;
  clora_step_result step = clora_step_result_init();
  clora_schedule schedule = clora_schedule_init();
  schedule.kind = "cosine";
  schedule.learning_rate = 1e-2;
  schedule.warmup_steps = 2;
  for (int i = 1; i <= kSteps; ++i) {
    double rate = 0;
    if ((status = clora_learning_rate(&schedule, i, kSteps, &rate)) != CLORA_OK) return status;
    status = clora_trainer_step_accumulated(s->trainer, s->batches, s->text_count, rate, &step);
    if (status != CLORA_OK) return status;
    printf("step %d  loss %.4f\n", i, step.loss);
  }
  if ((status = clora_trainer_save_checkpoint(s->trainer, folder)) != CLORA_OK) return status;
  return clora_evaluate(s->session, s->records, evaluation);
}

static clora_status run(struct state* s, int argc, char** argv) {
  clora_evaluation evaluation = clora_evaluation_init();
  clora_status status = open_all(s, argv[1]);
  for (int i = 3; i < argc && i < 3 + kMaxTexts && status == CLORA_OK; ++i) {
    status = add_text(s, argv[i]);
  }
  if (status == CLORA_OK) status = train(s, argv[2], &evaluation);
  if (status == CLORA_OK) printf("loss of the adapter %.4f\n", evaluation.loss);
  return status;
}

int main(int argc, char** argv) {
  static struct state s; /* all NULL */
  clora_status status;
  if (argc < 4) return 2;
  status = run(&s, argc, argv);
  if (status != CLORA_OK) {
    fprintf(stderr, "%s: %s\n", clora_status_text(status), clora_last_error());
  }
  clora_trainer_release(s.trainer);
  clora_records_release(s.records);
  clora_session_release(s.session);
  clora_adapter_release(s.adapter);
  clora_tokenizer_release(s.tokenizer);
  clora_model_release(s.model);
  clora_context_release(s.context);
  return status == CLORA_OK ? 0 : 1;
}
