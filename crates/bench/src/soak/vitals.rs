//! What this process uses at a moment: memory, connections, file descriptors, tasks and threads.

use std::collections::HashSet;
use std::fmt;

use procfs::ProcError;
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};
use tokio::runtime::Handle;

use crate::failure::Failure;

pub(crate) const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vitals {
    /// Resident memory, in bytes.
    pub(crate) memory: u64,
    /// TCP connections that are established.
    pub(crate) connections: usize,
    pub(crate) descriptors: usize,
    pub(crate) tasks: usize,
    pub(crate) threads: u64,
}

impl Vitals {
    pub(crate) fn take() -> Result<Vitals, ProcError> {
        let me = Process::myself()?;
        let status = me.status()?;
        let open: Vec<_> = me.fd()?.flatten().map(|open| open.target).collect();
        let sockets = open.iter().filter_map(|target| match target {
            FDTarget::Socket(inode) => Some(*inode),
            _ => None,
        });
        Ok(Vitals {
            memory: status.vmrss.unwrap_or_default() * 1024,
            connections: established(&sockets.collect())?,
            descriptors: open.len(),
            tasks: Handle::current().metrics().num_alive_tasks(),
            threads: status.threads,
        })
    }
}

fn established(sockets: &HashSet<u64>) -> Result<usize, ProcError> {
    // A kernel without IPv6 has no such list.
    let sixth = procfs::net::tcp6().unwrap_or_default();
    let all = procfs::net::tcp()?.into_iter().chain(sixth);
    let ours = all.filter(|entry| sockets.contains(&entry.inode));
    Ok(ours
        .filter(|entry| entry.state == TcpState::Established)
        .count())
}

impl fmt::Display for Vitals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} MiB, {} connections, {} descriptors, {} tasks, {} threads",
            self.memory / MIB,
            self.connections,
            self.descriptors,
            self.tasks,
            self.threads
        )
    }
}

/// Reads the vitals of this process.
pub(crate) fn vitals() -> Result<Vitals, Failure> {
    Vitals::take().map_err(|error| Failure::run("cannot read /proc", error))
}
