//! A place on a request's way that a test keeps closed until it says so.

use std::sync::Arc;

use tokio::sync::watch;

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
    open: watch::Sender<bool>,
    arrivals: watch::Sender<usize>,
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
            open: watch::Sender::new(false),
            arrivals: watch::Sender::new(0),
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
        self.0.open.send_replace(true);
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
        self.0.open.send_replace(false);
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
        let mut arrivals = self.0.arrivals.subscribe();
        // No error: the sender is ours.
        let _ = arrivals.wait_for(|arrived| *arrived >= requests).await;
    }

    /// Comes here, and passes when the gate is open.
    pub(super) async fn pass(&self) {
        self.0.arrivals.send_modify(|arrived| *arrived += 1);
        // No error: the sender is ours.
        let _ = self.0.open.subscribe().wait_for(|open| *open).await;
    }
}
