//! How much a suite tries: enough for every change, or all.

/// Whether `FAIRLOCK_THOROUGH=1` asks for all. A run without it takes minutes, and leaves out sizes, never kinds.
pub fn is_thorough() -> bool {
    let said = std::env::var("FAIRLOCK_THOROUGH");
    said.is_ok_and(|said| !matches!(said.as_str(), "" | "0"))
}

/// How many of a kind: `brief` for every change, or `thorough` for all.
pub fn sized<T>(brief: T, thorough: T) -> T {
    if is_thorough() { thorough } else { brief }
}

/// Every element, or every `brief`-th.
pub fn sampled<T>(all: impl Iterator<Item = T>, brief: usize) -> impl Iterator<Item = T> {
    all.step_by(sized(brief, 1))
}
