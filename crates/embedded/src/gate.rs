//! A place on a request's way that a test keeps closed until it opens it.

use std::sync::Arc;

use crate::signal::Signal;

/// Holds requests up where a [`Fault::Hold`](crate::Fault::Hold) puts it. Cheap to clone; the clones are one gate.
///
/// # Examples
///
/// A request stands at the gate until the test lets it through:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock_embedded::{Engine, Fault, Gate, Network, When};
///
/// let (gate, engine) = (Gate::closed(), Engine::memory()?);
/// let at_gate = Fault::Hold(When::Before, gate.clone());
/// let network = Network::to(&engine).script(move |_| Some(at_gate.clone()));
/// let listing = network.client();
/// let (listed, ()) = tokio::join!(listing.list_tables().send(), async {
///     gate.reached(1).await;
///     gate.open();
/// });
/// listed?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Gate(Arc<Signal<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_open: bool,
    /// How often it was opened.
    opened: usize,
    arrived: usize,
}

impl Gate {
    /// Returns a gate that no request passes until [`open`](Gate::open).
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = fairlock_embedded::Gate::closed();
    /// ```
    pub fn closed() -> Gate {
        Gate(Arc::default())
    }

    /// Lets through the requests that stand here and those that come, until [`close`](Gate::close).
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = fairlock_embedded::Gate::closed();
    /// gate.open();
    /// ```
    pub fn open(&self) {
        self.0.change(|state| {
            state.is_open = true;
            state.opened += 1;
        });
    }

    /// Holds up requests that come from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = fairlock_embedded::Gate::closed();
    /// gate.open();
    /// gate.close();
    /// ```
    pub fn close(&self) {
        self.0.change(|state| state.is_open = false);
    }

    /// Waits until this many requests in all have come here, whether or not they have passed. Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// fairlock_embedded::Gate::closed().reached(0).await;
    /// # }
    /// ```
    pub async fn reached(&self, requests: usize) {
        self.0.is(|state| state.arrived >= requests).await;
    }

    /// Arrives at the gate, and passes when it is open, or was opened since.
    pub(crate) async fn pass(&self) {
        let mut opened = 0;
        self.0.change(|state| {
            state.arrived += 1;
            opened = state.opened;
        });
        self.0
            .is(|state| state.is_open || state.opened > opened)
            .await;
    }
}
