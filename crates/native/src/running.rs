//! What lies behind a C task while its function runs, and the calls a function makes about it.
//!
//! ```text
//!   task_t*  ──►┌───────────────────────────┐
//!               │ opcode … result_size      │ what C sees; the high half of `flags` is the mark
//!               ├───────────────────────────┤
//!               │ operations                │ whose functions to call; NULL while nothing runs
//!               ├───────────────────────────┤
//!               │ call, answer              │ known to those functions alone
//!               └───────────────────────────┘
//! ```
//!
//! A handler library that `millpond serve` has loaded brings its own copy of this code with libmillpond. That
//! copy must not touch the lower part, which belongs to the daemon's; it follows `operations` instead.
//!
//! C may hand in a task that is none. One that it made itself lacks the mark. One that has ended has lost it,
//! and its memory is still there: each thread keeps what it ran its tasks in, and uses it again.
//!
//! Not here: when a function is called (`handler.rs`).

use crate::c_task::{FLAG_ERROR, NativeFunction, task};
use millpond_tasks::{Call, ErrorCode, Stopped, TaskFailure, TaskId};
use serde_json::value::RawValue;
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, PoisonError};

/// In the high half of `flags` of every task that runs.
const MARK: u32 = 0x6D70_0000;
const MARK_MASK: u32 = 0xFFFF_0000;
/// At the start of [`Operations`], to tell ours from chance.
const OPERATIONS_MAGIC: u64 = u64::from_le_bytes(*b"millops1");

/// What may be asked about a task that runs, by whichever copy of this code runs it. It only ever grows at
/// its end, with a new magic number if the meaning of a line changes.
#[repr(C)]
struct Operations {
    magic: u64,
    set_result: unsafe extern "C" fn(*const task, *const u8, usize) -> i32,
    set_error: unsafe extern "C" fn(*const task, i32, *const u8, usize) -> i32,
    partial: unsafe extern "C" fn(*const task, *const u8, usize) -> i32,
    is_cancelled: unsafe extern "C" fn(*const task) -> i32,
}

static OPERATIONS: Operations = Operations {
    magic: OPERATIONS_MAGIC,
    set_result: set_result_here,
    set_error: set_error_here,
    partial: partial_here,
    is_cancelled: is_cancelled_here,
};

/// The picture above.
#[repr(C)]
struct Running {
    task: task,
    operations: AtomicPtr<Operations>,
    /// NULL while nothing runs, and for a task that is answered at once.
    call: *const Call,
    answer: Mutex<Answer>,
}

/// What the function has said so far; the last word counts.
#[derive(Default)]
enum Answer {
    #[default]
    None,
    Result(Box<RawValue>),
    Error(TaskFailure),
}

/// What a function is run with.
pub(crate) struct Run<'a> {
    pub(crate) function: NativeFunction,
    pub(crate) opcode: u32,
    pub(crate) args: &'a RawValue,
    /// None if the task is answered at once.
    pub(crate) call: Option<&'a Call>,
}

/// Runs a function to its end and says what it answered.
pub(crate) fn run(run: &Run<'_>) -> Result<Box<RawValue>, TaskFailure> {
    // JSON has no NUL, so this is the string that C takes it for. The function may write to its own copy.
    let mut args = Vec::with_capacity(run.args.get().len() + 1);
    args.extend_from_slice(run.args.get().as_bytes());
    args.push(0);
    let place = Place::take();
    let running = place.0.as_ptr();
    let shown = task {
        opcode: run.opcode,
        args: args.as_mut_ptr().cast(),
        assigned_to: millpond::current_worker().map_or(0, |worker| worker as u32 + 1),
        flags: MARK,
        task_id: run.call.map_or(0, |call| number(call.task_id())),
        result: ptr::null_mut(),
        result_size: 0,
    };
    // SAFETY: the place is this thread's alone until `operations` is set below, and it is a whole `Running`.
    unsafe { (*running).call = run.call.map_or(ptr::null(), ptr::from_ref) };
    // SAFETY: as above. What was there is a task that has ended and owns nothing.
    unsafe { (*running).task = shown };
    // SAFETY: as above; the place lives as long as its thread.
    unsafe { &(*running).operations }.store((&raw const OPERATIONS).cast_mut(), Release);
    // SAFETY: it points to the first field of the place, whose provenance covers all of it, and the function
    // gets what its type asks for: a task that stays until it returns, with arguments that do so too.
    unsafe { (run.function)(running.cast()) };
    // SAFETY: the place is whole, and whoever asks about the task after this is told that it is none.
    unsafe { &(*running).operations }.store(ptr::null_mut(), Release);
    // SAFETY: the function has returned, and with it the right of its threads to look at the task, as the
    // header says; so this thread is again alone with the place.
    let left = unsafe { mem::replace(&mut (*running).task, NOTHING) };
    // SAFETY: the place is whole and the lock is only lent.
    let answer = mem::take(&mut *lock(unsafe { &(*running).answer }));
    verdict(answer, &left)
}

