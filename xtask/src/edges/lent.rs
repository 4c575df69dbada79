//! Which ends of an edge a function uses that is lent one: `fn advance(hint: &AtomicU64, edge: &Edge)`.
//!
//! The uses of an edge are found by its name, and inside such a function the name is that of a parameter. So each
//! function with a parameter `&Edge` is looked through first, and a call that lends it an edge counts as a use of
//! the same ends at the place of the call. A function that lends its parameter on is followed too. Functions are
//! known by their bare name: two of one name that are lent edges at the same place count as one.
//!
//! Not here: finding the edges (`edges.rs`).

use crate::source::{function_end, is_word, names, words};
use std::collections::{BTreeMap, BTreeSet};

/// `release` and `acquire`, or one of them.
pub(super) type Ends = BTreeSet<&'static str>;

/// By function and place among its arguments.
#[derive(Default)]
pub(super) struct Lent(BTreeMap<(String, usize), Ends>);

/// A parameter that is an edge, and where it is used.
struct Parameter<'a> {
    function: &'a str,
    place: usize,
    name: &'a str,
    body: &'a str,
}

impl Lent {
    pub(super) fn find<'a>(sources: impl Iterator<Item = &'a str>) -> Self {
        let parameters: Vec<_> = sources.flat_map(parameters).collect();
        let mut lent = Self::default();
        // A function may lend on to one that is found later; each round follows one more step, and the number of
        // ends is finite.
        loop {
            let mut grown = false;
            for parameter in &parameters {
                let ends = lent.ends_in(parameter);
                let known = lent.0.entry((parameter.function.to_owned(), parameter.place)).or_default();
                grown |= !ends.is_subset(known);
                known.extend(ends);
            }
            if !grown {
                return lent;
            }
        }
    }

    /// The ends that are used of what stands at `at..after` as an argument of a call; none if it is no argument.
    pub(super) fn ends_of_argument(&self, code: &str, at: usize, after: usize) -> Ends {
        if !code[after..].trim_start().starts_with([',', ')']) {
            return Ends::new();
        }
        let call = enclosing_call(code, at);
        call.and_then(|(function, place)| self.0.get(&(function.to_owned(), place)))
            .cloned()
            .unwrap_or_default()
    }

    fn ends_in(&self, parameter: &Parameter<'_>) -> Ends {
        let body = parameter.body;
        let found = words(body, parameter.name).map(|at| {
            let after = at + parameter.name.len();
            called_on(&body[after..]).unwrap_or_else(|| self.ends_of_argument(body, at, after))
        });
        found.flatten().collect()
    }
}

/// The ends used by the method call that `after` begins with, if it is one of an edge.
pub(super) fn called_on(after: &str) -> Option<Ends> {
    let method = after.trim_start().strip_prefix('.')?.trim_start();
    let calls: [(&str, &[&'static str]); 3] =
        [("release()", &["release"]), ("acquire()", &["acquire"]), ("acq_rel()", &["acquire", "release"])];
    calls.iter().find(|(call, _)| method.starts_with(call)).map(|(_, ends)| ends.iter().copied().collect())
}

fn parameters(code: &str) -> Vec<Parameter<'_>> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let Some(end) = function_end(&code[at..]) else { continue };
        let whole = &code[at..at + end];
        let Some((_, function)) = names(whole).nth(1) else { continue };
        let Some((list, body)) = parameter_list(whole) else { continue };
        let list = split_at_commas(list);
        let own = usize::from(list.first().is_some_and(|first| words(first, "self").next().is_some()));
        for (place, parameter) in list.iter().enumerate().skip(own) {
            if let Some((name, kind)) = parameter.split_once(':')
                && kind.trim_start().starts_with('&')
                && words(kind, "Edge").next().is_some()
            {
                found.push(Parameter { function, place: place - own, name: name.trim(), body });
            }
        }
    }
    found
}

/// What stands between the parentheses of a function's parameters, and what follows them. Generics come before and
/// may hold parentheses of their own.
fn parameter_list(function: &str) -> Option<(&str, &str)> {
    let mut angles = 0;
    let mut before = ' ';
    for (at, character) in function.char_indices() {
        match character {
            '<' => angles += 1,
            '>' if before != '-' => angles -= 1,
            '(' if angles == 0 => {
                let length = closing(&function[at + 1..])?;
                return Some((&function[at + 1..at + 1 + length], &function[at + 1 + length..]));
            }
            _ => {}
        }
        before = character;
    }
    None
}

/// Where the bracket closes that was opened just before `rest`.
fn closing(rest: &str) -> Option<usize> {
    let mut depth = 0;
    rest.char_indices().find_map(|(at, character)| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        (depth < 0).then_some(at)
    })
}

