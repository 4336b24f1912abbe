//! The writes on the lock item, each an update and its condition; the comment on a condition names the race it closes.
//!
//! Every condition also has the lock's format and its number of permits ([`OURS`]): an older client never writes over a
//! newer format, and nobody over a lock that others share otherwise.
//!
//! `PLACE` stands for a place on the item, and `NONCE` for a key of the sharers. `MINE` says that the entry at the place has
//! the nonce and the ticket that are meant: a late copy of an enter can bring one nonce back with a newer ticket, and
//! whatever is still under way for the hold that ended must not pass for that one's.
//!
//! When DynamoDB may delete the item is written when the item is made, and by renewals where it comes too soon. No other
//! write touches it, and none makes it sooner.

/// A write's two expressions.
pub(super) struct Form {
    pub(super) verb: &'static str,
    pub(super) update: &'static str,
    pub(super) condition: &'static str,
}

/// What `MINE` says at each place. One that entered, or came to share, has no ticket in its entry: its own write drew it, and
/// put it beside.
pub(super) const HOLDER: &str = "PLACE.#nonce = :nonce AND (PLACE.#ticket = :held \
     OR (attribute_not_exists(PLACE.#ticket) AND #entered = :held))";
pub(super) const SHARER: &str = "PLACE.#nonce = :nonce AND (PLACE.#ticket = :held \
     OR (attribute_not_exists(PLACE.#ticket) AND #drawn.NONCE = :held))";
pub(super) const HEIR: &str = "PLACE.#nonce = :nonce AND PLACE.#ticket = :held";

/// Stands before every condition but the first enter's.
pub(super) const OURS: &str = "#format = :format AND #permits = :permits AND ";

/// No item, or a free lock, whatever counts as taken, and nobody has an open ticket: no barging past one who drew. `left`
/// starts anew: a seat write from before fails all the same, because `seated` moved.
pub(super) const ENTER: Form = Form {
    verb: "enter",
    update: "SET #format = :format, #permits = :permits, #last = if_not_exists(#last, :start) + :tickets, \
             #seated = if_not_exists(#last, :start) + :tickets, #entered = if_not_exists(#last, :start) + :tickets, \
             #left = :zero, #taken = :share, #holder = :me, #granted_at = :granted, #sharers = :none, \
             #drawn = :none, #heirs = :nobody, #grace_ms = :grace, \
             #expires_at = if_not_exists(#expires_at, :expiry) REMOVE #drawn_at",
    condition: "attribute_not_exists(#pk) OR (#format = :format AND #permits = :permits AND #taken = :zero \
                AND attribute_not_exists(#holder.#nonce) AND size(#sharers) = :zero \
                AND #seated = #last AND #last < :end)",
};

/// There is an item: one who does not know the time does not say where its counter begins, and when it may be deleted.
pub(super) const ENTER_KNOWN: Form = Form {
    verb: "enter",
    update: "SET #last = #last + :tickets, #seated = #last + :tickets, #entered = #last + :tickets, \
             #left = :zero, #taken = :share, #holder = :me, #granted_at = :granted, #sharers = :none, \
             #drawn = :none, #heirs = :nobody, #grace_ms = :grace REMOVE #drawn_at",
    condition: "#taken = :zero AND attribute_not_exists(#holder.#nonce) AND size(#sharers) = :zero \
                AND #seated = #last AND #last < :end",
};

/// `last` as seen too: whoever drew since the look has a ticket that was not looked at.
pub(super) const ENTER_OVER: Form = Form {
    verb: "enter over the settled",
    update: "SET #last = :ticket, #seated = :ticket, #entered = :ticket, #taken = :share, #holder = :me, \
             #granted_at = :granted",
    condition: "#taken = :zero AND #last = :last AND #seated = :seated",
};

/// Nobody has an open ticket and nobody a seat: no barging. So many permits are left. Once: a repeated one takes no
/// second ticket.
pub(super) const SHARE: Form = Form {
    verb: "share",
    update: "SET #last = #last + :one, #seated = #last + :one, #drawn.NONCE = #last + :one, \
             #taken = #taken + :share, #sharers.NONCE = :me",
    condition: "#seated = #last AND #last < :end AND attribute_exists(#heirs) AND size(#heirs) = :zero \
                AND #taken <= :room AND attribute_not_exists(#sharers.NONCE)",
};

/// `last` and `seated` as seen: nobody with a ticket is passed. Held: a free lock has no heirs.
pub(super) const SIT: Form = Form {
    verb: "sit",
    update: "SET #last = :ticket, #seated = :ticket, #heirs = list_append(#heirs, :me)",
    condition: "#taken > :zero AND #last = :before AND #seated = :before \
                AND attribute_exists(#heirs) AND size(#heirs) < :seats",
};

