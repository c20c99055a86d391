# The headers that are installed and that other projects may include, as clora/PATH; all others are
# private to the tree. A public header includes public ones only (tools/check_layers). They are
# linked into PROJECT_BINARY_DIR/include, so that programs include them alike in the tree, in a
# project that adds clora as a subdirectory, and from an installation.
set(CLORA_PUBLIC_HEADERS
  runtime/context.hpp
  runtime/error.hpp
  runtime/hooks.hpp
  runtime/commands/batch.hpp
  runtime/commands/capture_request.hpp
  runtime/commands/fence.hpp
  runtime/device/capabilities.hpp
  runtime/device/device.hpp
  runtime/device/device_health.hpp
  runtime/device/driver_cache.hpp
  runtime/device/driver_diagnosis.hpp
  runtime/device/driver_threads.hpp
  runtime/device/opencl_handles.hpp
  runtime/device/variant.hpp
  runtime/files/digest.hpp
  runtime/files/file.hpp
  runtime/files/json.hpp
  runtime/memory/buffer_pool.hpp
  runtime/memory/dtype.hpp
  runtime/memory/memory_plan.hpp
  runtime/memory/shape.hpp
  runtime/memory/tensor.hpp
  runtime/memory/transfer.hpp
  runtime/profiling/profiler.hpp
  runtime/profiling/roofline.hpp
  runtime/profiling/trace.hpp
  runtime/programs/program_cache.hpp
  runtime/programs/program_store.hpp
  ops/adamw.hpp
  ops/sample.hpp
  ops/attention/attention.hpp
  ops/attention/attention_window.hpp
  ops/decode/decode_layers.hpp
  ops/experts/combine.hpp
  ops/experts/grouped_gemm.hpp
  ops/experts/load_balance.hpp
  ops/experts/router.hpp
  ops/gemm/bf16_rows.hpp
  ops/gemm/epilogue.hpp
  ops/gemm/gemm.hpp
  ops/lora_linear/lora_gradient.hpp
  ops/lora_linear/lora_linear.hpp
  ops/loss/contrastive.hpp
  ops/loss/cross_entropy.hpp
  ops/quant/quant.hpp
  ops/quant/weight.hpp
  ops/recurrent/delta_rule.hpp
  ops/recurrent/short_conv.hpp
  ops/roofline_peaks/roofline_peaks.hpp
  ops/rowwise/add.hpp
  ops/rowwise/cast.hpp
  ops/rowwise/columns.hpp
  ops/rowwise/dropout.hpp
  ops/rowwise/embedding.hpp
  ops/rowwise/layer_norm.hpp
  ops/rowwise/rms_norm.hpp
  ops/rowwise/rope.hpp
  ops/rowwise/soft_cap.hpp
  ops/rowwise/softmax.hpp
  ops/rowwise/gelu.hpp
  ops/rowwise/segment_mean.hpp
  ops/rowwise/swiglu.hpp
  lora/adapter.hpp
  lora/merge.hpp
  lora/peft_files.hpp
  lora/safetensors.hpp
  model/data/data_order.hpp
  model/data/packing.hpp
  model/data/records.hpp
  model/embedding/embedder.hpp
  model/embedding/embedding_scores.hpp
  model/transformer/forward_pass.hpp
  model/transformer/language_model.hpp
  model/transformer/layer_weights.hpp
  model/transformer/recorded_rows.hpp
  model/weights/fuse.hpp
  model/files/gguf.hpp
  model/configuration/block_spec.hpp
  model/configuration/model_config.hpp
  model/weights/weights.hpp
  model/generation/generator.hpp
  model/generation/stop_filter.hpp
  model/text/chat_message.hpp
  model/text/chat_template.hpp
  model/text/tokenizer.hpp
  model/text/tokenizer_files.hpp
  model/text/tokenizer_spec.hpp
  model/training/checkpoint.hpp
  model/training/contrastive_loss.hpp
  model/training/evaluator.hpp
  model/training/recorded_step.hpp
  model/training/resumption.hpp
  model/training/run_fingerprint.hpp
  model/training/trainer.hpp
  model/training/training_config.hpp
  model/training/training_run.hpp
  serving/completion_request.hpp
  serving/http_connection.hpp
  serving/http_head.hpp
  serving/http_limits.hpp
  serving/http_server.hpp
  serving/reply_stream.hpp
  serving/request_error.hpp
)

set(CLORA_PUBLIC_INCLUDE ${PROJECT_BINARY_DIR}/include)
file(REMOVE_RECURSE ${CLORA_PUBLIC_INCLUDE})  # links of headers that are public no more
foreach(header IN LISTS CLORA_PUBLIC_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  file(MAKE_DIRECTORY ${CLORA_PUBLIC_INCLUDE}/clora/${folder})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${header} ${CLORA_PUBLIC_INCLUDE}/clora/${header} SYMBOLIC)
endforeach()
