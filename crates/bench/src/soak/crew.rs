//! All tasks of the soak.

use std::sync::Arc;

use fastrand::Rng;
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::soak::caller::Caller;
use crate::soak::coming;
use crate::soak::host::LEASES;
use crate::soak::names::Heat;
use crate::soak::stage::Soak;
use crate::soak::{expiry, onlooker, plant};

/// What callers want, in turn.
const HEATS: [Heat; 12] = {
    use Heat::{Cold, Hot, Warm};
    [
        Hot, Cold, Warm, Hot, Cold, Hot, Warm, Cold, Hot, Cold, Warm, Hot,
    ]
};

pub(crate) fn start(soak: &Arc<Soak>) -> Result<JoinSet<()>, Failure> {
    let mut rng = Rng::with_seed(soak.ground.options.seed);
    let mut crew = JoinSet::new();
    for number in 0..soak.ground.options.callers {
        let caller = Caller {
            soak: Arc::clone(soak),
            heat: HEATS[number / LEASES.len() % HEATS.len()],
            place: number % LEASES.len(),
            rng: rng.fork(),
        };
        crew.spawn(caller.work());
    }
    for place in 0..LEASES.len() {
        let (soak, rng) = (Arc::clone(soak), rng.fork());
        crew.spawn(async move { coming::come_and_go(&soak, place, rng).await });
    }
    let (locks, reads) = (soak.onlooker(rng.u64(..))?, rng.fork());
    let here = Arc::clone(soak);
    crew.spawn(async move { onlooker::work(&here, locks, reads).await });
    let (here, table) = (Arc::clone(soak), soak.table());
    crew.spawn(async move { expiry::work(&here, table).await });
    let here = Arc::clone(soak);
    crew.spawn(async move { plant::work(&here).await });
    Ok(crew)
}
