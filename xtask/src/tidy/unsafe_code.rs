//! Where `unsafe` may stand, and that each use of it comes with its proof.
//!
//! The list is short on purpose and each line says why. A file that no longer needs its line is a finding too, so
//! the list cannot grow stale. clippy asks for a `SAFETY:` comment; here it must also be long enough to be one.
//!
//! Not here: whether the proof is right. That is for the models, for Miri, and for readers.

use super::Finding;
use crate::source::{line_of, words};
use crate::tree::{File, Tree};

/// The files that may use `unsafe`, and what for.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("bench/src/heap.rs", "is an allocator that counts"),
    ("bench/src/peers/shm/map.rs", "maps memory that two processes share"),
    ("crates/ffi/src/border.rs", "reads strings of C"),
    ("crates/ffi/src/callbacks.rs", "calls functions of C"),
    ("crates/ffi/src/connection_queue.rs", "is called by C, and sees its memory as atomic words"),
    ("crates/ffi/src/handlers.rs", "is called by C"),
    ("crates/ffi/src/here.rs", "passes on what C promised of its memory"),
    ("crates/ffi/src/lent_memory.rs", "reads and writes memory of C"),
    ("crates/ffi/src/registered.rs", "takes functions of C for handlers"),
    ("crates/ffi/src/result.rs", "moves memory that C was given between threads"),
    ("crates/ffi/src/symbol_table.rs", "is called by C"),
    ("crates/ffi/src/threadpool.rs", "is called by C"),
    ("crates/native/src/c_task.rs", "names the type of functions of C"),
    ("crates/native/src/find.rs", "asks the loader for functions"),
    ("crates/native/src/handler.rs", "asks for a promise about functions of C"),
    ("crates/native/src/libraries.rs", "takes functions of a library for handlers"),
    ("crates/native/src/running.rs", "shares a task with a function of C while it runs"),
    ("crates/pool/src/barrier.rs", "calls the kernel"),
    ("crates/pool/src/block.rs", "passes memory from who frees it to who needs it"),
    ("crates/pool/src/cell.rs", "follows counted pointers to cells whose type is forgotten"),
    (
        "crates/pool/src/cell/claim.rs",
        "takes a result out of the cell that its state word says is the ticket's",
    ),
    ("crates/pool/src/cell/running.rs", "touches the body that its state word gave to this thread"),
    ("crates/pool/src/cell/table.rs", "knows the type of a cell again"),
    ("crates/pool/src/current.rs", "follows a pointer to the worker whose thread this is"),
    ("crates/pool/src/dispatch.rs", "follows the address of a task that is just ending"),
    ("crates/pool/src/futures.rs", "follows addresses of tasks that a lock keeps alive"),
    ("crates/pool/src/handle.rs", "gives a refused task its type back"),
    ("crates/pool/src/heir.rs", "passes a boxed task on through one word"),
    ("crates/pool/src/join.rs", "runs work that lies in another thread's frame"),
    ("crates/pool/src/pending.rs", "counts in a frame that may go with the last step"),
    ("crates/pool/src/pin.rs", "calls the kernel"),
    ("crates/pool/src/scope.rs", "lends tasks what their scope outlives"),
    ("crates/pool/src/task.rs", "stores closures of any type in seven words"),
    ("crates/pool/src/token.rs", "borrows the reference of whoever runs the task"),
    ("crates/pool/src/waker.rs", "makes wakers of counted pointers"),
    ("crates/pool/src/work.rs", "pins a future that never moves"),
    ("crates/pool/tests/memory.rs", "is an allocator that counts"),
    ("crates/pool/tests/no_memory.rs", "is an allocator that refuses"),
    ("crates/queue/src/sync.rs", "fences with a locked instruction"),
    ("crates/queue/src/model.rs", "touches a watched cell, so that a missing ordering shows as a race"),
    (
        "crates/queue/src/wpol/model_cells.rs",
        "touches a watched cell, so that a missing ordering shows as a race",
    ),
    ("crates/queue/src/futex.rs", "calls the kernel"),
    ("crates/queue/src/gate_claimed.rs", "moves values out of slots that were claimed"),
    ("crates/queue/src/lines.rs", "allocates so that a slice begins a cache line"),
    ("crates/queue/src/slots.rs", "moves values in and out of cells that are not always filled"),
    ("crates/queue/src/ring.rs", "shares cells between the threads that won them"),
    ("crates/queue/src/steal.rs", "owns buffers that thieves may still be copying from"),
    ("crates/queue/src/steal_buffer.rs", "moves items in and out of cells by position"),
    ("crates/queue/src/steal_thief.rs", "follows a buffer that its claim keeps alive"),
    ("crates/queue/src/gate.rs", "shares cells between the threads that won them"),
    ("crates/queue/src/wpol/memory.rs", "sees a caller's bytes as atomic words"),
    ("crates/queue/tests/memory.rs", "is an allocator that counts"),
    ("crates/shm/src/memory_file.rs", "maps memory that two processes share"),
    ("crates/queue/tests/torture.rs", "maps memory and kills the processes that share it"),
    ("crates/shm/src/isolate/fork.rs", "copies a process that has one thread"),
    ("crates/wasm-policy/src/affinity.rs", "is called by JavaScript"),
    ("crates/wasm-policy/src/choose.rs", "is called by JavaScript"),
    ("crates/wasm-policy/src/ground.rs", "is the one thread of a module, and its allocator"),
    ("crates/wasm-policy/src/heap.rs", "keeps the next free block in a free block"),
    ("crates/wasm-policy/src/histogram.rs", "is called by JavaScript"),
    ("crates/wasm-policy/src/scale.rs", "is called by JavaScript"),
    ("crates/wasm-policy/src/slate.rs", "is called by JavaScript"),
    ("crates/wasm-policy/src/workers.rs", "is called by JavaScript"),
    ("crates/wasm-ring/src/ground.rs", "is an allocator that has nothing"),
    ("crates/wasm-ring/src/lib.rs", "is called by JavaScript"),
];
const PROOF_CHARACTERS_MIN: usize = 40;

