//! What pkg-config and CMake read to find the library: three small files, made from the version.
//!
//! They name no folder of this machine. Each finds the rest from where it lies itself, so that what was laid out can
//! be moved.
//!
//! Not here: whether a program can be built with them (`trial.rs`).

use super::Version;

pub(super) fn pkg_config(version: &Version) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include/millpond\n\n\
         Name: millpond\nDescription: A worker pool you can link, run or join\nVersion: {}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lmillpond\nLibs.private: -lpthread -lm -ldl\n",
        version.full
    )
}

pub(super) fn cmake(version: &Version) -> String {
    let Version { full, major } = version;
    format!(
        "# millpond::millpond is the shared library, millpond::static the other.\n\
         get_filename_component(_millpond \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)\n\n\
         if(NOT TARGET millpond::millpond)\n  add_library(millpond::millpond SHARED IMPORTED)\n  \
         set_target_properties(millpond::millpond PROPERTIES\n    \
         IMPORTED_LOCATION \"${{_millpond}}/lib/libmillpond.so.{full}\"\n    \
         IMPORTED_SONAME \"libmillpond.so.{major}\"\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{_millpond}}/include/millpond\")\nendif()\n\n\
         if(NOT TARGET millpond::static)\n  add_library(millpond::static STATIC IMPORTED)\n  \
         set_target_properties(millpond::static PROPERTIES\n    \
         IMPORTED_LOCATION \"${{_millpond}}/lib/libmillpond.a\"\n    \
         INTERFACE_INCLUDE_DIRECTORIES \"${{_millpond}}/include/millpond\"\n    \
         INTERFACE_LINK_LIBRARIES \"pthread;m;dl\")\nendif()\n\nunset(_millpond)\n"
    )
}

/// A later release with the same first number will do; while that is 0, one with the same second number.
pub(super) fn cmake_version(version: &Version) -> String {
    let mut parts = version.full.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let same = if major == "0" { format!("{major}.{minor}") } else { major.to_owned() };
    format!(
        "set(PACKAGE_VERSION \"{}\")\n\
         if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION\n   OR NOT \"${{PACKAGE_FIND_VERSION}}.\" MATCHES \
         \"^{}\\\\.\")\n  set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\n  \
         if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n    set(PACKAGE_VERSION_EXACT TRUE)\n  \
         endif()\nendif()\n",
        version.full,
        same.replace('.', "\\\\.")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_pkg_config_and_cmake_name_no_folder_of_this_machine() {
        let version = Version { full: "0.1.0".to_owned(), major: "0".to_owned() };
        for text in [pkg_config(&version), cmake(&version), cmake_version(&version)] {
            let root = crate::repository_root();
            assert!(!text.contains(&root.display().to_string()), "{text}");
            assert!(text.contains("0.1.0"), "{text}");
        }
        assert!(pkg_config(&version).starts_with("prefix=${pcfiledir}/../..\n"));
    }
}
