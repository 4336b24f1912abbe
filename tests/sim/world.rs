//! A table in memory, the hosts that use it, and what is recorded about them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Engine, Network};
use fairlock::{Clock, LockClient, Notifier, PlaceId};
use fairlock_testkit::datagram_network::{Post, PostBox};
use fairlock_testkit::lying_notifier::Liar;
use fastrand::Rng;
use tokio::task::JoinHandle;

use crate::applied::Applied;
use crate::bounds::Bounds;
use crate::careless::{self, Mistake};
use crate::checked;
use crate::exchange::Exchange;
use crate::faults::Tally;
use crate::gossip::{Believes, Overheard};
use crate::history::{Event, History};
use crate::link::{Link, Mood, Weather};
use crate::memory::Memory;
use crate::mutation::Mutation;
use crate::plan::{HOUR, HostPlan, Plan};
use crate::register::Registers;
use crate::worker;
use fairlock::embedded::Signal;

/// A host has more places than workers only for a moment.
const MAX_KNOWN: usize = 6;
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
const MS: Duration = Duration::from_millis(1);
/// After a silence, the last host begins at most this much later.
const RESUMED_WITHIN: Duration = Duration::from_secs(3);
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) engine: Engine,
    pub(crate) history: Arc<History>,
    pub(crate) registers: Registers,
    pub(crate) tally: Arc<Tally>,
    /// No worker begins anything new.
    pub(crate) stopping: Signal<bool>,
    mutation: Option<Mutation>,
    clock: Clock,
    /// Carries the hosts' notifications, if they notify each other.
    pub(crate) post: Option<Post>,
    /// How many lies the hosts were told by notifications.
    pub(crate) lies: Arc<AtomicU64>,
    crew: Mutex<Crew>,
}

/// The hosts that live now, one for each of the plan's, and their workers.
#[derive(Default)]
struct Crew {
    hosts: Vec<Arc<Host>>,
    workers: Vec<(usize, JoinHandle<()>)>,
    made: u64,
}

/// A client, and the link that its requests take.
pub(crate) struct Host {
    pub(crate) id: usize,
    pub(crate) plan: HostPlan,
    pub(crate) locks: LockClient,
    pub(crate) clock: Clock,
    /// For requests of its callers' own.
    pub(crate) client: Client,
    pub(crate) link: Arc<Link>,
    pub(crate) known: Arc<Known>,
    /// By how many seconds its wall clock was set off while it lived.
    pub(crate) stepped: AtomicI64,
}

/// The newest places of a host, as far as another process that watches over it knows them.
#[derive(Default)]
pub(crate) struct Known(Mutex<VecDeque<PlaceId>>);

impl Known {
    /// Records a place. A watcher learns of a place once it exists, and not of each poll.
    pub(crate) fn is_at(&self, place: &PlaceId) {
        let mut places = self.0.lock().unwrap();
        if !places.contains(place) {
            places.push_back(place.clone());
            if places.len() > MAX_KNOWN {
                places.pop_front();
            }
        }
    }
}

/// The time on DynamoDB's clock, `at` after the beginning.
pub(crate) fn unix(at: Duration) -> Duration {
    EPOCH + at
}

impl World {
    pub(crate) async fn new(plan: Plan, mutation: Option<Mutation>) -> Arc<World> {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory().unwrap();
        let engine = engine.with_clock(clock.clone());
        let post = plan.notifies.map(|faults| {
            let post = Post::seeded(plan.seed);
            post.set_faults(faults);
            post
        });
        let world = Arc::new(World {
            plan,
            post,
            lies: Arc::default(),
            engine,
            history: Arc::new(History::new()),
            registers: Registers::default(),
            tally: Arc::default(),
            stopping: Signal::new(false),
            mutation,
            clock,
            crew: Mutex::default(),
        });
        let maker = world.host(usize::MAX, world.steady(), Weather::default());
        maker.locks.create_table().await.unwrap();
        checked::create_table(&world.engine).await;
        world
    }

