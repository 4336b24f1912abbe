//! What stands between clients and a server, and what may go wrong there.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::Value;

use crate::connections::{Connection, Connections};
use crate::counts::Counts;
use crate::engine::Engine;
use crate::fate::Fate;
use crate::faults::{Fault, Faults};
use crate::request::{Exchange, Request};
use crate::timer::Timer;

/// The way from clients to an engine, or to any other server, and back.
///
/// By default it is perfect: no time passes and nothing is lost. [`Faults`] happen by chance, from one seed; a [script](Network::script)
/// decides on single requests. Once sent, a request is applied even if its client goes away.
///
/// Cheap to clone. The clones are one network, and a setting of one holds for all. For clients with different luck, make several networks
/// to one engine.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use fairlock_embedded::{Engine, Faults, Latency, Network};
///
/// let round_trip = Latency::Constant(Duration::from_millis(20));
/// let network = Network::to(&Engine::memory()?)
///     .seeded(42)
///     .faults(Faults { round_trip, throttles: 0.1, ..Faults::default() });
/// network.client().list_tables().send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Network(Arc<Inner>);

/// What a network leads to.
#[derive(Clone, Debug)]
pub(crate) enum Far {
    Engine(Engine),
    Http(SharedHttpClient),
}

struct Inner {
    far: Far,
    state: Mutex<State>,
}

struct State {
    chance: fastrand::Rng,
    timer: Timer,
    faults: Faults,
    script: Option<Script>,
    rewrite: Option<Rewrite>,
    observer: Option<Observer>,
    server_observer: Option<Observer>,
    sent: u64,
    counts: Counts,
    connections: Connections,
}

