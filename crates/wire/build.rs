//! Compiles `proto/` with protox, so that no protoc is needed.
//!
//! The encoded descriptor set is kept beside the generated code: reflection and the JSON form read
//! options and comments from it, which a trip through decoded descriptors would lose.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", root.display());

    let mut files = Vec::new();
    for package in ["sayso/v1", "sayso/internal/v1", "lf/a2a/v1"] {
        for entry in fs::read_dir(root.join(package))? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "proto")
            {
                files.push(path);
            }
        }
    }
    files.sort();

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(&files)?;
    let mut generated = compiler.file_descriptor_set();
    // Options are read from the descriptors alone.
    generated.file.retain(|file| file.package() != "google.api");
    fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .btree_map(".")
        .include_file("all.rs")
        .compile_fds_with_config(generated, config)?;
    Ok(())
}