fn split_at_commas(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut before = ' ';
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, character) in list.char_indices() {
        match character {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        before = character;
    }
    parts.push(&list[start..]);
    parts
}

/// The function that `at` is an argument of, and its place among the arguments.
fn enclosing_call(code: &str, at: usize) -> Option<(&str, usize)> {
    let mut depth = 0;
    let mut place = 0;
    for (index, character) in code[..at].char_indices().rev() {
        match character {
            ')' | ']' | '}' => depth += 1,
            ',' if depth == 0 => place += 1,
            ';' if depth == 0 => return None,
            '(' if depth == 0 => {
                let before = &code[..index];
                let start = before.bytes().rposition(|byte| !is_word(byte)).map_or(0, |end| end + 1);
                return Some((&before[start..], place));
            }
            '(' | '[' | '{' if depth == 0 => return None,
            '(' | '[' | '{' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends used of the word `X` in a call in `code`.
    fn ends(functions: &str, code: &str) -> Vec<&'static str> {
        let at = words(code, "X").next().expect("no X");
        Lent::find([functions].into_iter()).ends_of_argument(code, at, at + 1).into_iter().collect()
    }

    const TWO: &str = "impl Edge { fn acq_rel(&self) -> Ordering { acq_rel(self, self) } }\n\
                       fn acq_rel(receives: &Edge, gives: &Edge) -> Ordering {\n\
                       match (receives.acquire(), gives.release()) { _ => x } }";

    #[test]
    fn each_place_has_the_ends_its_parameter_uses() {
        assert_eq!(ends(TWO, "x(acq_rel(&X, &Y))"), ["acquire"]);
        assert_eq!(ends(TWO, "x(edge::acq_rel(\n  &Y,\n  &edges::X,\n))"), ["release"]);
        assert!(ends(TWO, "other(&X)").is_empty());
        assert!(ends(TWO, "acq_rel(&X.0, &Y)").is_empty());
        assert!(ends(TWO, "let a = &X;").is_empty());
    }

    #[test]
    fn a_method_does_not_count_itself_among_the_arguments() {
        let method =
            "fn look<F: Fn(u8) -> u8>(&self, base: Map<u8, u8>, edge: &'static Edge) { a(edge.acquire()) }";
        assert_eq!(ends(method, "self.look(base(1, 2), &X).filter(|word| word)"), ["acquire"]);
        assert!(ends(method, "self.look(&X, base)").is_empty());
    }

    #[test]
    fn what_is_lent_on_is_followed() {
        let chain = "fn first(edge: &Edge) { second(1, edge) }\n\
                     fn second(n: u8, edge: &Edge) { third(edge); n.load(edge.acquire()) }\n\
                     fn third(edge: &Edge) { store(edge.release()) }";
        assert_eq!(ends(chain, "first(&X)"), ["acquire", "release"]);
    }

    #[test]
    fn functions_that_call_each_other_come_to_an_end() {
        let circle =
            "fn one(edge: &Edge) { two(edge) }\nfn two(edge: &Edge) { one(edge); a(edge.release()) }";
        assert_eq!(ends(circle, "one(&X)"), ["release"]);
    }
}
