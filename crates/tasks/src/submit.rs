//! From a request to a task: read, resolve, admit, queue. What every door calls.
//!
//! It never waits: a door serves many clients, and one that must wait is told when to come again. A refusal
//! leaves nothing behind. The order is from cheap to dear, and what can fail comes before what must be
//! undone.
//!
//! Not here: reading JSON (`request.rs`), the pool's queue and what a full one means (`attempt.rs`).

use crate::attempt::NoRoom;
use crate::config::ResultsFull;
use crate::door::DoorName;
use crate::error::{ErrorCode, TaskFailure};
use crate::keys::KeyAnswer;
use crate::ledger::Along;
use crate::outcome::Refused;
use crate::registry::Registered;
use crate::request::{Request, TaskId};
use crate::service::{ServiceHandle, Shared, gone};
use crate::symbols::Region;
use crate::task::{Fresh, Stage, Task, first_stage};
use crate::watch::{Reader, Watching};
use serde_json::value::RawValue;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

/// When to come again after the journal's disk was full.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(1);

/// How a door hands in a request.
#[derive(Debug)]
pub struct Submit {
    /// Who is to be told about the task, if anybody.
    pub reader: Option<Reader>,
    /// Whether the outcome is kept for others to ask for. If the reader goes away before the end, it is kept
    /// in any case, so that nothing is lost.
    pub keep: bool,
    /// By which door it comes.
    pub door: DoorName,
    /// What happened to the task before it came here, if anything did.
    pub earlier: Option<Earlier>,
}

/// What attempts elsewhere have left: whoever hands the task in keeps count of them, and decides whether others follow.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// How many attempts there were.
    pub attempts: u32,
    /// What the last of them left for the next one.
    pub checkpoint: Option<Arc<RawValue>>,
}

impl Default for Submit {
    /// Nobody is told, and the outcome is kept; the door is [`DoorName::Library`].
    fn default() -> Self {
        Self { reader: None, keep: true, door: DoorName::default(), earlier: None }
    }
}

/// An attempt that begins on the thread that submits.
#[derive(Clone, Debug)]
pub struct Here {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// What an earlier one left for it.
    pub checkpoint: Option<Arc<RawValue>>,
}

/// A request that was taken in.
#[derive(Debug)]
pub struct Accepted {
    /// What came of it.
    pub task: Arc<Task>,
    /// The reader's side, if [`Submit`] named one. Dropping it stops watching.
    pub watching: Option<Watching>,
    /// False if the same request came before with the same idempotency key, or a task with its unique key is
    /// under way.
    pub is_new: bool,
}

impl ServiceHandle {
    /// Takes in the text of a request. Never waits.
    pub fn submit(&self, text: &[u8], how: Submit) -> Result<Accepted, Refused> {
        match Request::parse(text, &self.shared.config.request) {
            Ok(request) => self.submit_request(request, how),
            Err(error) => Err(self.shared.count(error.into())),
        }
    }

    /// Takes in a request. Never waits.
    pub fn submit_request(&self, request: Request, how: Submit) -> Result<Accepted, Refused> {
        self.take_in(request, how, None)
    }

    /// As [`submit_request`](Self::submit_request), but an attempt begins at once on the thread that calls: no
    /// queue, no pool, and no delay. For a process that has one task at a time and works for another, which
    /// keeps count of the attempts.
    pub fn run_here(&self, mut request: Request, here: Here, how: Submit) -> Result<Accepted, Refused> {
        request.delay = Duration::ZERO;
        request.run_at_ms = None;
        request.expires = None;
        self.take_in(request, how, Some(here))
    }

