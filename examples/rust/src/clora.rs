//! A safe wrapper of what this example needs of clora.h. A `Model` and a `Session` are used by one
//! thread at a time, which the compiler ensures: their handles are raw pointers, so neither is
//! `Send` or `Sync`.

use crate::ffi;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};

/// A failed call: the status of clora.h, and a sentence about what was required.
#[derive(Debug)]
pub struct Error {
    pub status: i32,
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let status = unsafe { text(ffi::clora_status_text(self.status)) };
        write!(f, "{}: {}", status, self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// REQUIRES: a string of the library.
unsafe fn text(pointer: *const c_char) -> String {
    CStr::from_ptr(pointer).to_string_lossy().into_owned()
}

/// The message is that of this thread's last failed call, so it is read at once.
fn check(status: i32) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(Error {
            status,
            message: unsafe { text(ffi::clora_last_error()) },
        }),
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error {
        status: 1,
        message: format!("{text:?} contains '\\0'"),
    })
}

/// A handle that is released when it is dropped. Handles may be released in any order.
struct Owned<T> {
    pointer: *mut T,
    release: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    fn new(
        release: unsafe extern "C" fn(*mut T),
        create: impl FnOnce(*mut *mut T) -> i32,
    ) -> Result<Self> {
        let mut pointer = null_mut();
        check(create(&mut pointer))?;
        Ok(Owned { pointer, release })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        unsafe { (self.release)(self.pointer) }
    }
}

/// A model on the default device, with its tokenizer.
pub struct Model {
    model: Owned<ffi::Model>,
    tokenizer: Owned<ffi::Tokenizer>,
}

impl Model {
    /// `path`: a .gguf file, or a folder with config.json and safetensors.
    pub fn load(path: &str) -> Result<Model> {
        let path = c_string(path)?;
        unsafe {
            let context = Owned::new(ffi::clora_context_release, |out| {
                ffi::clora_context_create(null(), out)
            })?; // the model keeps it alive
            let model = Owned::new(ffi::clora_model_release, |out| {
                ffi::clora_model_load(context.pointer, path.as_ptr(), null(), out)
            })?;
            let tokenizer = Owned::new(ffi::clora_tokenizer_release, |out| {
                ffi::clora_tokenizer_load(path.as_ptr(), out)
            })?;
            Ok(Model { model, tokenizer })
        }
    }

    pub fn session(&self) -> Result<Session<'_>> {
        let session = Owned::new(ffi::clora_session_release, |out| unsafe {
            ffi::clora_session_create(self.model.pointer, null(), out)
        })?;
        Ok(Session {
            session,
            model: self,
        })
    }

    fn encode(&self, text: &str) -> Result<Vec<i32>> {
        let encode = |ids: *mut i32, capacity: usize, count: &mut usize| {
            check(unsafe {
                let bytes = text.as_ptr() as *const c_char;
                ffi::clora_tokenizer_encode(
                    self.tokenizer.pointer,
                    bytes,
                    text.len(),
                    0,
                    ids,
                    capacity,
                    count,
                )
            })
        };
        let mut count = 0;
        encode(null_mut(), 0, &mut count)?; // without space, it only counts
        let mut ids = vec![0; count];
        encode(ids.as_mut_ptr(), count, &mut count)?;
        Ok(ids)
    }

    fn end_ids(&self) -> Result<Vec<i32>> {
        let tokenizer = self.tokenizer.pointer;
        let mut count = 0;
        check(unsafe { ffi::clora_tokenizer_end_ids(tokenizer, null_mut(), 0, &mut count) })?;
        let mut ids = vec![0; count];
        check(unsafe {
            ffi::clora_tokenizer_end_ids(tokenizer, ids.as_mut_ptr(), count, &mut count)
        })?;
        Ok(ids)
    }
}

/// One stream of text from a model.
pub struct Session<'a> {
    session: Owned<ffi::Session>,
    model: &'a Model,
}

/// What the callback of a generation gets: the decoder, and the caller's function.
struct Listener<'a> {
    decoder: *mut ffi::Decoder,
    on_text: &'a mut dyn FnMut(&str) -> bool,
}

/// A panic must not cross the library: one in `on_text` ends the program here.
extern "C" fn on_token(user: *mut c_void, id: i32) -> i32 {
    let listener = unsafe { &mut *(user as *mut Listener) };
    let mut piece = null();
    if unsafe { ffi::clora_decoder_push(listener.decoder, id, &mut piece) } != 0 {
        return 1;
    }
    let piece = unsafe { text(piece) };
    i32::from(!(listener.on_text)(&piece))
}

impl Session<'_> {
    /// Uses the adapter in this folder from now on.
    pub fn attach(&mut self, folder: &str) -> Result<()> {
        let folder = c_string(folder)?;
        let adapter = Owned::new(ffi::clora_adapter_release, |out| unsafe {
            ffi::clora_adapter_load(self.model.model.pointer, folder.as_ptr(), out)
        })?; // the session keeps it alive
        check(unsafe { ffi::clora_session_attach(self.session.pointer, adapter.pointer) })
    }

    /// Calls `on_text` with the reply as it arrives, until it returns false or the reply ends.
    /// Returns the number of generated tokens.
    pub fn generate(
        &mut self,
        prompt: &str,
        max_tokens: i64,
        on_text: &mut dyn FnMut(&str) -> bool,
    ) -> Result<u64> {
        let prompt = self.model.encode(prompt)?;
        let end_ids = self.model.end_ids()?;
        let decoder = Owned::new(ffi::clora_decoder_release, |out| unsafe {
            ffi::clora_decoder_create(self.model.tokenizer.pointer, 0, out)
        })?;
        let mut listener = Listener {
            decoder: decoder.pointer,
            on_text,
        };
        let mut generation: ffi::Generation = unsafe { std::mem::zeroed() };
        generation.size = std::mem::size_of_val(&generation);
        let mut options: ffi::GenerationOptions = unsafe { std::mem::zeroed() };
        options.size = std::mem::size_of_val(&options);
        options.max_tokens = max_tokens;
        options.end_ids = end_ids.as_ptr();
        options.end_id_count = end_ids.len();
        options.user = &mut listener as *mut Listener as *mut c_void;
        options.on_token = Some(on_token);
        check(unsafe {
            ffi::clora_generate(
                self.session.pointer,
                prompt.as_ptr(),
                prompt.len(),
                &options,
                null_mut(),
                0,
                &mut generation,
            )
        })?;
        let mut rest = null(); // bytes of an incomplete character
        check(unsafe { ffi::clora_decoder_finish(decoder.pointer, &mut rest) })?;
        (listener.on_text)(&unsafe { text(rest) });
        Ok(generation.token_count)
    }
}
