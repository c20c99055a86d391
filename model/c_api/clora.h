/* clora.h: the C interface of clora, for C11 and C++. It needs no OpenCL header.
 *
 * Calls. Nearly every function returns a clora_status and writes its results through pointers.
 * Results are written only if the function returns CLORA_OK; otherwise an output handle is set to
 * NULL. The library never prints, exits or aborts, and no exception leaves it. clora_last_error()
 * returns one sentence about the last failed call of the calling thread.
 *
 * Handles. A _create, _adopt or _load function creates an object, and its _release function
 * releases it, once; releasing NULL is a no-op. Each object keeps alive the objects it was created
 * from: a model its context, an adapter its model, a session its model and its adapter. Handles may
 * therefore be released in any order; memory is freed, after waiting for the device, when the last
 * object that needs it is released.
 *
 * Structs. Each struct begins with its size, which clora_NAME_init() sets; a field that is zero
 * means "the default" throughout. A program built with an older header does not pass the newer
 * fields, and they take their defaults; of an output struct, only the part that fits its size is
 * written. If a struct is larger than in the linked library, its extra bytes must be zero, which
 * selects the behaviour of that library; otherwise the call fails with CLORA_UNSUPPORTED.
 *
 * Threads. A context and all objects created from it are used by one thread at a time, except by
 * functions that say "from any thread"; different contexts may be used concurrently. Callbacks run
 * on the thread that called clora, and must not call back into the same context, throw, or jump
 * out.
 *
 * Strings are UTF-8 and null-terminated unless their length is given. Lengths are in tokens, sizes
 * in bytes, times in seconds. */
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

/* The same types as in <CL/cl.h>, which may be included before or after this header. */
typedef struct _cl_context* cl_context;
typedef struct _cl_device_id* cl_device_id;
typedef struct _cl_command_queue* cl_command_queue;
typedef struct _cl_mem* cl_mem;
typedef struct _cl_event* cl_event;

typedef struct clora_context clora_context;     /* a device with its queue and memory */
typedef struct clora_model clora_model;         /* frozen weights on the device */
typedef struct clora_adapter clora_adapter;     /* the matrices of one LoRA, on the device */
typedef struct clora_session clora_session;     /* one stream of text from a model */
typedef struct clora_engine clora_engine;       /* many texts at once, each with its adapters */
typedef struct clora_trainer clora_trainer;     /* optimiser steps on an adapter */
typedef struct clora_records clora_records;     /* documents to train on or to evaluate */
typedef struct clora_tokenizer clora_tokenizer; /* text to ids and back; needs no device */
typedef struct clora_decoder clora_decoder;     /* ids to text as they arrive */

/* ---- Version and errors ---------------------------------------------------------------------- */

/* The version of this header. */
#define CLORA_VERSION_MAJOR 0
#define CLORA_VERSION_MINOR 1
#define CLORA_VERSION_PATCH 0
#define CLORA_VERSION \
  (CLORA_VERSION_MAJOR * 1000000 + CLORA_VERSION_MINOR * 1000 + CLORA_VERSION_PATCH)

/* The version of the linked library, in the form of CLORA_VERSION and as "0.1.0". */
CLORA_API int32_t clora_version(void);
CLORA_API const char* clora_version_text(void);

typedef enum clora_status {
  CLORA_OK = 0,
  CLORA_INVALID_ARGUMENT = 1, /* the call violates this header */
  CLORA_INVALID_FILE = 2,     /* damaged, truncated, or not of the expected format */
  CLORA_INVALID_DATA = 3,     /* a data set record cannot be used */
  CLORA_UNSUPPORTED = 4,      /* recognised, but not implemented */
  CLORA_NOT_FOUND = 5,        /* a file, kernel or tensor does not exist */
  CLORA_IO = 6,               /* the operating system reported an error */
  CLORA_NO_DEVICE = 7,        /* no OpenCL device, or none that matches */
  CLORA_OUT_OF_MEMORY = 8,    /* of the device, of the context's limit, or of the host */
  CLORA_BUILD_FAILED = 9,     /* a kernel does not compile; the message holds the log */
  CLORA_DEVICE = 10,          /* an OpenCL call failed: clora_last_opencl_status() */
  CLORA_DEVICE_LOST = 11,     /* the context is unusable: release it and create another */
  CLORA_DIVERGED = 12,        /* a loss that is not finite */
  CLORA_CANCELLED = 13,       /* a callback requested a stop */
  CLORA_INTERNAL = 14         /* an internal error of clora */
} clora_status;

/* Returns "invalid argument", ...; never NULL. */
CLORA_API const char* clora_status_text(clora_status status);

/* Describe the last failed call of this thread; successful calls leave them unchanged. The string
 * is "" before the first failure and valid until the next failure on this thread. The OpenCL status
 * is 0 if the failure had none. */
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
  int32_t index;  /* for clora_device_get_info(); -1 for a device that the caller passed in */
  int32_t kind;   /* clora_device_kind */
  char name[256]; /* these strings are truncated to fit */
  char vendor[128];
  char platform[128];
  char driver[128];
  char opencl_version[128];
  uint64_t memory_bytes;
  uint64_t max_allocation_bytes;
  uint32_t compute_units;
  uint32_t base_alignment_bytes; /* for offsets of clora_forward_enqueue() */
} clora_device_info;

/* The number of devices on all OpenCL platforms; 0 if there are none. */
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
                                  else the first device. Ignored by clora_context_adopt() */
  uint64_t memory_limit_bytes; /* 0: memory_limit_share of the device memory */
  double memory_limit_share;   /* in (0, 1]; 0: 1 */
  const char* cache_folder;    /* for built programs; NULL: the user's cache; "": none */
  const char* kernel_folder;   /* kernel sources that replace the embedded ones; NULL: none */
  const char* variant;        /* the kernel variant: "portable", "cpu", "avx512_bf16", "amx", "mma",
                                 "wgmma", "matrix"; NULL: the best one for the device within
                                 the precision */
  double stuck_after_seconds; /* without progress the context is lost; 0: 300; < 0: never */
  uint64_t max_commands_in_flight; /* 0: 4096 */
  double max_seconds_in_flight;    /* of estimated device time; 0: 2; < 0: no limit */
  int32_t skip_self_test;          /* 1: kernel variants are not tested before first use */
  int32_t profile;                 /* 1: a profiling queue; device times are recorded */
  void* user;                      /* passed to the callbacks below, each of which may be NULL */
  void (*log)(void* user, clora_log_level level, const char* message);
  /* Reports device memory allocated (bytes > 0) or released (bytes < 0); in_use_bytes is the total
   * afterwards. */
  void (*allocation)(void* user, const char* tag, int64_t bytes, uint64_t in_use_bytes);
  /* Reports one observation of a named metric; docs/embedding.md lists the names. */
  void (*metric)(void* user, const char* name, double value);
  uint64_t cache_limit_bytes; /* of the programs in the cache folder; 0: 256 MiB */
  int32_t matrix_unit;        /* 1: products round their operands to the type of the device's
                                 matrix unit, if it has one; 0: f32 */
  double weight_copy_share;   /* of the memory left free by a model's weights, for copies of them
                                 in bf16 on GPUs with matrix units; 0: 0.25; < 0: none */
} clora_context_options;