    fn take_in(&self, mut request: Request, how: Submit, here: Option<Here>) -> Result<Accepted, Refused> {
        let shared = &self.shared;
        let wanted = request.id.take();
        let refuse = |failure| shared.count(Refused::new(failure, wanted.clone()));
        let (handler, regions) = shared.resolve(&request).map_err(refuse)?;
        let handler = Arc::clone(handler);
        let key = request.idempotency_key.take();
        let fingerprint = key.as_ref().map(|_| shared.keys.fingerprint(&request));
        request.delay = shared.first_delay(&request).map_err(refuse)?;
        let mut parts = Parts::new(request, handler, regions, how);
        parts.id.clone_from(&wanted);
        if let Some(here) = here {
            parts.checkpoint = here.checkpoint;
            parts.here = Some(here.attempt);
        }
        let Some((key, fingerprint)) = key.zip(fingerprint) else {
            return shared.admit(parts, |_| {}).map_err(|failure| refuse(failure).with_patience(shared));
        };
        parts.idempotency = Some((key.clone(), fingerprint));
        // Locked until the key has its task, so that a twin that comes meanwhile finds it.
        let mut keys = shared.keys.lock(Instant::now());
        match keys.look_up(&key, fingerprint) {
            KeyAnswer::New => {
                let listed = |task: &Arc<Task>| {
                    keys.note(&key, fingerprint, task.id());
                    drop(keys);
                };
                let admitted = shared.admit(parts, listed);
                admitted.map_err(|failure| refuse(failure).with_patience(shared))
            }
            KeyAnswer::Same(earlier) => {
                // While the keys are still locked, or the task might be withdrawn in between.
                let task = shared.list.get(&earlier).ok_or_else(|| gone(&earlier));
                drop(keys);
                task.and_then(|task| come_again(task, parts.how)).map_err(refuse)
            }
            KeyAnswer::Other(earlier) => {
                let message = format!(
                    "idempotency_key: {key:?} belongs to task {earlier}, which asks for something else"
                );
                Err(refuse(TaskFailure::new(ErrorCode::KeyReused, message)))
            }
        }
    }

    /// Asks once more for what a task that has ended was asked for: a new task with an id of its own, which
    /// begins as soon as it can and whose outcome is kept. Whoever waited for the first is not told. Never
    /// waits.
    pub fn retry(&self, id: &TaskId, door: DoorName) -> Result<Accepted, Refused> {
        let shared = &self.shared;
        let task =
            self.get(id).and_then(|task| if task.is_ended() { Ok(task) } else { Err(task.not_ended()) });
        let task = task.map_err(|failure| Refused::new(failure, Some(id.clone())))?;
        let refuse = |failure| shared.count(Refused::new(failure, None));
        let request = Request {
            priority: task.priority,
            timeout: task.timeout,
            retries: task.retries,
            traceparent: task.traceparent.clone(),
            ..Request::for_handler(&task.handler.name, task.args.clone())
        };
        let (handler, regions) = shared.resolve(&request).map_err(refuse)?;
        let how = Submit { door, ..Submit::default() };
        let mut parts = Parts::new(request, Arc::clone(handler), regions, how);
        parts.affinity = task.affinity;
        shared.admit(parts, |_| {}).map_err(|failure| refuse(failure).with_patience(shared))
    }

    /// As [`submit_request`](Self::submit_request), for a schedule whose time has come.
    pub(crate) fn submit_scheduled(
        &self,
        request: Request,
        how: Submit,
        schedule: &str,
        at_ms: u64,
    ) -> Result<Accepted, Refused> {
        let shared = &self.shared;
        let refuse = |failure| shared.count(Refused::new(failure, None));
        let (handler, regions) = shared.resolve(&request).map_err(refuse)?;
        let handler = Arc::clone(handler);
        let mut parts = Parts::new(request, handler, regions, how);
        parts.fired = Some((schedule.to_owned(), at_ms));
        let accepted = shared.admit(parts, |_| {}).map_err(|failure| refuse(failure).with_patience(shared));
        // A time that became no task of its own has come all the same.
        if let Some(ledger) = shared.ledger.as_ref().filter(|_| !matches!(&accepted, Ok(new) if new.is_new)) {
            ledger.fired(schedule, at_ms);
        }
        accepted
    }

