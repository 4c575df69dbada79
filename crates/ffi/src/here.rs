//! A pool in this process: a service, and what C needs around it.
//!
//! The service keeps the results, within its limits, and each is handed over once. Numbers are found again as
//! ids (`numbers.rs`), callbacks have a thread of their own (`callbacks.rs`), streams a reader each
//! (`stream.rs`).
//!
//! Not here: a pool in a daemon (`there.rs`).

use crate::border::{nothing_to_report, wrong};
use crate::callbacks::{self, Callback, Callbacks};
use crate::lent_memory::{Gone, LentMemory};
use crate::numbers::{Numbers, Special, deadline};
use crate::ready::Ready;
use crate::registered::{self, Function, PoolHandler};
use crate::result::OwnedResult;
use crate::setup;
use crate::stream::{Next, StreamReader};
use millpond_shm::MemoryDoor;
use millpond_tasks::config::Isolation;
use millpond_tasks::symbols::Access;
use millpond_tasks::{
    DoorName, ErrorCode, Outcome, Reader, Refused, Request, Service, ServiceHandle, Submit, Symbols,
    TaskFailure, TaskId, Wants,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the end of a task may take to be told to its callback. It is a matter of microseconds.
const TOLD_WITHIN_MS: u32 = 60_000;

/// How long programs that have attached may take to read their last answers.
const LAST_ANSWERS_TIME: Duration = Duration::from_secs(5);

/// A pool in this process.
pub(crate) struct Here {
    /// The number of its handle.
    pool: usize,
    /// None once it was shut down.
    service: Mutex<Option<Service>>,
    /// Where other programs attach. None if the pool has no name, or was shut down.
    door: Mutex<Option<MemoryDoor>>,
    handle: ServiceHandle,
    numbers: Arc<Numbers>,
    callbacks: Callbacks,
    ready: Ready,
    /// Held while a result is handed over, so that no two get it.
    handing_over: Mutex<()>,
    /// Memory that C has lent, by name.
    lent: Mutex<HashMap<Box<str>, Lent>>,
    drain_timeout: Duration,
    /// Whether handlers run in processes of their own.
    isolates: bool,
}

/// Memory that C has lent.
#[derive(Clone)]
struct Lent {
    start: usize,
    size: u32,
    gone: Arc<Gone>,
}

/// What the caller wants of a task that it submits.
pub(crate) enum Want {
    Result,
    Stream,
    Callback(Callback),
}

impl Here {
    /// Starts a pool of this number.
    pub(crate) fn start(path: Option<&str>, pool: usize) -> Result<Self, TaskFailure> {
        let started = setup::start(path, pool)?;
        Ok(Self {
            pool,
            handle: started.service.handle(),
            service: Mutex::new(Some(started.service)),
            door: Mutex::new(started.door),
            numbers: Arc::default(),
            callbacks: Callbacks::default(),
            ready: Ready::new(started.settings.results.clone()),
            handing_over: Mutex::default(),
            lent: Mutex::default(),
            drain_timeout: started.settings.drain_timeout,
            isolates: started.settings.isolation.mode == Isolation::Process,
        })
    }

    /// Takes in a request, and says its number.
    pub(crate) fn submit(&self, text: &[u8], want: Want) -> Result<u64, TaskFailure> {
        let request =
            Request::parse(text, self.handle.limits()).map_err(|error| Refused::from(error).failure)?;
        if !matches!(want, Want::Stream)
            && let Some(quick) = self.handle.quick_number(&request)
            && self.ready.has_room()
            && let Some(number) = self.answer_at_once(quick, &request, &want)?
        {
            return Ok(number);
        }
        let callback = match want {
            Want::Callback(callback) => Some(callback),
            _ => None,
        };
        if callback.is_some() {
            self.callbacks.take_place(self.pool, self.handle.config().tasks_max)?;
        }
        let submitted = self.submit_request(request, matches!(want, Want::Stream), callback);
        if submitted.is_err() && callback.is_some() {
            self.callbacks.give_back();
        }
        submitted
    }

    /// Runs a quick handler here and now. None if it is not quick after all.
    fn answer_at_once(&self, quick: u32, request: &Request, want: &Want) -> Result<Option<u64>, TaskFailure> {
        if let Want::Callback(_) = want {
            self.callbacks.take_place(self.pool, self.handle.config().tasks_max)?;
        }
        let mut json = Vec::new();
        let door = DoorName::Library;
        let answer = self.handle.answer_quick(quick, &request.args, door, Duration::ZERO, &mut json);
        let refused = matches!(&answer, Some(Err(failure)) if failure.code == ErrorCode::Draining);
        if answer.is_none() || refused {
            if let Want::Callback(_) = want {
                self.callbacks.give_back();
            }
            return answer.transpose().map(|_| None);
        }
        let number = self.numbers.next();
        let result = match answer {
            Some(Err(failure)) => OwnedResult::failure(number, failure.code.number(), &failure.message),
            _ => OwnedResult::success(number, &json),
        };
        if let Want::Callback(callback) = want {
            self.callbacks.call(*callback, result);
        } else {
            self.ready.keep(number, result);
            self.numbers.has_ended(number);
        }
        Ok(Some(number))
    }

    fn submit_request(
        &self,
        mut request: Request,
        streams: bool,
        callback: Option<Callback>,
    ) -> Result<u64, TaskFailure> {
        let number = self.numbers.next();
        let stream = streams.then(|| Arc::new(StreamReader::default()));
        let special = Special {
            id: request.id.clone(),
            stream: stream.clone(),
            has_callback: callback.is_some(),
            is_fetched: false,
        };
        let is_special = special.id.is_some() || streams || special.has_callback;
        if is_special {
            // Before it can end, and be asked for.
            self.numbers.note(number, special, &self.handle);
        }
        request.id.get_or_insert(TaskId::Assigned(number));
        let reader = stream.clone().map(|who| Reader { who, tag: number, wants: Wants::Stream { from: 0 } });
        let how = Submit { reader, keep: callback.is_none(), ..Submit::default() };
        let accepted = match self.handle.submit_request(request, how) {
            Ok(accepted) => accepted,
            Err(refused) => {
                self.numbers.forget(number);
                return Err(refused.failure);
            }
        };
        // With a journal, accepted means kept.
        if let Err(refused) = accepted.wait_kept() {
            self.numbers.forget(number);
            return Err(refused.failure);
        }
        if accepted.is_new {
            self.numbers.named(accepted.task.id(), number);
        } else if callback.is_none() {
            // The same request came before, so this is the same task, by its own number.
            self.numbers.forget(number);
            return Ok(self.numbers.number_of(accepted.task.id()).unwrap_or(number));
        }
        if let (Some(stream), Some(watching)) = (&stream, accepted.watching) {
            stream.begin(watching);
        }
        let (numbers, callbacks) = (Arc::clone(&self.numbers), self.callbacks.clone());
        accepted.task.on_end(move |_, outcome: &Outcome| match callback {
            Some(callback) => {
                callbacks.call(callback, OwnedResult::of(number, outcome));
                numbers.forget(number);
            }
            None => numbers.has_ended(number),
        });
        Ok(number)
    }

    /// The result of a task, if it has ended; it is handed over.
    pub(crate) fn poll(&self, number: u64) -> Result<OwnedResult, TaskFailure> {
        let id = self.id_of(number)?;
        let alone = self.handing_over.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = self.ready.take(number) {
            self.numbers.was_fetched(number);
            return Ok(result);
        }
        let task = self.handle.take(&id).map_err(|failure| about(number, failure))?;
        self.numbers.was_fetched(number);
        drop(alone);
        let result = task.outcome().map(|outcome| OwnedResult::of(number, outcome));
        result.ok_or_else(|| wrong(format!("task {number}: it has no outcome")))
    }

    /// As [`poll`](Self::poll), waiting for the end at most so long.
    pub(crate) fn wait(&self, number: u64, timeout_ms: u32) -> Result<OwnedResult, TaskFailure> {
        let id = self.id_of(number)?;
        // One that is not there was quick, or its result was fetched.
        if let Ok(task) = self.handle.get(&id) {
            task.wait(Duration::from_millis(timeout_ms.into()));
        }
        self.poll(number)
    }

    /// The result of whichever task ended, waiting for one at most so long.
    pub(crate) fn next(&self, timeout_ms: u32) -> Result<OwnedResult, TaskFailure> {
        let until = deadline(timeout_ms);
        while let Some(number) = self.numbers.next_ended(until) {
            let polled = self.poll(number);
            let is_fetched = self.numbers.was_tried(number);
            match polled {
                Ok(result) => return Ok(result),
                // Somebody else had asked for it by its number.
                Err(_) if is_fetched => {}
                // There was no room for it any more, and whoever counts the ends must hear of it.
                Err(failure) => {
                    self.numbers.forget(number);
                    return Ok(OwnedResult::failure(number, failure.code.number(), &failure.message));
                }
            }
        }
        Err(TaskFailure::new(ErrorCode::NotEnded, "no task has ended whose result was not fetched"))
    }

    /// What a task says next. None: the stream is over.
    pub(crate) fn next_partial(
        &self,
        number: u64,
        timeout_ms: u32,
    ) -> Result<Option<OwnedResult>, TaskFailure> {
        let Some(stream) = self.numbers.special(number).stream else {
            self.id_of(number)?;
            let message = format!(
                "task {number}: expected one of threadpool_submit_streaming whose stream was not read to its end, \
                 got another"
            );
            return Err(wrong(message));
        };
        match stream.next(deadline(timeout_ms)) {
            Next::Event(line) => Ok(Some(OwnedResult::success(number, &line))),
            Next::NotYet => {
                let message = format!("task {number} has said nothing more yet");
                Err(TaskFailure::new(ErrorCode::NotEnded, message))
            }
            Next::Over => {
                self.numbers.stream_is_over(number);
                nothing_to_report();
                Ok(None)
            }
        }
    }

    pub(crate) fn cancel(&self, number: u64) -> Result<(), TaskFailure> {
        if self.ready.has(number) {
            let message = format!("task {number} has ended and cannot be cancelled");
            return Err(TaskFailure::new(ErrorCode::AlreadyEnded, message));
        }
        let special = self.numbers.special(number);
        let id = special.id.unwrap_or(TaskId::Assigned(number));
        self.handle.cancel(&id).map_err(|failure| about(number, failure))
    }

    /// Finishes what was accepted, as long as `drain_timeout` allows, then ends everything. No callback is
    /// called, and no handler runs, after this.
    pub(crate) fn shut_down(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(service) = service {
            // What other programs have put into their memory was accepted as well.
            if let Some(door) = &door {
                door.drain(self.drain_timeout);
            }
            service.drain(self.drain_timeout);
            // C frees what its functions use once this returns, so they are waited for as long as they take.
            service.stop(Duration::MAX);
        }
        if let Some(door) = door {
            door.close(LAST_ANSWERS_TIME);
        }
        self.numbers.close();
        // A task that was ended just now may still be telling of it.
        self.callbacks.wait_until_idle(deadline(TOLD_WITHIN_MS));
        self.callbacks.close();
    }

    /// Whether this thread runs a handler or a callback of this pool.
    pub(crate) fn is_on_own_thread(&self) -> bool {
        registered::is_thread_of(self.pool) || callbacks::is_thread_of(self.pool)
    }

    /// The id of a task whose result may be fetched.
    fn id_of(&self, number: u64) -> Result<TaskId, TaskFailure> {
        if !self.numbers.was_given(number) {
            let message = format!("no task {number} is known; expected a number that submitting gave");
            return Err(TaskFailure::new(ErrorCode::NotFound, message));
        }
        let special = self.numbers.special(number);
        if special.has_callback {
            return Err(wrong(format!("task {number}: its result goes to its callback")));
        }
        Ok(special.id.unwrap_or(TaskId::Assigned(number)))
    }
}

/// Memory that C lends.
impl Here {
    /// Lends memory to tasks under a name.
    ///
    /// # Safety
    /// `size` bytes from `start` on can be read and written until [`unregister`](Self::unregister) has
    /// returned, or the pool is shut down.
    pub(crate) unsafe fn register(&self, name: &str, start: *mut u8, size: u32) -> Result<(), TaskFailure> {
        let gone = Arc::new(Gone::default());
        // SAFETY: the caller's promise, and `unregister` and `shut_down` wait for `gone`.
        let memory = unsafe { LentMemory::new(start, size as usize, Arc::clone(&gone)) };
        let mut lent = self.lent();
        self.symbols()
            .register(name, Arc::new(memory), Access::ReadWrite)
            .map_err(|error| wrong(error.to_string()))?;
        lent.insert(name.into(), Lent { start: start.expose_provenance(), size, gone });
        Ok(())
    }

    /// Where memory lies that C has lent under this name, and how much of it.
    pub(crate) fn resolve(&self, name: &str) -> Result<(*mut u8, u32), TaskFailure> {
        if let Some(lent) = self.lent().get(name) {
            return Ok((std::ptr::with_exposed_provenance_mut(lent.start), lent.size));
        }
        // For the words about names that are like it.
        self.symbols().resolve(name, Access::Read)?;
        Err(wrong(format!("region {name:?}: it is the pool's own, and only tasks reach it")))
    }

    /// Takes a name away, and waits until no task can touch the memory.
    pub(crate) fn unregister(&self, name: &str) -> Result<(), TaskFailure> {
        let mut lent = self.lent();
        self.symbols().unregister(name).map_err(|error| wrong(error.to_string()))?;
        let gone = lent.remove(name).map(|lent| lent.gone);
        drop(lent);
        if let Some(gone) = gone {
            gone.wait();
        }
        Ok(())
    }

    fn symbols(&self) -> &Symbols {
        self.handle.symbols()
    }

    fn lent(&self) -> MutexGuard<'_, HashMap<Box<str>, Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handlers that are registered while the pool runs.
impl Here {
    pub(crate) fn add_handler(&self, name: &str, function: Function) -> Result<(), TaskFailure> {
        if self.isolates {
            return Err(wrong(format!(
                "handler {name:?}: expected it to be registered before the pool was created, with NULL for the pool, \
                 since its worker processes have only what there was then (isolation = \"process\")"
            )));
        }
        let handler = PoolHandler::new(function, 0, self.pool);
        self.handle.add_handler(name, Box::new(handler)).map_err(|error| wrong(error.to_string()))
    }
}

/// What the service says about an id, in terms of the number that C knows.
fn about(number: u64, failure: TaskFailure) -> TaskFailure {
    let message = match failure.code {
        ErrorCode::NotEnded => format!("task {number} has not ended"),
        ErrorCode::NotFound | ErrorCode::ResultGone => {
            return TaskFailure::new(
                ErrorCode::ResultGone,
                format!("task {number}: its result was fetched, or is no longer kept"),
            );
        }
        _ => format!("task {number}: {}", failure.message),
    };
    TaskFailure { message, ..failure }
}