/* options may be NULL for all defaults. */
CLORA_API clora_status clora_context_create(const clora_context_options* options,
                                            clora_context** context);
/* Uses a caller's device, context and in-order queue; context and queue are retained. The caller
 * may enqueue to the queue between calls of clora, on the same thread; commands run in order. */
CLORA_API clora_status clora_context_adopt(cl_context opencl_context, cl_device_id device,
                                           cl_command_queue queue,
                                           const clora_context_options* options,
                                           clora_context** context);
CLORA_API void clora_context_release(clora_context* context);

CLORA_API clora_status clora_context_get_device(const clora_context* context,
                                                clora_device_info* info);
/* Waits for all enqueued commands. */
CLORA_API clora_status clora_context_finish(clora_context* context);
/* Makes all commands that clora enqueues later wait for these events on the device; the call itself
 * does not wait. */
CLORA_API clora_status clora_context_wait_for(clora_context* context, uint32_t count,
                                              const cl_event* events);
/* *lost = 1 if the device failed and the context is unusable, else 0. */
CLORA_API clora_status clora_context_is_lost(const clora_context* context, int32_t* lost);
/* Returns cached memory to the device. */
CLORA_API clora_status clora_context_trim(clora_context* context);

typedef struct clora_statistics {
  size_t size;
  uint64_t memory_in_use_bytes;     /* held by live objects; the sum of the tags below */
  uint64_t memory_cached_bytes;     /* free, cached for reuse */
  uint64_t memory_high_water_bytes; /* the maximum in use so far */
  uint64_t memory_limit_bytes;
  uint64_t weights_bytes;
  uint64_t activations_bytes;
  uint64_t adapters_bytes; /* with gradients and moments */
  uint64_t cache_bytes;    /* keys and values of sessions and engines */
  uint64_t scratch_bytes;
  uint64_t prompt_tokens;    /* of clora_generate(), and of requests of engines that ended */
  uint64_t generated_tokens; /* produced by clora_generate() and by engines */
  uint64_t forward_tokens;   /* of clora_forward(), clora_forward_enqueue() and of prompts with
                                choices of clora_score_choices() */
  uint64_t trained_tokens;   /* of clora_trainer_step(), labelled or not */
} clora_statistics;

CLORA_API clora_status clora_context_get_statistics(const clora_context* context,
                                                    clora_statistics* statistics);

/* ---- Model ----------------------------------------------------------------------------------- */

typedef struct clora_model_options {
  size_t size;
  void* user;
  /* Called while weights are copied to the device, with the fraction that is done, 0 to 1. A return
   * value other than 0 stops the load: it fails with CLORA_CANCELLED, and nothing of the model
   * stays in memory. NULL: no callback. */
  int32_t (*progress)(void* user, double fraction);
  /* The longest context that the model will be used with, for models whose rope depends on it, such
   * as Phi-4-mini; longer ones are then refused. 0: no longer than the model's original ones. */
  int64_t context_length;
} clora_model_options;

/* path: a .gguf file (any part of a split one), or a folder with config.json and safetensors.
 * options may be NULL. */
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
  int64_t vocabulary;    /* V: the length of a row of logits */
  int64_t max_positions; /* 0: not given in the files */
  uint64_t weight_bytes;
} clora_model_info;

CLORA_API clora_status clora_model_get_info(const clora_model* model, clora_model_info* info);

/* ---- Tokenizer ------------------------------------------------------------------------------- */
/* A tokenizer needs no context and may be used by several threads at once.
 *
 * A function that fills an array of `capacity` elements sets *count to the number of elements, even
 * if they do not fit. In that case it fails with CLORA_INVALID_ARGUMENT, unless capacity is 0,
 * which only queries the count. */

/* path: as in clora_model_load(). */
CLORA_API clora_status clora_tokenizer_load(const char* path, clora_tokenizer** tokenizer);
CLORA_API void clora_tokenizer_release(clora_tokenizer* tokenizer);

typedef struct clora_tokenizer_info {
  size_t size;
  int32_t vocabulary;
  int32_t bos_id;            /* -1: none */
  int32_t eos_id;            /* -1: none */
  int32_t adds_bos;          /* 1: the model expects bos before a text */
  int32_t has_chat_template; /* 1: clora_tokenizer_encode_chat() is available */
} clora_tokenizer_info;

CLORA_API clora_status clora_tokenizer_get_info(const clora_tokenizer* tokenizer,
                                                clora_tokenizer_info* info);

/* parse_special 1: the text of a control token, such as <|im_end|>, becomes that token. If the
 * model expects a bos token, it is prepended; an encoder's [CLS] and [SEP] enclose the text. */
CLORA_API clora_status clora_tokenizer_encode(const clora_tokenizer* tokenizer, const char* text,
                                              size_t text_bytes, int32_t parse_special,
                                              int32_t* ids, size_t capacity, size_t* count);
typedef struct clora_chat_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* content;
} clora_chat_message;

/* Encodes the conversation in the format of the model's chat template, with the opening of the
 * assistant's next turn. */
CLORA_API clora_status clora_tokenizer_encode_chat(const clora_tokenizer* tokenizer,
                                                   const clora_chat_message* messages,
                                                   size_t message_count, int32_t* ids,
                                                   size_t capacity, size_t* count);
/* The same for a conversation as JSON: {"messages": [{"role", "content", "tool_calls", ...}],
 * "tools":
 * [...], "chat_template_kwargs": {...}, "add_generation_prompt": true}, as in OpenAI's requests and
 * transformers; all but "messages" are optional. A content may be null or a list of typed parts. */
CLORA_API clora_status clora_tokenizer_encode_chat_json(const clora_tokenizer* tokenizer,
                                                        const char* conversation,
                                                        size_t conversation_bytes, int32_t* ids,
                                                        size_t capacity, size_t* count);
/* Writes the bytes of the tokens without a terminating '\0'. Control tokens produce nothing, or
 * their text if keep_special is 1. */
CLORA_API clora_status clora_tokenizer_decode(const clora_tokenizer* tokenizer, const int32_t* ids,
                                              size_t id_count, int32_t keep_special, char* text,
                                              size_t capacity, size_t* count);
/* The end-of-generation tokens, sorted: for end_ids of clora_generation_options and of
 * clora_request. */
CLORA_API clora_status clora_tokenizer_end_ids(const clora_tokenizer* tokenizer, int32_t* ids,
                                               size_t capacity, size_t* count);

