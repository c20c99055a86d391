/* clora.h: the C interface of clora, for C11 and C++, without an OpenCL header.
 *
 * Calls. Nearly every function returns a clora_status and gives its results through pointers, which
 * are written only where it returns CLORA_OK (an "out" handle is set to NULL otherwise). The
 * library never prints, exits or aborts, and no exception leaves it. clora_last_error() has one
 * sentence about the last call of this thread that failed.
 *
 * Handles. An object is made by a _create, _adopt or _load function and given back by its _release
 * function, once; NULL may be released. Each object keeps alive what it was made of: a model its
 * context, an adapter its model, a session its model and its adapter. So they may be released in
 * any order; memory goes when the last that needs it is gone, and the device is waited for then.
 *
 * Structs. Each begins with its size, set by clora_NAME_init(), and all zero else means "the
 * default" throughout. A program built with an older header leaves the newer fields out, and they
 * take their defaults; of an output struct only what fits its size is written. Fields that this
 * library does not know yet must be zero (then they mean what it does anyway).
 *
 * Threads. A context and all that is made of it are used by one thread at a time; different
 * contexts freely. Callbacks are called on the thread that called clora, and must not call back
 * into the same context, throw, or jump out.
 *
 * Texts are UTF-8 and end with '\0' unless their length is given. Lengths are in tokens, sizes in
 * bytes, times in seconds. */
#ifndef CLORA_H
#define CLORA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define CLORA_API __attribute__((visibility("default")))
#else
#define CLORA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The same types as those of <CL/cl.h>, which may be included before or after. */
typedef struct _cl_context* cl_context;
typedef struct _cl_device_id* cl_device_id;
typedef struct _cl_command_queue* cl_command_queue;
typedef struct _cl_mem* cl_mem;
typedef struct _cl_event* cl_event;

typedef struct clora_context clora_context;     /* a device with its queue and memory */
typedef struct clora_model clora_model;         /* frozen weights on the device */
typedef struct clora_adapter clora_adapter;     /* the matrices of one LoRA, on the device */
typedef struct clora_session clora_session;     /* one stream of text from a model */
typedef struct clora_trainer clora_trainer;     /* optimiser steps on an adapter */
typedef struct clora_tokenizer clora_tokenizer; /* text to ids and back; needs no device */
typedef struct clora_decoder clora_decoder;     /* ids to text while they arrive */

/* ---- Version and errors ---------------------------------------------------------------------- */

/* Of this header. */
#define CLORA_VERSION_MAJOR 0
#define CLORA_VERSION_MINOR 1
#define CLORA_VERSION_PATCH 0
#define CLORA_VERSION \
  (CLORA_VERSION_MAJOR * 1000000 + CLORA_VERSION_MINOR * 1000 + CLORA_VERSION_PATCH)

/* Of the library that is linked, as CLORA_VERSION and as "0.1.0". */
CLORA_API int32_t clora_version(void);
CLORA_API const char* clora_version_text(void);

typedef enum clora_status {
  CLORA_OK = 0,
  CLORA_INVALID_ARGUMENT = 1, /* a rule of this header was broken */
  CLORA_INVALID_FILE = 2,     /* damaged, truncated or not what it claims to be */
  CLORA_INVALID_DATA = 3,     /* a data set record cannot be used */
  CLORA_UNSUPPORTED = 4,      /* known, and not done here */
  CLORA_NOT_FOUND = 5,        /* a file, kernel or tensor that is not there */
  CLORA_IO = 6,               /* the operating system refused */
  CLORA_NO_DEVICE = 7,        /* no OpenCL device, or none that matches */
  CLORA_OUT_OF_MEMORY = 8,    /* of the device, of the context's limit, or of the host */
  CLORA_BUILD_FAILED = 9,     /* a kernel does not compile; the message holds the log */
  CLORA_DEVICE = 10,          /* an OpenCL call failed: clora_last_opencl_status() */
  CLORA_DEVICE_LOST = 11,     /* the context cannot be used any more: release it, make another */
  CLORA_DIVERGED = 12,        /* a loss that is not finite */
  CLORA_CANCELLED = 13,       /* a callback asked to stop */
  CLORA_INTERNAL = 14         /* a fault of clora itself */
} clora_status;

