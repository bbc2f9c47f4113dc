//! Puts the built web app into the program. Where it has not been built, the program is the same without it: a plain
//! `cargo build` needs no Node.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let app = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../web/app");
    let dist = app.join("dist");
    // A folder that is not there would be looked for again at every build: its parent is watched until it is.
    let watched = [&dist, &app].into_iter().find(|folder| folder.is_dir());
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(watched) = watched {
        println!("cargo:rerun-if-changed={}", watched.display());
    }
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        collect(&dist, &mut files)?;
    }
    files.sort();
    let root = dist.canonicalize().unwrap_or_default();
    let mut table = String::from("&[\n");
    for file in files.iter().filter(|file| !is_compressed(file)) {
        let path = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let mut hasher = DefaultHasher::new();
        fs::read(file)?.hash(&mut hasher);
        let (brotli, gzip) = (beside(file, "br"), beside(file, "gz"));
        let bytes = |file: &Option<PathBuf>| match file {
            Some(file) => format!("Some(include_bytes!({:?}))", file.display().to_string()),
            None => "None".to_owned(),
        };
        let tag = format!("\"{:016x}\"", hasher.finish());
        writeln!(
            table,
            "Asset {{ path: {:?}, tag: {tag:?}, plain: include_bytes!({:?}), brotli: {}, gzip: {} }},",
            format!("/{path}"),
            file.display().to_string(),
            bytes(&brotli),
            bytes(&gzip)
        )
        .map_err(io::Error::other)?;
    }
    table.push(']');
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("web.rs"), table)
}

fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "br" || extension == "gz")
}

/// The same file, compressed, if it is there.
fn beside(file: &Path, extension: &str) -> Option<PathBuf> {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    Some(PathBuf::from(name)).filter(|file| file.is_file())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path.canonicalize()?) }
    }
    Ok(())
}