/// What the function answered, by a call or in the fields of the task.
fn verdict(answer: Answer, left: &task) -> Result<Box<RawValue>, TaskFailure> {
    let written = TakenResult::of(left);
    match answer {
        Answer::Error(failure) => Err(failure),
        _ if left.flags & FLAG_ERROR != 0 => {
            let message = String::from_utf8_lossy(written.bytes()).trim_end_matches('\0').to_owned();
            Err(TaskFailure::new(ErrorCode::HandlerError, message))
        }
        Answer::Result(value) => Ok(value),
        Answer::None => read_result(written.bytes()),
    }
}

/// A result that a function left in `task->result`. It comes from `malloc`, and goes when this does.
struct TakenResult {
    data: *mut c_void,
    bytes: usize,
}

impl TakenResult {
    fn of(left: &task) -> Self {
        let bytes = if left.result.is_null() { 0 } else { left.result_size as usize };
        Self { data: left.result, bytes }
    }

    fn bytes(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the function has put so many bytes there, as the header asks of it, and nobody frees them
        // before `drop`.
        unsafe { slice::from_raw_parts(self.data.cast(), self.bytes) }
    }
}

impl Drop for TakenResult {
    fn drop(&mut self) {
        // SAFETY: NULL, or memory from `malloc` that the function left to the pool, as the header asks of it.
        unsafe { libc::free(self.data) };
    }
}

/// A task that does not run.
const NOTHING: task = task {
    opcode: 0,
    args: ptr::null_mut(),
    assigned_to: 0,
    flags: 0,
    task_id: 0,
    result: ptr::null_mut(),
    result_size: 0,
};

fn number(id: &TaskId) -> u64 {
    match id {
        TaskId::Number(number) | TaskId::Assigned(number) => *number,
        TaskId::Name(_) => 0,
    }
}

/// JSON on one line. Nothing at all is `null`, and one NUL at the end is not counted against anybody.
fn read_result(bytes: &[u8]) -> Result<Box<RawValue>, TaskFailure> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Ok(RawValue::NULL.to_owned());
    }
    let not_json = |words: String| {
        let message = format!("the handler's answer: expected JSON, got what is not: {words}");
        TaskFailure::new(ErrorCode::HandlerError, message)
    };
    let text = str::from_utf8(bytes).map_err(|error| not_json(error.to_string()))?;
    // In JSON a line break is never part of a string.
    let text = if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text.to_owned() };
    RawValue::from_string(text).map_err(|error| not_json(error.to_string()))
}

fn lock(answer: &Mutex<Answer>) -> std::sync::MutexGuard<'_, Answer> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}

// What C asks for, by way of the exported functions.

/// Answers the task with a JSON text. The last answer counts.
///
/// # Safety
/// `task` is NULL, or points to a [`task`]: that of a handler that has not returned, or any other memory that
/// can be read.
pub unsafe fn set_result(task: *const task, json: &[u8]) -> Result<(), TaskFailure> {
    // SAFETY: the caller makes the same promise to this function as it asks for.
    let operations = unsafe { operations(task) }?;
    // SAFETY: the task runs, and its own copy of this code has said that this is the function to call.
    match unsafe { (operations.set_result)(task, json.as_ptr(), json.len()) } {
        0 => Ok(()),
        // It is only wrong JSON that is refused, so reading it here finds the words again.
        _ => Err(read_result(json).err().unwrap_or_else(not_a_task)),
    }
}

