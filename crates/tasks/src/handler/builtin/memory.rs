//! `read_memory` and `write_memory`: bytes of a named region into an answer, and from a request into a
//! region.
//!
//! The region is looked up before the task is queued, and the task holds it; bounds and rights are checked by
//! the region at the moment of use. `write_to` and `read_from` are the names of the specification, `region`
//! says the same for both.
//!
//! Not here: the table of regions (`symbols.rs`).

use super::arguments::Arguments;
use super::content::{Content, Encoding};
use super::{about, answer, buffer, too_large};
use crate::call::Call;
use crate::error::TaskFailure;
use crate::handler::{About, Handler};
use crate::symbols::{Access, Region, RegionUse};
use serde::Serialize;
use serde_json::value::RawValue;

const READ_ARGUMENTS: &[&str] = &["region", "read_from", "offset", "length", "encoding"];
const WRITE_ARGUMENTS: &[&str] = &["region", "write_to", "data", "offset", "encoding"];

pub(super) struct ReadMemory {
    pub(super) bytes_max: usize,
}

pub(super) struct WriteMemory;

#[derive(Serialize)]
struct Bytes<'a> {
    data: &'a str,
    encoding: &'static str,
    length: usize,
}

#[derive(Serialize)]
struct Written {
    length: usize,
}

impl Handler for ReadMemory {
    fn start(&self, call: Call) {
        let outcome = self.read(&call);
        call.finish(outcome);
    }

    fn regions(&self, args: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        let arguments = Arguments::read("read_memory", args, READ_ARGUMENTS)?;
        named_region(&arguments, "read_from", Access::Read)
    }

    fn about(&self) -> About {
        about("Reads bytes of a named region of memory.", r#"{"region": "name", "offset": 0, "length": 16}"#)
    }
}

impl ReadMemory {
    fn read(&self, call: &Call) -> Result<Box<RawValue>, TaskFailure> {
        let arguments = Arguments::read("read_memory", call.args(), READ_ARGUMENTS)?;
        let region = only_region(call);
        let offset = arguments.bytes("offset")?.unwrap_or(0);
        let length = arguments.bytes("length")?.unwrap_or(region.len().saturating_sub(offset));
        region.check(Access::Read, offset, length)?;
        if length > self.bytes_max {
            let what = format!("region {:?}: {length} bytes", region.name());
            return Err(too_large(&what, self.bytes_max as u64, "ask for a part with offset and length"));
        }
        let mut bytes = buffer(length)?;
        region.read(offset, &mut bytes)?;
        let Content { text, encoding } = Content::new(bytes, Encoding::asked(&arguments)?)?;
        Ok(answer(&Bytes { data: &text, encoding: encoding.name(), length }))
    }
}

impl Handler for WriteMemory {
    fn start(&self, call: Call) {
        let outcome = write(&call);
        call.finish(outcome);
    }

    fn regions(&self, args: &RawValue) -> Result<Vec<RegionUse>, TaskFailure> {
        let arguments = Arguments::read("write_memory", args, WRITE_ARGUMENTS)?;
        named_region(&arguments, "write_to", Access::Write)
    }

    fn about(&self) -> About {
        about("Writes bytes into a named region of memory.", r#"{"region": "name", "data": "hello"}"#)
    }
}

fn write(call: &Call) -> Result<Box<RawValue>, TaskFailure> {
    let arguments = Arguments::read("write_memory", call.args(), WRITE_ARGUMENTS)?;
    let encoding = Encoding::asked(&arguments)?.unwrap_or(Encoding::Utf8);
    let data = encoding.decode("data", arguments.needed_string("data")?)?;
    let offset = arguments.bytes("offset")?.unwrap_or(0);
    only_region(call).write(offset, &data)?;
    Ok(answer(&Written { length: data.len() }))
}

fn named_region(
    arguments: &Arguments<'_>,
    of_specification: &'static str,
    access: Access,
) -> Result<Vec<RegionUse>, TaskFailure> {
    let (_, name) = arguments.string_by_either(["region", of_specification])?;
    Ok(vec![RegionUse { name: name.into(), access }])
}

fn only_region(call: &Call) -> &Region {
    call.regions().first().expect("the handler named one region, and it was found before the task was queued")
}
