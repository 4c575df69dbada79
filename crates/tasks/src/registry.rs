//! Which handlers there are: by name, and by opcode for those who count.
//!
//! What is there before the first task comes never changes afterwards, so looking it up takes no lock. A few
//! more may come while the service runs; only requests that name one of those take a lock. Every handler has a
//! number, which costs nothing to look up. A name that is not there is answered with the nearest one that is.

use crate::config::RetrySettings;
use crate::error::{ErrorCode, TaskFailure};
use crate::handler::Handler;
use crate::nearest::did_you_mean;
use crate::quick::QuickCounts;
use crate::request::Target;
use millpond::policy::histogram::Histogram;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// The longest name of a handler.
pub(crate) const HANDLER_NAME_BYTES_MAX: usize = 64;
/// How many handlers may come while the service runs.
const LATER_MAX: usize = 1024;
/// What the specification puts before the names of handlers in its file of `key=value` lines.
const SPECIFIED_PREFIX: &str = "handler_";

/// The handlers of a service.
#[derive(Debug, Default)]
pub struct Registry {
    by_name: HashMap<Box<str>, Arc<Registered>>,
    by_opcode: BTreeMap<NonZeroU32, Arc<Registered>>,
    /// Each at its number.
    by_number: Vec<Arc<Registered>>,
    /// Those that came while the service ran.
    later: Later,
}

/// Handlers that came while the service ran: their numbers go on where those of the others end.
#[derive(Debug)]
struct Later {
    /// Filled from the first on, each once, by whoever holds the lock below.
    slots: Box<[OnceLock<Arc<Registered>>]>,
    /// The slot of each name.
    by_name: RwLock<HashMap<Box<str>, usize>>,
}

impl Default for Later {
    fn default() -> Self {
        Self { slots: (0..LATER_MAX).map(|_| OnceLock::new()).collect(), by_name: RwLock::default() }
    }
}

/// A handler, and what became of its tasks.
pub(crate) struct Registered {
    pub(crate) name: Box<str>,
    pub(crate) number: u32,
    pub(crate) handler: Box<dyn Handler>,
    /// How long its failed tasks wait, if not as all others do.
    pub(crate) retry: OnceLock<RetrySettings>,
    /// Those answered on the spot, if it is a quick one. They are in none of the figures below but the
    /// histograms.
    pub(crate) quick: Option<QuickCounts>,
    pub(crate) accepted: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// How long tasks waited and ran, in nanoseconds.
    pub(crate) waited: Mutex<Histogram>,
    pub(crate) ran: Mutex<Histogram>,
}

impl Registered {
    fn new(name: &str, number: usize, handler: Box<dyn Handler>) -> Self {
        Self {
            name: name.into(),
            number: u32::try_from(number).expect("so many handlers do not fit into memory"),
            quick: handler.is_quick().then(QuickCounts::default),
            handler,
            retry: OnceLock::new(),
            accepted: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            waited: Mutex::new(Histogram::new()),
            ran: Mutex::new(Histogram::new()),
        }
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Registered({})", self.name)
    }
}

/// Why a handler or an opcode was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryError {
    /// The name is not 1 to 64 characters out of `a-z`, `0-9`, `_`, `.` and `-`.
    BadName(String),
    /// There is one of this name already.
    NameTaken(String),
    /// The opcode calls another handler already.
    OpcodeTaken(NonZeroU32, String),
    /// No handler has this name; the words say which are near.
    UnknownName(String),
    /// So many came while the service ran that no more are taken.
    Full(String),
    /// The service ends and takes no more.
    Ending(String),
}

impl fmt::Display for RegistryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(name) => write!(
                formatter,
                "handler {name:?}: expected 1 to {HANDLER_NAME_BYTES_MAX} characters out of a-z, 0-9, _, . and -"
            ),
            Self::NameTaken(name) => write!(formatter, "handler {name:?}: there is one of this name already"),
            Self::OpcodeTaken(opcode, name) => {
                write!(formatter, "opcode {opcode}: it calls {name:?} already; give each opcode once")
            }
            Self::UnknownName(words) => formatter.write_str(words),
            Self::Full(name) => write!(
                formatter,
                "handler {name:?}: {LATER_MAX} were added while the service runs, and there is no room for more; \
                 add some before it starts"
            ),
            Self::Ending(name) => write!(formatter, "handler {name:?}: the service ends and takes no more"),
        }
    }
}

