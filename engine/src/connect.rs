//! The systems that jobs read from and write to, each in a module of its own, whose head says how
//! it keeps the contracts of [`source`](crate::source) and [`sink`](crate::sink).

pub mod embedded;
pub mod file;
