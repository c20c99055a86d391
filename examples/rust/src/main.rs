//! generate MODEL PROMPT [ADAPTER_FOLDER]: generates text with clora's C interface.

mod clora;
mod ffi;

use std::io::Write;

fn generate(model: &str, prompt: &str, adapter: Option<&str>) -> clora::Result<()> {
    let model = clora::Model::load(model)?;
    let mut session = model.session()?;
    if let Some(folder) = adapter {
        session.attach(folder)?;
    }
    session.generate(prompt, 32, &mut |text| {
        print!("{text}");
        std::io::stdout().flush().is_ok() // without a reader, the reply ends
    })?;
    println!();
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() < 2 {
        eprintln!("usage: generate MODEL PROMPT [ADAPTER_FOLDER]");
        std::process::exit(2);
    }
    let adapter = arguments.get(2).map(String::as_str);
    if let Err(error) = generate(&arguments[0], &arguments[1], adapter) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