pub(super) fn listed_files(tree: &Tree) -> Vec<Finding> {
    against_list(tree, UNSAFE_FILES)
}

fn against_list(tree: &Tree, list: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Models touch watched cells on purpose: that the checker calls a wrong touch a race is what they are for.
    let unlisted = |file: &&File| !file.is_model() && !list.iter().any(|(path, _)| *path == file.path);
    for file in tree.rust().filter(unlisted) {
        let code = &file.source().code;
        findings.extend(words(code, "unsafe").map(|at| {
            let remedy =
                "move it behind a safe function of a file on the list in xtask/src/tidy/unsafe_code.rs";
            Finding::new(&file.path, line_of(code, at), "unsafe in a file that is not on the list", remedy)
        }));
    }
    for (path, _) in list {
        let used = tree.get(path).is_some_and(|file| words(&file.source().code, "unsafe").next().is_some());
        if !used {
            let wrong = "the file is on the list of unsafe files and has no unsafe code, or is not there";
            findings.push(Finding::new(
                path,
                1,
                wrong,
                "take it off the list in xtask/src/tidy/unsafe_code.rs",
            ));
        }
    }
    findings
}

pub(super) fn proofs(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = &file.source().code;
        for at in words(code, "unsafe").filter(|&at| needs_proof(&code[at..])) {
            let line = line_of(code, at);
            let wrong = match proof_above(file, line) {
                None => "no `SAFETY:` comment directly above".to_owned(),
                Some(proof) if proof.chars().count() <= PROOF_CHARACTERS_MIN => {
                    format!(
                        "the `SAFETY:` comment has {} characters: a label, not a proof",
                        proof.chars().count()
                    )
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(
                &file.path,
                line,
                wrong,
                "say what makes this sound and who sees to it",
            ));
        }
    }
    findings
}