/* "invalid argument", ...; never NULL. */
CLORA_API const char* clora_status_text(clora_status status);

/* About the last call of this thread that failed; calls that succeed leave them as they are. The
 * text is "" before the first failure, and valid until the next one on this thread. The OpenCL
 * status is 0 where the failure had none. */
CLORA_API const char* clora_last_error(void);
CLORA_API int32_t clora_last_opencl_status(void);

/* ---- Devices --------------------------------------------------------------------------------- */

typedef enum clora_device_kind {
  CLORA_DEVICE_KIND_CPU = 0,
  CLORA_DEVICE_KIND_GPU = 1,
  CLORA_DEVICE_KIND_OTHER = 2
} clora_device_kind;

typedef struct clora_device_info {
  size_t size;
  int32_t index;  /* as clora_device_get_info() takes it; -1 where a caller handed the device in */
  int32_t kind;   /* clora_device_kind */
  char name[256]; /* these texts are cut where they are longer */
  char vendor[128];
  char platform[128];
  char driver[128];
  char opencl_version[128];
  uint64_t memory_bytes;
  uint64_t max_allocation_bytes;
  uint32_t compute_units;
  uint32_t base_alignment_bytes; /* offsets of clora_forward_enqueue() are multiples of it */
} clora_device_info;

/* Every device of every OpenCL platform; 0 where there is none. */
CLORA_API clora_status clora_device_count(int32_t* count);
CLORA_API clora_status clora_device_get_info(int32_t index, clora_device_info* info);

/* ---- Context --------------------------------------------------------------------------------- */

typedef enum clora_log_level {
  CLORA_LOG_DEBUG = 0,
  CLORA_LOG_INFO = 1,
  CLORA_LOG_WARNING = 2,
  CLORA_LOG_ERROR = 3
} clora_log_level;

typedef struct clora_context_options {
  size_t size;
  const char* device;          /* an index, part of a name, "cpu" or "gpu"; NULL: the first GPU,
                                  else the first device. Not used by clora_context_adopt() */
  uint64_t memory_limit_bytes; /* 0: memory_limit_share of the device */
  double memory_limit_share;   /* in (0, 1]; 0: 1 */
  const char* cache_folder;    /* for built programs; NULL: the user's own; "": none */
  const char* kernel_folder;   /* kernel sources instead of the embedded ones; NULL: those */
  const char* variant; /* a kind of kernels: "portable", "cpu", "avx512_bf16", "amx"; NULL: the best
                          for the device within the precision */
  double stuck_after_seconds; /* without progress the context is lost; 0: 300; below 0: never */
  uint64_t max_commands_in_flight; /* 0: 4096 */
  double max_seconds_in_flight;    /* of estimated device time; 0: 2; below 0: no limit */
  int32_t skip_self_test;          /* 1: kernel variants are not tried before their first use */
  int32_t profile;                 /* 1: a queue with profiling, device times are taken */
  void* user;                      /* handed to the hooks below, each of which may be NULL */
  void (*log)(void* user, clora_log_level level, const char* message);
  /* Device memory taken (bytes > 0) or given back (bytes < 0); in_use_bytes: afterwards. */
  void (*allocation)(void* user, const char* tag, int64_t bytes, uint64_t in_use_bytes);
  /* One observation of a named quantity; docs/embedding.md lists the names. */
  void (*metric)(void* user, const char* name, double value);
  uint64_t cache_limit_bytes; /* of built programs in the cache folder; 0: 256 MiB */
  int32_t matrix_unit;        /* 1: products round their operands to what the device's matrix unit
                                 takes, where it has one; 0: f32 */
} clora_context_options;