    /// Settings of a host to which nothing happens, and which waits for the longest lease of all.
    pub(crate) fn steady(&self) -> HostPlan {
        HostPlan {
            lease: self.plan.longest_lease(),
            timeout: self.plan.longest_lease() / 6,
            slots: 4,
            spare_slots: 28,
            is_hasty: false,
            workers: 0,
            crowd: 1,
            off: -HOUR * i64::from(self.plan.has_right_dates()),
            rate: 1.0,
            margin: Duration::ZERO,
            outage_timeout: None,
        }
    }

    /// Starts a new client. No two clients of one run use the same random seed.
    pub(crate) fn host(self: &Arc<Self>, id: usize, plan: HostPlan, weather: Weather) -> Arc<Host> {
        let made = self.made();
        let post = self.post.as_ref().map(Post::notifier);
        if post.as_ref().is_some_and(PostBox::is_taken_over) {
            self.tally.fault("address taken over");
        }
        let link = Arc::new(Link::new(
            self.plan.rng(made),
            weather,
            plan,
            post.clone(),
            self,
        ));
        let network = self.network(id, plan, &link, made);
        let owner = format!("host-{id}-{made}");
        let (heard, own) = (Arc::default(), post.as_ref().map(PostBox::address));
        let own = own.unwrap_or_default();
        let believes = |what| Mistake::Believes(what, own, Arc::clone(&heard));
        let mistake = match self.mutation {
            Some(Mutation::ConfirmedIsRenewed) => Some(believes(Believes::Confirmations)),
            Some(Mutation::ReleasingIsReleased) => Some(believes(Believes::Releases)),
            Some(Mutation::ClosedIsRefused) => Some(Mistake::ClosedIsRefused),
            Some(Mutation::JudgedByDates) => {
                Some(Mistake::Overlooks("renewed_on_host", owner.clone()))
            }
            Some(Mutation::JudgedByWallClocks) => {
                Some(Mistake::Overlooks("renewed_at", owner.clone()))
            }
            _ => None,
        };
        let client = match mistake {
            Some(mistake) => careless::client(&network, mistake),
            None => network.client(),
        };
        let clock = self.clock_of(plan, made);
        let margin = self.margin_of(plan);
        let builder = LockClient::builder(client)
            .request_timeout(plan.timeout)
            .testing(|it| it.join_timeout = Some(plan.grace()))
            .lease_duration(plan.lease + margin)
            .safety_margin(margin)
            .successor_slots(plan.successor_slots())
            .testing(|it| it.filled_slots = Some(plan.slots))
            .idle_retention(RETENTION)
            .owner(owner)
            .clock(clock.clone())
            .seeded(self.random_source(id, made));
        let builder =
            builder.testing(|it| it.outage_timeout = plan.outage_timeout.or(it.outage_timeout));
        let builder = match (post, self.plan.lie) {
            (Some(own), Some(lie)) => {
                let own = Liar::new(own, lie, self.lies.clone());
                builder.notifier(Overheard { own, heard })
            }
            (Some(own), None) => builder.notifier(Overheard { own, heard }),
            (None, _) => builder,
        };
        Arc::new(Host {
            id,
            plan,
            locks: builder.build().unwrap(),
            clock,
            client: without_retries(&network),
            link,
            known: Arc::default(),
            stepped: AtomicI64::new(0),
        })
    }

    fn random_source(&self, id: usize, made: u64) -> u64 {
        match self.mutation {
            Some(Mutation::NoncesAgain) => id as u64,
            _ => self.plan.rng(!made).u64(..),
        }
    }

    fn made(&self) -> u64 {
        let mut crew = self.crew.lock().unwrap();
        crew.made += 1;
        crew.made
    }

