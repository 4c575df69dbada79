//! The named orderings and steps of the product, found in its source: where each is defined and where it is used.
//!
//! `Edge::new("RING_PUBLISH")` defines an edge; `RING_PUBLISH.release()`, `.acquire()` and `.acq_rel()` use its ends,
//! and so does `advance(hint, &RING_PUBLISH)` if `advance` uses them on what it is lent; `left_out("GATE_WAKE")` names
//! a step. Each end and each step that is used can be weakened by name, which makes it a mutant. A comment on the same
//! line or on the line above,
//! `// mutant-exempt: why no model can catch it`, takes its mutants out of the hunt. Where a line has two ends,
//! `// mutant-exempt(RING_PUBLISH.acquire): why` takes out one.
//!
//! Not here: the hunt (`models/mutants.rs`), the rules about edges (`tidy/orderings.rs`).

mod lent;

use crate::source::{line_of, names};
use crate::tree::{File, Tree};
use lent::Lent;

/// All that was found under `crates/*/src`.
#[derive(Default)]
pub(crate) struct Edges {
    pub(crate) defined: Vec<Definition>,
    pub(crate) used: Vec<Use>,
}

/// One `Edge::new("NAME")`.
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The name of the constant it is bound to: it must be the same, since the uses are found by it.
    pub(crate) bound_to: String,
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// One end of an edge, or one step, where it is used.
pub(crate) struct Use {
    /// What `MILLPOND_MUTANT` must be for this use to be weakened: `RING_PUBLISH.release` or `GATE_WAKE`.
    pub(crate) mutant: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    /// Why no model is asked to catch it, if somebody has said so.
    pub(crate) exempt: Option<String>,
}

impl Use {
    /// The edge this is an end of. A step is none.
    pub(crate) fn edge(&self) -> Option<&str> {
        self.mutant.split_once('.').map(|(edge, _)| edge)
    }
}

/// Looks through the product's source; models are left out, since they weaken nothing of their own.
pub(crate) fn find(tree: &Tree) -> Edges {
    let files: Vec<_> = tree.rust().filter(|file| is_product(&file.path) && !file.is_model()).collect();
    let lent = Lent::find(files.iter().map(|file| file.source().code.as_str()));
    let mut edges = Edges::default();
    files.iter().for_each(|file| find_definitions(file, &mut edges.defined));
    files.iter().for_each(|file| find_uses(file, &edges.defined, &lent, &mut edges.used));
    edges
}