/* options may be NULL: all defaults. */
CLORA_API clora_status clora_context_create(const clora_context_options* options,
                                            clora_context** context);
/* On a caller's device, context and in-order queue; context and queue are retained. The caller may
 * enqueue to the queue between calls of clora, on the same thread; commands run in order. */
CLORA_API clora_status clora_context_adopt(cl_context opencl_context, cl_device_id device,
                                           cl_command_queue queue,
                                           const clora_context_options* options,
                                           clora_context** context);
CLORA_API void clora_context_release(clora_context* context);

CLORA_API clora_status clora_context_get_device(const clora_context* context,
                                                clora_device_info* info);
/* Waits for everything that is enqueued. */
CLORA_API clora_status clora_context_finish(clora_context* context);
/* All that clora enqueues later runs after these events; waits for nothing. */
CLORA_API clora_status clora_context_wait_for(clora_context* context, uint32_t count,
                                              const cl_event* events);
/* *lost = 1 where the device failed and the context cannot be used any more, else 0. */
CLORA_API clora_status clora_context_is_lost(const clora_context* context, int32_t* lost);
/* Gives memory that is kept for later back to the device. */
CLORA_API clora_status clora_context_trim(clora_context* context);

typedef struct clora_statistics {
  size_t size;
  uint64_t memory_in_use_bytes;     /* held by live objects; the sum of the tags below */
  uint64_t memory_cached_bytes;     /* kept for later */
  uint64_t memory_high_water_bytes; /* the most that was in use */
  uint64_t memory_limit_bytes;
  uint64_t weights_bytes;
  uint64_t activations_bytes;
  uint64_t adapters_bytes; /* with gradients and moments */
  uint64_t cache_bytes;    /* keys and values of sessions */
  uint64_t scratch_bytes;
  uint64_t prompt_tokens;    /* read by clora_generate() */
  uint64_t generated_tokens; /* given by clora_generate() */
  uint64_t forward_tokens;   /* of clora_forward() and clora_forward_enqueue() */
  uint64_t trained_tokens;   /* of clora_trainer_step(), labelled or not */
} clora_statistics;

CLORA_API clora_status clora_context_get_statistics(const clora_context* context,
                                                    clora_statistics* statistics);

/* ---- Model ----------------------------------------------------------------------------------- */

typedef struct clora_model_options {
  size_t size;
  void* user;
  /* Called while weights go to the device, with the part of them that is there, 0 to 1; anything
   * but 0 stops: CLORA_CANCELLED, and nothing of the model stays. NULL: none. */
  int32_t (*progress)(void* user, double fraction);
} clora_model_options;

/* path: a .gguf file, or a folder with config.json and safetensors. options may be NULL. */
CLORA_API clora_status clora_model_load(clora_context* context, const char* path,
                                        const clora_model_options* options, clora_model** model);
CLORA_API void clora_model_release(clora_model* model);

typedef struct clora_model_info {
  size_t size;
  char architecture[32]; /* "llama", "qwen2", ... */
  int64_t layers;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t vocabulary;    /* V: the width of a row of logits */
  int64_t max_positions; /* 0: the files do not say */
  uint64_t weight_bytes;
} clora_model_info;

CLORA_API clora_status clora_model_get_info(const clora_model* model, clora_model_info* info);

/* ---- Tokenizer ------------------------------------------------------------------------------- */
/* A tokenizer needs no context and may be used by several threads at once.
 *
 * Where a function fills an array of `capacity` elements, *count is set to how many there are, also
 * where they do not fit: that is CLORA_INVALID_ARGUMENT, unless capacity is 0, which only asks. */

/* path: as of clora_model_load(). */
CLORA_API clora_status clora_tokenizer_load(const char* path, clora_tokenizer** tokenizer);
CLORA_API void clora_tokenizer_release(clora_tokenizer* tokenizer);