/* Turns tokens into complete characters as they arrive. Keeps the tokenizer alive. */
CLORA_API clora_status clora_decoder_create(const clora_tokenizer* tokenizer, int32_t keep_special,
                                            clora_decoder** decoder);
/* *text: the text that is complete, possibly ""; valid until the decoder's next call. */
CLORA_API clora_status clora_decoder_push(clora_decoder* decoder, int32_t id, const char** text);
/* *text: the text held back so far. Resets the decoder. */
CLORA_API clora_status clora_decoder_finish(clora_decoder* decoder, const char** text);
CLORA_API void clora_decoder_release(clora_decoder* decoder);

/* ---- Adapter --------------------------------------------------------------------------------- */

typedef struct clora_adapter_options {
  size_t size;
  int64_t rank;               /* 0: 8 */
  double alpha;               /* the product is scaled by alpha / rank; 0: 16 */
  double dropout;             /* in [0, 1), in training */
  const char* target_modules; /* "q_proj,v_proj"; NULL: all linear layers */
  int64_t last_layers;        /* only the last N blocks; 0: all */
  uint64_t seed;              /* of the initial values */
  int32_t rank_stabilised;    /* 1: scaled by alpha / sqrt(rank) */
  int32_t use_dora;           /* 1: magnitudes of the layers' outputs are trained as well (DoRA) */
  /* Modules that are trained in full and stored with the adapter: the ends of their names, as
   * "down_proj" or "norm,lm_head"; NULL: none. */
  const char* modules_to_save;
  const char* bias; /* biases that are trained: "none", "all", "lora_only"; NULL: "none" */
  /* First matrices: "lora" (random A, B = 0), or the principal part of each weight, which "pissa"
   * takes from its singular values and "olora" from its QR decomposition: the adapter then has
   * twice the rank, of which trainers of this object leave the last half as it is. NULL: "lora". */
  const char* init;
  /* The text of an adapter_config.json of PEFT, which can also tell rank_pattern, alpha_pattern,
   * exclude_modules, layers_to_transform and target_modules as a regular expression. Of the other
   * fields only seed, init and, in place of the text's, target_modules are then used. NULL: none.
   */
  const char* peft_config;
} clora_adapter_options;

/* Creates an adapter that has no effect until it is trained. options may be NULL. */
CLORA_API clora_status clora_adapter_create(clora_model* model,
                                            const clora_adapter_options* options,
                                            clora_adapter** adapter);
/* Loads an adapter: a folder of PEFT or of mlx-lm, or a GGUF file of llama.cpp. */
CLORA_API clora_status clora_adapter_load(clora_model* model, const char* path,
                                          clora_adapter** adapter);
/* Saves the adapter in PEFT's format; each file is replaced atomically. Waits. */
CLORA_API clora_status clora_adapter_save(const clora_adapter* adapter, const char* folder);
/* The same in a format: "peft" or "mlx", a folder, or "gguf", a file. CLORA_UNSUPPORTED, naming it,
 * for what the format cannot hold. Waits. */
CLORA_API clora_status clora_adapter_save_as(const clora_adapter* adapter, const char* path,
                                             const char* format);
/* The adapter is unloaded when no session, engine or trainer uses it any more. */
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

/* A trained tensor of an adapter. */
typedef struct clora_adapter_tensor {
  size_t size;
  /* PATH is that of an adapted layer, such as "model.layers.0.self_attn.q_proj", with R ranks, K
   * inputs and N outputs:
   *   PATH.lora_A                 [R, K]
   *   PATH.lora_B                 [N, R]
   *   PATH.lora_magnitude_vector  [N], with use_dora
   * Other names are those of tensors of the model that are trained in full. Valid as long as the
   * adapter. */
  const char* name;
  int32_t dimensions; /* used elements of shape */
  int64_t shape[4];
  int64_t elements;
  /* Of lora_A and lora_B: the layer's weight [N, K] changes by scale * B A, before magnitudes; of
   * token embeddings the transpose, [V, D]. Else 0. */
  double scale;
} clora_adapter_tensor;

/* The number of tensors. They are in the order of the model: A and B of each layer, then all
 * magnitudes, then what is trained in full. */
CLORA_API clora_status clora_adapter_tensor_count(const clora_adapter* adapter, size_t* count);
CLORA_API clora_status clora_adapter_get_tensor(const clora_adapter* adapter, size_t index,
                                                clora_adapter_tensor* tensor);
/* Copies the current values of a tensor: f32, row-major. `capacity` is the number of floats at
 * `values`, at least the tensor's elements. Waits. */
CLORA_API clora_status clora_adapter_read_tensor(const clora_adapter* adapter, size_t index,
                                                 float* values, size_t capacity);
/* Replaces the values of a tensor. `count` must be its elements, and all must be finite
 * (CLORA_INVALID_DATA). Sessions with the adapter use them from now on; engines have their own
 * copies. Waits. */
CLORA_API clora_status clora_adapter_write_tensor(clora_adapter* adapter, size_t index,
                                                  const float* values, size_t count);

/* ---- Merged models --------------------------------------------------------------------------- */

typedef struct clora_fuse_options {
  size_t size;
  const char* format; /* "safetensors", a Hugging Face folder, or "gguf", a file; NULL: the first */
  /* Of the written matrices: "f32", "f16", "bf16"; of a GGUF file also "q8_0", "q6_k", "q5_k",
   * "q4_k", "q5_1", "q5_0", "q4_1", "q4_0". NULL: "f32", or in a GGUF file that of each of the
   * model's tensors. */
  const char* type;
  void* user;
  /* Called before each tensor; a return value other than 0 stops: the call fails with
   * CLORA_CANCELLED, and nothing is written. NULL: no callback. */
  int32_t (*progress)(void* user);
} clora_fuse_options;

/* Writes the adapter's model with the adapter merged into its weights to `path`, which must not
 * exist; a folder may be there if it is empty. It has the model's configuration and its tokenizer,
 * or the log has a warning. The model's own files are read again. options may be NULL. The files
 * are complete before the first one is at `path`. CLORA_UNSUPPORTED for a format or type that is
 * not listed above, or for what a GGUF file cannot hold; CLORA_INVALID_DATA, naming the tensor, for
 * a value that is not finite. Waits. */
CLORA_API clora_status clora_fuse(const clora_adapter* adapter, const char* path,
                                  const clora_fuse_options* options);

/* ---- What sessions and engines have in common ------------------------------------------------ */

typedef struct clora_logit_bias {
  int32_t id;
  float bias; /* added to the logit; -INFINITY: the token is never drawn */
} clora_logit_bias;

