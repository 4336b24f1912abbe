//! Pictures of single runs, drawn by the driver.

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::driver::Driver;
use crate::performance::page::Page;
use crate::performance::scene::{CONTESTANTS, Contestant, Scene};

/// fairlock, and the lock client's lease that polls as often as it can pay off.
const SHOWN: [(Contestant, &str); 2] = [
    (CONTESTANTS[0], "timeline.svg"),
    (CONTESTANTS[2], "timeline-lease.svg"),
];

pub(crate) fn report(driver: &Driver, budget: &Budget, page: &mut Page) -> Done<()> {
    let mut commands = Vec::new();
    for (by, picture) in SHOWN {
        let scene = Scene::new(by, 8, 50, budget.turns.min(40));
        let picture = page.picture(picture)?;
        driver.run(scene, &["--plot", &picture.to_string_lossy()])?;
        commands.push(format!("- `{} --plot FILE`", scene.command()));
    }
    page.write("timeline", &commands.join("\n"))
}