typedef struct clora_tokenizer_info {
  size_t size;
  int32_t vocabulary;
  int32_t bos_id;            /* -1: none */
  int32_t eos_id;            /* -1: none */
  int32_t adds_bos;          /* 1: the model expects bos in front of a text */
  int32_t has_chat_template; /* 1: clora_tokenizer_encode_chat() can be used */
} clora_tokenizer_info;

CLORA_API clora_status clora_tokenizer_get_info(const clora_tokenizer* tokenizer,
                                                clora_tokenizer_info* info);

/* parse_special 1: the text of control tokens, such as <|im_end|>, becomes these tokens. The
 * model's bos is put in front where it expects one. */
CLORA_API clora_status clora_tokenizer_encode(const clora_tokenizer* tokenizer, const char* text,
                                              size_t text_bytes, int32_t parse_special,
                                              int32_t* ids, size_t capacity, size_t* count);
typedef struct clora_chat_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* content;
} clora_chat_message;

/* The conversation as the model wants it written, with the opening of the assistant's next turn. */
CLORA_API clora_status clora_tokenizer_encode_chat(const clora_tokenizer* tokenizer,
                                                   const clora_chat_message* messages,
                                                   size_t message_count, int32_t* ids,
                                                   size_t capacity, size_t* count);
/* The bytes of the tokens, without a '\0' after them; control tokens give nothing, or their text
 * where keep_special is 1. */
CLORA_API clora_status clora_tokenizer_decode(const clora_tokenizer* tokenizer, const int32_t* ids,
                                              size_t id_count, int32_t keep_special, char* text,
                                              size_t capacity, size_t* count);
/* The tokens that end an answer, sorted: for clora_generation_options.end_ids. */
CLORA_API clora_status clora_tokenizer_end_ids(const clora_tokenizer* tokenizer, int32_t* ids,
                                               size_t capacity, size_t* count);

/* Turns tokens into whole characters while they arrive. Keeps the tokenizer. */
CLORA_API clora_status clora_decoder_create(const clora_tokenizer* tokenizer, int32_t keep_special,
                                            clora_decoder** decoder);
/* *text: what is complete now, perhaps ""; valid until the decoder's next call. */
CLORA_API clora_status clora_decoder_push(clora_decoder* decoder, int32_t id, const char** text);
/* *text: what was held back; afterwards the decoder is as new. */
CLORA_API clora_status clora_decoder_finish(clora_decoder* decoder, const char** text);
CLORA_API void clora_decoder_release(clora_decoder* decoder);

/* ---- Adapter --------------------------------------------------------------------------------- */

typedef struct clora_adapter_options {
  size_t size;
  int64_t rank;               /* 0: 8 */
  double alpha;               /* the product is scaled by alpha / rank; 0: 16 */
  double dropout;             /* in [0, 1), in training */
  const char* target_modules; /* "q_proj,v_proj"; NULL: all linear layers */
  int64_t last_layers;        /* only the last so many blocks; 0: all */
  uint64_t seed;              /* of the initial values */
  int32_t rank_stabilised;    /* 1: scaled by alpha / sqrt(rank) */
} clora_adapter_options;

/* A new adapter, which changes nothing until it is trained. options may be NULL. */
CLORA_API clora_status clora_adapter_create(clora_model* model,
                                            const clora_adapter_options* options,
                                            clora_adapter** adapter);
/* folder: as PEFT writes them. */
CLORA_API clora_status clora_adapter_load(clora_model* model, const char* folder,
                                          clora_adapter** adapter);
/* As PEFT reads them; each file is replaced whole or not at all. Waits. */
CLORA_API clora_status clora_adapter_save(const clora_adapter* adapter, const char* folder);
/* Unloads it, once no session and no trainer uses it any more. */
CLORA_API void clora_adapter_release(clora_adapter* adapter);

typedef struct clora_adapter_info {
  size_t size;
  int64_t rank;
  double alpha;
  int64_t modules; /* adapted linear layers */
  int64_t trainable_parameters;
} clora_adapter_info;