/// Blocks and implementations promise something; declarations ask for a promise.
fn needs_proof(code: &str) -> bool {
    let after = code["unsafe".len()..].trim_start();
    after.starts_with('{') || words(after, "impl").next() == Some(0)
}

/// The text after `SAFETY:` in the comment above the statement that `line` is part of.
fn proof_above(file: &File, line: usize) -> Option<String> {
    let code: Vec<_> = file.source().code.lines().collect();
    let comments: Vec<_> = file.source().comments.lines().collect();
    let mut top = line - 1;
    // Go up to where the statement begins: past its own earlier lines and past attributes.
    while top > 0 && comments[top - 1].trim().is_empty() && continues(code[top - 1]) {
        top -= 1;
    }
    let mut first = top;
    while first > 0 && code[first - 1].trim().is_empty() && !comments[first - 1].trim().is_empty() {
        first -= 1;
    }
    let text: Vec<_> =
        comments[first..top].iter().map(|line| line.trim().trim_start_matches('/').trim()).collect();
    text.join(" ").split_once("SAFETY:").map(|(_, proof)| proof.trim().to_owned())
}

/// Whether the statement goes on after this line.
fn continues(code: &str) -> bool {
    let code = code.trim();
    let is_attribute = code.starts_with("#[") && code.ends_with(']');
    is_attribute || !(code.is_empty() || code.ends_with([';', '{', '}', ',']))
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const PROOF: &str = "// SAFETY: winning `head` made this thread the only reader\n// of this slot.\n";

    #[test]
    fn unsafe_outside_the_list_is_found_and_a_word_in_a_comment_is_not() {
        let list = [("a/listed.rs", "why")];
        let listed = ("a/listed.rs", "unsafe {}");
        let lines = |text| -> Vec<usize> {
            let findings = against_list(&Tree::of(&[listed, ("a/other.rs", text)]), &list);
            findings.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("fn a() {\n    unsafe { b() }\n}\n"), [2]);
        assert!(against_list(&Tree::of(&[listed, ("a/ring_model.rs", "unsafe {}")]), &list).is_empty());
        assert!(lines("// unsafe\n#![forbid(unsafe_code)]\nlet a = \"unsafe\";\n").is_empty());
    }

    #[test]
    fn a_listed_file_without_unsafe_leaves_the_list() {
        let list = [("a/listed.rs", "why"), ("a/gone.rs", "why")];
        let found = against_list(&Tree::of(&[("a/listed.rs", "safe()")]), &list);
        assert_eq!(
            found.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(),
            ["a/listed.rs", "a/gone.rs"]
        );
    }

    #[test]
    fn a_block_without_proof_is_found() {
        assert_eq!(lines(proofs, "a.rs", "let a = 1;\nunsafe { b() };\n"), [2]);
        assert_eq!(
            lines(proofs, "a.rs", "// Quite safe, believe me, it has always worked.\nunsafe { b() };\n"),
            [2]
        );
        assert_eq!(lines(proofs, "a.rs", &format!("{PROOF}let a = 1;\nunsafe {{ b() }};\n")), [4]);
        assert_eq!(lines(proofs, "a.rs", "unsafe impl Send for A {}\n"), [1]);
    }

    #[test]
    fn a_label_is_no_proof() {
        assert_eq!(lines(proofs, "a.rs", "// SAFETY: see above.\nunsafe { b() };\n"), [2]);
    }

    #[test]
    fn a_proof_above_the_statement_or_its_attribute_counts() {
        for statement in [
            "unsafe { b() };\n",
            "let a =\n    unsafe { b() };\n",
            "#[allow(x)]\nunsafe impl Send for A {}\n",
            "let task = slot.value.with(|value| unsafe { value.read() });\n",
        ] {
            assert_eq!(
                lines(proofs, "a.rs", &format!("first();\n{PROOF}{statement}")).len(),
                0,
                "{statement}"
            );
        }
        assert_eq!(lines(proofs, "a.rs", "unsafe fn asks() {}\nunsafe extern \"C\" {}\n").len(), 0);
    }
}
