//! The panics of one thread, including those of background tasks on its runtime.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Counts this thread's panics from now on.
pub fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.with(|panics| panics.set(panics.get() + 1));
            before(panic);
        }));
    });
    PANICS.with(|panics| panics.set(0));
}

/// How many panics there were since then.
pub fn panics() -> usize {
    PANICS.with(Cell::get)
}
