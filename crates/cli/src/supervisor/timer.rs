//! A timer on the clock of the deadlines, which goes on while the machine sleeps.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

pub(super) struct Timer(pub(super) OwnedFd);

impl Timer {
    pub(super) fn new() -> std::io::Result<Timer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Timer(timerfd_create(TimerfdClockId::Boottime, flags)?))
    }

    /// Sets the timer. It becomes ready at that time, or at once if the time is past, and stays ready until it is set again.
    pub(super) fn set(&self, at: Duration) -> std::io::Result<()> {
        // Zero would switch the timer off.
        let at = at.max(Duration::from_nanos(1));
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let once = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: at.as_secs().cast_signed(),
                tv_nsec: at.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}