impl Error for RegistryError {}

impl Registry {
    /// No handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler under a name.
    pub fn add(&mut self, name: &str, handler: impl Handler) -> Result<(), RegistryError> {
        self.add_boxed(name, Box::new(handler))
    }

    /// As [`add`](Self::add), for a handler whose kind is known only when the program runs.
    pub fn add_boxed(&mut self, name: &str, handler: Box<dyn Handler>) -> Result<(), RegistryError> {
        if !is_handler_name(name) {
            return Err(RegistryError::BadName(name.to_owned()));
        }
        if self.by_name.contains_key(name) {
            return Err(RegistryError::NameTaken(name.to_owned()));
        }
        let registered = Arc::new(Registered::new(name, self.by_number.len(), handler));
        self.by_number.push(Arc::clone(&registered));
        self.by_name.insert(name.into(), registered);
        Ok(())
    }

    /// As [`add_boxed`](Self::add_boxed), while others look up handlers.
    pub(crate) fn add_later(&self, name: &str, handler: Box<dyn Handler>) -> Result<(), RegistryError> {
        if !is_handler_name(name) {
            return Err(RegistryError::BadName(name.to_owned()));
        }
        let mut later = self.later.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if self.by_name.contains_key(name) || later.contains_key(name) {
            return Err(RegistryError::NameTaken(name.to_owned()));
        }
        let slot = later.len();
        let Some(free) = self.later.slots.get(slot) else {
            return Err(RegistryError::Full(name.to_owned()));
        };
        let set = free.set(Arc::new(Registered::new(name, self.by_number.len() + slot, handler)));
        debug_assert!(set.is_ok(), "slots are filled one by one, under the lock");
        later.insert(name.into(), slot);
        Ok(())
    }

    /// Lets an opcode call the handler of this name. The specification's spelling `handler_NAME` works too.
    pub fn set_opcode(&mut self, opcode: NonZeroU32, name: &str) -> Result<(), RegistryError> {
        let found = self.named(name).cloned();
        let registered = found.ok_or_else(|| RegistryError::UnknownName(self.unknown_name(name)))?;
        if let Some(earlier) = self.by_opcode.get(&opcode) {
            return Err(RegistryError::OpcodeTaken(opcode, earlier.name.to_string()));
        }
        self.by_opcode.insert(opcode, registered);
        Ok(())
    }

    /// Lets failed tasks of a handler wait longer or shorter than others do; once for each. False if there is no
    /// such handler.
    pub fn set_retry(&mut self, name: &str, retry: RetrySettings) -> bool {
        self.named(name).is_some_and(|registered| registered.retry.set(retry).is_ok())
    }

