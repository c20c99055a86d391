//! The declarations of clora.h that `clora.rs` uses. Structs have the fields of clora.h in its order;
//! a field that is 0 has its default.

use std::os::raw::{c_char, c_void};

macro_rules! handles {
    ($($name:ident),*) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}
handles!(Context, Model, Adapter, Session, Tokenizer, Decoder);

#[repr(C)]
pub struct GenerationOptions {
    pub size: usize,
    pub max_tokens: i64,
    pub temperature: f64,
    pub top_k: i64,
    pub top_p: f64,
    pub min_p: f64,
    pub repetition_penalty: f64,
    pub seed: u32,
    pub ignore_end: i32,
    pub end_ids: *const i32,
    pub end_id_count: usize,
    pub user: *mut c_void,
    pub on_token: Option<extern "C" fn(user: *mut c_void, id: i32) -> i32>,
    pub on_prompt: Option<extern "C" fn(user: *mut c_void, done: i64) -> i32>,
}

#[repr(C)]
pub struct Generation {
    pub size: usize,
    pub finish_reason: i32,
    pub token_count: u64,
    pub prompt_seconds: f64,
    pub decode_seconds: f64,
}

extern "C" {
    pub fn clora_status_text(status: i32) -> *const c_char;
    pub fn clora_last_error() -> *const c_char;

    pub fn clora_context_create(options: *const c_void, context: *mut *mut Context) -> i32;
    pub fn clora_context_release(context: *mut Context);
    pub fn clora_model_load(
        context: *mut Context,
        path: *const c_char,
        options: *const c_void,
        model: *mut *mut Model,
    ) -> i32;
    pub fn clora_model_release(model: *mut Model);
    pub fn clora_adapter_load(
        model: *mut Model,
        folder: *const c_char,
        adapter: *mut *mut Adapter,
    ) -> i32;
    pub fn clora_adapter_release(adapter: *mut Adapter);

    pub fn clora_tokenizer_load(path: *const c_char, tokenizer: *mut *mut Tokenizer) -> i32;
    pub fn clora_tokenizer_release(tokenizer: *mut Tokenizer);
    pub fn clora_tokenizer_encode(
        tokenizer: *const Tokenizer,
        text: *const c_char,
        text_bytes: usize,
        parse_special: i32,
        ids: *mut i32,
        capacity: usize,
        count: *mut usize,
    ) -> i32;
    pub fn clora_tokenizer_end_ids(
        tokenizer: *const Tokenizer,
        ids: *mut i32,
        capacity: usize,
        count: *mut usize,
    ) -> i32;
    pub fn clora_decoder_create(
        tokenizer: *const Tokenizer,
        keep_special: i32,
        decoder: *mut *mut Decoder,
    ) -> i32;
    pub fn clora_decoder_push(decoder: *mut Decoder, id: i32, text: *mut *const c_char) -> i32;
    pub fn clora_decoder_finish(decoder: *mut Decoder, text: *mut *const c_char) -> i32;
    pub fn clora_decoder_release(decoder: *mut Decoder);

    pub fn clora_session_create(
        model: *mut Model,
        options: *const c_void,
        session: *mut *mut Session,
    ) -> i32;
    pub fn clora_session_release(session: *mut Session);
    pub fn clora_session_attach(session: *mut Session, adapter: *mut Adapter) -> i32;
    pub fn clora_generate(
        session: *mut Session,
        prompt: *const i32,
        prompt_count: usize,
        options: *const GenerationOptions,
        ids: *mut i32,
        capacity: usize,
        generation: *mut Generation,
    ) -> i32;
}
