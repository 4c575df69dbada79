//! The library, and C programs compiled against it: plain, with sanitizers, as C++.
//!
//! Everything is built once and into cargo's folder for such things. A program is given a minute and then
//! killed, so that a hang is a failure with a name.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take. valgrind is some fifty times slower than the machine.
const LIMIT: Duration = Duration::from_secs(240);

pub(crate) fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A folder for what tests make.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned()
}

/// Where libmillpond.so and libmillpond.a are.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args([
            "build",
            "--quiet",
            "--package",
            "millpond-ffi",
            "--message-format",
            "json-render-diagnostics",
        ]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let built =
            build.current_dir(package()).stderr(Stdio::inherit()).output().expect("cargo can be started");
        if !built.status.success() {
            return None;
        }
        let messages = String::from_utf8(built.stdout).expect("cargo writes text");
        let files = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut files =
            files.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
        let shared = files.find_map(|file| {
            file.as_str().filter(|file| file.ends_with("/libmillpond.so")).map(PathBuf::from)
        });
        shared.as_deref().and_then(Path::parent).map(Path::to_owned)
    });
    library.as_deref().expect("cargo builds the library and says where")
}

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Plain,
    /// Against libmillpond.a.
    Static,
    /// With the address and the undefined-behaviour sanitizer.
    Sanitized,
}

/// Compiles the text of a program.
pub(crate) fn compile_source(name: &str, text: &str, build: Build) -> PathBuf {
    let source = folder().join(format!("{name}-{}.c", std::process::id()));
    fs::write(&source, text).expect("it can be written");
    compile_file(name, &source, build)
}

/// Compiles `tests/c/NAME.c` into a program.
pub(crate) fn compile(name: &str, build: Build) -> PathBuf {
    compile_file(name, &package().join(format!("tests/c/{name}.c")), build)
}

fn compile_file(name: &str, source: &Path, build: Build) -> PathBuf {
    let out = folder().join(format!("{name}-{build:?}-{}", std::process::id()).to_lowercase());
    let mut compile = Command::new("cc");
    compile.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic"]);
    compile.arg("-I").arg(package().join("include"));
    compile.arg(source).arg("-o").arg(&out);
    match build {
        Build::Static => {
            compile.arg(library().join("libmillpond.a")).args(["-lm", "-ldl"]);
        }
        Build::Plain | Build::Sanitized => {
            compile.arg("-L").arg(library()).arg("-lmillpond");
            compile.arg(format!("-Wl,-rpath,{}", library().display()));
        }
    }
    if build == Build::Sanitized {
        compile.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    let output = compile.output().expect("there is a C compiler");
    assert!(output.status.success(), "{name}.c: {}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Compiles a header alone, as one language or the other.
pub(crate) fn compile_header(compiler: &str, standard: &str, header: &str) {
    let extension = if compiler == "cc" { "c" } else { "cc" };
    let source = folder().join(format!("only-{standard}-{header}-{}.{extension}", std::process::id()));
    fs::write(
        &source,
        format!("#include \"{header}\"\n#include \"{header}\"\nint main(void) {{ return 0; }}\n"),
    )
    .expect("it can be written");
    let mut compile = Command::new(compiler);
    compile.args([
        &format!("-std={standard}"),
        "-pedantic-errors",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
    ]);
    let output = compile.arg("-I").arg(package().join("include")).arg(&source).output();
    let output = output.expect("there is a compiler");
    assert!(output.status.success(), "{standard}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a command to its end and gives back what it wrote; whoever hangs is killed.
pub(crate) fn run(command: &mut Command) -> Output {
    let until = Instant::now() + LIMIT;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child: Child = loop {
        match command.spawn() {
            // Another test is just starting a process, which has the fresh program still open for writing.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < until => {
                thread::sleep(Duration::from_millis(5));
            }
            child => break child.expect("the program can be started"),
        }
    };
    while child.try_wait().expect("it can be asked").is_none() {
        if Instant::now() > until {
            child.kill().expect("it can be killed");
            let output = child.wait_with_output().expect("it has ended");
            panic!("{command:?} hangs; it said {}", String::from_utf8_lossy(&output.stderr));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it has ended")
}

/// Runs a command that must succeed, and gives back what it wrote.
pub(crate) fn run_well(command: &mut Command) -> String {
    let output = run(command);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{errors}", output.status);
    out.into_owned()
}