    /// Whether there is a handler of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.exactly(name).is_some()
    }

    /// Names of all handlers, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.all().map(|registered| &*registered.name).collect();
        names.sort_unstable();
        names
    }

    /// The opcodes that call a handler, ascending.
    pub(crate) fn opcodes(&self, of: &Arc<Registered>) -> Vec<u32> {
        let calls = self.by_opcode.iter().filter(|(_, called)| Arc::ptr_eq(called, of));
        calls.map(|(opcode, _)| opcode.get()).collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Registered>> {
        let later = self.later.slots.iter().map_while(OnceLock::get);
        self.by_number.iter().chain(later)
    }

    /// What quick handlers have answered on the spot.
    pub(crate) fn quick_counts(&self) -> impl Iterator<Item = &QuickCounts> {
        self.all().filter_map(|registered| registered.quick.as_ref())
    }

    /// The handler with this number.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Arc<Registered>> {
        let number = number as usize;
        self.by_number.get(number).or_else(|| self.later.slots.get(number - self.by_number.len())?.get())
    }

    /// The handler a request names, if there is one.
    pub(crate) fn look_up(&self, target: &Target) -> Option<&Arc<Registered>> {
        match target {
            Target::Handler(name) => self.named(name),
            Target::Opcode(opcode) => self.by_opcode.get(opcode),
        }
    }

    /// The handler a request names.
    pub(crate) fn find(&self, target: &Target) -> Result<&Arc<Registered>, TaskFailure> {
        self.look_up(target).ok_or_else(|| {
            let unknown = match target {
                Target::Handler(name) => self.unknown_name(name),
                Target::Opcode(opcode) => self.unknown_opcode(*opcode),
            };
            TaskFailure::new(ErrorCode::UnknownHandler, unknown)
        })
    }

    /// The handler of this name, or of the name without the specification's prefix.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Registered>> {
        self.exactly(name).or_else(|| self.exactly(name.strip_prefix(SPECIFIED_PREFIX)?))
    }

    fn exactly(&self, name: &str) -> Option<&Arc<Registered>> {
        self.by_name.get(name).or_else(|| {
            let later = self.later.by_name.read().unwrap_or_else(PoisonError::into_inner);
            self.later.slots[*later.get(name)?].get()
        })
    }

    fn unknown_name(&self, name: &str) -> String {
        let names = self.names();
        let advice = did_you_mean(name, names.iter().copied(), &format!("there are {}", names.join(", ")));
        format!("handler: expected a known name, got {name:?}; {advice}")
    }

    fn unknown_opcode(&self, opcode: NonZeroU32) -> String {
        let known: Vec<_> = self.by_opcode.iter().map(|(code, to)| format!("{code} ({})", to.name)).collect();
        let known = if known.is_empty() {
            "none is assigned, name a handler or assign it in the configuration".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        format!("opcode: expected a known opcode, got {opcode}; {known}")
    }
}

/// Whether a handler may be called so.
pub(crate) fn is_handler_name(name: &str) -> bool {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    (1..=HANDLER_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;

    struct Idle;

    impl Handler for Idle {
        fn start(&self, _: Call) {}
    }

    #[test]
    fn handlers_are_found_by_name_by_opcode_and_by_the_specified_name() {
        let mut registry = Registry::new();
        registry.add("echo", Idle).unwrap();
        let three = NonZeroU32::new(3).unwrap();
        registry.set_opcode(three, "handler_echo").unwrap();
        assert_eq!(&*registry.find(&Target::Opcode(three)).unwrap().name, "echo");
        assert_eq!(&*registry.find(&Target::Handler("echo".into())).unwrap().name, "echo");
        assert_eq!(&*registry.find(&Target::Handler("handler_echo".into())).unwrap().name, "echo");
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let mut registry = Registry::new();
        registry.add("echo", Idle).unwrap();
        let failure = registry.find(&Target::Handler("ecko".into())).unwrap_err();
        assert_eq!(failure.code, ErrorCode::UnknownHandler);
        assert_eq!(failure.message, "handler: expected a known name, got \"ecko\"; did you mean echo?");
        let failure = registry.find(&Target::Opcode(NonZeroU32::MIN)).unwrap_err();
        assert!(failure.message.starts_with("opcode: expected a known opcode, got 1; none"), "{failure}");
    }

    #[test]
    fn names_are_checked_and_unique() {
        let mut registry = Registry::new();
        registry.add("a.b-c_1", Idle).unwrap();
        assert_eq!(registry.add("a.b-c_1", Idle), Err(RegistryError::NameTaken("a.b-c_1".to_owned())));
        for name in ["", "Echo", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(registry.add(name, Idle), Err(RegistryError::BadName(name.to_owned())), "{name}");
        }
        let one = NonZeroU32::MIN;
        registry.set_opcode(one, "a.b-c_1").unwrap();
        assert_eq!(
            registry.set_opcode(one, "a.b-c_1"),
            Err(RegistryError::OpcodeTaken(one, "a.b-c_1".to_owned()))
        );
        assert!(matches!(registry.set_opcode(one, "no"), Err(RegistryError::UnknownName(_))));
    }
}