/// Whether `path` is `crates/<crate>/src/...`.
pub(crate) fn is_product(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

fn find_definitions(file: &File, defined: &mut Vec<Definition>) {
    let text = &file.source().text;
    for (at, found) in text.match_indices("Edge::new(") {
        if let Some(name) = string_at(&text[at + found.len()..]) {
            let statement = text[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
            let binding = text[statement..at].split(':').next().unwrap_or_default();
            let bound_to = binding.split_whitespace().next_back().unwrap_or_default().to_owned();
            let line = line_of(text, at);
            defined.push(Definition { name, bound_to, path: file.path.clone(), line });
        }
    }
}

fn find_uses(file: &File, defined: &[Definition], lent: &Lent, used: &mut Vec<Use>) {
    let (code, text) = (&file.source().code, &file.source().text);
    let mut add = |at: usize, mutant: String| {
        let line = line_of(text, at);
        let exempt = exemption(file, line, &mutant);
        used.push(Use { mutant, path: file.path.clone(), line, exempt });
    };
    for (at, name) in names(code).filter(|(_, name)| is_constant(name)) {
        let after = at + name.len();
        let ends = match lent::called_on(&code[after..]) {
            Some(ends) => ends,
            // What is lent to a function may be a constant of another kind, so it must be known for an edge.
            None if defined.iter().any(|edge| edge.bound_to == name) => {
                lent.ends_of_argument(code, at, after)
            }
            None => continue,
        };
        ends.iter().for_each(|end| add(at, format!("{name}.{end}")));
    }
    for (at, call) in text.match_indices("left_out(") {
        if let Some(step) = string_at(&text[at + call.len()..]) {
            add(at, step);
        }
    }
}

/// The string literal that `rest` begins with.
fn string_at(rest: &str) -> Option<String> {
    let inside = rest.trim_start().strip_prefix('"')?;
    inside.split_once('"').map(|(name, _)| name.to_owned())
}

fn is_constant(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn exemption(file: &File, line: usize, mutant: &str) -> Option<String> {
    let lines: Vec<_> = file.source().comments.lines().collect();
    let code: Vec<_> = file.source().code.lines().collect();
    let above = line.checked_sub(2).filter(|&above| code[above].trim().is_empty());
    [Some(line - 1), above].into_iter().flatten().find_map(|index| {
        let (_, rest) = lines[index].split_once("mutant-exempt")?;
        let (only, reason) = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once("):").map(|(only, reason)| (Some(only), reason))?,
            None => (None, rest.strip_prefix(':')?),
        };
        let reason = reason.trim();
        (only.is_none_or(|only| only == mutant) && !reason.is_empty()).then(|| reason.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants(text: &str) -> Vec<(String, Option<String>)> {
        let known = "static A_B: Edge = Edge::new(\"A_B\");\nstatic C_D: Edge = Edge::new(\"C_D\");\n\
                     fn acq_rel(receives: &Edge, gives: &Edge) { both(receives.acquire(), gives.release()) }\n";
        let tree = Tree::of(&[("crates/queue/src/edges.rs", known), ("crates/queue/src/ring.rs", text)]);
        find(&tree).used.into_iter().map(|used| (used.mutant, used.exempt)).collect()
    }

    fn names(text: &str) -> Vec<String> {
        mutants(text).into_iter().map(|(mutant, _)| mutant).collect()
    }

    #[test]
    fn an_edge_is_found_with_the_constant_it_is_bound_to() {
        let text = "/// Edge::new(\"DOC\")\npub(crate) static RING_A: Edge = Edge::new(\"RING_B\");\n";
        let edges = find(&Tree::of(&[("crates/queue/src/ring.rs", text)]));
        let [found] = &edges.defined[..] else { panic!("expected one edge") };
        assert_eq!((found.name.as_str(), found.bound_to.as_str(), found.line), ("RING_B", "RING_A", 2));
    }

    #[test]
    fn each_end_that_is_used_is_a_mutant() {
        assert_eq!(names("slot.turn.store(1, RING_PUBLISH.release());"), ["RING_PUBLISH.release"]);
        assert_eq!(names("slot.turn.load(edges::RING_PUBLISH.acquire())"), ["RING_PUBLISH.acquire"]);
        assert_eq!(names("x(LOCK\n    .acq_rel())"), ["LOCK.acquire", "LOCK.release"]);
        assert_eq!(names("x(acq_rel(&A_B, &ring::C_D))"), ["A_B.acquire", "C_D.release"]);
        assert_eq!(names("x(edge::acq_rel(\n  &A_B,\n  &C_D,\n))"), ["A_B.acquire", "C_D.release"]);
    }

    #[test]
    fn an_edge_lent_to_a_function_is_used_as_the_function_uses_it() {
        let text = "fn advance(hint: &AtomicU64, edge: &Edge) { hint.store(1, edge.release()) }\n\
                    fn go() { advance(hint, &A_B); other(&C_D); advance(hint, &NO_EDGE); }";
        assert_eq!(names(text), ["A_B.release"]);
    }

    #[test]
    fn a_step_is_a_mutant_and_its_definition_is_not() {
        assert_eq!(names("if !left_out(\"GATE_WAKE\") { wake() }"), ["GATE_WAKE"]);
        assert!(names("pub(crate) fn left_out(step: &str) -> bool { edge.release() }").is_empty());
    }

    #[test]
    fn a_mutant_named_in_a_comment_or_in_a_model_is_none() {
        assert!(names("// RING_PUBLISH.release() and left_out(\"STEP\")").is_empty());
        let model = Tree::of(&[("crates/queue/src/ring_model.rs", "RING_PUBLISH.release()")]);
        assert!(find(&model).used.is_empty());
        let bench = Tree::of(&[("bench/src/main.rs", "RING_PUBLISH.release()")]);
        assert!(find(&bench).used.is_empty());
    }

    #[test]
    fn an_exemption_needs_its_reason_and_stands_on_the_line_or_above() {
        let reason = Some("loom has no clock".to_owned());
        assert_eq!(mutants("// mutant-exempt: loom has no clock\nA_B.release()")[0].1, reason);
        assert_eq!(mutants("A_B.release() // mutant-exempt: loom has no clock")[0].1, reason);
        assert_eq!(mutants("// mutant-exempt:\nA_B.release()")[0].1, None);
        assert_eq!(mutants("x(); // mutant-exempt: of x\nA_B.release()")[0].1, None);
        let one = mutants("// mutant-exempt(A_B.acquire): loom has no clock\nacq_rel(&A_B, &C_D)");
        assert_eq!(one, [("A_B.acquire".to_owned(), reason), ("C_D.release".to_owned(), None)]);
    }
}
