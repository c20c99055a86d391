// Package clora wraps what this example needs of clora.h. A Model and a Session are used by one
// goroutine at a time.
package clora

/*
#cgo pkg-config: clora
#include <clora.h>
#include <stdlib.h>

extern int32_t cloraOnToken(void* user, int32_t id);

// The options point to memory of Go, which may only be an argument of a call.
static inline clora_status generate(clora_session* session, const int32_t* prompt, size_t count,
                                    int64_t max_tokens, const int32_t* end_ids,
                                    size_t end_id_count, uintptr_t user,
                                    clora_generation* generation) {
  clora_generation_options options = clora_generation_options_init();
  options.max_tokens = max_tokens;
  options.end_ids = end_ids;
  options.end_id_count = end_id_count;
  options.user = (void*)user;
  options.on_token = cloraOnToken;
  *generation = clora_generation_init();
  return clora_generate(session, prompt, count, &options, NULL, 0, generation);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// An Error is a failed call: the status of clora.h, and a sentence about what was required.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", C.GoString(C.clora_status_text(C.clora_status(e.Status))), e.Message)
}

// call runs f and returns its error. The library keeps the message per thread, and a goroutine may
// change its thread between two calls, so it holds on to the one it has.
func call(f func() C.clora_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := f()
	if status == C.CLORA_OK {
		return nil
	}
	return &Error{Status: int(status), Message: C.GoString(C.clora_last_error())}
}

func withString(text string, f func(*C.char) C.clora_status) error {
	chars := C.CString(text)
	defer C.free(unsafe.Pointer(chars))
	return call(func() C.clora_status { return f(chars) })
}

// A Model is on the default device, with its tokenizer.
type Model struct {
	model     *C.clora_model
	tokenizer *C.clora_tokenizer
}

// Load reads a .gguf file, or a folder with config.json and safetensors.
func Load(path string) (*Model, error) {
	var context *C.clora_context
	err := call(func() C.clora_status { return C.clora_context_create(nil, &context) })
	if err != nil {
		return nil, err
	}
	defer C.clora_context_release(context) // the model keeps it alive
	m := &Model{}
	err = withString(path, func(path *C.char) C.clora_status {
		if status := C.clora_model_load(context, path, nil, &m.model); status != C.CLORA_OK {
			return status
		}
		return C.clora_tokenizer_load(path, &m.tokenizer)
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close releases the model once no session uses it.
func (m *Model) Close() {
	C.clora_model_release(m.model)
	C.clora_tokenizer_release(m.tokenizer)
	*m = Model{}
}

// ids calls f for the number of ids, and again with the space for them.
func ids(f func(ids *C.int32_t, capacity C.size_t, count *C.size_t) C.clora_status) ([]C.int32_t, error) {
	var count C.size_t
	if err := call(func() C.clora_status { return f(nil, 0, &count) }); err != nil || count == 0 {
		return nil, err
	}
	all := make([]C.int32_t, count)
	err := call(func() C.clora_status { return f(&all[0], count, &count) })
	return all, err
}

func (m *Model) encode(text string) (all []C.int32_t, err error) {
	chars := C.CString(text)
	defer C.free(unsafe.Pointer(chars))
	return ids(func(ids *C.int32_t, capacity C.size_t, count *C.size_t) C.clora_status {
		return C.clora_tokenizer_encode(m.tokenizer, chars, C.size_t(len(text)), 0, ids, capacity, count)
	})
}

func (m *Model) endIDs() ([]C.int32_t, error) {
	return ids(func(ids *C.int32_t, capacity C.size_t, count *C.size_t) C.clora_status {
		return C.clora_tokenizer_end_ids(m.tokenizer, ids, capacity, count)
	})
}

// A Session is one stream of text from a model.
type Session struct {
	session *C.clora_session
	model   *Model
}

// NewSession has no adapter.
func (m *Model) NewSession() (*Session, error) {
	s := &Session{model: m}
	err := call(func() C.clora_status { return C.clora_session_create(m.model, nil, &s.session) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close releases the session.
func (s *Session) Close() {
	C.clora_session_release(s.session)
	*s = Session{}
}

// Attach uses the adapter in this folder from now on.
func (s *Session) Attach(folder string) error {
	var adapter *C.clora_adapter
	err := withString(folder, func(folder *C.char) C.clora_status {
		return C.clora_adapter_load(s.model.model, folder, &adapter)
	})
	if err != nil {
		return err
	}
	defer C.clora_adapter_release(adapter) // the session keeps it alive
	return call(func() C.clora_status { return C.clora_session_attach(s.session, adapter) })
}

// A listener is what the callback of a generation gets.
type listener struct {
	decoder *C.clora_decoder
	onText  func(string) bool
}

//export cloraOnToken
func cloraOnToken(user unsafe.Pointer, id C.int32_t) C.int32_t {
	l := cgo.Handle(uintptr(user)).Value().(*listener)
	var text *C.char
	if C.clora_decoder_push(l.decoder, id, &text) != C.CLORA_OK || !l.onText(C.GoString(text)) {
		return 1 // ends the reply
	}
	return 0
}

// Generate calls onText with the reply as it arrives, until it returns false or the reply ends, and
// returns the number of generated tokens.
func (s *Session) Generate(prompt string, maxTokens int, onText func(string) bool) (int, error) {
	promptIDs, err := s.model.encode(prompt)
	if err != nil {
		return 0, err
	}
	if len(promptIDs) == 0 {
		return 0, &Error{Status: C.CLORA_INVALID_ARGUMENT, Message: "the prompt is empty"}
	}
	endIDs, err := s.model.endIDs()
	if err != nil {
		return 0, err
	}
	var firstEnd *C.int32_t // nil: the model's
	if len(endIDs) > 0 {
		firstEnd = &endIDs[0]
	}
	var decoder *C.clora_decoder
	err = call(func() C.clora_status { return C.clora_decoder_create(s.model.tokenizer, 0, &decoder) })
	if err != nil {
		return 0, err
	}
	defer C.clora_decoder_release(decoder)
	handle := cgo.NewHandle(&listener{decoder, onText})
	defer handle.Delete()
	var generation C.clora_generation
	err = call(func() C.clora_status {
		return C.generate(s.session, &promptIDs[0], C.size_t(len(promptIDs)), C.int64_t(maxTokens),
			firstEnd, C.size_t(len(endIDs)), C.uintptr_t(handle), &generation)
	})
	if err != nil {
		return 0, err
	}
	var rest *C.char // bytes of an incomplete character
	err = call(func() C.clora_status { return C.clora_decoder_finish(decoder, &rest) })
	if err == nil {
		onText(C.GoString(rest))
	}
	return int(generation.token_count), err
}
