//! The tools that the steps need: looked for, installed where Debian has them and we may, or named.
//!
//! Installing needs root and apt-get. Everyone else is told what is missing and the command that brings it, and the
//! step fails: a test that passed because its tool was missing would be worse than none.
//!
//! Not here: the tools of optional jobs, such as Miri; CONTRIBUTING.md says how to get those.

use super::Verdict;
use crate::process;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A program the steps run.
struct Tool {
    name: &'static str,
    /// The command that shows it is there.
    probe: &'static [&'static str],
    /// The Debian packages that bring it; empty if it comes with Rust.
    packages: &'static [&'static str],
    remedy: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "cargo",
        probe: &["cargo", "--version"],
        packages: &[],
        remedy: "install stable Rust with rustup",
    },
    Tool {
        name: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        packages: &[],
        remedy: "rustup component add rustfmt",
    },
    Tool {
        name: "clippy",
        probe: &["cargo", "clippy", "--version"],
        packages: &[],
        remedy: "rustup component add clippy",
    },
    Tool {
        name: "cc",
        probe: &["cc", "--version"],
        packages: &["gcc", "libc6-dev"],
        remedy: "apt-get install gcc libc6-dev",
    },
    Tool {
        name: "python3",
        probe: &["python3", "--version"],
        packages: &["python3"],
        remedy: "apt-get install python3",
    },
    Tool {
        name: "python3-venv",
        probe: &["python3", "-m", "ensurepip", "--version"],
        packages: &["python3-venv"],
        remedy: "apt-get install python3-venv",
    },
    Tool { name: "c++", probe: &["c++", "--version"], packages: &["g++"], remedy: "apt-get install g++" },
    Tool { name: "make", probe: &["make", "--version"], packages: &["make"], remedy: "apt-get install make" },
    Tool {
        name: "pkg-config",
        probe: &["pkg-config", "--version"],
        packages: &["pkg-config"],
        remedy: "apt-get install pkg-config",
    },
    Tool {
        name: "cmake",
        probe: &["cmake", "--version"],
        packages: &["cmake"],
        remedy: "apt-get install cmake",
    },
    Tool {
        name: "valgrind",
        probe: &["valgrind", "--version"],
        packages: &["valgrind"],
        remedy: "apt-get install valgrind",
    },
    Tool {
        name: "luajit",
        probe: &["luajit", "-v"],
        packages: &["luajit"],
        remedy: "apt-get install luajit",
    },
    Tool {
        name: "nats-server",
        probe: &["nats-server", "--version"],
        packages: &["nats-server"],
        remedy: "apt-get install nats-server",
    },
    Tool {
        name: "iproute2",
        probe: &["ip", "-Version"],
        packages: &["iproute2"],
        remedy: "apt-get install iproute2",
    },
    Tool { name: "curl", probe: &["curl", "--version"], packages: &["curl"], remedy: "apt-get install curl" },
    Tool {
        name: "npm",
        probe: &["npm", "--version"],
        packages: &["nodejs", "npm"],
        remedy: "install Node.js 20 or newer, which has npm",
    },
    Tool {
        name: "chromium",
        probe: &["chromium", "--version"],
        packages: &["chromium"],
        remedy: "apt-get install chromium",
    },
    Tool {
        name: "dpkg-shlibdeps",
        probe: &["dpkg-shlibdeps", "--version"],
        packages: &["dpkg-dev"],
        remedy: "apt-get install dpkg-dev",
    },
    Tool {
        name: "lintian",
        probe: &["lintian", "--version"],
        packages: &["lintian"],
        remedy: "apt-get install lintian",
    },
    Tool {
        name: "systemd-analyze",
        probe: &["systemd-analyze", "--version"],
        packages: &["systemd"],
        remedy: "apt-get install systemd",
    },
    Tool { name: "spin", probe: &["spin", "-V"], packages: &["spin"], remedy: "apt-get install spin" },
];
const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// What to do about what is missing.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Install(Vec<&'static str>),
    /// One line for each tool.
    Tell(Vec<String>),
}

pub(super) fn run(root: &Path) -> Result<Verdict, String> {
    let missing = missing(root);
    match plan(&missing, may_install(root)) {
        Plan::Nothing => {}
        Plan::Tell(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            return Ok(Verdict::Failed);
        }
        Plan::Install(packages) => return install(root, &packages),
    }
    let names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
    println!("found {}", names.join(", "));
    Ok(Verdict::Passed)
}

fn missing(root: &Path) -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !answers(root, tool.probe)).collect()
}

fn answers(root: &Path, probe: &[&str]) -> bool {
    let ended = process::watch(root, Command::new(probe[0]).args(&probe[1..]), PROBE_LIMIT);
    ended.is_ok_and(|ended| ended.succeeded())
}

fn may_install(root: &Path) -> bool {
    let user = process::watch(root, Command::new("id").arg("-u"), PROBE_LIMIT);
    user.is_ok_and(|user| user.output.trim() == "0") && answers(root, &["apt-get", "--version"])
}

fn plan(missing: &[&Tool], may_install: bool) -> Plan {
    if missing.is_empty() {
        return Plan::Nothing;
    }
    if may_install && missing.iter().all(|tool| !tool.packages.is_empty()) {
        return Plan::Install(missing.iter().flat_map(|tool| tool.packages).copied().collect());
    }
    let line = |tool: &&Tool| format!("{} is missing; get it with: {}", tool.name, tool.remedy);
    Plan::Tell(missing.iter().map(line).collect())
}

fn install(root: &Path, packages: &[&str]) -> Result<Verdict, String> {
    println!("installing {}", packages.join(", "));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").current_dir(root);
        command
    };
    // A stale list of packages is the usual reason for a package that cannot be found.
    process::run_in_the_open(apt().args(["update", "--quiet"]))?;
    process::run_in_the_open(
        apt().args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages),
    )?;
    let still: Vec<_> = missing(root).iter().map(|tool| tool.name).collect();
    if still.is_empty() {
        return Ok(Verdict::Passed);
    }
    println!("still missing after apt-get: {}", still.join(", "));
    Ok(Verdict::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> &'static Tool {
        TOOLS.iter().find(|tool| tool.name == name).expect("no such tool")
    }

    #[test]
    fn what_debian_has_is_installed_when_we_may() {
        assert_eq!(plan(&[], true), Plan::Nothing);
        assert_eq!(plan(&[tool("cc")], true), Plan::Install(vec!["gcc", "libc6-dev"]));
    }

    #[test]
    fn what_we_may_not_install_is_named_with_its_remedy() {
        let line = "cc is missing; get it with: apt-get install gcc libc6-dev".to_owned();
        assert_eq!(plan(&[tool("cc")], false), Plan::Tell(vec![line]));
        let Plan::Tell(lines) = plan(&[tool("clippy"), tool("cc")], true) else {
            panic!("expected to be told")
        };
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_tool_that_is_not_there_is_noticed() {
        let root = crate::repository_root();
        assert!(answers(&root, &["sh", "-c", "exit 0"]));
        assert!(!answers(&root, &["sh", "-c", "exit 1"]));
        assert!(!answers(&root, &["millpond-no-such-program"]));
    }
}
