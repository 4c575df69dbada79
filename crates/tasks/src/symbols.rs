//! Names for memory: which regions there are, who may read or write them, and handles that outlive the name.
//!
//! A request names regions; they are looked up before the task is queued, so that a wrong name is refused at
//! once. What the task holds is a counted handle, never an address: taking the name away while the task waits
//! or runs leaves its handle good, and the memory goes when the last handle does. Bounds and rights are
//! checked at each use, in one place, for every kind of memory.
//!
//! Not here: which argument names a region (each handler says so), the bytes themselves (`memory.rs`).

mod memory;

pub use memory::{HeapMemory, Memory};

use crate::error::{ErrorCode, TaskFailure};
use crate::nearest::{nearest, shown};
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The most bytes a region's name may have.
pub const SYMBOL_BYTES_MAX: usize = 64;
/// How many regions a table takes unless it is told otherwise.
pub const REGIONS_MAX: usize = 1024;

/// What may be done with a region, or what somebody means to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reading.
    Read,
    /// Only writing.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether whoever has this may do what `wanted` says.
    pub const fn covers(self, wanted: Self) -> bool {
        matches!((self, wanted), (Self::ReadWrite, _) | (Self::Read, Self::Read) | (Self::Write, Self::Write))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Read => "read",
            Self::Write => "written",
            Self::ReadWrite => "read and written",
        })
    }
}

/// A region that a request names, and what its handler means to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionUse {
    /// The name.
    pub name: Box<str>,
    /// What for.
    pub access: Access,
}

/// The table of regions. A cheap clone; all clones are one table.
///
/// ```
/// use millpond_tasks::symbols::{Access, HeapMemory, Symbols};
/// use std::sync::Arc;
///
/// let symbols = Symbols::new();
/// symbols.register("response", Arc::new(HeapMemory::new(16)), Access::ReadWrite)?;
/// let region = symbols.resolve("response", Access::Write)?;
/// symbols.unregister("response")?;
/// region.write(0, b"still good")?;
///
/// let error = symbols.resolve("response", Access::Read).unwrap_err(); assert_eq!(error.to_string(),
/// "unknown-symbol (-3): unknown symbol: \"response\"; no region is registered");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Symbols {
    table: Arc<RwLock<HashMap<Box<str>, Arc<Symbol>>>>,
    regions_max: usize,
}

/// One row of the table. It never changes, so handles share it.
struct Symbol {
    name: Box<str>,
    /// What the memory said when it was registered. Bounds are checked against this alone.
    size: usize,
    access: Access,
    memory: Arc<dyn Memory>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    /// An empty table for [`REGIONS_MAX`] regions.
    pub fn new() -> Self {
        Self::with_regions_max(REGIONS_MAX)
    }

    /// An empty table for at most so many regions.
    pub fn with_regions_max(regions_max: usize) -> Self {
        Self { table: Arc::default(), regions_max }
    }

    /// Gives `memory` a name. A name that is taken stays with whom it belongs to.
    pub fn register(&self, name: &str, memory: Arc<dyn Memory>, access: Access) -> Result<(), SymbolError> {
        if !(1..=SYMBOL_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
            return Err(SymbolError::BadName { name: shown(name), bytes: name.len() });
        }
        let symbol = Symbol { name: name.into(), size: memory.len(), access, memory };
        let mut table = self.write();
        if table.contains_key(name) {
            return Err(SymbolError::Taken { name: shown(name) });
        }
        if table.len() >= self.regions_max {
            return Err(SymbolError::Full { name: shown(name), regions_max: self.regions_max });
        }
        table.insert(name.into(), Arc::new(symbol));
        Ok(())
    }

    /// Takes a name away. Handles on the region stay good; the memory is dropped with the last of them.
    pub fn unregister(&self, name: &str) -> Result<(), SymbolError> {
        let symbol = self.write().remove(name);
        // The memory is dropped after the lock, because its owner may do anything then.
        symbol.map(drop).ok_or_else(|| SymbolError::Unknown { name: shown(name) })
    }

