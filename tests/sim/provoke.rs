//! Plans bent towards the race of a planted mistake: what could prevent the race is late, as it is in some seeds by chance. Without the
//! mistake, these plans break no promise.

use std::time::Duration;

use fairlock_testkit::datagram_network::PostFaults;
use fairlock_testkit::lying_notifier::Lie;

use crate::front_ends::Dates;
use crate::mischief::Kind;
use crate::mutation::Mutation;
use crate::plan::{HOUR, HostPlan, Plan, Sharing};

const SECOND: Duration = Duration::from_secs(1);

impl Mutation {
    pub(crate) fn provoke(self, plan: &mut Plan) {
        // A worker that waits at another lock, or has given up, sends nothing to the race.
        plan.has_several = false;
        plan.each(|host| host.outage_timeout = None);
        match self {
            Mutation::EvictWithoutBeat => {
                one_lock(plan, 4_000, &["read lock", "read queue"]);
                renew_late(plan);
                plan.each(|host| {
                    (host.lease, host.timeout) = (15 * SECOND, SECOND * 9 / 2);
                    host.workers = 1;
                });
            }
            // Filling slots is late too: otherwise a waiter that renewed has a slot before the write arrives that makes its row void.
            Mutation::VoidWithoutBeat => {
                one_lock(plan, 4_000, &["void dead", "fill"]);
                renew_late(plan);
                eight_alone(plan);
                plan.each(|host| _ = host.lasts(6));
            }
            Mutation::VoidWithoutNotExists => {
                one_lock(plan, 3_000, &["join", "void gap", "fill"]);
                eight_alone(plan);
                plan.each(quick);
            }
            Mutation::JoinWithoutNotExists => {
                one_lock(plan, 1_000, &["join", "fill"]);
                plan.each(quick);
            }
            Mutation::FillWithoutLeft => {
                one_lock(plan, 3_000, &["fill"]);
                plan.each(|host| (host.slots, host.workers) = (2, 3));
            }
            Mutation::FillByMemory => plan.each(|host| (host.slots, host.crowd) = (2, 1)),
            Mutation::EnterOneAtATime => one_lock(plan, 3_000, &["release"]),
            Mutation::SlowClock => {
                one_lock(plan, 1_500, &[]);
                plan.long_turns = 1;
            }
            Mutation::DrawOneLess | Mutation::PlaceOfOneLess | Mutation::PlaceOfOneMore => {
                plan.each(|host| host.crowd = 4);
            }
            // The next caller must be of the same client.
            Mutation::Overstay => {
                plan.hosts.truncate(1);
                plan.each(|host| host.crowd = 4);
            }
            Mutation::SharePastSuccessors => plan.sharing = Sharing::Readers,
            Mutation::ShareWithoutRoom => {
                one_lock(plan, 1_000, &["share"]);
                three_permits(plan, 1);
            }
            Mutation::ShareWithoutFirst | Mutation::AdmitWhoeverIsThere => three_permits(plan, 4),
            Mutation::LeaseOverstayed => (plan.sharing, plan.leases) = (Sharing::None, 2),
            Mutation::LeaseInMicroseconds => plan.mischief = vec![Kind::Crash],
            Mutation::ConfirmedIsRenewed => {
                one_lock(plan, 1_000, &[]);
                plan.mischief = vec![Kind::Crash];
                plan.notifies = Some(PostFaults::default());
                plan.lie = Some(Lie::AllIsConfirmed);
                plan.each(|host| (host.slots, host.crowd) = (8, 1));
            }
            Mutation::ReleasingIsReleased => {
                one_lock(plan, 1_000, &[]);
                plan.long_turns = 2;
                plan.notifies = Some(PostFaults::default());
                plan.lie = Some(Lie::AllRelease);
                plan.each(|host| host.crowd = 1);
            }
            _ => self.provoke_loss(plan),
        }
    }

