//! Links libclora.so where pkg-config finds it.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = Command::new("pkg-config")
        .args(["--libs", "clora"])
        .output()
        .expect("pkg-config is required");
    assert!(
        output.status.success(),
        "pkg-config does not find clora; set PKG_CONFIG_PATH: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={library}");
        }
    }
    // The library's own folder is usually one that is searched anyway, and -lclora then stands alone.
    println!("cargo:rustc-link-lib=clora");
}
