//! What time it is by a file. The file keeps when its machine's wall clock was read last, and by how much later the machine is now. So a
//! step of the wall clock changes nothing, and all processes of one boot tell the same time. The file also keeps when a boot began, before
//! which no process wrote that is alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynoxide::{Database, DynoxideError};
use serde_json::{Value, json};

use crate::own;
use crate::time::{BootTime, WallClock};

/// The table of this engine's own in which the only item is that of [`KEY`].
const TABLE: &str = own::CLOCK;
const KEY: &str = "date";
/// Each try finds what another process wrote meanwhile. That process has read the wall clock for this boot, so the next try does not.
const TRIES: usize = 8;

type Done<T> = Result<T, DynoxideError>;

/// A clock, and what a file keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct FileDate {
    clock: Arc<dyn WallClock>,
    /// Whether all that this engine writes comes from processes of this machine.
    is_private: bool,
    kept: Arc<Mutex<Option<Kept>>>,
}

/// What the file keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    /// When the wall clock was read.
    at: BootTime,
    /// What it showed, or what was told before if that was later.
    unix: Duration,
    /// The latest time at which something was written, in whole seconds: as a `Date` is.
    newest: Duration,
    /// Whether every engine that has written the file is private to one machine.
    is_private: bool,
    /// Whatever a process wrote before this time, the process ended with its boot. In whole seconds, as a `Date` is.
    began: Option<Duration>,
}

impl Kept {
    /// The time in the boot in which the wall clock was read.
    fn date(&self, now: &BootTime) -> Duration {
        self.unix + now.elapsed.saturating_sub(self.at.elapsed)
    }

    /// Whether the machine has not been started again since. Without the ids of both boots, that is so unless the time since boot went
    /// back. If it is taken to be so wrongly, the file's time is behind. It is never ahead, because more time has passed than since boot.
    fn is_of(&self, now: &BootTime) -> bool {
        match self.names_its_boot(now) {
            true => self.at.boot == now.boot,
            false => !self.is_after(now),
        }
    }

    /// Whether all processes that wrote the file ended before this boot. That the id differs is not enough: a container may have an id of
    /// its own in a machine that was not started again.
    fn has_ended(&self, now: &BootTime) -> bool {
        let is_another = self.names_its_boot(now) && self.at.boot != now.boot;
        self.is_private && is_another && self.is_after(now)
    }

    fn names_its_boot(&self, now: &BootTime) -> bool {
        !self.at.boot.is_empty() && !now.boot.is_empty()
    }

    /// Whether the time since boot was later than it is now, when something was last written.
    fn is_after(&self, now: &BootTime) -> bool {
        self.at.elapsed + self.newest.saturating_sub(self.unix) > now.elapsed
    }

    /// What the file is to keep, in place of what it keeps.
    fn next(before: Option<&Kept>, now: BootTime, wall: Duration, is_private: bool) -> Kept {
        let ended = is_private && before.is_some_and(|before| before.has_ended(&now));
        // As much time as since this boot has passed since the last write, also where the wall clock stood still meanwhile.
        let off = if ended { now.elapsed } else { Duration::ZERO };
        // The time never goes back, whatever the wall clock shows after a boot.
        let unix = before.map_or(wall, |before| wall.max(before.newest.saturating_add(off)));
        Kept {
            at: now,
            unix,
            newest: whole(unix),
            is_private: is_private && before.is_none_or(|before| before.is_private),
            began: match ended {
                true => Some(whole(unix)),
                false => before.and_then(|before| before.began),
            },
        }
    }
}