    fn clock_of(&self, plan: HostPlan, made: u64) -> Clock {
        let begins = self
            .clock
            .clone()
            .ahead(MS * plan.off.rem_euclid(1000) as u32);
        let clock = begins.at_rate(plan.rate);
        clock.step(plan.off.div_euclid(1000));
        if self.makes(Mutation::AllClocksWrong) {
            clock.step(3_600 * (made % 7).cast_signed());
        }
        clock
    }

    fn network(&self, id: usize, plan: HostPlan, link: &Arc<Link>, salt: u64) -> Network {
        let (history, decider, slow) = (self.history.clone(), link.clone(), link.clone());
        let server = self.history.clone();
        let network = Network::to(&self.engine)
            .seeded(self.plan.rng(salt).u64(..))
            .faults(fairlock::embedded::Faults {
                round_trip: self.plan.latency,
                ..Default::default()
            })
            .script(move |request| decider.decide(request))
            .observe(move |seen| {
                if plan.timeout <= seen.took() {
                    slow.is_harmed();
                }
                let exchange = Exchange::read(id, seen, history.now());
                slow.has_asked(&exchange);
                history.note(Event::Exchanged(Box::new(exchange)));
            })
            .observe_server(move |seen| {
                if let Some(applied) = Applied::read(seen) {
                    server.note_applied(applied);
                }
            });
        match self.mutation {
            Some(Mutation::FillByMemory) => {
                let memory = Memory::default();
                network.rewrite(move |body| memory.rewrite(body))
            }
            Some(mutation) => network.rewrite(move |body| mutation.rewrite(body, &plan)),
            None => network,
        }
    }

    fn makes(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether callers go on believing after they released the lock.
    pub(crate) fn overstays(&self) -> bool {
        self.makes(Mutation::Overstay)
    }

    /// How much later callers receive an error than the product returns it.
    pub(crate) fn told_late(&self, host: &Host) -> Duration {
        host.plan.timeout * u32::from(self.makes(Mutation::ToldLate))
    }

    /// The safety margin that the product is told, of that which a host wants.
    fn margin_of(&self, plan: HostPlan) -> Duration {
        plan.margin * u32::from(!self.makes(Mutation::BoundsForgotten))
    }

    /// The bounds that the product is told, of those that a caller wants.
    pub(crate) fn bounds_of(&self, wanted: Bounds) -> Bounds {
        match self.makes(Mutation::BoundsForgotten) {
            true => Bounds::default(),
            false => wanted,
        }
    }

    /// How much longer than a lease lasts callers believe in it.
    pub(crate) fn lease_overstay(&self) -> Duration {
        Duration::from_secs(20) * u32::from(self.makes(Mutation::LeaseOverstayed))
    }

    /// What DynamoDB's clock shows.
    pub(crate) fn server_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + unix(self.history.now())
    }

    /// Starts all hosts of the plan, and their workers.
    pub(crate) fn start(self: &Arc<Self>) {
        self.stopping.change(|now| *now = false);
        self.crew.lock().unwrap().hosts.clear();
        for id in 0..self.plan.hosts.len() {
            let host = self.started(id);
            self.crew.lock().unwrap().hosts.push(host);
        }
    }

    fn started(self: &Arc<Self>, id: usize) -> Arc<Host> {
        let mut plan = self.plan.hosts[id];
        if id == 0 {
            plan.rate = self.mutation.map_or(plan.rate, |it| it.rate(plan.rate));
        }
        let host = self.host(id, plan, self.plan.weather.clone());
        self.employ(&host, Duration::ZERO);
        host
    }

    /// Starts the host's workers, each at a random moment until `latest`.
    fn employ(self: &Arc<Self>, host: &Arc<Host>, latest: Duration) {
        for number in 0..host.plan.workers {
            let mut rng = self.plan.rng(1000 * self.made() + number as u64);
            let (world, host) = (self.clone(), host.clone());
            let id = host.id;
            let work = spawn(async move {
                wait(latest.mul_f64(rng.f64())).await;
                worker::work(world, host, rng).await;
            });
            self.crew.lock().unwrap().workers.push((id, work));
        }
    }