/// Fails the task. A code that is not in the table becomes [`ErrorCode::HandlerError`].
///
/// # Safety
/// As [`set_result`].
pub unsafe fn set_error(task: *const task, code: i32, message: &str) -> Result<(), TaskFailure> {
    // SAFETY: the caller makes the same promise to this function as it asks for.
    let operations = unsafe { operations(task) }?;
    // SAFETY: the task runs, and its own copy of this code has said that this is the function to call.
    unsafe { (operations.set_error)(task, code, message.as_ptr(), message.len()) };
    Ok(())
}

/// Adds a partial result to the task's stream. May wait for a reader.
///
/// # Safety
/// As [`set_result`].
pub unsafe fn partial(task: *const task, json: &[u8]) -> Result<(), TaskFailure> {
    // SAFETY: the caller makes the same promise to this function as it asks for.
    let operations = unsafe { operations(task) }?;
    // SAFETY: the task runs, and its own copy of this code has said that this is the function to call.
    let code = unsafe { (operations.partial)(task, json.as_ptr(), json.len()) };
    match ErrorCode::from_number(code) {
        _ if code == 0 => Ok(()),
        Some(ErrorCode::Cancelled) => Err(Stopped::Over.into()),
        Some(ErrorCode::TooLarge) => Err(TaskFailure::new(
            ErrorCode::TooLarge,
            format!(
                "the partial result has {} bytes; send less at a time or raise stream.chunk_bytes_max",
                json.len()
            ),
        )),
        Some(ErrorCode::BadArguments) => Err(TaskFailure::new(
            ErrorCode::BadArguments,
            "a quick handler has no stream; register it without THREADPOOL_QUICK",
        )),
        _ => Err(read_result(json).err().unwrap_or_else(not_a_task)),
    }
}

/// Whether the answer is no longer wanted.
///
/// # Safety
/// As [`set_result`].
pub unsafe fn is_cancelled(task: *const task) -> Result<bool, TaskFailure> {
    // SAFETY: the caller makes the same promise to this function as it asks for.
    let operations = unsafe { operations(task) }?;
    // SAFETY: the task runs, and its own copy of this code has said that this is the function to call.
    Ok(unsafe { (operations.is_cancelled)(task) } != 0)
}

fn not_a_task() -> TaskFailure {
    let message = "task: expected the one that a handler was given and has not returned from, got another";
    TaskFailure::new(ErrorCode::BadArguments, message)
}

/// Whom to ask about a task.
///
/// # Safety
/// As [`set_result`].
unsafe fn operations(task: *const task) -> Result<&'static Operations, TaskFailure> {
    if task.is_null() || !task.is_aligned() {
        return Err(not_a_task());
    }
    // SAFETY: the caller says that a task lies here, so its field lies within the same memory.
    let flags = unsafe { &raw const (*task).flags };
    // SAFETY: as above, it can be read. It may be changed meanwhile, by the function or by the end of the call,
    // so the read is volatile: whatever comes is only compared.
    let flags = unsafe { ptr::read_volatile(flags) };
    if flags & MARK_MASK != MARK {
        return Err(not_a_task());
    }
    let running: *const Running = task.cast();
    // SAFETY: only `run` sets the mark, on tasks that are the beginning of a `Running`; of another copy's only
    // the fields up to this one are known, and they are laid out alike.
    let operations = unsafe { &(*running).operations }.load(Acquire);
    // SAFETY: NULL, or the table of the copy that runs the task, which is loaded and never changes.
    let operations = unsafe { operations.as_ref() }.ok_or_else(not_a_task)?;
    if operations.magic == OPERATIONS_MAGIC { Ok(operations) } else { Err(not_a_task()) }
}