typedef enum clora_grammar_kind {
  CLORA_GRAMMAR_NONE = 0,
  CLORA_GRAMMAR_JSON_OBJECT = 1, /* any JSON object; without a text */
  CLORA_GRAMMAR_JSON_SCHEMA = 2, /* docs/structured-output.md lists what a schema may contain */
  CLORA_GRAMMAR_GBNF = 3         /* the notation of llama.cpp */
} clora_grammar_kind;

typedef struct clora_token_logprob {
  int32_t id;
  double logprob; /* natural logarithm; of the model, before temperature and filters */
} clora_token_logprob;

/* ---- Session: generation and forward --------------------------------------------------------- */

typedef struct clora_session_options {
  size_t size;
  int64_t max_positions;     /* prompt and reply together; sizes the cache. 0: 2048, or the model's
                                maximum if that is less */
  const char* kv_cache_type; /* of the keys and values of earlier positions: "f32", "bf16", "f16" or
                                "q8_0" (heads of a multiple of 32); NULL or "auto": bf16 if the
                                context has matrix_unit, else f32 */
} clora_session_options;

/* options may be NULL. The first clora_generate() allocates the cache. */
CLORA_API clora_status clora_session_create(clora_model* model,
                                            const clora_session_options* options,
                                            clora_session** session);
CLORA_API void clora_session_release(clora_session* session);

/* Makes the session use this adapter, which must belong to the same model, and keeps it alive. The
 * session's commands are recorded again at the next use; if replies of several adapters alternate,
 * keep one session for each. */
CLORA_API clora_status clora_session_attach(clora_session* session, clora_adapter* adapter);
/* The same with the adapter's term multiplied by `scale`, besides alpha / rank; tensors that are
 * trained in full are not scaled. For a scale other than 1 the session has a copy of the adapter as
 * it is now, which a later training does not change. Waits. */
CLORA_API clora_status clora_session_attach_scaled(clora_session* session, clora_adapter* adapter,
                                                   double scale);
/* Makes the session use the model without an adapter. */
CLORA_API clora_status clora_session_detach(clora_session* session);

typedef struct clora_generation_options {
  size_t size;
  int64_t max_tokens;        /* 0: 256; lowered to the space left in the session */
  double temperature;        /* 0: greedy */
  int64_t top_k;             /* 0: off */
  double top_p;              /* 0 or 1: off */
  double min_p;              /* 0: off */
  double repetition_penalty; /* 0 or 1: off */
  uint32_t seed;
  int32_t ignore_end;     /* 1: continues after tokens that end an answer */
  const int32_t* end_ids; /* stop tokens, which are not returned; NULL: the model's */
  size_t end_id_count;
  void* user;
  /* Called with each token as it arrives; a return value other than 0 ends the generation. NULL: no
   * callback. */
  int32_t (*on_token)(void* user, int32_t id);
  /* Called before each further chunk of a long prompt, with the number of prompt tokens that are
   * already enqueued; a return value other than 0 ends the generation without a token. NULL: no
   * callback. */
  int32_t (*on_prompt)(void* user, int64_t done);
  double typical_p;         /* 0 or 1: off */
  double presence_penalty;  /* of tokens in the reply; 0: off */
  double frequency_penalty; /* for each time that a token is in the reply; 0: off */
  const clora_logit_bias* logit_biases;
  size_t logit_bias_count;
  int32_t logprobs;                 /* 1: the result has the log-probability of each token */
  int64_t top_logprobs;             /* and those of the likeliest tokens, at most 32 */
  const clora_tokenizer* tokenizer; /* for the text of the result, stop texts and grammars; NULL:
                                       there are none */
  const char* const* stop_texts;    /* end the reply before the first of them */
  size_t stop_text_count;
  int32_t grammar_kind; /* clora_grammar_kind: what the reply must match */
  const char* grammar;  /* the text of a schema or in GBNF */
  int64_t draft_tokens; /* as in clora_request */
} clora_generation_options;

typedef enum clora_finish_reason {
  CLORA_FINISH_STOP = 0,     /* a token that ends an answer, or a stop text */
  CLORA_FINISH_LENGTH = 1,   /* max_tokens, or no space left */
  CLORA_FINISH_CANCELLED = 2 /* by on_token or on_prompt */
} clora_finish_reason;

typedef struct clora_generation {
  size_t size;
  int32_t finish_reason; /* clora_finish_reason */
  uint64_t token_count;  /* generated */
  double prompt_seconds;
  double decode_seconds;
  /* If requested; valid until the session's next call of clora_generate() or its release. */
  const double* logprobs;                  /* [token_count] */
  const clora_token_logprob* top_logprobs; /* [token_count, top_logprobs of the options] */
  /* With a tokenizer: the text up to the first stop text, whose tokens are among the ids. */
  const char* text;
  size_t text_bytes; /* texts may contain '\0' */
} clora_generation;

/* Generates a continuation of the prompt. Stopping by a callback is not an error: the tokens
 * generated so far are returned. options, ids and generation may be NULL; an ids array has space
 * for `capacity` tokens, and no more than that are generated. If a logit is NaN or infinite, the
 * error names the cause: a weight of the model (CLORA_INVALID_FILE), a matrix of the adapter
 * (CLORA_INVALID_DATA), or neither (CLORA_DIVERGED). */
CLORA_API clora_status clora_generate(clora_session* session, const int32_t* prompt,
                                      size_t prompt_count, const clora_generation_options* options,
                                      int32_t* ids, size_t capacity, clora_generation* generation);

typedef enum clora_logit_rows {
  CLORA_LOGITS_ALL = 0, /* [T, V]: row t predicts the token after ids[t] */
  CLORA_LOGITS_LAST = 1 /* [1, V]: only of the last token */
} clora_logit_rows;

/* Computes the logits of a text, without cache or sampling: f32, row-major. rows: a
 * clora_logit_rows. `capacity` is the number of floats at `logits`, at least the number of logits.
 * Waits. Logits that are not finite are an error, as in clora_generate(). */
CLORA_API clora_status clora_forward(clora_session* session, const int32_t* ids, size_t id_count,
                                     int32_t rows, float* logits, size_t capacity);

/* Computes the hidden states of a text after a number of blocks: [T, D] f32, row-major. layer: 0
 * for the embeddings, n for the output of block n (from 1), of the last one after the model's final
 * norm, which is what the logits are computed from (transformers' output_hidden_states). `capacity`
 * is the number of floats at `hidden`, at least T * D. Waits. The values are not checked. */
CLORA_API clora_status clora_forward_hidden(clora_session* session, const int32_t* ids,
                                            size_t id_count, int64_t layer, float* hidden,
                                            size_t capacity);

typedef struct clora_forward_target {
  size_t size;
  cl_mem logits;             /* of the context's cl_context; retained while needed */
  uint64_t offset_bytes;     /* a multiple of the device's base alignment */
  const cl_event* wait_list; /* no command of this call runs before these; NULL: none */
  uint32_t wait_count;
  int32_t rows; /* clora_logit_rows */
} clora_forward_target;