    /// Bends plans so that holds are lost, or bounded, and perhaps what is written on their locks.
    fn provoke_loss(self, plan: &mut Plan) {
        match self {
            // While a release is late, data that was written before it arrives.
            Mutation::DataGoesBack => {
                one_lock(plan, 3_000, &["write data", "release"]);
                (plan.sharing, plan.has_data) = (Sharing::None, true);
                plan.each(|host| _ = host.lasts(6));
            }
            Mutation::DataOfTheLost => {
                one_lock(plan, 3_000, &["write data"]);
                (plan.sharing, plan.has_data) = (Sharing::None, true);
                plan.long_turns = 2;
                plan.mischief = vec![Kind::Freeze, Kind::CutOff];
                plan.each(|host| _ = host.lasts(2));
            }
            // Copies of enters arrive late, and so does what was sent for holds that have ended.
            Mutation::NonceAlone => {
                one_lock(
                    plan,
                    4_000,
                    &["enter", "enter known", "release", "write data"],
                );
                (plan.sharing, plan.leases) = (Sharing::None, 0);
                (plan.has_data, plan.has_checks) = (true, true);
                plan.hosts.truncate(2);
                plan.each(|host| {
                    host.lasts(6);
                    (host.workers, host.crowd) = (1, 1);
                });
            }
            // A caller that does not wait has nothing but the two clocks.
            Mutation::JudgedByDates | Mutation::AllClocksWrong => {
                (plan.long_turns, plan.leases) = (2, 0);
                plan.is_told_wrong(3);
            }
            Mutation::DatesOfHosts | Mutation::JudgedByWallClocks => {
                (plan.long_turns, plan.leases) = (2, 0)
            }
            Mutation::BoundsForgotten => {
                (plan.bounds, plan.leases) = (true, 0);
                (plan.sharing, plan.long_turns) = (Sharing::None, 2);
                plan.each(|host| (host.crowd, host.margin) = (1, host.lease / 2));
            }
            Mutation::ResizedWithoutRoom => {
                (plan.sharing, plan.operates) = (Sharing::Permits(3), true);
            }
            Mutation::NoticesOfOthers => {
                (plan.operates, plan.long_turns) = (true, 1);
            }
            Mutation::NoncesAgain => plan.mischief = vec![Kind::Crash],
            Mutation::ExpiryOfHosts => {
                plan.mischief = vec![Kind::Expire];
                (plan.long_turns, plan.dates) = (2, Dates::Near(0));
                plan.each(|host| host.off = 0);
                plan.hosts[0].off = -20 * 24 * HOUR;
            }
            _ => {}
        }
    }
}

/// Makes one long queue in which these verbs are slow.
fn one_lock(plan: &mut Plan, requests: u64, slow: &[&'static str]) {
    plan.locks.truncate(1);
    plan.requests = requests;
    plan.weather.slow = slow.to_vec();
}

/// Makes callers want one of three permits. Without crowds, some find none and nobody that waits for one.
fn three_permits(plan: &mut Plan, crowd: usize) {
    (plan.sharing, plan.leases) = (Sharing::Permits(3), 0);
    plan.each(|host| host.crowd = crowd);
}

/// Makes many places renew just when others take them for dead.
fn renew_late(plan: &mut Plan) {
    plan.mischief = vec![Kind::Tardy];
    plan.long_turns = 2;
}

/// Makes eight hosts with one worker each. A waiter that shares a process with others gets a slot through them, and needs no poll. Nearly
/// all writes of the slow verbs are late.
fn eight_alone(plan: &mut Plan) {
    plan.hosts = plan.hosts.iter().cycle().take(8).copied().collect();
    plan.weather.slow_writes = 0.97;
    plan.each(|host| (host.slots, host.workers) = (2, 1));
}

/// Makes the host close gaps early.
fn quick(host: &mut HostPlan) {
    host.lasts(2);
    (host.slots, host.is_hasty) = (2, true);
}