// What the table says. They are called for tasks of this copy alone.

unsafe extern "C" fn set_result_here(task: *const task, data: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller, `set_result`, lends so many bytes for the time of the call.
    let json = unsafe { slice::from_raw_parts(data, bytes) };
    match read_result(json) {
        // SAFETY: the table is reached only through a task that runs here.
        Ok(value) => unsafe { answer(task, Answer::Result(value)) },
        Err(failure) => failure.code.number(),
    }
}

unsafe extern "C" fn set_error_here(task: *const task, code: i32, data: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller, `set_error`, lends so many bytes for the time of the call.
    let message = unsafe { slice::from_raw_parts(data, bytes) };
    let message = String::from_utf8_lossy(message);
    let known = ErrorCode::from_number(code).filter(|code| code.number() != 0);
    let failure = match known {
        Some(code) => TaskFailure::new(code, message),
        None => TaskFailure::new(ErrorCode::HandlerError, format!("code {code}: {message}")),
    };
    // SAFETY: the table is reached only through a task that runs here.
    unsafe { answer(task, Answer::Error(failure)) }
}

/// # Safety
/// The task runs, and in this copy of the code.
unsafe fn answer(task: *const task, said: Answer) -> i32 {
    let running: *const Running = task.cast();
    // SAFETY: it runs here, so it is a whole `Running`, whose lock is there for any thread.
    *lock(unsafe { &(*running).answer }) = said;
    0
}

unsafe extern "C" fn partial_here(task: *const task, data: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller, `partial`, lends so many bytes for the time of the call.
    let json = unsafe { slice::from_raw_parts(data, bytes) };
    // SAFETY: the table is reached only through a task that runs here.
    let Some(call) = (unsafe { call_of(task) }) else { return ErrorCode::BadArguments.number() };
    let said = read_result(json).map(|value| call.partial(value));
    match said {
        Ok(Ok(())) => 0,
        Ok(Err(Stopped::Over)) => ErrorCode::Cancelled.number(),
        Ok(Err(Stopped::TooLarge(failure))) | Err(failure) => failure.code.number(),
    }
}

unsafe extern "C" fn is_cancelled_here(task: *const task) -> i32 {
    // SAFETY: the table is reached only through a task that runs here.
    unsafe { call_of(task) }.is_some_and(Call::is_cancelled).into()
}

/// # Safety
/// The task runs, and in this copy of the code.
unsafe fn call_of<'a>(task: *const task) -> Option<&'a Call> {
    let running: *const Running = task.cast();
    // SAFETY: it runs here, so it is a whole `Running`, and `call` was written before anybody knew of it.
    let call = unsafe { (*running).call };
    // SAFETY: NULL, or the call that `run` borrows until the function has returned; a call is made for any
    // thread.
    unsafe { call.as_ref() }
}

/// Memory for one running task. It goes back to its thread.
struct Place(NonNull<Running>);

/// What a thread has to run tasks in, and gives back when it ends.
struct Places(Vec<NonNull<Running>>);

thread_local! {
    static PLACES: RefCell<Places> = const { RefCell::new(Places(Vec::new())) };
}

impl Place {
    fn take() -> Self {
        // A thread that is ending has none to lend, and makes one for this task.
        let kept = PLACES.try_with(|places| places.borrow_mut().0.pop()).ok().flatten();
        Self(kept.unwrap_or_else(|| {
            let fresh = Running {
                task: NOTHING,
                operations: AtomicPtr::new(ptr::null_mut()),
                call: ptr::null(),
                answer: Mutex::default(),
            };
            NonNull::from(Box::leak(Box::new(fresh)))
        }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if PLACES.try_with(|places| places.borrow_mut().0.push(self.0)).is_err() {
            free(self.0);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.0.drain(..).for_each(free);
    }
}

fn free(place: NonNull<Running>) {
    // SAFETY: every place comes from a box, is in one list or one `Place` only, and whoever calls this has just
    // taken it from there. No task runs in it.
    drop(unsafe { Box::from_raw(place.as_ptr()) });
}