CLORA_API clora_status clora_adapter_get_info(const clora_adapter* adapter,
                                              clora_adapter_info* info);

/* ---- Session: generation and forward --------------------------------------------------------- */

typedef struct clora_session_options {
  size_t size;
  int64_t max_positions; /* prompt and reply together; sizes the cache. 0: 2048, or what the model
                            has where that is less */
} clora_session_options;

/* options may be NULL. The cache's memory is taken by the first clora_generate(). */
CLORA_API clora_status clora_session_create(clora_model* model,
                                            const clora_session_options* options,
                                            clora_session** session);
CLORA_API void clora_session_release(clora_session* session);

/* From now on the session works with this adapter of the same model, and keeps it. Its commands are
 * recorded anew at the next use: where replies of several adapters alternate, keep a session for
 * each. */
CLORA_API clora_status clora_session_attach(clora_session* session, clora_adapter* adapter);
/* From now on with the model alone. */
CLORA_API clora_status clora_session_detach(clora_session* session);

typedef struct clora_generation_options {
  size_t size;
  int64_t max_tokens;        /* 0: 256; lowered to what the session has space for */
  double temperature;        /* 0: the likeliest token each time */
  int64_t top_k;             /* 0: off */
  double top_p;              /* 0 or 1: off */
  double min_p;              /* 0: off */
  double repetition_penalty; /* 0 or 1: off */
  uint32_t seed;
  int32_t ignore_end;     /* 1: goes on after tokens that end an answer */
  const int32_t* end_ids; /* ends at one of these, which is not returned; NULL: the model's own */
  size_t end_id_count;
  void* user;
  /* Called with each token as it arrives; anything but 0 ends the generation. NULL: none. */
  int32_t (*on_token)(void* user, int32_t id);
  /* Called before each further part of a long prompt with the number of its tokens that were given
   * to the device; anything but 0 ends the generation, without a token. NULL: none. */
  int32_t (*on_prompt)(void* user, int64_t done);
} clora_generation_options;

typedef enum clora_finish_reason {
  CLORA_FINISH_STOP = 0,     /* a token that ends an answer */
  CLORA_FINISH_LENGTH = 1,   /* max_tokens, or no space left */
  CLORA_FINISH_CANCELLED = 2 /* by on_token or on_prompt */
} clora_finish_reason;

typedef struct clora_generation {
  size_t size;
  int32_t finish_reason; /* clora_finish_reason */
  uint64_t token_count;  /* generated */
  double prompt_seconds;
  double decode_seconds;
} clora_generation;

/* Text after a prompt. Stopping by a callback is no error: the tokens up to there are given.
 * options and generation may be NULL; so may ids, else it has space for `capacity` tokens and no
 * more than that are generated. Where a logit is NaN or infinite, the error names the cause: a
 * weight of the model (CLORA_INVALID_FILE), a matrix of the adapter (CLORA_INVALID_DATA), or
 * neither (CLORA_DIVERGED). */
CLORA_API clora_status clora_generate(clora_session* session, const int32_t* prompt,
                                      size_t prompt_count, const clora_generation_options* options,
                                      int32_t* ids, size_t capacity, clora_generation* generation);

typedef enum clora_logit_rows {
  CLORA_LOGITS_ALL = 0, /* [T, V]: row t predicts the token after ids[t] */
  CLORA_LOGITS_LAST = 1 /* [1, V]: of the last token alone */
} clora_logit_rows;

/* The logits of a text, without cache or sampling: f32, row after row. rows: a clora_logit_rows.
 * `capacity` is the number of floats at `logits`, at least as many as there are. Waits. Logits that
 * are not finite are an error, as of clora_generate(). */
CLORA_API clora_status clora_forward(clora_session* session, const int32_t* ids, size_t id_count,
                                     int32_t rows, float* logits, size_t capacity);

