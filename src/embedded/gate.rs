//! A place on a request's way that a test keeps closed until it says so.

use std::sync::Arc;

use crate::signal::Signal;

/// Holds requests up where a [`Fault::Hold`](super::Fault::Hold) puts it. Cheap to clone; the clones are one gate.
///
/// # Examples
///
/// A request stands at the gate until the test lets it through:
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::embedded::{Engine, Fault, Gate, Network, When};
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
pub struct Gate(Arc<Posts>);

#[derive(Debug)]
struct Posts {
    open: Signal<bool>,
    arrivals: Signal<usize>,
}

impl Gate {
    /// A gate that nothing passes until [`open`](Gate::open).
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = fairlock::embedded::Gate::closed();
    /// ```
    pub fn closed() -> Gate {
        Gate(Arc::new(Posts {
            open: Signal::new(false),
            arrivals: Signal::new(0),
        }))
    }

    /// Lets through who stands here and who comes, until [`close`](Gate::close).
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = fairlock::embedded::Gate::closed();
    /// gate.open();
    /// ```
    pub fn open(&self) {
        self.0.open.set(true);
    }

    /// Holds up who comes from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// let gate = fairlock::embedded::Gate::closed();
    /// gate.open();
    /// gate.close();
    /// ```
    pub fn close(&self) {
        self.0.open.set(false);
    }

    /// Waits until this many requests have come here in all, whether or not they have passed. Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// fairlock::embedded::Gate::closed().reached(0).await;
    /// # }
    /// ```
    pub async fn reached(&self, requests: usize) {
        self.0.arrivals.is(|arrived| *arrived >= requests).await;
    }

    /// Comes here, and passes when the gate is open.
    pub(super) async fn pass(&self) {
        self.0.arrivals.change(|arrived| {
            *arrived += 1;
            true
        });
        self.0.open.is(|open| *open).await;
    }
}