/// There is a counter, which the fast enter starts, and it can go on: nobody drew since who makes a bounded line too long. No
/// later date there: a late duplicate must not make who drew since look overdue by DynamoDB's clock.
pub(super) const DRAW: Form = Form {
    verb: "draw",
    update: "SET #last = #last + :tickets, #drawn_at = :drawn_at",
    condition: "#last < :end AND NOT #drawn_at > :newest",
};
/// Another's later date stands for this ticket too, and stays: without one, nobody could ever judge it.
pub(super) const DRAW_UNDER_LATER: Form = Form {
    verb: "draw",
    update: "SET #last = #last + :tickets",
    condition: "#last < :end AND #drawn_at > :newest",
};
/// Of a draw: the grace that stands there is as long as one's own, or is made so, and never shorter. Others who close gaps sooner
/// would pass one who joins in time by its own settings.
pub(super) const LONG_GRACE: &str = "#grace_ms >= :grace";
pub(super) const LONGER_GRACE: [&str; 2] = ["#grace_ms = :grace", "NOT #grace_ms > :grace"];
/// By one to whom no answer ever told the time. An earlier date must not make this ticket look overdue.
pub(super) const DRAW_UNDATED: Form = Form {
    verb: "draw",
    update: "SET #last = #last + :tickets REMOVE #drawn_at",
    condition: "#last < :end",
};

/// `seated` as seen: nobody is seated twice. `left` as seen: nobody is seated who left since the look.
pub(super) const SEAT: Form = Form {
    verb: "seat",
    update: "SET #seated = :upto, #heirs = list_append(#heirs, :found)",
    condition: "#taken > :zero AND #seated = :seated AND #left = :left \
                AND attribute_exists(#heirs) AND size(#heirs) <= :seats_taken",
};
/// Free as seen: else the first of the found would take the lock from its holder.
pub(super) const SEAT_FREE: Form = Form {
    verb: "seat",
    update: "SET #seated = :upto, #taken = :share, #holder = :first, #granted_at = :granted, #heirs = :rest",
    condition: "#taken = :zero AND #seated = :seated AND #left = :left",
};
/// Nobody is seated; the tickets that `seated` passes are void, and void is for ever.
pub(super) const SETTLE: Form = Form {
    verb: "settle",
    update: "SET #seated = :upto",
    condition: "#seated = :seated AND #left = :left",
};

/// The last of them where it was seen, and so all before it: who comes goes behind, and who goes lets those behind move up.
/// Meanwhile what is taken has not grown: nobody shares past heirs.
pub(super) const ADMIT: Form = Form {
    verb: "admit",
    update: "SET #taken = #taken + :share",
    condition: "MINE",
};

const HAND_OVER: &str = "SET #holder = if_not_exists(#heirs[0], :none), \
                         #taken = if_not_exists(#heirs[0].#permits, :zero), #granted_at = :granted \
                         REMOVE #heirs[0]";
const HAND_OVER_BY_SHARER: &str = "SET #holder = if_not_exists(#heirs[0], :none), \
                                   #taken = if_not_exists(#heirs[0].#permits, :zero), #granted_at = :granted \
                                   REMOVE #heirs[0], #sharers.NONCE, #drawn.NONCE";
const LEAVE_OTHERS: &str = "SET #holder = :none, #taken = #taken - :share";
const LEAVE_OTHERS_BY_SHARER: &str = "SET #taken = #taken - :share \
                                      REMOVE #sharers.NONCE, #drawn.NONCE";

/// How a hold ends.
pub(super) struct End {
    verb: &'static str,
    /// Nobody else has the lock: the first heir has it the moment this applies.
    last: &'static str,
    /// Others have it too, and keep it, or nobody is there who could have it next.
    among_others: &'static str,
}

/// Still there: a late release must not release another's hold. The share as counted. Nobody beside it, so that the first
/// heir may have all of the lock; or somebody, or no heir, so that none is left with a free lock.
pub(super) const RELEASE: End = End {
    verb: "release",
    last: "MINE AND PLACE.#permits = :share AND #taken = :share",
    among_others: "MINE AND PLACE.#permits = :share \
                   AND (#taken > :share OR size(#heirs) = :zero)",
};
/// The very beat that was judged: a renewal that came meanwhile saves the holder.
pub(super) const EVICT: End = End {
    verb: "evict",
    last: "MINE AND PLACE.#beat = :beat AND PLACE.#permits = :share AND #taken = :share",
    among_others: "MINE AND PLACE.#beat = :beat AND PLACE.#permits = :share \
                   AND (#taken > :share OR size(#heirs) = :zero)",
};

impl End {
    pub(super) fn form(&self, is_sharer: bool, hands_over: bool) -> Form {
        let (update, condition) = match (is_sharer, hands_over) {
            (false, true) => (HAND_OVER, self.last),
            (true, true) => (HAND_OVER_BY_SHARER, self.last),
            (false, false) => (LEAVE_OTHERS, self.among_others),
            (true, false) => (LEAVE_OTHERS_BY_SHARER, self.among_others),
        };
        Form {
            verb: self.verb,
            update,
            condition,
        }
    }
}

/// With the share it had: a late duplicate must not free what others have taken since.
pub(super) const DOWNGRADE: Form = Form {
    verb: "downgrade",
    update: "SET PLACE.#permits = :kept, #taken = #taken - :freed",
    condition: "MINE AND PLACE.#permits = :share",
};

