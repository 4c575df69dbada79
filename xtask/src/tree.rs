//! The files of the repository, read once: what every check of tidy and the search for mutants look at.
//!
//! Checks take a `Tree` and touch no disk, so each can be shown a tree of three lines that breaks its rule.
//! What cargo and npm build or download is left out by the name of its folder.
//!
//! Not here: which files a check is about; each check says so itself.

use crate::source::Source;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Every file, sorted by path.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// One file. Paths have forward slashes and begin at the root of the repository.
pub(crate) struct File {
    pub(crate) path: String,
    /// Empty for files that are not text.
    pub(crate) text: String,
    source: OnceLock<Source>,
}

const FOLDERS_LEFT_OUT: &[&str] =
    &[".git", "target", "node_modules", ".wasm-target", "results", "__pycache__", ".venv"];
/// What the npm package is built to. Other folders of this name are sources.
const PACKAGE_BUILT: &str = "npm/dist";
/// Nobody writes such a file by hand: it is data, and its words are no business of tidy.
const TEXT_BYTES_MAX: u64 = 2 << 20;

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| File::new((*path).into(), (*text).into())).collect() }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file, or a folder with a file somewhere in it.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

impl File {
    fn new(path: String, text: String) -> Self {
        Self { path, text, source: OnceLock::new() }
    }

    /// The file as Rust source, told apart once.
    pub(crate) fn source(&self) -> &Source {
        self.source.get_or_init(|| Source::new(&self.text))
    }

    /// The name without folders and without its ending.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.split_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
    }

    /// Whether the file holds models, which are tests and not the product.
    pub(crate) fn is_model(&self) -> bool {
        self.path.ends_with("_model.rs")
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), String> {
    let failed = |error| format!("{}: cannot be read: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            if !FOLDERS_LEFT_OUT.contains(&name.as_str()) && path != PACKAGE_BUILT {
                read_folder(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() {
            let bytes = entry.metadata().map_err(failed)?.len();
            let read =
                if bytes > TEXT_BYTES_MAX { Vec::new() } else { fs::read(entry.path()).map_err(failed)? };
            files.push(File::new(path, String::from_utf8(read).unwrap_or_default()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/decisions/one.md", "")]);
        assert!(
            tree.exists("docs/") && tree.exists("docs/decisions") && tree.exists("docs/decisions/one.md")
        );
        assert!(!tree.exists("docs/dec") && !tree.exists("docs/two.md"));
    }

    #[test]
    fn the_stem_is_the_name_before_the_first_dot() {
        let tree = Tree::of(&[("a/ring.rs", ""), (".gitignore", ""), ("LICENSE-MIT", "")]);
        assert_eq!(
            tree.files.iter().map(File::stem).collect::<Vec<_>>(),
            ["ring", ".gitignore", "LICENSE-MIT"]
        );
    }

    #[test]
    fn this_repository_can_be_read_without_what_was_built() {
        let tree = Tree::read(&crate::repository_root()).unwrap();
        assert!(tree.get("xtask/src/tree.rs").is_some());
        assert!(
            !tree.files.iter().any(|file| file.path.starts_with("target/") || file.path.starts_with(".git/"))
        );
    }
}