fn whole(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

impl FileDate {
    pub(crate) fn of(clock: Arc<dyn WallClock>) -> Self {
        FileDate {
            clock,
            is_private: false,
            kept: Arc::default(),
        }
    }

    pub(crate) fn set_clock(&mut self, clock: Arc<dyn WallClock>) {
        (self.clock, self.kept) = (clock, Arc::default());
    }

    pub(crate) fn set_private(&mut self) {
        (self.is_private, self.kept) = (true, Arc::default());
    }

    /// The time now, if it is known.
    pub(crate) fn now(&self) -> Option<Duration> {
        match self.clock.boot_time() {
            None => Some(self.clock.unix()),
            Some(now) => self.kept().as_ref().map(|kept| kept.date(&now)),
        }
    }

    /// No process is alive that wrote the file before this time.
    pub(crate) fn boot_began(&self) -> Option<Duration> {
        let kept = self.kept();
        kept.as_ref()?.began.filter(|_| self.is_private)
    }

    /// Another file has the name now.
    pub(crate) fn forget(&self) {
        *self.kept() = None;
    }

    /// Learns the file's time before a request that may be written. `in_turn` runs a write. Only the first request of a process needs one,
    /// if no other process has read the wall clock for this boot.
    pub(crate) fn learn(&self, db: &Database, in_turn: impl FnOnce(Begin) -> Done<()>) -> Done<()> {
        match self.now().is_some() || self.takes(find(db)?.as_ref()) {
            true => Ok(()),
            false => in_turn(Begin(self.clone(), db.clone())),
        }
    }

    /// Supposes what the file's time is, for who may not write the file.
    pub(crate) fn suppose(&self, db: &Database) -> Done<()> {
        let mut found = find(db)?;
        if let Some(found) = &mut found {
            found.is_private &= self.is_private;
        }
        if !self.takes(found.as_ref()) {
            *self.kept() = self.next(found.as_ref());
        }
        Ok(())
    }

    /// Takes what the file keeps, if that is of this boot, and says of this engine what is so.
    fn takes(&self, found: Option<&Kept>) -> bool {
        let Some(now) = self.clock.boot_time() else {
            return true;
        };
        let is_true = |kept: &&Kept| kept.is_of(&now) && (self.is_private || !kept.is_private);
        let taken = found.filter(is_true).cloned();
        let takes = taken.is_some();
        *self.kept() = taken;
        takes
    }

    fn next(&self, before: Option<&Kept>) -> Option<Kept> {
        let now = self.clock.boot_time()?;
        let wall = self.clock.unix();
        Some(Kept::next(before, now, wall, self.is_private))
    }

    fn is_of_this_boot(&self, found: &Kept) -> bool {
        self.clock.boot_time().is_some_and(|now| found.is_of(&now))
    }

    /// Notes in the file that something was stored now. Does so once a second at most.
    pub(crate) fn note(&self, db: &Database) -> Done<()> {
        let Some(now) = self.now().map(whole) else {
            return Ok(());
        };
        let is_noted = |kept: &Kept| kept.newest >= now;
        if self.kept().as_ref().is_none_or(is_noted) {
            return Ok(());
        }
        raise(db, now)?;
        if let Some(kept) = self.kept().as_mut() {
            kept.newest = now;
        }
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first write of a boot, or of an engine that is not private to a machine.
pub(crate) struct Begin(FileDate, Database);

impl Begin {
    /// Reads the wall clock, unless another process has for this boot. Says that the file is not private any more, if it is not.
    pub(crate) fn run(self) -> Done<()> {
        let Begin(date, db) = self;
        for _ in 0..TRIES {
            let before = find(&db)?;
            if date.takes(before.as_ref()) {
                return Ok(());
            }
            match (&before, date.next(before.as_ref())) {
                (Some(before), _) if date.is_of_this_boot(before) => share(&db)?,
                (_, Some(next)) => put(&db, &next, before.as_ref())?,
                _ => {}
            }
        }
        let error = "other processes keep changing the file's time".to_owned();
        Err(DynoxideError::InternalServerError(error))
    }
}

fn find(db: &Database) -> Done<Option<Kept>> {
    let request = json!({ "TableName": TABLE, "Key": { "id": { "S": KEY } } });
    match own::ask(db, "GetItem", &request) {
        Ok(found) => Ok(parsed(&found["Item"])),
        Err(DynoxideError::ResourceNotFoundException(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parsed(item: &Value) -> Option<Kept> {
    let nanos = |name: &str| {
        let nanos = item[name]["N"].as_str()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    };
    Some(Kept {
        at: BootTime {
            boot: Arc::from(item["boot"]["S"].as_str()?),
            elapsed: nanos("elapsed")?,
        },
        unix: nanos("unix")?,
        newest: nanos("newest")?,
        is_private: item["one_machine"]["BOOL"] == true,
        began: nanos("began"),
    })
}

/// Writes what the file is to keep, unless another process was faster.
fn put(db: &Database, next: &Kept, before: Option<&Kept>) -> Done<()> {
    own::make(db, TABLE)?;
    let nanos = |time: Duration| json!({ "N": time.as_nanos().to_string() });
    let mut item = json!({
        "id": { "S": KEY },
        "boot": { "S": &*next.at.boot },
        "elapsed": nanos(next.at.elapsed),
        "unix": nanos(next.unix),
        "newest": nanos(next.newest),
        "one_machine": { "BOOL": next.is_private },
    });
    if let Some(began) = next.began {
        item["began"] = nanos(began);
    }
    let mut request = json!({ "TableName": TABLE, "Item": item });
    match before {
        None => request["ConditionExpression"] = json!("attribute_not_exists(id)"),
        Some(before) => {
            request["ConditionExpression"] = json!("boot = :boot AND elapsed = :elapsed");
            request["ExpressionAttributeValues"] = json!({
                ":boot": { "S": &*before.at.boot },
                ":elapsed": nanos(before.at.elapsed),
            });
        }
    }
    unless_overtaken(own::ask(db, "PutItem", &request))
}

/// Raises the latest time at which something was written.
fn raise(db: &Database, newest: Duration) -> Done<()> {
    let request = json!({
        "TableName": TABLE,
        "Key": { "id": { "S": KEY } },
        "UpdateExpression": "SET newest = :newest",
        "ConditionExpression": "newest < :newest",
        "ExpressionAttributeValues": { ":newest": { "N": newest.as_nanos().to_string() } },
    });
    unless_overtaken(own::ask(db, "UpdateItem", &request))
}

/// Says that others than processes of this machine may use the file, for ever: a lease of theirs may outlast several boots.
fn share(db: &Database) -> Done<()> {
    let request = json!({
        "TableName": TABLE,
        "Key": { "id": { "S": KEY } },
        "UpdateExpression": "REMOVE one_machine",
    });
    own::ask(db, "UpdateItem", &request).map(drop)
}

fn unless_overtaken(done: Done<Value>) -> Done<()> {
    match done {
        Ok(_) | Err(DynoxideError::ConditionalCheckFailedException(..)) => Ok(()),
        Err(error) => Err(error),
    }
}