    /// As [`submit`](Self::submit), but waits for room at most so long. Not for doors that serve many.
    pub fn submit_wait(&self, text: &[u8], timeout: Duration) -> Result<Accepted, Refused> {
        let until = Instant::now().checked_add(timeout);
        loop {
            match self.submit(text, Submit::default()) {
                Err(refused) if refused.failure.code == ErrorCode::QueueFull => {
                    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                    let pause = refused.retry_after.unwrap_or_default().min(left.unwrap_or(Duration::MAX));
                    if pause.is_zero() {
                        return Err(refused);
                    }
                    millpond::blocking(|| std::thread::sleep(pause));
                }
                answer => return answer,
            }
        }
    }
}

/// The same request as before: whoever asks is given the task it became.
fn come_again(task: Arc<Task>, how: Submit) -> Result<Accepted, TaskFailure> {
    let watching = how.reader.map(|reader| task.watch(reader)).transpose()?;
    Ok(Accepted { task, watching, is_new: false })
}

impl Refused {
    /// Says when to come again, if that may help.
    pub(crate) fn with_patience(mut self, shared: &Shared) -> Self {
        self.retry_after = match self.failure.code {
            ErrorCode::QueueFull => Some(shared.retry_after()),
            ErrorCode::JournalFull => Some(FULL_DISK_PATIENCE),
            _ => None,
        };
        self
    }
}

/// Whether a task has been set going.
enum Launched {
    Now,
    /// It will be, and will be counted, once it is kept.
    WhenKept,
}

/// A request whose parts were looked up.
pub(crate) struct Parts {
    /// What the client wants it to be called.
    id: Option<TaskId>,
    handler: Arc<Registered>,
    regions: Vec<Region>,
    /// The request's key as a number.
    pub(crate) affinity: Option<u64>,
    timeout: Option<Duration>,
    request: Request,
    how: Submit,
    /// What attempts of an earlier task, or in another process, left.
    pub(crate) checkpoint: Option<Arc<RawValue>>,
    /// Its idempotency key, and the fingerprint of the request.
    idempotency: Option<(Box<str>, u64)>,
    /// The dead letter that it was.
    pub(crate) undead: Option<u64>,
    /// The schedule that asks for it, and when it was due.
    fired: Option<(String, u64)>,
    /// The attempt that begins on the thread that submits; none if it goes to the pool.
    here: Option<u32>,
}

impl Parts {
    pub(crate) fn new(request: Request, handler: Arc<Registered>, regions: Vec<Region>, how: Submit) -> Self {
        Self {
            id: None,
            affinity: request.affinity.as_ref().map(|key| spread(key)),
            timeout: request.timeout.or_else(|| handler.handler.timeout()),
            handler,
            regions,
            request,
            how,
            checkpoint: None,
            idempotency: None,
            undead: None,
            fired: None,
            here: None,
        }
    }
}

impl Shared {
    /// The handler and the regions that a request names.
    pub(crate) fn resolve(&self, request: &Request) -> Result<(&Arc<Registered>, Vec<Region>), TaskFailure> {
        if self.is_draining.load(Acquire) {
            return Err(draining());
        }
        let handler = self.registry.find(&request.target)?;
        Ok((handler, self.regions_of(handler, &request.args)?))
    }

    /// The regions that the arguments of a handler name.
    pub(crate) fn regions_of(
        &self,
        handler: &Registered,
        args: &RawValue,
    ) -> Result<Vec<Region>, TaskFailure> {
        let named = handler.handler.regions(args)?;
        let regions = named.iter().map(|region| self.symbols.resolve(&region.name, region.access));
        regions.collect()
    }