type Script = Arc<dyn Fn(&Request) -> Option<Fault> + Send + Sync>;
type Rewrite = Arc<dyn Fn(&mut Value) + Send + Sync>;
type Observer = Arc<dyn Fn(&Exchange<'_>) + Send + Sync>;

impl Network {
    /// Returns the way to an engine in this process.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?);
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    pub fn to(engine: &Engine) -> Network {
        Network::ending_at(Far::Engine(engine.clone()))
    }

    /// Returns a network with the same faults and counts around any other transport, such as HTTP to an engine in another process.
    ///
    /// # Examples
    ///
    /// ```
    /// use aws_sdk_dynamodb::config::Config;
    /// use fairlock_embedded::Network;
    ///
    /// fn through_a_bad_network(config: &Config) -> aws_sdk_dynamodb::Client {
    ///     let real = config.http_client().expect("a transport");
    ///     let network = Network::over(real);
    ///     let config = config.to_builder().http_client(network.http_client()).build();
    ///     aws_sdk_dynamodb::Client::from_conf(config)
    /// }
    /// ```
    pub fn over(http: SharedHttpClient) -> Network {
        Network::ending_at(Far::Http(http))
    }

    fn ending_at(far: Far) -> Network {
        let state = Mutex::new(State::new());
        Network(Arc::new(Inner { far, state }))
    }

    /// Sets the seed of all chance. With the same seed, the same requests in the same order meet the same fates. The default is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?).seeded(42);
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn seeded(self, seed: u64) -> Network {
        self.state().chance.seed(seed);
        self
    }

    /// Runs delays on a timer of their own, which is exact to well below a millisecond. The default is tokio's timer, which is as coarse as
    /// a millisecond, and may be paused. For measurements; a test that pauses its clock must not call this.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use fairlock_embedded::{Engine, Faults, Latency, Network};
    ///
    /// let round_trip = Latency::Constant(Duration::from_micros(1_250));
    /// let network = Network::to(&Engine::memory()?)
    ///     .with_exact_delays()
    ///     .faults(Faults { round_trip, ..Faults::default() });
    /// network.client().list_tables().send().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn with_exact_delays(self) -> Network {
        self.state().timer = Timer::Exact;
        self
    }

    /// Sets what goes wrong by chance from the start; [`set_faults`](Network::set_faults) changes it later.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Faults, Network};
    ///
    /// let faults = Faults { lost_answers: 0.01, ..Faults::default() };
    /// let network = Network::to(&Engine::memory()?).faults(faults);
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn faults(self, faults: Faults) -> Network {
        self.set_faults(faults);
        self
    }

    /// Sets what goes wrong by chance with the requests sent from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Faults, Network};
    ///
    /// let network = Network::to(&Engine::memory()?);
    /// network.set_faults(Faults { lost_requests: 1.0, ..Faults::default() }); // cut off
    /// network.set_faults(Faults::default()); // healed
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Lets `script` decide on each request as it is sent. Its decision happens in place of chance (latency aside). If it returns `None`,
    /// the request is left to chance.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Fault, Network, When};
    ///
    /// let first_answer_lost = Network::to(&Engine::memory()?)
    ///     .script(|request| (request.number() == 1).then_some(Fault::Lose(When::After)));
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn script(
        self,
        script: impl Fn(&Request) -> Option<Fault> + Send + Sync + 'static,
    ) -> Network {
        self.state().script = Some(Arc::new(script));
        self
    }

    /// Lets `rewrite` change the body of each request as it goes out, before a script, an observer or the server sees it. In this way a
    /// test makes every client wrong in the same way, to see that it would notice.
    ///
    /// A body that is not JSON stays as it is. The SDK signs requests before the change. So a server that checks signatures, as AWS does
    /// and local ones do not, refuses a changed request.
    ///
    /// # Examples
    ///
    /// Writes without their conditions:
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let careless = Network::to(&Engine::memory()?).rewrite(|body| {
    ///     body.as_object_mut().map(|fields| fields.remove("ConditionExpression"));
    /// });
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn rewrite(self, rewrite: impl Fn(&mut Value) + Send + Sync + 'static) -> Network {
        self.state().rewrite = Some(Arc::new(rewrite));
        self
    }

    /// Calls `observer` once for each request: when its answer or failure reaches the client, or when the client gives up waiting for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?)
    ///     .observe(|exchange| println!("{:?}", exchange.outcome()));
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn observe(self, observer: impl Fn(&Exchange<'_>) + Send + Sync + 'static) -> Network {
        self.state().observer = Some(Arc::new(observer));
        self
    }

    /// Calls `observer` for each answer of the server at the moment when the server gives it. This includes an answer that no client ever
    /// hears, and a second answer for a [duplicate](Fault::Duplicate). It is not called for a request that never reaches the server.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Fault, Network, When};
    ///
    /// let network = Network::to(&Engine::memory()?)
    ///     .script(|_| Some(Fault::Lose(When::After)))
    ///     .observe_server(|exchange| println!("{:?}", exchange.outcome()));
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn observe_server(
        self,
        observer: impl Fn(&Exchange<'_>) + Send + Sync + 'static,
    ) -> Network {
        self.state().server_observer = Some(Arc::new(observer));
        self
    }

    /// Sets the clocks of the front ends behind the connections to an engine.
    ///
    /// Connections are kept and used again, one request at a time over each. Each leads to one front end, as with DynamoDB. `ahead` takes
    /// the number of a connection: 1 for the first that is opened, 2 for the second, and so on. It returns by how many seconds the clock of
    /// that connection's front end is ahead, or behind if negative. It is called for each request, so the clock of a front end may step. A connection is
    /// not used again if it was closed, if its answer never comes, or if the SDK's client has retired it.
    ///
    /// # Examples
    ///
    /// A front end that is an hour ahead, for as long as its connection is kept:
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?)
    ///     .front_ends(|connection| if connection == 1 { 3_600 } else { 0 });
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    #[must_use = "the returned network is the one to make clients of"]
    pub fn front_ends(self, ahead: impl Fn(u64) -> i64 + Send + Sync + 'static) -> Network {
        self.state().connections.clocks = Some(Arc::new(ahead));
        self
    }

    /// Returns how many connections to an engine were opened until now.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?);
    /// let client = network.client();
    /// client.list_tables().send().await?;
    /// client.list_tables().send().await?;
    /// assert_eq!(network.connections(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connections(&self) -> u64 {
        self.state().connections.opened()
    }

    /// Returns what was sent until now.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?);
    /// assert_eq!(network.counts().requests(), 0);
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    pub(crate) fn far(&self) -> Far {
        self.0.far.clone()
    }

    /// Numbers and counts a request.
    pub(crate) fn enter(&self, http: HttpRequest) -> Request {
        let (number, rewrite) = self.state().next();
        let request = match rewrite {
            Some(rewrite) => Request::rewritten(number, http, |body| rewrite(body)),
            None => Request::read(number, http),
        };
        self.state().counts.add(&request);
        request
    }

    /// Decides what becomes of a request. Each request takes one draw from the seed, whatever comes of it, and takes the rest from that
    /// draw.
    pub(crate) fn fate(&self, request: &Request) -> Fate {
        let (mut chance, faults, script, timer) = self.state().draw();
        let (there, back) = faults.round_trip.split(&mut chance);
        let drawn = faults.draw(&mut chance);
        let fate = Fate::taking(there, back, timer);
        match script.and_then(|script| script(request)) {
            Some(fault) => fate.suffer(fault),
            None => drawn
                .into_iter()
                .filter(|fault| happens_to(fault, request))
                .fold(fate, Fate::suffer),
        }
    }

    /// The connection that a request goes over.
    pub(crate) fn connect(&self) -> Connection {
        let idle = self.state().connections.take();
        idle.unwrap_or_else(|| {
            let number = self.state().connections.open();
            Connection::new(number)
        })
    }

    /// By how many seconds the front end behind the connection is ahead. The caller's function may call this network, so the state is not
    /// locked meanwhile.
    pub(crate) fn ahead(&self, connection: &Connection) -> i64 {
        let clocks = self.state().connections.clocks.clone();
        clocks.map_or(0, |ahead| ahead(connection.number))
    }

    /// Keeps a connection whose answer came, so that the next request may go over it.
    pub(crate) fn keep(&self, connection: Connection) {
        self.state().connections.keep(connection);
    }

    pub(crate) fn leads_to_engine(&self) -> bool {
        matches!(self.0.far, Far::Engine(_))
    }

    pub(crate) fn observer(&self) -> Option<Observer> {
        self.state().observer.clone()
    }

    pub(crate) fn server_observer(&self) -> Option<Observer> {
        self.state().server_observer.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> Self {
        State {
            chance: fastrand::Rng::with_seed(0),
            timer: Timer::Tokio,
            faults: Faults::default(),
            script: None,
            rewrite: None,
            observer: None,
            server_observer: None,
            sent: 0,
            counts: Counts::default(),
            connections: Connections::default(),
        }
    }

    fn next(&mut self) -> (u64, Option<Rewrite>) {
        self.sent += 1;
        (self.sent, self.rewrite.clone())
    }

    fn draw(&mut self) -> (fastrand::Rng, Faults, Option<Script>, Timer) {
        (
            self.chance.fork(),
            self.faults,
            self.script.clone(),
            self.timer,
        )
    }
}

/// Reads are never in conflict with a transaction.
fn happens_to(fault: &Fault, request: &Request) -> bool {
    !matches!(fault, Fault::Conflict) || request.writes() > 0
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Network")
            .field("faults", &state.faults)
            .field("counts", &state.counts)
            .finish_non_exhaustive()
    }
}
