//! The rules of a run: how many slots there are, and which rule, if any, is changed to see that the search catches it.

/// The protocol with one rule changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// A client whose row is the lowest that it sees takes the lock, as in the article.
    LowestRowEnters,
    FillWithoutWatermark,
    FillWithoutLeft,
    GapSkipped,
    EnterOverUnsettled,
    /// A repeated request for a slot takes another one.
    EnterTwice,
    /// A client that asks for a slot is refused if there is a successor.
    EnterOneAtATime,
    /// A client that does not wait takes a slot behind others.
    EnterWithoutFree,
    /// More clients take slots than there are slots.
    EnterWithoutSlots,
    LiveHolderEvicted,
    LiveSuccessorEvicted,
    EvictWithoutBeat,
    EvictSuccessorWithoutBeat,
    VoidWithoutBeat,
    LeaveKeepsSlot,
    LeaveWithoutLeft,
    OneNonce,
    EnterOverWithoutLast,
    /// A lock item that was removed when idle comes back with its first tickets.
    TicketsFromZero,
    /// A waiter that misses its own row in the middle of a query gives up its ticket. It also gives up the slot in which it finds itself
    /// while it leaves.
    MissingRowGivesUpSlot,
    /// A row whose beat is late is passed like a void row.
    LateIsPassed,
    /// Tickets that were drawn together with a row's own count as gaps.
    RowOfOne,
    /// A gap behind an expired one is closed with it, though it is within its join timeout.
    RunIntoGrace,
    /// A client that draws several tickets moves the counter by one.
    DrawsOne,
    ShareOverUnsettled,
    ShareBesideAnybody,
    ShareWithoutRoom,
    /// The first successors come in, whichever entries they are by now.
    AdmitWhoeverIsThere,
    DowngradeWithoutShare,
    /// A caller shares beside an entry that takes the whole lock, where there are more permits by now.
    ShareBesideTheWhole,
    /// A late copy of a change of the number of permits applies.
    ResizeTwice,
    /// A change to fewer permits applies whichever entry stands in the first slot by now.
    ResizeUnderAnybody,
    /// A change to fewer permits applies though the waiter in the first slot has become a holder.
    ResizeOverWhoHolds,
    /// A holder in the first slot stays there, though the sharers leave less than it takes.
    ResizeLeavesTheFirst,
    /// A place that leaves the queue counts its departure, and leaves its row.
    RowIsNotVoid,
    /// A place makes its row void, and does not count its departure.
    DepartureIsNotCounted,
    /// A place that is not wanted any more, or was granted too late, ends without checking what it has.
    SlotIsNotLookedFor,
    /// A process offers a slot to a place of its own that is leaving.
    OffersALeaver,
    /// A sweeper takes every row for a settled row.
    SweptUnsettled,
    /// A place whose last request was not answered leaves like a place that has nothing.
    UnheardIsForgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// How many successors there is room for.
    pub(crate) slots: usize,
    /// How many of these the queue fills. A client that sees as many draws a ticket.
    pub(crate) filled: usize,
    /// How many permits the lock has: a client that waits for the whole lock takes all of them.
    pub(crate) permits: u8,
    pub(crate) mutant: Option<Mutant>,
}

impl Rules {
    pub(crate) fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