    /// A handle on the region of this name, for what `wanted` says and no more.
    pub fn resolve(&self, name: &str, wanted: Access) -> Result<Region, TaskFailure> {
        let symbol = self.read().get(name).cloned();
        let Some(symbol) = symbol else { return Err(self.unknown(name)) };
        let region = Region { symbol, access: wanted };
        let may = region.symbol.access;
        if may.covers(wanted) { Ok(region) } else { Err(region.not_allowed(may, wanted)) }
    }

    /// How many regions have a name now.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether no region has a name now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn unknown(&self, name: &str) -> TaskFailure {
        let table = self.read();
        let advice = match nearest(name, table.keys().map(|known| &**known)) {
            Some(known) => format!("did you mean {}?", shown(known)),
            None if table.is_empty() => "no region is registered".to_owned(),
            None => format!("none of the {} registered names is like it", table.len()),
        };
        TaskFailure::new(ErrorCode::UnknownSymbol, format!("unknown symbol: {}; {advice}", shown(name)))
    }

    // A table is changed by one insertion or removal, so a panic elsewhere leaves it whole.

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, Arc<Symbol>>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, Arc<Symbol>>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.read().keys()).finish()
    }
}

/// A counted handle on a region, good for as long as it is held.
#[derive(Clone)]
pub struct Region {
    symbol: Arc<Symbol>,
    /// What the handle was asked for. The region itself may allow more.
    access: Access,
}

impl Region {
    /// The name under which it was found.
    pub fn name(&self) -> &str {
        &self.symbol.name
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.symbol.size
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What this handle may be used for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Fills `into` with the bytes from `offset` on.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), TaskFailure> {
        self.check(Access::Read, offset, into.len())?;
        self.symbol.memory.read(offset, into);
        Ok(())
    }

    /// Puts `from` in place of the bytes from `offset` on.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), TaskFailure> {
        self.check(Access::Write, offset, from.len())?;
        self.symbol.memory.write(offset, from);
        Ok(())
    }

    /// Whether `length` bytes from `offset` on may be read or written.
    pub fn check(&self, wanted: Access, offset: usize, length: usize) -> Result<(), TaskFailure> {
        if !self.access.covers(wanted) {
            return Err(self.not_allowed(self.access, wanted));
        }
        if offset.checked_add(length).is_some_and(|end| end <= self.len()) {
            return Ok(());
        }
        let (name, size) = (shown(self.name()), self.len());
        let message = format!(
            "region {name}: expected a range within its {size} bytes, got {length} bytes from \
             offset {offset} on"
        );
        Err(TaskFailure::new(ErrorCode::BadArguments, message))
    }

    fn not_allowed(&self, may: Access, wanted: Access) -> TaskFailure {
        let name = shown(self.name());
        let message = format!("region {name}: it may only be {may}, and the task wants it {wanted}");
        TaskFailure::new(ErrorCode::NotAllowed, message)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shape = formatter.debug_struct("Region");
        shape.field("name", &self.name()).field("len", &self.len()).field("access", &self.access).finish()
    }
}

/// Why a name could not be given or taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolError {
    /// The name is empty, too long, or has control characters. It is never cut.
    BadName {
        /// Its beginning, in quotes.
        name: String,
        /// How long it is.
        bytes: usize,
    },
    /// Another region has the name.
    Taken {
        /// The name, in quotes.
        name: String,
    },
    /// The table is full.
    Full {
        /// The name that found no room, in quotes.
        name: String,
        /// How many regions the table takes.
        regions_max: usize,
    },
    /// No region has the name.
    Unknown {
        /// The name, in quotes.
        name: String,
    },
}

impl fmt::Display for SymbolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { name, bytes } => write!(
                formatter,
                "region {name}: expected a name of 1 to {SYMBOL_BYTES_MAX} bytes without control characters, \
                 got {bytes} bytes"
            ),
            Self::Taken { name } => {
                write!(formatter, "region {name}: the name is taken; unregister it first")
            }
            Self::Full { name, regions_max } => write!(
                formatter,
                "region {name}: the table is full with {regions_max} regions; unregister one or \
                 make a larger table"
            ),
            Self::Unknown { name } => write!(formatter, "region {name}: no region has this name"),
        }
    }
}

impl Error for SymbolError {}