    /// Continues the same hosts, one after the other, and starts new ones in place of the dead.
    pub(crate) fn resume(self: &Arc<Self>) {
        self.stopping.change(|now| *now = false);
        for host in self.hosts() {
            if host.link.mood() == Mood::Dead {
                self.restart(host.id);
            } else {
                host.link.turns(self.plan.weather.clone());
                self.employ(&host, RESUMED_WITHIN);
            }
        }
    }

    /// A client of any host that lives now.
    pub(crate) fn any_locks(&self, rng: &mut Rng) -> LockClient {
        let hosts = self.hosts();
        rng.choice(&hosts).unwrap().locks.clone()
    }

    pub(crate) fn hosts(&self) -> Vec<Arc<Host>> {
        self.crew.lock().unwrap().hosts.clone()
    }

    /// Ends a host without notice, and starts a new one in its place.
    pub(crate) fn crash(self: &Arc<Self>, id: usize) {
        let dead = self.crew.lock().unwrap().hosts[id].clone();
        dead.link.set(Mood::Dead);
        let crew = &mut *self.crew.lock().unwrap();
        let (gone, left) = std::mem::take(&mut crew.workers)
            .into_iter()
            .partition(|(of, _)| *of == id);
        crew.workers = left;
        let gone: Vec<(usize, JoinHandle<()>)> = gone;
        gone.iter().for_each(|(_, work)| work.abort());
    }

    /// Another host gives up the places of a dead one, as far as they are known. Requests of the dead host may still be under way.
    pub(crate) async fn give_up_all_of(&self, id: usize) {
        let (dead, other) = {
            let hosts = &self.crew.lock().unwrap().hosts;
            (hosts[id].clone(), hosts[(id + 1) % hosts.len()].clone())
        };
        let places = std::mem::take(&mut *dead.known.0.lock().unwrap());
        for place in places {
            self.history.note(Event::GivenUp {
                host: id,
                lock: place.lock().to_owned(),
                ticket: place.ticket().get(),
            });
            // If this is not answered, or the other host has died too, the place expires.
            if other.locks.give_up(&place, Duration::ZERO).await.is_ok() {
                self.tally.fault("given up by another");
            }
        }
    }

    pub(crate) fn restart(self: &Arc<Self>, id: usize) {
        let host = self.started(id);
        self.crew.lock().unwrap().hosts[id] = host;
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.stopping.change(|now| *now = true);
        for host in self.hosts() {
            host.link.turns(Weather::default());
            if host.link.mood() != Mood::Dead {
                host.link.set(Mood::Well);
            }
        }
    }

    pub(crate) fn take_workers(&self) -> Vec<(usize, JoinHandle<()>)> {
        std::mem::take(&mut self.crew.lock().unwrap().workers)
    }

    /// The sort keys of all items that the table has for a lock.
    pub(crate) async fn items(&self, lock: &str) -> Vec<String> {
        let items = self.raw(lock).await;
        let keys = items.iter().filter_map(|item| item["sk"].as_s().ok());
        keys.cloned().collect()
    }

    pub(crate) async fn raw(&self, lock: &str) -> Vec<HashMap<String, AttributeValue>> {
        let query = self.engine.client().query().table_name("fairlock");
        let query = query.key_condition_expression("pk = :pk");
        let query = query.expression_attribute_values(":pk", AttributeValue::S(lock.into()));
        let items = query.consistent_read(true).send().await.unwrap();
        items.items.unwrap_or_default()
    }
}

fn without_retries(network: &Network) -> Client {
    let config = network.client().config().to_builder();
    Client::from_conf(config.retry_config(RetryConfig::disabled()).build())
}

pub(crate) async fn wait(span: Duration) {
    tokio::time::sleep(span).await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "a caller's tasks, not the client's"
)]
pub(crate) fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(work)
}