/// Seats shift, so the nonce decides which one is meant.
pub(super) const UNSEAT: Form = Form {
    verb: "unseat",
    update: "REMOVE PLACE",
    condition: "MINE AND PLACE.#beat = :beat",
};
pub(super) const GIVE_UP_SEAT: Form = Form {
    verb: "give up a seat",
    update: UNSEAT.update,
    condition: "MINE",
};

/// Of each hold that is to be dated: the very hold that was seen, and still without a date, so that what its owner says of itself
/// is not written over. A sharer stands under its nonce.
pub(super) const DATED: &str = "PLACE.#renewed_at = :renewed_at";
pub(super) const UNDATED: &str = "PLACE.#beat = :beat AND attribute_not_exists(PLACE.#renewed_at)";
pub(super) const UNDATED_HOLDER: &str =
    "PLACE.#nonce = :nonce AND PLACE.#beat = :beat AND attribute_not_exists(PLACE.#renewed_at)";
/// The same of an heir.
pub(super) const DATE_HEIR: Form = Form {
    verb: "date",
    update: "SET PLACE.#renewed_at = :renewed_at",
    condition: "MINE AND PLACE.#beat = :beat AND attribute_not_exists(PLACE.#renewed_at)",
};
/// The newest ticket is the one that was seen, and still without a date.
pub(super) const DATE_DRAW: Form = Form {
    verb: "date",
    update: "SET #drawn_at = :drawn_at",
    condition: "#last = :last AND attribute_not_exists(#drawn_at)",
};

/// Still there: a renewal must not bring back what was released or evicted. The beat is the number of the renewal, and
/// an earlier one there: a late duplicate must not bring one back that somebody watches. No later date there: it must not make
/// who renewed since look dead by DynamoDB's clock.
pub(super) const RENEW: Form = Form {
    verb: "renew",
    update: "SET PLACE.#beat = :beat, PLACE.#lease_ms = :lease, PLACE.#renewed_at = :renewed_at, \
             PLACE.#since = if_not_exists(PLACE.#since, :renewed_at)",
    condition: "MINE AND PLACE.#beat < :beat AND NOT PLACE.#renewed_at > :newest",
};
/// A later date stands there, and stays: DynamoDB's clock was set back, or a slow answer was taken for a late one.
pub(super) const RENEW_UNDER_LATER: Form = Form {
    verb: "renew",
    update: "SET PLACE.#beat = :beat, PLACE.#lease_ms = :lease",
    condition: "MINE AND PLACE.#beat < :beat AND PLACE.#renewed_at > :newest",
};
/// By one to whom no answer ever told the time. A date that another gave it must not make it look dead.
pub(super) const RENEW_UNDATED: Form = Form {
    verb: "renew",
    update: "SET PLACE.#beat = :beat, PLACE.#lease_ms = :lease REMOVE PLACE.#renewed_at",
    condition: "MINE AND PLACE.#beat < :beat",
};
/// Of a renewal, where the item may be deleted too soon: it is kept for longer, unless somebody keeps it for longer still.
pub(super) const KEEP: [&str; 2] = ["#expires_at = :expiry", "NOT #expires_at > :expiry"];

/// The very beat that was seen: what it lasts is counted from what was seen, and so never gets shorter.
pub(super) const EXTEND: Form = Form {
    verb: "extend",
    update: "SET PLACE.#beat = PLACE.#beat + :one, PLACE.#lease_ms = :lease, PLACE.#renewed_at = :renewed_at, \
             PLACE.#since = if_not_exists(PLACE.#since, :renewed_at)",
    condition: "MINE AND PLACE.#beat = :beat",
};

pub(super) const PUT_DATA: &str = "SET #data = :data, #written = :written";
pub(super) const REMOVE_DATA: &str = "SET #written = :written REMOVE #data";
/// By who has the lock alone, or others would write over it. No later write there: a late duplicate takes nothing back.
pub(super) const NO_LATER_DATA: &str = "PLACE.#permits = :permits AND (attribute_not_exists(#written) \
     OR #written.#ticket < :ticket OR (#written.#ticket = :ticket AND #written.#count < :count))";

/// Has the lock.
pub(super) const HOLDS: &str = "MINE";
/// It was not downgraded meanwhile.
pub(super) const SAME_SHARE: &str = "PLACE.#permits = :share";
/// So many are still to have a turn at the place: whoever had one there before had more.
pub(super) const HAS_ITS_TURN: &str = "MINE AND PLACE.#tickets >= :left";
/// More there: a late copy must not bring an earlier turn back.
pub(super) const PASS_ON: Form = Form {
    verb: "pass on",
    update: "SET PLACE.#tickets = :left",
    condition: "MINE AND PLACE.#tickets > :left",
};

/// Not seated yet: whoever saw the row waiting can then no longer seat it.
pub(super) const LEFT: Form = Form {
    verb: "leave",
    update: "SET #left = #left + :one",
    condition: "#seated < :ticket",
};

/// Idle, and untouched since it was seen.
pub(super) const REMOVE_IDLE: &str =
    "#taken = :zero AND #last = :last AND #seated = :last AND #expires_at = :expiry";
