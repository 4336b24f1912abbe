//! The rules of a run: how many slots there are, and which rule, if any, was changed to see it caught.

/// The protocol with one rule changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mutant {
    /// Whoever is the lowest row it sees takes the lock, as in the article.
    LowestRowEnters,
    FillWithoutSlotted,
    FillWithoutLeft,
    GapSkipped,
    EnterOverUnsettled,
    /// A repeated request for a slot takes another one.
    EnterTwice,
    /// Who asks for a slot is refused it if there is a successor.
    EnterOneAtATime,
    /// Who does not wait takes a slot behind others.
    EnterWithoutFree,
    /// More take slots than there are.
    EnterWithoutSlots,
    LiveHolderEvicted,
    LiveSuccessorEvictSuccessored,
    EvictWithoutBeat,
    EvictSuccessorWithoutBeat,
    VoidWithoutBeat,
    LeaveKeepsSlot,
    LeaveWithoutLeft,
    OneNonce,
    EnterOverWithoutLast,
    /// A lock item that was removed when idle comes back with its first tickets.
    TicketsFromZero,
    /// A waiter that misses its own row in the middle of a query gives up its ticket, and the slot that it finds
    /// itself on while it leaves.
    MissingRowGivesUpSlot,
    /// A row whose beat is late is passed like a void one.
    LateIsPassed,
    /// Tickets that were drawn together with a row's own are taken for gaps.
    RowOfOne,
    /// A gap behind a ripe one is closed with it, though it is within its grace.
    RunIntoGrace,
    /// Who draws several tickets moves the counter by one.
    DrawsOne,
    ShareOverUnsettled,
    ShareBesideAnybody,
    ShareWithoutRoom,
    /// The first successors come in, whoever they are by now.
    AdmitWhoeverIsThere,
    DowngradeWithoutShare,
    /// A place that leaves the queue counts its departure, and leaves its row.
    RowIsNotVoid,
    /// It makes its row void, and does not count its departure.
    DepartureIsNotCounted,
    /// A place that is not wanted any more, or was granted too late, ends without a look at what it has.
    SlotIsNotLookedFor,
    /// A process offers a slot to a place of its own that is leaving.
    OffersALeaver,
    /// A sweeper takes every row for a settled one.
    SweptUnsettled,
    /// A place whose last request was not answered leaves like one that has nothing.
    UnheardIsForgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    pub(crate) slots: usize,
    /// How many the lock has: who waits for it alone takes all of them.
    pub(crate) permits: u8,
    pub(crate) mutant: Option<Mutant>,
}

impl Rules {
    pub(crate) fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