    /// How long a task has to wait before its first attempt.
    fn first_delay(&self, request: &Request) -> Result<Duration, TaskFailure> {
        let mut delay = request.delay;
        if let Some(at) = request.run_at_ms {
            let now = self.wall.unix_ns(Instant::now()) / 1_000_000;
            let wait = at.saturating_sub(now);
            let most = self.config.request.delay_ms_max;
            if wait > most {
                let message = format!(
                    "run_at: expected a moment within {most} ms from now, got one in {wait} ms; raise \
                     request.delay_max"
                );
                return Err(TaskFailure::new(ErrorCode::InvalidRequest, message));
            }
            delay = Duration::from_millis(wait);
        }
        match request.expires {
            Some(expires) if expires <= delay && !delay.is_zero() => {
                let message = format!(
                    "expires_ms: expected more than the {} ms before its time has come, got {}",
                    delay.as_millis(),
                    expires.as_millis()
                );
                Err(TaskFailure::new(ErrorCode::InvalidRequest, message))
            }
            _ => Ok(delay),
        }
    }

    /// Finds room for a task, unless one with its unique key is under way: then that one is it. `listed` is
    /// called once it can be found by its id.
    pub(crate) fn admit(
        self: &Arc<Self>,
        parts: Parts,
        listed: impl FnOnce(&Arc<Task>),
    ) -> Result<Accepted, TaskFailure> {
        let Some(key) = parts.request.unique_key.clone() else {
            return self.admit_new(parts, listed);
        };
        // Locked until the key has its task, so that a twin that comes meanwhile finds it.
        let mut uniques = self.uniques.lock();
        if let Some(task) = uniques.under_way(&key) {
            listed(&task);
            drop(uniques);
            return come_again(task, parts.how);
        }
        let with_key = |task: &Arc<Task>| {
            uniques.take(&key, task);
            drop(uniques);
            listed(task);
        };
        self.admit_new(parts, with_key)
    }

    /// Finds room for a task and sets it going.
    fn admit_new(
        self: &Arc<Self>,
        parts: Parts,
        listed: impl FnOnce(&Arc<Task>),
    ) -> Result<Accepted, TaskFailure> {
        let Parts { id, handler, regions, affinity, timeout, request, how, checkpoint, .. } = parts;
        let Parts { idempotency, undead, fired, here, .. } = parts;
        let earlier = how.earlier.unwrap_or_default();
        self.take_place()?;
        let id = id.unwrap_or_else(|| self.list.assign());
        let delay = request.delay;
        let wants = how.reader.as_ref().map(|reader| reader.wants);
        let task = Arc::new(Task::new(Fresh {
            shared: Arc::clone(self),
            id,
            sequence: self.list.next_sequence(),
            door: how.door,
            timeout,
            handler,
            regions,
            affinity,
            keep: how.keep,
            checkpoint: checkpoint.or(earlier.checkpoint),
            idempotency,
            request,
            reader: how.reader,
            // A mailbox file and a queue elsewhere keep what they hand in.
            is_durable: self.ledger.is_some()
                && here.is_none()
                && !matches!(how.door, DoorName::Mailbox | DoorName::Nats),
        }));
        if earlier.attempts > 0 {
            task.lock().attempt = earlier.attempts;
        }
        if !self.list.add(&task, first_stage(delay)) {
            self.give_back();
            let message = format!("task_id: another task is called {}; choose another id or none", task.id);
            return Err(TaskFailure::new(ErrorCode::DuplicateId, message));
        }
        listed(&task);
        self.tell_of_new(&task, first_stage(delay));
        let fired = fired.as_ref().map(|(name, at_ms)| (name.as_str(), *at_ms));
        let launched = self.launch(&task, delay, here, Along { undead, fired });
        let is_counted_later = matches!(launched, Ok(Launched::WhenKept));
        if let Err(failure) = launched
            && task.withdraw(&failure, false)
        {
            self.unlist(&task);
            self.give_back();
            return Err(failure);
        }
        if !is_counted_later {
            self.counts.accepted.count(task.door);
            task.handler.accepted.fetch_add(1, Relaxed);
        }
        let owner = task.lock().owner;
        let watching =
            wants.zip(owner).map(|(wants, number)| Watching::new(Arc::clone(&task), number, wants));
        Ok(Accepted { task, watching, is_new: true })
    }

