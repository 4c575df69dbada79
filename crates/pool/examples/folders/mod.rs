//! Where an example writes: a folder that is there, and is not the one it reads.
//!
//! What is written has the names of what was read, or nearly so. In the same folder it would take the place of
//! files that somebody else has put there.

use std::fs;
use std::path::Path;

/// Makes the folder `output` if it is not there, and refuses it if it is `input`, under whatever name.
pub(crate) fn open_output(output: &Path, input: Option<&Path>) -> Result<(), String> {
    let told = |path: &Path, error| format!("{}: {error}", path.display());
    // Made first: a name such as `new/..` means something only when `new` is there.
    fs::create_dir_all(output).map_err(|error| told(output, error))?;
    let Some(input) = input else { return Ok(()) };
    let real = |path: &Path| fs::canonicalize(path).map_err(|error| told(path, error));
    if real(output)? == real(input)? {
        let output = output.display();
        return Err(format!(
            "{output}: expected another folder for the output, got the one that is read; its files would be overwritten"
        ));
    }
    Ok(())
}
