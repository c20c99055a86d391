"""The calls of libclora.so that these tests need, with NumPy arrays."""
import ctypes

import numpy


class Clora:
    def __init__(self, library):
        self.lib = ctypes.CDLL(str(library))
        self.lib.clora_last_error.restype = ctypes.c_char_p
        self.context = self.made("clora_context_create", None)

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.clora_last_error().decode())

    def made(self, function, *arguments):
        handle = ctypes.c_void_p()
        self.check(getattr(self.lib, function)(*arguments, ctypes.byref(handle)))
        return handle

    def model(self, path):
        return Model(self, path)


class Model:
    """A model, with or without an adapter of any format."""

    def __init__(self, clora, path):
        self.clora = clora
        self.model = clora.made("clora_model_load", clora.context, str(path).encode(), None)
        self.sessions = {}

    def session(self, adapter=None):
        """A session with the adapter, the same one for each of its paths."""
        if adapter not in self.sessions:
            self.sessions[adapter] = self.new_session(adapter)
        return self.sessions[adapter]

    def new_session(self, adapter):
        session = self.clora.made("clora_session_create", self.model, None)
        if adapter is not None:
            loaded = self.clora.made("clora_adapter_load", self.model, str(adapter).encode())
            self.clora.check(self.clora.lib.clora_session_attach(session, loaded))
        return session

    def logits(self, ids, vocabulary, adapter=None):
        """[T, V], in f32."""
        session = self.session(adapter)
        array = (ctypes.c_int32 * len(ids))(*ids)
        out = numpy.empty((len(ids), vocabulary), numpy.float32)
        self.clora.check(self.clora.lib.clora_forward(
            session, array, ctypes.c_size_t(len(ids)), 0,
            out.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ctypes.c_size_t(out.size)))
        return out

    def greedy(self, prompts, count, adapter=None):
        """The `count` likeliest tokens after each prompt, or fewer if the model ends the reply."""
        session = self.session(adapter)
        replies = []
        for prompt in prompts:
            array = (ctypes.c_int32 * len(prompt))(*prompt)
            out = (ctypes.c_int32 * count)(*[-1] * count)
            self.clora.check(self.clora.lib.clora_generate(
                session, array, ctypes.c_size_t(len(prompt)), None, out, ctypes.c_size_t(count),
                None))
            replies.append([id for id in out if id >= 0])
        return replies
