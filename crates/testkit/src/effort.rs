//! How much a suite tries: enough for every change, enough for every commit, or all.

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// For every change: a run takes minutes. It leaves out sizes, never kinds.
    Brief,
    /// For every commit: `FAIRLOCK_THOROUGH=1`.
    Thorough,
    /// For every release: `FAIRLOCK_THOROUGH=2`.
    Complete,
}

/// What `FAIRLOCK_THOROUGH` asks for.
pub fn effort() -> Effort {
    match std::env::var("FAIRLOCK_THOROUGH").as_deref() {
        Err(_) | Ok("" | "0") => Effort::Brief,
        Ok("2") => Effort::Complete,
        Ok(_) => Effort::Thorough,
    }
}

/// Whether more is to be tried than for every change.
pub fn is_thorough() -> bool {
    effort() >= Effort::Thorough
}

/// How many of a kind: `brief` for every change, or `thorough`.
pub fn sized<T>(brief: T, thorough: T) -> T {
    if is_thorough() { thorough } else { brief }
}

/// How many of a kind for a change, for a commit, and for a release.
pub fn graded<T>((brief, thorough, complete): (T, T, T)) -> T {
    match effort() {
        Effort::Brief => brief,
        Effort::Thorough => thorough,
        Effort::Complete => complete,
    }
}

/// Every element, or every `brief`-th.
pub fn sampled<T>(all: impl Iterator<Item = T>, brief: usize) -> impl Iterator<Item = T> {
    all.step_by(sized(brief, 1))
}
