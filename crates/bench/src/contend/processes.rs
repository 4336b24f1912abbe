//! A run whose workers are processes: this program again, once for each worker.

use std::env;

use fairlock_cli::contention::worker_process::Member;
use futures::future::{join_all, try_join_all};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::contend::child::{Line, Parting};
use crate::contend::harvest::Harvest;
use crate::contend::log::Log;
use crate::contend::options::Options;
use crate::failure::Failure;
use crate::tell::tell;

pub(crate) async fn run(options: &Options) -> Result<Harvest, Failure> {
    let members: Result<Vec<_>, _> = (1..=options.workers).map(start).collect();
    let mut members = try_join_all(members?.into_iter().map(ready)).await?;
    join_all(members.iter_mut().map(Member::go)).await;
    let log = Log::default();
    let follow = |member: Member| follow(member, log.clone());
    let partings = members.into_iter().map(follow).collect::<JoinSet<_>>();
    let mut harvest = Harvest::default();
    for parting in partings.join_all().await {
        harvest.traffic.merge(&parting.traffic);
        harvest.troubles.extend(parting.troubles);
    }
    let (turns, trouble) = log.take();
    harvest.turns = turns;
    harvest.troubles.extend(trouble);
    Ok(harvest)
}

fn start(number: u32) -> Result<Member, Failure> {
    let failed = |error| Failure::run("cannot start a worker", error);
    let mut command = Command::new(env::current_exe().map_err(failed)?);
    command.args(env::args_os().skip(1));
    command.args(["--worker".into(), number.to_string()]);
    Member::start(number, command).map_err(failed)
}

async fn ready(mut member: Member) -> Result<Member, Failure> {
    match member.line().await {
        Ok(Some(Line::Ready { .. })) => Ok(member),
        Ok(_) => Err(Failure::Run(format!(
            "{} before it was ready",
            member.end().await
        ))),
        Err(trouble) => Err(Failure::Run(trouble)),
    }
}

/// Passes a worker's turns on until it ends.
async fn follow(mut member: Member, log: Log) -> Parting {
    loop {
        match member.line().await {
            Ok(Some(Line::Turn(turn))) => log.add(turn),
            Ok(Some(Line::Ready { .. })) => {}
            Ok(Some(Line::Parting(parting))) => return parting,
            Ok(None) => return died(member.end().await),
            Err(trouble) => return died(trouble),
        }
    }
}

/// Reported at once, because the other workers go on until the lease of the dead one has ended.
fn died(trouble: String) -> Parting {
    tell(format_args!("contend: {trouble}"));
    Parting {
        traffic: Default::default(),
        troubles: vec![trouble],
    }
}
