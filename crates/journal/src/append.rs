//! How records get into the batch that is being filled, and what happens when it is full.
//!
//! A record is laid out and its payload summed before the lock is taken, so that under the lock there is one copy and
//! nothing else. The writer is woken only if it sleeps.
//!
//! Records of one append stay together: after a crash either all of them are there or none.

use crate::batch::{Batch, Fate, Receipt};
use crate::error::AppendError;
use crate::frame::{FRAME_BYTES, Form, Frame, push};
use crate::journal::{Journal, Shared, State, held};
use crate::record::{Payload, Record, SpillRef};
use crate::spill;
use std::sync::{Arc, MutexGuard, PoisonError};

/// A record says in two bytes how many of the same append follow.
const APPEND_RECORDS_MAX: usize = 1 << 16;

impl Journal {
    /// Hands records to the writer, waiting for room if it must. Their order is the order in which these calls return.
    /// A callback of a receipt cannot wait, and is told `Full` instead.
    pub fn append(&self, records: &[Record<'_>]) -> Result<Receipt, AppendError> {
        self.put(records, Shared::wait_for_room)
    }

    /// Hands records to the writer, unless it has no room for them. Large payloads are written to their own files
    /// first, which takes as long as the disk takes.
    pub fn try_append(&self, records: &[Record<'_>]) -> Result<Receipt, AppendError> {
        self.put(records, Shared::ask_for_room)
    }

    fn put(&self, records: &[Record<'_>], room: RoomFor) -> Result<Receipt, AppendError> {
        let shared = &*self.shared;
        check(shared, records)?;
        if records.is_empty() {
            return Ok(Receipt { fate: Fate::ended(), spilled: Vec::new() });
        }
        let spilled = spill::write_large(shared, records)?;
        let (bytes, named) = layout(records, &spilled);
        let taken = fits(shared, bytes.len()).and_then(|()| {
            spill::expect(shared, &named)?;
            let taken = shared.take(&bytes, records.len(), &named, room);
            taken.inspect_err(|_| spill::give_up(shared, &named))
        });
        match taken {
            Ok(fate) => Ok(Receipt { fate, spilled }),
            Err(error) => {
                spill::discard(shared, &spilled);
                Err(error)
            }
        }
    }
}

fn fits(shared: &Shared, given: usize) -> Result<(), AppendError> {
    let max = shared.config.batch_bytes_max;
    if given <= max {
        return Ok(());
    }
    let (what, setting) = ("bytes of one append", "batch_bytes_max");
    Err(AppendError::TooLarge { what, given, max, setting })
}

/// Comes back with room for so many bytes and records, or with the reason why not.
type RoomFor =
    for<'a> fn(&'a Shared, MutexGuard<'a, State>, usize, usize) -> Result<MutexGuard<'a, State>, AppendError>;

impl Shared {
    fn take(
        &self,
        bytes: &[u8],
        records: usize,
        spills: &[u64],
        room: RoomFor,
    ) -> Result<Arc<Fate>, AppendError> {
        let mut state = room(self, held(&self.state), bytes.len(), records)?;
        let batch: &mut Batch = &mut state.filling;
        batch.bytes.extend_from_slice(bytes);
        batch.records += records;
        batch.appends += 1;
        batch.spills.extend_from_slice(spills);
        let fate = Arc::clone(&batch.fate);
        state.waiting_bytes += bytes.len();
        state.waiting_records += records;
        let is_enough = state.filling.appends >= state.appends_wanted || self.is_half_full(&state);
        let wake = state.writer_sleeps && is_enough;
        state.writer_sleeps &= !wake;
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(fate)
    }

    fn wait_for_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        bytes: usize,
        records: usize,
    ) -> Result<MutexGuard<'a, State>, AppendError> {
        while !self.has_room(&state, bytes, records)? {
            if self.is_writer() {
                // A callback that waited here would wait for the thread it runs on.
                return Err(AppendError::Full { bytes: state.waiting_bytes, records: state.waiting_records });
            }
            state.submitters_sleep += 1;
            if std::mem::take(&mut state.writer_sleeps) {
                // It waits for a batch to fill that has no room.
                self.work.notify_one();
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.submitters_sleep -= 1;
        }
        Ok(state)
    }

    fn ask_for_room<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        bytes: usize,
        records: usize,
    ) -> Result<MutexGuard<'a, State>, AppendError> {
        if self.has_room(&state, bytes, records)? {
            return Ok(state);
        }
        Err(AppendError::Full { bytes: state.waiting_bytes, records: state.waiting_records })
    }

    /// A batch like this is worth a sync, whoever else may come.
    pub(crate) fn is_half_full(&self, state: &State) -> bool {
        let config = &self.config;
        state.waiting_bytes >= config.batch_bytes_max / 2
            || state.waiting_records >= config.batch_records_max / 2
    }

    fn has_room(&self, state: &State, bytes: usize, records: usize) -> Result<bool, AppendError> {
        if let Some(reason) = &state.poison {
            return Err(AppendError::Poisoned(Arc::clone(reason)));
        }
        if state.closing {
            return Err(AppendError::Closed);
        }
        let config = &self.config;
        let bytes_fit = state.waiting_bytes + bytes <= config.batch_bytes_max;
        Ok(bytes_fit && state.waiting_records + records <= config.batch_records_max)
    }
}

fn check(shared: &Shared, records: &[Record<'_>]) -> Result<(), AppendError> {
    let config = &shared.config;
    let max = APPEND_RECORDS_MAX.min(config.batch_records_max);
    if records.len() > max {
        let (what, setting) = ("records of one append", "batch_records_max");
        return Err(AppendError::TooLarge { what, given: records.len(), max, setting });
    }
    let bytes = |record: &Record<'_>| match record.payload {
        Payload::Bytes(bytes) => bytes.len(),
        Payload::Spilled(_) => 0,
    };
    let given = records.iter().map(bytes).max().unwrap_or(0);
    let max = config.payload_bytes_max;
    if given > max {
        let (what, setting) = ("bytes of a payload", "payload_bytes_max");
        return Err(AppendError::TooLarge { what, given, max, setting });
    }
    Ok(())
}

/// The records as they will be written, but for their stamps, and the large payloads that they name.
fn layout(records: &[Record<'_>], spilled: &[(usize, SpillRef)]) -> (Vec<u8>, Vec<u64>) {
    let mut named = Vec::new();
    let mut large = spilled.iter().peekable();
    let mut buffer = Vec::with_capacity(records.iter().map(|record| 8 + FRAME_BYTES + inline(record)).sum());
    for (index, record) in records.iter().enumerate() {
        let fresh = large.next_if(|(place, _)| *place == index).map(|(_, spill)| *spill);
        let more = u16::try_from(records.len() - 1 - index).unwrap_or(u16::MAX);
        let mut add = |form: Form, payload: &[u8]| {
            let frame = Frame { more, ..Frame::new(record.kind, record.key, form, payload) };
            push(&mut buffer, &frame, payload);
        };
        match (record.payload, fresh) {
            (Payload::Spilled(spill), _) | (Payload::Bytes(_), Some(spill)) => {
                named.push(spill.id);
                add(Form::Spilled, &spill.encode());
            }
            (Payload::Bytes(bytes), None) => add(Form::Plain, bytes),
        }
    }
    (buffer, named)
}

fn inline(record: &Record<'_>) -> usize {
    match record.payload {
        Payload::Bytes(bytes) => bytes.len(),
        Payload::Spilled(_) => crate::record::SPILL_REF_BYTES,
    }
}
