//! The simulator held against what is known without it: queueing theory, and the policy's own word.
//!
//! A simulator that is wrong in the third digit looks just like one that is right. So every figure it reports is
//! compared with a formula where there is one. Seeds are fixed, so these tests give the same figures on every machine;
//! tolerances are several times the standard error of runs of this length where they are not exact.

mod accounts;
mod scaling;
mod stealing;
mod theory;