/* Enqueues clora_forward() into memory of the caller, without waiting for it and without checking
 * that the logits are finite. ids are copied. *event completes when the logits are written; the
 * caller releases it with clReleaseEvent(). event may be NULL. The call does not wait if the
 * session still has the recorded commands for this number of tokens (it keeps those for the last
 * few numbers of tokens); otherwise it records them first, which may wait for earlier commands, but
 * never for wait_list. */
CLORA_API clora_status clora_forward_enqueue(clora_session* session, const int32_t* ids,
                                             size_t id_count, const clora_forward_target* target,
                                             cl_event* event);

/* A multiple-choice question: a prompt, and texts of which each continues it. */
typedef struct clora_choices {
  size_t size;
  const int32_t* prompt; /* at least one token */
  size_t prompt_count;
  const int32_t* ids; /* the choices' tokens, concatenated */
  size_t id_count;
  const size_t* lengths; /* [choice_count]: tokens of each choice, at least one */
  size_t choice_count;   /* at least one */
} clora_choices;

/* Computes the log-likelihood of each choice after the prompt, with the session's adapter: the sum
 * of the natural logarithms of its tokens' probabilities. logprobs has space for choice_count
 * values. *likeliest, which may be NULL, becomes the index of the largest one, of equal ones the
 * first; for the largest one per character or per token, divide by the lengths. Prompt and choice
 * together are limited by the session's max_positions. Waits. CLORA_DIVERGED if a value is not
 * finite. */
CLORA_API clora_status clora_score_choices(clora_session* session, const clora_choices* choices,
                                           double* logprobs, size_t* likeliest);

/* Texts to turn into vectors, with the special tokens that the model expects. */
typedef struct clora_texts {
  size_t size;
  const int32_t* ids; /* of all texts, concatenated */
  size_t id_count;
  const size_t* lengths; /* [text_count]: tokens of each text, at least one */
  size_t text_count;
  const char* pooling; /* of a text's rows: "mean", "first", "last"; NULL: that of the model's
                          files, or else "mean" */
  int32_t normalise;   /* 1: vectors have length 1; -1: they have not; 0: as the model's files say,
                          or else 1 */
} clora_texts;

/* Computes a vector for each text by an encoder, or by a decoder, with the session's adapter:
 * [text_count, D] f32, row-major, in order. `capacity` is the number of floats at `vectors`. Many
 * texts at once are faster than one by one. Waits. */
CLORA_API clora_status clora_embed(clora_session* session, const clora_texts* texts, float* vectors,
                                   size_t capacity);

/* ---- Engine: many requests at once ----------------------------------------------------------- */
/* An engine generates for many requests at once, each with its own adapters, length and sampling.
 * It has no thread of its own: the program calls clora_engine_step() in a loop, which computes a
 * token of each running request, and takes what was generated by clora_engine_poll(). A reply is
 * the same as that of the request alone. Requests are admitted in the order of their arrival. */

typedef struct clora_engine_options {
  size_t size;
  int64_t max_sequences;   /* requests that run at once; 0: 8 */
  int64_t max_positions;   /* of one request, prompt and reply; 0: 4096, or the model's maximum if
                              that is less */
  int64_t cache_positions; /* of the cache, for all requests; 0: max_sequences * max_positions */
  int64_t step_tokens;     /* most tokens of replies and prompts in a step, at least max_sequences;
                              0: 512, or max_sequences if that is more */
  const char* kv_cache_type; /* as in clora_session_options */
  int32_t no_prefix_sharing; /* 1: no request uses the keys and values that another one, also one
                                that has ended, computed for the same first tokens */
  int64_t device_adapters;   /* different adapters, or pairs of them, of requests that run at once;
                                0: requests have no adapters */
  int64_t max_rank;          /* of an adapter of requests, or of the two of a request together;
                                0: 64 */
  const clora_adapter* base_adapter; /* part of the model for all requests, of any kind; it must not
                                        be trained while the engine exists. NULL: none */
  const clora_tokenizer* tokenizer;  /* for texts of events, stop texts and grammars; NULL: requests
                                        have no stop texts and grammars, and events only ids */
} clora_engine_options;

/* Allocates the cache. options may be NULL. */
CLORA_API clora_status clora_engine_create(clora_model* model, const clora_engine_options* options,
                                           clora_engine** engine);
/* Requests that have not ended are lost. */
CLORA_API void clora_engine_release(clora_engine* engine);

/* Makes an adapter of the engine's model available to requests by this name. Its matrices are
 * copied. An adapter of the same name is replaced for requests that are submitted later. Waits. */
CLORA_API clora_status clora_engine_add_adapter(clora_engine* engine, const char* name,
                                                const clora_adapter* adapter);
/* Requests that use the adapter go on. */
CLORA_API clora_status clora_engine_remove_adapter(clora_engine* engine, const char* name);

/* An adapter of the engine. */
typedef struct clora_adapter_use {
  const char* name;
  double scale; /* of its term, besides alpha / rank; 0: 1 */
} clora_adapter_use;

typedef struct clora_request {
  size_t size;
  const int32_t* prompt; /* at least one token, and fewer than max_positions */
  size_t prompt_count;
  int64_t max_tokens;        /* 0: 256; lowered to the positions left */
  double temperature;        /* 0: greedy */
  int64_t top_k;             /* 0: off */
  double top_p;              /* 0 or 1: off */
  double min_p;              /* 0: off */
  double typical_p;          /* 0 or 1: off */
  double repetition_penalty; /* of tokens in prompt and reply; 0 or 1: off */
  double presence_penalty;   /* of tokens in the reply; 0: off */
  double frequency_penalty;  /* for each time that a token is in the reply; 0: off */
  const clora_logit_bias* logit_biases;
  size_t logit_bias_count;
  uint32_t seed;
  int32_t logprobs;     /* 1: events have the log-probability of each token */
  int64_t top_logprobs; /* and those of the likeliest tokens, at most 32 */
  const clora_adapter_use* adapters;
  size_t adapter_count;   /* at most 2, whose terms are added; 0: the model alone */
  int32_t ignore_end;     /* 1: continues after tokens that end an answer */
  const int32_t* end_ids; /* stop tokens, which are not returned; NULL: the model's and the
                             tokenizer's */
  size_t end_id_count;
  const char* const* stop_texts; /* end the reply before the first of them */
  size_t stop_text_count;
  int32_t grammar_kind; /* clora_grammar_kind: what the reply must match */
  const char* grammar;  /* the text of a schema or in GBNF */
  /* Tokens that are guessed from earlier ones and verified in one step, at most 16, which is faster
   * for texts that repeat themselves. The reply is the same. 0: none. */
  int64_t draft_tokens;
  /* 1: events have the log-probability of each token of the prompt but the first. Such a prompt is
   * computed in full, whatever the cache holds of it. */
  int32_t prompt_logprobs;
  int64_t prompt_top_logprobs; /* and those of the likeliest tokens, at most 32 */
  int32_t prompt_only;         /* 1: nothing is generated; max_tokens must be 0, and
                                  prompt_logprobs 1 */
} clora_request;

