//! How the figures look: a table for people, JSON for programs.
//!
//! The JSON is an array of flat objects, one per row, so that runs can be compared with any tool.
//!
//! Not here: the picture (`plot.rs`).

use crate::measure::{Absent, Better, Group, Row, is_ours, ratio_to_ours};
use serde_json::{Value, json};
use std::fmt::Write;

/// The names of the groups, what each asks, and who answers.
pub(crate) fn listing(groups: &[Group]) -> String {
    let mut text = String::new();
    for group in groups {
        let peers: Vec<_> = group.contestants.iter().map(|contestant| contestant.peer).collect();
        put(
            &mut text,
            format_args!("{:20} {}\n{:20} {}\n", group.name, group.question, "", peers.join(", ")),
        );
    }
    text
}

/// One group's rows, which come sorted, in aligned columns; ours are marked with an arrow. Peers that are not
/// there stand at the foot.
pub(crate) fn table(group: &Group, rows: &[Row], absent: &[Absent]) -> String {
    let rounds = rows.first().map_or(0, |row| row.rounds);
    let better = better_word(group.better);
    let mut text = String::new();
    put(&mut text, format_args!("{}: {}\n", group.name, group.question));
    let beside = rows.first().map_or(&[][..], |row| &row.beside);
    let names: String = beside.iter().map(|(name, _)| format!(" {name:>9}")).collect();
    put(
        &mut text,
        format_args!(
            "  {:24} {:>9} {:>9} {:>9} {:>7} {:>6}{names}   {}, {better} is better, {rounds} rounds\n",
            "", "median", "min", "max", "spread", "ratio", group.unit
        ),
    );
    for row in rows {
        let mark = if is_ours(row.peer) { '>' } else { ' ' };
        let ratio = ratio_to_ours(row, rows).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let spread = 100.0 * (row.max - row.min) / row.median;
        let [median, min, max] = [row.median, row.min, row.max].map(shown);
        let beside: String = row.beside.iter().map(|(_, figure)| format!(" {:>9}", shown(*figure))).collect();
        put(
            &mut text,
            format_args!(
                "{mark} {:24} {median:>9} {min:>9} {max:>9} {spread:6.0}% {ratio:>6}{beside}\n",
                row.peer
            ),
        );
    }
    for Absent { peer, reason } in absent {
        put(&mut text, format_args!("  {peer:24} not measured: {reason}\n"));
    }
    text
}

/// Two decimals, unless the figure is so large that they would break the column and mean nothing.
fn shown(figure: f64) -> String {
    if figure < 100_000.0 { format!("{figure:.2}") } else { format!("{figure:.0}") }
}

/// All rows as a JSON array.
pub(crate) fn json(rows: &[Row]) -> String {
    let rows: Vec<Value> = rows.iter().map(object).collect();
    format!("{:#}\n", Value::Array(rows))
}

fn object(row: &Row) -> Value {
    let mut object = json!({
        "group": row.group,
        "peer": row.peer,
        "unit": row.unit,
        "better": better_word(row.better),
        "median": rounded(row.median),
        "min": rounded(row.min),
        "max": rounded(row.max),
        "rounds": row.rounds,
    });
    for (name, figure) in &row.beside {
        object[*name] = rounded(*figure).into();
    }
    object
}

/// A picosecond is finer than any of the clocks, and shorter to read than sixteen digits.
fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

fn better_word(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = text.write_fmt(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Contestant, Pace};

    fn rows() -> Vec<Row> {
        let row = |peer, median| Row {
            group: "ring-1",
            peer,
            unit: "ns/item",
            better: Better::Lower,
            median,
            min: median - 1.0,
            max: median + 2.0,
            rounds: 9,
            beside: Vec::new(),
        };
        vec![row("~rtrb", 5.0), row("millpond", 10.00049), row("kanal", 20.0)]
    }

    fn group() -> Group {
        Group {
            name: "ring-1",
            question: "what does it cost?",
            unit: "ns/item",
            better: Better::Lower,
            pace: Pace::Rounds,
            contestants: vec![
                Contestant::new("millpond", |_| Ok(1.0)),
                Contestant::new("kanal", |_| Ok(1.0)),
            ],
        }
    }

    #[test]
    fn the_json_is_an_array_of_rows_with_exactly_the_promised_fields() {
        let parsed: Value = serde_json::from_str(&json(&rows())).unwrap();
        let array = parsed.as_array().unwrap();
        assert_eq!(array.len(), 3);
        let mut fields: Vec<_> = array[1].as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["better", "group", "max", "median", "min", "peer", "rounds", "unit"]);
        assert_eq!(array[1]["peer"], "millpond");
        assert_eq!(array[1]["better"], "lower");
        assert_eq!(array[1]["unit"], "ns/item");
        assert_eq!(array[1]["median"], 10.0);
        assert_eq!(array[1]["rounds"], 9);
    }

    #[test]
    fn the_table_marks_our_row_and_aligns_its_columns() {
        let text = table(&group(), &rows(), &[]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "ring-1: what does it cost?");
        assert!(lines[1].ends_with("ns/item, lower is better, 9 rounds"));
        assert!(lines[2].starts_with("  ~rtrb"));
        assert!(lines[3].starts_with("> millpond"));
        assert!(lines[4].ends_with(" 2.00"));
        assert!(lines[2..].iter().all(|line| line.len() == lines[2].len()), "{text}");
    }

    #[test]
    fn what_stands_beside_the_figure_gets_a_column_and_a_field() {
        let mut rows = rows();
        rows.iter_mut().for_each(|row| row.beside = vec![("p99 µs", row.median * 100_000.0)]);
        let text = table(&group(), &rows, &[]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].contains("  ratio    p99 µs   ns/item"), "{text}");
        assert!(lines[2].ends_with("   500000") && lines[4].ends_with("  2000000"), "{text}");
        let parsed: Value = serde_json::from_str(&json(&rows)).unwrap();
        assert_eq!(parsed[0]["p99 µs"], 500_000.0);
    }

    #[test]
    fn a_peer_that_is_not_there_is_named_with_the_reason() {
        let absent = Absent { peer: "far", reason: "no such program".to_owned() };
        let text = table(&group(), &rows(), &[absent]);
        assert_eq!(text.lines().last(), Some("  far                      not measured: no such program"));
    }

    #[test]
    fn the_list_names_every_group_and_its_peers() {
        assert_eq!(
            listing(&[group()]),
            "ring-1               what does it cost?\n                     millpond, kanal\n"
        );
    }
}
