//! The atoms everything else is built from: atomics, cells, threads and locks of one of four makes.
//!
//! Which make is chosen when building, so that the very same queue code is what runs and what is checked:
//!
//! | cfg | make | what it finds |
//! |---|---|---|
//! | none | `core`, `std` | nothing: this is the product |
//! | `loom` | loom | missing orderings, data races, lost wake-ups |
//! | `loom`, `shadow` | loom with shadowed atomics | the interleavings plain loom silently skips |
//! | `shuttle` | shuttle | logic errors, deep schedules, sequentially consistent |
//!
//! loom 0.7 skips the order "B's store before A's earlier load" when B loads the atomic before it stores to it.
//! A *shadowed* atomic makes every access a read-modify-write of a second, private atomic first. That makes all
//! accesses to one location depend on one another for the search, and adds no ordering of its own.
//!
//! Not here: the names of the orderings (`edge.rs`), the checkers' settings (`model.rs`).

#[cfg(not(any(loom, shuttle)))]
mod make {
    pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
    #[cfg(feature = "std")]
    pub use std::sync::{Arc, Mutex};

    /// A cell with loom's interface, so that the models can watch who reads and who writes.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        /// Lends the value for reading; nobody may write meanwhile.
        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Lends the value for writing; nobody else may touch it meanwhile.
        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Tells the processor that this thread waits for another one's next step.
    #[inline]
    pub fn spin_loop() {
        core::hint::spin_loop();
    }

    /// Lets another thread run: whoever is waited for may have lost its processor.
    #[inline]
    pub fn yield_now() {
        #[cfg(feature = "std")]
        std::thread::yield_now();
        #[cfg(not(feature = "std"))]
        core::hint::spin_loop();
    }

    /// What this thread wrote before is seen by whoever fences after it, or else this thread sees what they wrote:
    /// `fence(SeqCst)`, which the compiler makes an `mfence` of on x86-64. Any locked instruction does the same there
    /// in a third of the time, as other compilers know.
    #[inline(always)]
    pub fn full_fence() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: adding nothing to the word at the top of the stack changes no memory; the red zone below the
        // pointer is not touched. As the block may read and write memory, the compiler moves nothing across it.
        unsafe {
            core::arch::asm!("lock or dword ptr [rsp], 0", options(nostack))
        };
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }

    /// As `full_fence`, right after a read-modify-write of this thread: on x86-64 that was one.
    #[inline(always)]
    pub fn fence_after_swap() {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        full_fence();
    }

    /// Leaves the processor to others for a while.
    #[cold]
    pub fn nap() {
        #[cfg(feature = "std")]
        std::thread::sleep(core::time::Duration::from_micros(50));
        #[cfg(not(feature = "std"))]
        core::hint::spin_loop();
    }
}

#[cfg(all(loom, not(shadow)))]
mod make {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
}

#[cfg(all(loom, shadow))]
mod make {
    use core::sync::atomic::Ordering;
    use loom::sync::atomic::AtomicU32 as Shadow;

    macro_rules! shadowed {
        ($name:ident $(<$t:ident>)?, $value:ty, $inner:ty) => {
            #[derive(Debug)]
            pub struct $name $(<$t>)? {
                inner: $inner,
                shadow: Shadow,
            }

            #[allow(dead_code, reason = "one interface for all widths; no queue uses the whole of it")]
            impl $(<$t>)? $name $(<$t>)? {
                pub fn new(value: $value) -> Self {
                    Self { inner: <$inner>::new(value), shadow: Shadow::new(0) }
                }
                fn touch(&self) -> &$inner {
                    self.shadow.fetch_add(1, Ordering::Relaxed);
                    &self.inner
                }
                pub fn load(&self, order: Ordering) -> $value {
                    self.touch().load(order)
                }
                pub fn store(&self, value: $value, order: Ordering) {
                    self.touch().store(value, order);
                }
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.touch().swap(value, order)
                }
                pub fn compare_exchange(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.touch().compare_exchange(old, new, success, failure)
                }
                pub fn compare_exchange_weak(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.touch().compare_exchange(old, new, success, failure)
                }
            }
        };
    }

    macro_rules! shadowed_arithmetic {
        ($name:ident, $value:ty) => {
            #[allow(dead_code, reason = "one interface for all widths; no queue uses the whole of it")]
            impl $name {
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_add(value, order)
                }
                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_sub(value, order)
                }
                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_or(value, order)
                }
                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_and(value, order)
                }
                pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_max(value, order)
                }
            }
        };
    }

    shadowed!(AtomicU32, u32, loom::sync::atomic::AtomicU32);
    shadowed!(AtomicU64, u64, loom::sync::atomic::AtomicU64);
    shadowed!(AtomicPtr<T>, *mut T, loom::sync::atomic::AtomicPtr<T>);
    shadowed_arithmetic!(AtomicU32, u32);
    shadowed_arithmetic!(AtomicU64, u64);
}

#[cfg(loom)]
mod make_loom {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::{Arc, Mutex};
    pub use loom::thread;
    pub use loom::thread_local;

    pub fn full_fence() {
        loom::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }

    pub fn fence_after_swap() {
        full_fence();
    }

    pub fn spin_loop() {
        // A spinning thread gives way, or the search would spin for ever.
        thread::yield_now();
    }

    pub fn yield_now() {
        thread::yield_now();
    }

    pub fn nap() {
        thread::yield_now();
    }
}

#[cfg(shuttle)]
mod make {
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
    pub use shuttle::sync::{Arc, Mutex};
    pub use shuttle::thread;
    pub use shuttle::thread_local;

    /// Shuttle is sequentially consistent and runs one thread at a time, so a plain cell will do; loom is the
    /// one that watches for races.
    #[derive(Debug)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Nothing to do: shuttle shows every write at once.
    pub fn full_fence() {}

    /// As above.
    pub fn fence_after_swap() {}

    pub fn spin_loop() {
        thread::yield_now();
    }

    pub fn yield_now() {
        thread::yield_now();
    }

    pub fn nap() {
        thread::yield_now();
    }
}

pub use core::sync::atomic::Ordering;
pub use make::*;
#[cfg(loom)]
pub use make_loom::*;

/// Asks for a cache line that this thread will write soon, so that the transfer runs beside other work.
#[inline(always)]
pub fn expect_to_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
    // SAFETY: a prefetch is a hint: it touches no memory the program can see and cannot fault.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
    let _ = line;
}