/* Submits a request, of which everything is copied; *id, which is never 0, names it in events. Its
 * grammar is compiled here, which may take a while. From any thread, but not while the engine is
 * released. */
CLORA_API clora_status clora_engine_submit(clora_engine* engine, const clora_request* request,
                                           uint64_t* id);
/* Ends a request at the next step; its last event has CLORA_FINISH_CANCELLED. No effect if it has
 * ended. From any thread, but not while the engine is released. */
CLORA_API clora_status clora_engine_cancel(clora_engine* engine, uint64_t id);

/* Runs one step, and waits until the tokens of this step, or on GPUs of the step before, are
 * there; returns immediately if there is no request. *idle = 1 if no request is left, so that the
 * next call does nothing unless one is submitted, else 0; idle may be NULL. A program without
 * requests waits in its own way for the next one. If the device fails, so does the call, and all
 * requests are lost: the next call gives their last events, with the error. */
CLORA_API clora_status clora_engine_step(clora_engine* engine, int32_t* idle);

typedef enum clora_event_kind {
  CLORA_EVENT_NONE = 0,     /* no event is left; all other fields are 0 */
  CLORA_EVENT_TOKENS = 1,   /* the reply has more tokens, or there are more log-probabilities of the
                               prompt; the request goes on */
  CLORA_EVENT_FINISHED = 2, /* the last event of a request, which may have tokens as well */
  CLORA_EVENT_FAILED = 3    /* instead: a logit that is not finite, a grammar that cannot go on,
                               the device */
} clora_event_kind;

typedef struct clora_event {
  size_t size;
  int32_t kind;     /* clora_event_kind */
  uint64_t request; /* its id */
  const int32_t* ids;
  size_t id_count;
  const double* logprobs;                  /* [id_count]; 0 if they were not requested */
  const clora_token_logprob* top_logprobs; /* [id_count, top_logprobs of the request];
                                              NULL if none were requested */
  const char* text;      /* complete characters that belong to the reply in any case */
  size_t text_bytes;     /* texts may contain '\0' */
  int32_t finish_reason; /* clora_finish_reason, if finished */
  int32_t status;        /* clora_status, and a sentence, if failed */
  const char* error;
  int64_t prompt_tokens;    /* if finished */
  int64_t cached_tokens;    /* of the prompt, whose keys and values were in the cache */
  int64_t generated_tokens; /* of the reply in all */
  /* If requested, the next tokens of the prompt, from its second one on, as the three arrays of the
   * reply above. All of them come before the first token of the reply. */
  const int32_t* prompt_ids;
  size_t prompt_id_count;
  const double* prompt_logprobs;                  /* [prompt_id_count] */
  const clora_token_logprob* prompt_top_logprobs; /* [prompt_id_count, prompt_top_logprobs] */
  double queue_seconds; /* if finished or failed: from the submission to the first step with the
                           request, or to its end without any */
} clora_event;

/* Takes the next event, in the order of submission within a step. Arrays and texts are valid until
 * the next call of clora_engine_poll() or the engine's release. Events that are not taken are kept.
 */
CLORA_API clora_status clora_engine_poll(clora_engine* engine, clora_event* event);

/* The first tokens of requests, and the adapters with which their keys and values are computed. */
typedef struct clora_prefix {
  size_t size;
  const int32_t* ids;
  size_t id_count;
  const clora_adapter_use* adapters; /* as in clora_request */
  size_t adapter_count;
} clora_prefix;

/* Saves the keys and values of a prefix to a file, so that they need not be computed again after a
 * restart: all full pages of 16 tokens that the cache holds, from the first token on, such as those
 * of a request that has ended. The file is replaced at once or not at all. *saved, which may be
 * NULL, becomes the number of tokens. CLORA_NOT_FOUND if not even the first page is in the cache.
 * Waits for the enqueued steps, whose events come with the next step. */
CLORA_API clora_status clora_engine_save_prefix(clora_engine* engine, const char* path,
                                                const clora_prefix* prefix, size_t* saved);
/* Loads such a file, so that requests that begin with its tokens and have these adapters find them
 * in the cache, until the pages are needed for something else. *loaded, which may be NULL, becomes
 * the number of tokens. The file is refused if it was saved with another model, adapter or
 * kv_cache_type, or is damaged; requests go on as before. Waits. */
CLORA_API clora_status clora_engine_load_prefix(clora_engine* engine, const char* path,
                                                const clora_adapter_use* adapters,
                                                size_t adapter_count, size_t* loaded);

typedef struct clora_engine_statistics {
  size_t size;
  int64_t running; /* requests */
  int64_t waiting;
  int64_t cache_pages;    /* of 16 positions */
  int64_t used_pages;     /* by running requests */
  int64_t cached_pages;   /* not used, but kept for requests with the same first tokens */
  uint64_t prompt_tokens; /* of requests that ended */
  uint64_t cached_prompt_tokens;
  uint64_t generated_tokens;
  uint64_t draft_tokens; /* that were verified */
  uint64_t accepted_draft_tokens;
  uint64_t preemptions; /* requests that gave up their pages and were computed again */
  uint64_t steps;
  uint64_t memory_bytes; /* in use on the device: weights, adapters, the cache and steps */
} clora_engine_statistics;

/* After the last step. From any thread, but not while the engine is released. */
CLORA_API clora_status clora_engine_get_statistics(const clora_engine* engine,
                                                   clora_engine_statistics* statistics);

/* ---- Training step by step ------------------------------------------------------------------- */

typedef struct clora_trainer_options {
  size_t size;
  double beta1;   /* 0: 0.9 */
  double beta2;   /* 0: 0.999, of lion 0.99 */
  double epsilon; /* 0: 1e-8 */
  double weight_decay;
  double clip_norm; /* 0: off */
  uint32_t dropout_seed;
  /* Weight of the loss that balances the load of experts, for models with experts, as transformers'
   * router_aux_loss_coef. 0: off, whatever the model's config.json has. */
  double router_aux_loss_coef;
  /* "adamw", "adamw-8bit", "lion", "sgd" or "muon", with 8, 2, 4, 4 and 4 bytes of state for each
   * parameter; NULL: "adamw". Settings that an optimizer does not have must be 0. */
  const char* optimizer;
  /* What a step keeps for its backward, against memory; the same results but for saved_activations.
   * Gradient checkpointing: of every n-th block only the input is kept; 0: off. */
  int64_t blocks_per_checkpoint;
  /* Rows at a time of feed-forward layers, a multiple of 256; 0: all. */
  int64_t feed_forward_rows;
  /* "computed", or rounded: "bf16", "f16", "q8"; NULL: "computed". */
  const char* saved_activations;
  double momentum;          /* 0: of sgd 0.9, of muon 0.95 */
  int nesterov;             /* of sgd */
  double loraplus_lr_ratio; /* learning rate of the matrices B over that of A (LoRA+); 0: 1 */
  /* Of torch's CrossEntropyLoss, from 0 to below 1. */
  double label_smoothing;
  /* Factor of the square of log(sum of exp(logits)), which is added to the loss (PaLM); 0: off. */
  double z_loss;
  /* NEFTune: noise on the embeddings, uniform up to neftune_alpha / sqrt(tokens of the document *
   * hidden size); 0: off. */
  double neftune_alpha;
} clora_trainer_options;

