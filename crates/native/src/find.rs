//! Where C functions come from: symbols that the program exports, and libraries that are loaded.
//!
//! The specification names handlers in its configuration by their C names, `handler_resize`. Such a name is
//! looked for in whatever is loaded: the program itself if it was linked with `-rdynamic`, and its libraries.
//! A library is never unloaded again, because nobody can know when the last of its threads has left it.
//!
//! Not here: which names are looked for, and in which order; whoever sets up a pool says so.

use crate::c_task::NativeFunction;
use std::error::Error;
use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// What the specification puts before the name of a handler to get the name of its function.
const HANDLER_PREFIX: &str = "handler_";

/// The function of this name that the program, or a library it has loaded, exports.
pub fn exported(symbol: &str) -> Option<NativeFunction> {
    // The program is always loaded, so the handle is never stale.
    look_up(libc::RTLD_DEFAULT, symbol)
}

/// What the function of a handler is called where the specification's rule holds: `handler_NAME`. What C has
/// no letters for is a `_`.
pub fn symbol_name(handler: &str) -> String {
    format!("{HANDLER_PREFIX}{}", handler.replace(['.', '-'], "_"))
}

/// A library that was loaded, for as long as the process lives.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    path: PathBuf,
}

/// Why a function was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindError {
    /// The library could not be loaded; the words are the loader's.
    Library(PathBuf, String),
    /// It has none of these symbols.
    Symbol(PathBuf, Vec<String>),
}

impl fmt::Display for FindError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(path, why) => {
                write!(formatter, "library {}: expected one that can be loaded, got: {why}", path.display())
            }
            Self::Symbol(path, names) => write!(
                formatter,
                "library {}: expected a function {}, got none; export it, or set symbol to its name",
                path.display(),
                names.join(" or ")
            ),
        }
    }
}

impl Error for FindError {}

impl Library {
    /// Loads a library with all it needs. A path without `/` is looked for where the system keeps libraries.
    /// What the library does when it is loaded, it does now, on this thread.
    pub fn open(path: &Path) -> Result<Self, FindError> {
        let failed = |why: String| FindError::Library(path.to_owned(), why);
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|_| failed("a NUL in its path".into()))?;
        // SAFETY: the name is a string that ends with NUL. What constructors of the library do is the choice
        // of whoever wrote its path into the configuration, as it would be for a program.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| failed(loader_words()))?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// The first of these functions that it has.
    pub fn function<S: AsRef<str>>(&self, symbols: &[S]) -> Result<NativeFunction, FindError> {
        let found = symbols.iter().find_map(|symbol| look_up(self.handle.as_ptr(), symbol.as_ref()));
        found.ok_or_else(|| {
            let names = symbols.iter().map(|symbol| symbol.as_ref().to_owned()).collect();
            FindError::Symbol(self.path.clone(), names)
        })
    }
}

fn look_up(handle: *mut c_void, symbol: &str) -> Option<NativeFunction> {
    let name = CString::new(symbol).ok()?;
    // SAFETY: the handle is the program's or one that `dlopen` gave and nobody closes, and the name ends with
    // NUL.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    let address = NonNull::new(address)?;
    // SAFETY: pointers to functions and to data have one size on every system that has `dlsym`. That the
    // symbol is a function of this type is what its name promises: it is one of those that the configuration
    // calls a handler.
    Some(unsafe { std::mem::transmute::<*mut c_void, NativeFunction>(address.as_ptr()) })
}

/// What the loader says about its last failure on this thread.
fn loader_words() -> String {
    // SAFETY: `dlerror` has no conditions. What it gives belongs to this thread until it is called again.
    let words = unsafe { libc::dlerror() };
    if words.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: it is not NULL, so it is a string that ends with NUL, and it is copied before anything else is
    // asked of the loader.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_is_found_by_its_name_and_nothing_else_is() {
        assert!(exported("malloc").is_some());
        assert!(exported("handler_that_nobody_wrote").is_none());
        assert!(exported("with\0nul").is_none());
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_the_words_of_the_loader() {
        let error = Library::open(Path::new("/nowhere/libnothing.so")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("library /nowhere/libnothing.so: expected one that can be loaded"),
            "{text}"
        );
    }

    #[test]
    fn a_symbol_that_a_library_lacks_is_named() {
        let library = Library::open(Path::new("libc.so.6")).expect("the C library is there");
        assert!(library.function(&["handler_nothing", "malloc"]).is_ok());
        let error =
            library.function(&[symbol_name("no-thing"), "nothing".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("expected a function handler_no_thing or nothing, got none"), "{error}");
    }
}