    /// Sets a task going, or writes down that it is to go once that is kept.
    fn launch(
        &self,
        task: &Arc<Task>,
        delay: Duration,
        here: Option<u32>,
        along: Along<'_>,
    ) -> Result<Launched, TaskFailure> {
        // A stop that did not find the task in the list was over before, and its mark is seen here.
        if self.is_stopping.load(Acquire) {
            return Err(draining());
        }
        match (here, task.ledger()) {
            (Some(attempt), _) => task.begin_here(attempt),
            (None, None) => task.launch(delay).map_err(|no_room| self.no_room(&no_room))?,
            (None, Some(ledger)) => {
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                let due_ms = (!delay.is_zero()).then(|| self.now_ms().saturating_add(delay_ms));
                return ledger.accept(task, due_ms, along).map(|()| Launched::WhenKept);
            }
        }
        Ok(Launched::Now)
    }

    /// Takes a task off the list that was not accepted after all, with its keys.
    pub(crate) fn unlist(&self, task: &Arc<Task>) {
        self.uniques.free(task);
        // Both at once, or a twin would find the key and not its task.
        let keys = task.idempotency.as_ref().map(|(key, _)| {
            let mut keys = self.keys.lock(Instant::now());
            keys.release(key, task.id());
            keys
        });
        self.list.remove(task);
        drop(keys);
    }

    /// Tells listeners of a new task, unless somebody has found and ended it already.
    fn tell_of_new(&self, task: &Task, stage: Stage) {
        if self.events.anybody() {
            let state = task.lock();
            if state.stage == stage {
                self.events.tell(task, stage);
            }
        }
    }

    /// A place among those under way, and one for the outcome.
    fn take_place(&self) -> Result<(), TaskFailure> {
        let tasks_max = self.config.tasks_max;
        self.untold.fetch_add(1, SeqCst);
        let live = self.live.fetch_add(1, AcqRel);
        let refusal = if self.is_draining.load(SeqCst) {
            draining()
        } else if live >= tasks_max {
            let message =
                format!("{tasks_max} of {tasks_max} tasks are under way; come again, or raise tasks_max");
            TaskFailure::new(ErrorCode::QueueFull, message)
        } else if self.results.promise() {
            return Ok(());
        } else {
            self.results_are_full()
        };
        self.live.fetch_sub(1, AcqRel);
        self.was_told();
        Err(refusal)
    }

    /// The places of a task that was not accepted after all.
    pub(crate) fn give_back(&self) {
        self.results.unpromise();
        self.live.fetch_sub(1, AcqRel);
        self.was_told();
    }

    fn results_are_full(&self) -> TaskFailure {
        let stats = self.results.stats();
        let message = format!(
            "{} outcomes wait to be fetched and results.full is {:?}; fetch some, or raise results.max",
            stats.kept,
            if self.results_policy() == ResultsFull::Block { "block" } else { "refuse" },
        );
        TaskFailure::new(ErrorCode::QueueFull, message)
    }

    fn no_room(&self, no_room: &NoRoom) -> TaskFailure {
        match no_room {
            NoRoom::Full => {
                let capacity = self.config.pool.queue_capacity;
                let message =
                    format!("the queue is full: {capacity} wait; come again, or raise queue_capacity");
                TaskFailure::new(ErrorCode::QueueFull, message)
            }
            NoRoom::Closed => draining(),
        }
    }

    fn count(&self, refused: Refused) -> Refused {
        self.counts.was_refused(refused.failure.code);
        refused
    }
}

pub(crate) fn draining() -> TaskFailure {
    TaskFailure::new(ErrorCode::Draining, "the daemon is shutting down and takes no more tasks")
}

/// A key as a number. The same in every process, so that a key keeps its worker over a restart.
fn spread(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