/* Trains the adapter's parameters. options may be NULL. A session with the adapter
 * attached uses its current values. */
CLORA_API clora_status clora_trainer_create(clora_adapter* adapter,
                                            const clora_trainer_options* options,
                                            clora_trainer** trainer);
CLORA_API void clora_trainer_release(clora_trainer* trainer);

/* Documents, concatenated. */
typedef struct clora_train_batch {
  size_t size;
  const int32_t* ids;
  const uint8_t* is_target; /* [id_count]: 1: predicting it enters the loss; NULL: all 1 */
  size_t id_count;
  const size_t* lengths; /* tokens of each document; NULL: one document */
  size_t document_count; /* number of lengths; ignored if lengths is NULL */
  /* [document_count], or [1] if lengths is NULL: factors of the losses of each document's tokens,
   * finite and above 0. The loss is divided by the sum of the labelled tokens' weights. NULL: all
   * 1. */
  const float* weights;
} clora_train_batch;

typedef struct clora_step_result {
  size_t size;
  int64_t step;        /* from 1 */
  double loss;         /* mean over the labelled tokens, before the update, +
                          router_aux_loss_coef * balance_loss */
  int64_t tokens;      /* labelled */
  double grad_norm;    /* before clipping */
  double balance_loss; /* of the load of experts, without its weight; 0 if that is 0 */
  double nll;          /* the mean without label smoothing and z-loss; 0 if there is neither */
} clora_step_result;

/* Performs one optimiser step. If result is NULL, the step is enqueued and not waited for; the next
 * step then returns its error. If a loss is not finite, the error is CLORA_DIVERGED, or
 * CLORA_INVALID_FILE if a weight of the model is not finite, which the message names; the adapter
 * has been updated by then. */
CLORA_API clora_status clora_trainer_step(clora_trainer* trainer, const clora_train_batch* batch,
                                          double learning_rate, clora_step_result* result);
/* The same over several micro-batches, one after the other, in the memory of the largest (gradient
 * accumulation): loss and gradient are means over the labelled tokens of all of them, as if they
 * were one batch. Each has its own dropout mask. */
CLORA_API clora_status clora_trainer_step_accumulated(clora_trainer* trainer,
                                                      const clora_train_batch* const* batches,
                                                      size_t batch_count, double learning_rate,
                                                      clora_step_result* result);
/* Waits for the steps that were enqueued with result NULL. *result, which may be NULL, becomes that
 * of the last one; its step is 0 if none was in flight. Errors: those of clora_trainer_step(). */
CLORA_API clora_status clora_trainer_finish(clora_trainer* trainer, clora_step_result* result);

/* Saves the adapter and the state of the optimizer to a folder, which can be loaded as an adapter,
 * too. Each file is replaced at once or not at all. Waits. CLORA_DIVERGED, before anything is
 * written, if a value is not finite. */
CLORA_API clora_status clora_trainer_save_checkpoint(clora_trainer* trainer, const char* folder);
/* Restores the adapter and the state of the optimizer from such a folder: the next steps are, bit
 * for bit, those that would have followed the save, also after a step that failed. *step, which may
 * be NULL, becomes the number of completed steps; the data from there on and the learning rates are
 * the program's. The checkpoint must be of a trainer with the same model, adapter and options;
 * CLORA_INVALID_ARGUMENT names what differs. CLORA_INVALID_FILE for a damaged file. Waits. */
CLORA_API clora_status clora_trainer_load_checkpoint(clora_trainer* trainer, const char* folder,
                                                     int64_t* step);

typedef struct clora_schedule {
  size_t size;
  const char* kind;      /* "constant", "linear", "cosine", "wsd" (warm-up, stable, decay); NULL:
                            "constant" */
  double learning_rate;  /* the peak; 0: 2e-4 */
  int64_t warmup_steps;  /* in which the rate rises from 0 */
  double warmup_share;   /* instead, as a share of the run's steps, rounded up */
  double decay_share;    /* of the run's steps, of "wsd"; 0: 0.2 */
  double min_rate_share; /* share of the peak towards which the rate decays */
} clora_schedule;

/* *rate = the learning rate of a step, from 1, of a run of `steps` steps; needs no device. schedule
 * may be NULL. From any thread. */
CLORA_API clora_status clora_learning_rate(const clora_schedule* schedule, int64_t step,
                                           int64_t steps, double* rate);

/* ---- Records and evaluation ------------------------------------------------------------------ */
/* Records need no context and no model. They may be used by several threads at once while none adds
 * to them. */

/* Creates an object without records, for clora_records_add(). */
CLORA_API clora_status clora_records_create(clora_records** records);

typedef struct clora_records_options {
  size_t size;
  int64_t max_seq_length;      /* in tokens; longer records are truncated; 0: 512 */
  int64_t limit;               /* at most as many records of each file; 0: all */
  int32_t no_eos;              /* 1: the eos token is not appended to texts and completions */
  int32_t apply_chat_template; /* 1: a prompt and its completion become turns of a conversation */
  int32_t parse_special;       /* 1: the text of a control token becomes that token */
  const double* weights;       /* [path_count]: visits per record and epoch; NULL: all 1 */
  const char* loss;            /* as in clora_training_options: what records are read for */
} clora_records_options;

/* Reads data files as `clora train` does (docs/training.md): JSON lines or a JSON array, also
 * compressed, of texts, prompts with completions, or conversations. paths: files. options may be
 * NULL. CLORA_INVALID_DATA, with file and line, for a record that cannot be used. */
CLORA_API clora_status clora_records_load(const clora_tokenizer* tokenizer,
                                          const char* const* paths, size_t path_count,
                                          const clora_records_options* options,
                                          clora_records** records);
CLORA_API void clora_records_release(clora_records* records);
/* Appends each document of the batch as a record, to records of clora_records_create(). They are
 * copied. */
CLORA_API clora_status clora_records_add(clora_records* records, const clora_train_batch* batch);