typedef struct clora_forward_target {
  size_t size;
  cl_mem logits;             /* of the context's cl_context; retained as long as needed */
  uint64_t offset_bytes;     /* a multiple of the device's base alignment */
  const cl_event* wait_list; /* nothing of this call runs before these; NULL: none */
  uint32_t wait_count;
  int32_t rows; /* clora_logit_rows */
} clora_forward_target;

/* The same into a caller's memory, enqueued and not waited for. ids are copied. *event is
 * complete when the logits are there; the caller releases it (clReleaseEvent). event may be NULL.
 * Nothing is waited for where the session has run as many tokens before (the last few numbers of
 * tokens are kept); else the commands are recorded first, which may wait for what was enqueued
 * before, and never for wait_list. */
CLORA_API clora_status clora_forward_enqueue(clora_session* session, const int32_t* ids,
                                             size_t id_count, const clora_forward_target* target,
                                             cl_event* event);

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct clora_trainer_options {
  size_t size;
  double beta1;   /* 0: 0.9 */
  double beta2;   /* 0: 0.999 */
  double epsilon; /* 0: 1e-8 */
  double weight_decay;
  double clip_norm; /* 0: off */
  uint32_t dropout_seed;
} clora_trainer_options;

/* AdamW on the adapter's matrices. options may be NULL. A session that has the adapter attached
 * works with its values of the moment. */
CLORA_API clora_status clora_trainer_create(clora_adapter* adapter,
                                            const clora_trainer_options* options,
                                            clora_trainer** trainer);
CLORA_API void clora_trainer_release(clora_trainer* trainer);

/* Documents one after another. */
typedef struct clora_train_batch {
  size_t size;
  const int32_t* ids;
  const uint8_t* is_target; /* [id_count]: 1 where predicting this token counts; NULL: everywhere */
  size_t id_count;
  const size_t* lengths; /* tokens of each document; NULL: all ids are one */
  size_t document_count; /* where lengths is given */
} clora_train_batch;

typedef struct clora_step_result {
  size_t size;
  int64_t step;     /* from 1 */
  double loss;      /* mean over the labelled tokens, before the update */
  int64_t tokens;   /* labelled */
  double grad_norm; /* before clipping */
} clora_step_result;

/* One optimiser step. result may be NULL: then the step is enqueued and not waited for. A loss that
 * is not finite is CLORA_DIVERGED, or CLORA_INVALID_FILE where a weight of the model is not finite,
 * which the message names; the adapter has taken the step. Of a step that was not waited for, the
 * next one returns it. */
CLORA_API clora_status clora_trainer_step(clora_trainer* trainer, const clora_train_batch* batch,
                                          double learning_rate, clora_step_result* result);

/* ---- clora_NAME_init(): a struct with its size set, and else all defaults ---------------------
 */

#define CLORA_DEFINE_INIT(name)          \
  static inline name name##_init(void) { \
    name made;                           \
    memset(&made, 0, sizeof made);       \
    made.size = sizeof made;             \
    return made;                         \
  }
CLORA_DEFINE_INIT(clora_device_info)
CLORA_DEFINE_INIT(clora_context_options)
CLORA_DEFINE_INIT(clora_statistics)
CLORA_DEFINE_INIT(clora_model_options)
CLORA_DEFINE_INIT(clora_model_info)
CLORA_DEFINE_INIT(clora_tokenizer_info)
CLORA_DEFINE_INIT(clora_adapter_options)
CLORA_DEFINE_INIT(clora_adapter_info)
CLORA_DEFINE_INIT(clora_session_options)
CLORA_DEFINE_INIT(clora_generation_options)
CLORA_DEFINE_INIT(clora_generation)
CLORA_DEFINE_INIT(clora_forward_target)
CLORA_DEFINE_INIT(clora_trainer_options)
CLORA_DEFINE_INIT(clora_train_batch)
CLORA_DEFINE_INIT(clora_step_result)
#undef CLORA_DEFINE_INIT

#ifdef __cplusplus
}
#endif

#endif /* CLORA_H */
