//! The examples of `docs/http.md` do what the page says.
//!
//! Each block of shell commands is run as it stands, with the port of a daemon of the test in it. What is shown
//! below it is what it must print; in JSON only the shape and what does not change from run to run.

use crate::http::SOON;
use millpond_http::HttpDoor;
use millpond_tasks::config::{ConfigSources, load};
use millpond_tasks::{Log, Registry, Service};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/http.md");
const ADDRESS: &str = "127.0.0.1:7117";

/// The blocks of the page: language and text.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let odd_parts = PAGE.split("\n```").skip(1).step_by(2);
    odd_parts.map(|block| block.split_once('\n').expect("a block has lines")).collect()
}

/// The fields of an object, and the values of those that do not change from run to run.
fn stable(text: &str) -> Vec<(String, Option<Value>)> {
    let changes = ["waited_us", "ran_us", "task_id"];
    let object: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let fields = object.as_object().expect("an object").iter();
    let kept = |name: &str, value: &Value| (!changes.contains(&name)).then(|| value.clone());
    fields.map(|(name, value)| (name.clone(), kept(name, value))).collect()
}

#[test]
fn the_examples_print_what_the_page_shows() {
    let sources = ConfigSources::default();
    let mut settings = load(&sources).settings().expect("the defaults are right");
    settings.web.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let log = Log::new(|_, _| {});
    let service = Service::from_settings(&settings, Registry::new(), &log).unwrap();
    let door = HttpDoor::open(settings.web, service.handle(), log).unwrap();
    let address = door.address().unwrap().to_string();
    let folder = std::env::temp_dir().join(format!("millpond-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let blocks = blocks();
    let mut run = 0;
    for pair in blocks.windows(2).filter(|pair| pair[0].0 == "sh") {
        let [(_, commands), (language, expected)] = [pair[0], pair[1]];
        let commands = commands.replace(ADDRESS, &address);
        let output = Command::new("sh").args(["-euc", &commands]).current_dir(&folder).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap().replace('\r', "");
        match language {
            "json" => assert_eq!(stable(&printed), stable(expected), "{commands}"),
            "text" => assert_eq!(printed.trim(), expected.trim(), "{commands}"),
            other => panic!("a block of {other} shows no output: {expected}"),
        }
        run += 1;
    }
    assert_eq!(run, blocks.iter().filter(|(language, _)| *language == "sh").count());
    assert!(run > 5, "the page has {run} examples");
    std::fs::remove_dir_all(&folder).unwrap();
    door.close(SOON);
}