typedef struct clora_records_info {
  size_t size;
  int64_t records;
  int64_t tokens;
  int64_t labelled_tokens;
  int64_t truncated; /* records that were truncated */
  int64_t skipped;   /* without a labelled token; not among the records */
} clora_records_info;

CLORA_API clora_status clora_records_get_info(const clora_records* records,
                                              clora_records_info* info);

typedef struct clora_evaluation {
  size_t size;
  int64_t step;   /* of a training run; else 0 */
  double loss;    /* mean over the labelled tokens, in nats; exp(loss) is the perplexity */
  int64_t tokens; /* labelled; of a preference loss, pairs or answers */
  double seconds;
  double reward_margin;   /* of a preference loss with pairs, else 0: mean of chosen - rejected */
  double reward_accuracy; /* and the share of the pairs with a positive one */
} clora_evaluation;

/* Computes the mean loss of the records under the session's model and adapter, without dropout.
 * Waits. CLORA_INVALID_DATA if no token is labelled, or if a matrix of the adapter is not finite;
 * CLORA_INVALID_FILE for a weight of the model that is not finite; else CLORA_DIVERGED, naming the
 * first record with such a loss. */
CLORA_API clora_status clora_evaluate(clora_session* session, const clora_records* records,
                                      clora_evaluation* evaluation);

/* ---- A complete training run ----------------------------------------------------------------- */

typedef struct clora_training_options {
  size_t size;
  const clora_records* train;           /* at least one record, each with a labelled token */
  const clora_records* valid;           /* for evaluations; NULL: none */
  const char* adapter_out;              /* folder for the adapter; checkpoints are in it */
  const char* resume_from;              /* folder of a checkpoint of this run; NULL: none */
  const clora_trainer_options* trainer; /* its dropout_seed must be 0: that is `seed`; NULL: all
                                           defaults */
  const clora_schedule* schedule;       /* NULL: all defaults */
  int64_t batch_size;                   /* records of a micro-batch; 0: 4 */
  int64_t grad_accumulation;            /* micro-batches of a step; 0: 1 */
  int64_t steps;                        /* 0: determined by epochs */
  double epochs;                        /* 0: 1 */
  int32_t no_shuffle;                   /* 1: records in their order */
  uint64_t seed;                        /* of the order and of dropout */
  int64_t eval_every;                   /* steps; 0: only at the end */
  /* Evaluations without an improvement of the loss by more than min_improvement, after which the
   * run ends with the adapter of the lowest one; 0: off. */
  int64_t patience;
  double min_improvement;
  int64_t save_every;   /* steps between checkpoints; 0: none but that of a stopped run */
  double average_decay; /* of the average of the adapter over the steps, which is saved in
                           adapter_out/ema; 0: none */
  void* user;
  /* The structs have this library's sizes. NULL: no callback. A return value of on_step other than
   * 0 stops the run after that step, or a few later, with a checkpoint. */
  int32_t (*on_step)(void* user, const clora_step_result* step, double tokens_per_second);
  void (*on_eval)(void* user, const clora_evaluation* evaluation);
  void (*on_save)(void* user, int64_t step, const char* folder);
  /* "sft": the next token; "dpo", "ipo", "orpo": of pairs of a chosen and a rejected answer; "kto":
   * of answers with a label. The records must be read for the same loss. The reference of a
   * preference loss is the model with the adapter as it is, also in a run that resumes: it must
   * then be the one that the run began with. NULL: "sft". */
  const char* loss;
  double beta;                       /* of a preference loss; 0: 0.1 */
  double preference_label_smoothing; /* of "dpo", in [0, 0.5) */
  double desirable_weight;           /* of "kto": of answers with the label true; 0: 1 */
  double undesirable_weight;         /* the same for false */
} clora_training_options;

typedef struct clora_training_summary {
  size_t size;
  int64_t steps;
  double seconds;
  double final_loss;   /* of the last step; 0 if there was none */
  int32_t stopped;     /* 1: by on_step */
  int32_t ended_early; /* 1: by patience */
  int64_t best_step;   /* with patience: of the adapter with the lowest loss, which was saved */
  double best_loss;
} clora_training_summary;

/* Trains the adapter as `clora train` does: order of the records, schedule, evaluations,
 * checkpoints. Saves it to adapter_out at the end, and when stopped; nothing is written before. A
 * run that resumes from a checkpoint gives the same bits as one that was not interrupted, and is
 * refused with CLORA_INVALID_ARGUMENT if its records, model, adapter or settings are others.
 * summary may be NULL. Waits. */
CLORA_API clora_status clora_train(clora_adapter* adapter, const clora_training_options* options,
                                   clora_training_summary* summary);

/* ---- clora_NAME_init(): a struct with its size set and everything else zero ------------------ */

#define CLORA_DEFINE_INIT(name)          \
  static inline name name##_init(void) { \
    name value;                          \
    memset(&value, 0, sizeof value);     \
    value.size = sizeof value;           \
    return value;                        \
  }
CLORA_DEFINE_INIT(clora_device_info)
CLORA_DEFINE_INIT(clora_context_options)
CLORA_DEFINE_INIT(clora_statistics)
CLORA_DEFINE_INIT(clora_model_options)
CLORA_DEFINE_INIT(clora_model_info)
CLORA_DEFINE_INIT(clora_tokenizer_info)
CLORA_DEFINE_INIT(clora_adapter_options)
CLORA_DEFINE_INIT(clora_adapter_info)
CLORA_DEFINE_INIT(clora_adapter_tensor)
CLORA_DEFINE_INIT(clora_fuse_options)
CLORA_DEFINE_INIT(clora_session_options)
CLORA_DEFINE_INIT(clora_generation_options)
CLORA_DEFINE_INIT(clora_generation)
CLORA_DEFINE_INIT(clora_forward_target)
CLORA_DEFINE_INIT(clora_choices)
CLORA_DEFINE_INIT(clora_texts)
CLORA_DEFINE_INIT(clora_engine_options)
CLORA_DEFINE_INIT(clora_request)
CLORA_DEFINE_INIT(clora_event)
CLORA_DEFINE_INIT(clora_engine_statistics)
CLORA_DEFINE_INIT(clora_prefix)
CLORA_DEFINE_INIT(clora_trainer_options)
CLORA_DEFINE_INIT(clora_train_batch)
CLORA_DEFINE_INIT(clora_step_result)
CLORA_DEFINE_INIT(clora_schedule)
CLORA_DEFINE_INIT(clora_records_options)
CLORA_DEFINE_INIT(clora_records_info)
CLORA_DEFINE_INIT(clora_evaluation)
CLORA_DEFINE_INIT(clora_training_options)
CLORA_DEFINE_INIT(clora_training_summary)
#undef CLORA_DEFINE_INIT

#ifdef __cplusplus
}
#endif

#endif /* CLORA_H */
