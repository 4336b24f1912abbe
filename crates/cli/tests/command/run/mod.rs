//! `fairlock run`: a command has its turn, ends as it would without a lock, and has ended before its lease does.

mod alike;
mod bounds;
mod clock;
mod entrance;
mod files;
mod metrics;
mod promise;
mod reboot;
mod refused;
mod several;
mod sharing;
mod strace;
mod wait;
